from pathlib import Path

import pytest

from forewarp.core.errors import UsageError
from forewarp.surrogate import prices


@pytest.fixture(autouse=True)
def no_user_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(prices.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_bundled_table_is_dated():
    table = prices.load()
    assert table.dated == "2026-11-20"
    # 100 000 tokens in at $2 and 10 000 out at $10 per million.
    assert table.dollars("anthropic:claude-sonnet-5-5", 100_000, 10_000) == pytest.approx(0.3)


def test_unknown_price_is_none_not_zero():
    assert prices.load().dollars("openai:never-listed", 1, 1) is None


def test_own_table_wins_entry_by_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    own = tmp_path / "own.toml"
    own.write_text('dated = 2027-01-01\n[models."openai:gpt-6-luna"]\ninput = 7\noutput = 8\n')
    monkeypatch.setenv(prices.VARIABLE, str(own))
    table = prices.load()
    assert table.dated == "2027-01-01"
    assert table.dollars("openai:gpt-6-luna", 1_000_000, 0) == 7
    assert table.dollars("anthropic:claude-opus-5-5", 1_000_000, 0) == 4


def test_table_in_the_configuration_folder(tmp_path: Path):
    folder = tmp_path / "config" / "forewarp"
    folder.mkdir(parents=True)
    (folder / "prices.toml").write_text('[models."openai:mine@example.com"]\ninput = 1\noutput = 1\n')
    assert prices.load().dollars("openai:mine@example.com", 500_000, 500_000) == 1


@pytest.mark.parametrize(
    "text", ["models = 3", '[models."x"]\ninput = 1\n', "= =", '[models."x"]\ninput="a"\noutput=1']
)
def test_malformed_tables_say_how_to_write_one(tmp_path: Path, text: str):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match="malformed") as e:
        prices.load(path)
    assert "input" in e.value.hint


def test_missing_table_is_named(tmp_path: Path):
    with pytest.raises(UsageError, match=r"absent\.toml"):
        prices.load(tmp_path / "absent.toml")
