from dataclasses import replace
from pathlib import Path

import pytest
from contracts.forecaster_contract import measured, subject

from forewarp.core.errors import UsageError
from forewarp.core.protocols import Subject, Trial
from forewarp.core.values import Build, Candidate, Cost, Target
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


H200 = Target("NVIDIA H200", "cuda", "sm_90", 132)
TABLE = prices.Prices("", {}, {"H200": 3.6, "A100": 1.8, "cpu": 0.5})


def test_a_device_s_hour_is_that_of_the_entry_whose_words_are_in_its_name():
    assert TABLE.hour(H200) == 3.6
    assert TABLE.hour(Target("NVIDIA A100-SXM4-80GB", "cuda", "sm_80", 108)) == 1.8
    assert TABLE.hour(Target("NVIDIA GH200 480GB", "cuda", "sm_90", 132)) is None
    assert TABLE.hour(Target("cpu of somebody", "cpu", "x86_64", 8)) == 4.0
    assert TABLE.held(H200, 10.0) == pytest.approx(0.01)


def test_the_bundled_table_has_the_cards_that_figures_were_made_on():
    bundled = prices.load()
    assert None not in {bundled.hour(replace(H200, name=f"NVIDIA {card}")) for card in ("A100", "H100", "H200")}


def test_own_devices_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    own = tmp_path / "own.toml"
    own.write_text("[devices]\nH200 = 0\n")
    monkeypatch.setenv(prices.VARIABLE, str(own))
    assert prices.load().hour(H200) == 0
    assert prices.load().hour(replace(H200, name="NVIDIA H100 SXM")) is not None


def test_measuring_costs_what_trials_of_the_language_took():
    assert TABLE.measuring(H200, "cuda", []).seconds == prices.MEASUREMENT_S["cuda"]
    took = replace(measured(1.0), device_s=20.0)
    trials = [Trial(subject(32), took), Trial(subject(64), replace(took, device_s=40.0))]
    own = trials[0].subject.candidate.language
    assert TABLE.measuring(H200, own, trials) == Cost(30.0, dollars=pytest.approx(0.03))


def test_asking_costs_the_device_that_waits_too():
    asked = TABLE.asking(H200, Cost(10.0, 100, 10, 0.005))
    assert asked.dollars == pytest.approx(0.015)
    assert TABLE.asking(H200, Cost(10.0, 100, 10, None)).dollars is None


def test_costs_are_compared_in_seconds_where_dollars_do_not_tell():
    assert prices.comparable(Cost(1.0, dollars=2.0), Cost(3.0, dollars=4.0)) == (2.0, 4.0)
    assert prices.comparable(Cost(1.0, dollars=None), Cost(3.0, dollars=4.0)) == (1.0, 3.0)
    assert prices.comparable(Cost(1.0, dollars=0.0), Cost(3.0, dollars=0.0)) == (1.0, 3.0)


def test_building_costs_what_it_took_here_else_what_is_typical() -> None:
    def trial(seconds: float, *, cached: bool = False) -> Trial:
        build = Build("ok", seconds, cached=cached)
        return Trial(Subject(Candidate("class ModelNew: ...", "python"), build), measured(1.0))

    table, target = prices.load(), Target("NVIDIA H200", "cuda", "sm_90", 132)
    assert table.building(target, []).seconds == prices.BUILD_S
    told = table.building(target, [trial(20.0), trial(40.0), trial(90.0, cached=True), trial(0.01)])
    assert told.seconds == 30.0
    assert told.dollars == pytest.approx(table.held(target, 30.0))
