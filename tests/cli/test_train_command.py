"""`forewarp train` by its command line, without the extra: what it refuses before anything is begun."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from support import training_pool

from forewarp.cli.main import main
from forewarp.training import config


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--data", "pool", "--out", "{new}"], "a run needs --base"),
        (["--base", "x", "--out", "{new}"], "a run needs --data"),
        (["--base", "x", "--data", "pool"], "a run needs --out"),
        (["--base", "x", "--data", "pool", "--out", "{full}"], "exists already"),
        (["--resume", "--out", "{full}"], "no run to go on with"),
        (["--config", "{full}/nothing.toml", "--out", "{new}"], "cannot be read"),
    ],
)
def test_what_is_refused(flags: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    full, new = tmp_path / "full", tmp_path / "new"
    full.mkdir()
    (full / "something").touch()
    assert main(["train", *(f.format(full=full, new=new) for f in flags), "--json"]) == 2
    assert said in json.loads(capsys.readouterr().out)["error"]["message"]
    assert not new.exists()


def test_flags_do_not_change_a_run_that_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begun = config.make({"base": "x", "data": {"pools": ["pool"]}})
    (tmp_path / "config.toml").write_text(config.dump(begun), encoding="utf-8")
    assert main(["train", "--resume", "--out", str(tmp_path), "--reward", "crps"]) == 2
    assert "another run" in capsys.readouterr().err


@pytest.mark.skipif(find_spec("trl") is not None, reason="the extra train is installed")
def test_the_extra_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pool = training_pool.write(tmp_path / "pool.parquet")
    assert main(["train", "--data", pool, "--base", "x", "--out", str(tmp_path / "out")]) == 69
    assert 'pip install "forewarp[train]"' in capsys.readouterr().err


@pytest.mark.skipif(find_spec("trl") is None, reason="the extra train is not installed")
def test_what_a_run_lacks_is_said_before_it_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    from forewarp.archive.pools.parquet import write_rows

    write_rows(training_pool.rows(["gamma"]), tmp_path / "pool.parquet")
    assert main(["train", "--data", str(tmp_path / "pool.parquet"), "--base", "x", "--out", out]) == 2
    assert "no row of the split 'train'" in capsys.readouterr().err
    assert not Path(out).exists()
