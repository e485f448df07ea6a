"""Insisting on code that cannot be confined: who may, how it is passed on, and how results and `doctor` tell it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from support import synthetic_executor as synthetic
from support.full_measurement import full_measurement

from forewarp.cli import doctor, exits, mcp
from forewarp.cli.options import PlaceOptions
from forewarp.core import errors
from forewarp.core.errors import ForewarpError, UsageError
from forewarp.core.values import Build
from forewarp.gpu_runner.worker.environment import allowed
from forewarp.gpu_runner.worker.least import INSIST, LEAST, MISSING
from forewarp.tools.measured import result_of

ROOT = Path(__file__).parents[2]


def test_the_flag_insists_for_what_is_started_from_here_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INSIST, "")
    PlaceOptions().place()
    assert os.environ[INSIST] == ""
    PlaceOptions(unprotected=True).place()
    assert allowed(os.environ)[INSIST] == "1"


def test_nobody_insists_for_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INSIST, "")
    with pytest.raises(UsageError, match="measures elsewhere") as e:
        PlaceOptions(unprotected=True, executor="ssh:far").place()
    assert f"{INSIST}=1" in e.value.hint
    assert os.environ[INSIST] == ""


@pytest.mark.parametrize("action", ["install", "bundle"])
def test_insisting_is_not_written_into_a_clients_configuration(action: str) -> None:
    with pytest.raises(UsageError, match="does not write --unprotected down"):
        mcp.mcp(action, "claude-code", print_=True, where=PlaceOptions(unprotected=True))  # type: ignore[arg-type]


def test_a_result_says_that_its_user_insisted() -> None:
    m = full_measurement()
    insisted = replace(m, protections=(*m.protections, f"{MISSING}: no private files"))
    shown = [result_of("toy", synthetic.TARGET, synthetic.seed(), Build("ok", 0.1), x, 7) for x in (m, insisted)]
    assert "insistence" not in shown[0].summary
    assert shown[1].summary.endswith("at your insistence, without these protections: no private files.")


def test_doctor_says_what_follows_from_what_is_missing() -> None:
    assert doctor.strangers((), insists=False).found
    refused = doctor.strangers(("no network",), insists=False)
    assert not refused.found
    assert "refused; missing: no network" in refused.detail
    assert "--unprotected" in refused.costs
    assert INSIST in refused.costs
    insisted = doctor.strangers(("no network",), insists=True)
    assert insisted.found
    assert "because you insist; missing: no network" in insisted.detail


def test_doctor_says_in_one_line_how_to_get_each_of_the_least() -> None:
    for name in LEAST:
        assert ";" in doctor.PROTECTIONS[name]
        assert "\n" not in doctor.PROTECTIONS[name]


def test_doctor_tells_every_protection_that_some_place_lacks() -> None:
    found = json.loads((ROOT / "benchmarks" / "results" / "protections.json").read_text())["places"]
    in_force = [set(place["in_force"]["candidate"]) for place in found]
    assert set.union(*in_force) - set.intersection(*in_force) <= doctor.PROTECTIONS.keys()


def test_no_error_that_was_foreseen_ends_with_the_code_of_a_bug() -> None:
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, ForewarpError)]
    codes = {k.code: exits.of_code(k.code, retryable=k.retryable) for k in kinds if k is not ForewarpError}
    assert codes["unprotected"] == exits.UNAVAILABLE
    assert exits.INTERNAL not in codes.values()
