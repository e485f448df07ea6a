"""Every known cheat must be seen through; and each must be a cheat: an ordinary harness is fooled by it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cheats import naive, zoo
from cheats.zoo import Cheat
from support import synthetic_executor as synthetic
from support.full_measurement import full_measurement
from support.shared_executors import limited

from forewarp.core.values import Build, Comparison, DeviceKind
from forewarp.gpu_runner.devices import detect_cpu, detect_cuda, known_targets
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.tools.measured import result_of

CHEATS = [cheat for row in zoo.rows() for cheat in row.cheats]
# An ordinary harness believes its clock, so that beside busy processes two attempts in five may fail.
ATTEMPTS = 12
# One of each kind on every run; the others take minutes.
_DAILY_ROWS = (18, 24)
_DAILY = {next(c.id for c in row.cheats if c.quick) for row in zoo.rows() if row.number in _DAILY_ROWS}


def chosen(kind: DeviceKind) -> list[Any]:
    return [
        pytest.param(c, id=c.id, marks=[] if c.id in _DAILY or kind == "cuda" else [pytest.mark.slow])
        for c in CHEATS
        if kind in c.devices
    ]


@pytest.fixture(scope="module")
def listener() -> Iterator[socket.socket]:
    """A port of this machine that a cheat must not reach; its number goes out through the environment."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        os.environ["FOREWARP_ZOO_PORT"] = str(server.getsockname()[1])
        yield server
    del os.environ["FOREWARP_ZOO_PORT"]


@pytest.fixture(scope="module")
def cpu(listener: socket.socket) -> Iterator[LocalExecutor]:
    made = LocalExecutor(detect_cpu(), limits=zoo.LIMITS)
    yield made
    made.close()


@pytest.fixture(scope="module")
def cuda(listener: socket.socket) -> Iterator[LocalExecutor]:
    target = detect_cuda()
    assert target is not None, "pytest -m gpu needs an NVIDIA GPU"
    made = LocalExecutor(target, limits=replace(zoo.LIMITS, call_s=6.0, measure_s=60, memory=8 << 30))
    yield made
    made.close()


def check(executor: LocalExecutor, cheat: Cheat, listener: socket.socket) -> None:
    if not cheat.runs_here:
        pytest.skip(f"is written for {cheat.machine}")
    result = zoo.attempt(executor, cheat)
    assert result.is_right(cheat), f"{result.outcome} {result.problems}: {zoo.told(result.result)}"
    with pytest.raises(BlockingIOError):
        listener.accept()


@pytest.mark.parametrize("cheat", chosen("cpu"))
def test_cheat_on_the_cpu(cpu: LocalExecutor, listener: socket.socket, cheat: Cheat) -> None:
    with limited(cpu, cheat.limits(zoo.LIMITS)):
        check(cpu, cheat, listener)


@pytest.mark.gpu
@pytest.mark.parametrize("cheat", chosen("cuda"))
def test_cheat_on_cuda(cuda: LocalExecutor, listener: socket.socket, cheat: Cheat) -> None:
    check(cuda, cheat, listener)


def fooling(kind: DeviceKind) -> list[Cheat]:
    """Return the cheats that must fool an ordinary harness; on a GPU those that fool only there."""
    cheats = [c for c in CHEATS if c.fools is not None and c.runs_here and kind in c.devices]
    return cheats if kind == "cpu" else [c for c in cheats if "cpu" not in c.devices and c.file.endswith(".py")]


def asked(executor: LocalExecutor, cheat: Cheat) -> dict[str, Any]:
    task, candidate = zoo.task_of(cheat.task), cheat.candidate()
    workloads = [dict(w.constants) for w in task.workloads[executor.target.kind]]
    more: dict[str, Any] = {"sets": cheat.sets, "runs": cheat.runs, "attempts": ATTEMPTS, "fooled_at": cheat.fools}
    if candidate.language == "python":
        more["source"] = candidate.source
    else:
        manifest, folder = built(executor, cheat)
        first = manifest["workloads"][task.workloads["cpu"][0].name]
        more["library"] = str(folder / manifest["variants"][first["variant"]]["files"][0])
        more["launches"] = first["plan"]["launches"]
        workloads = workloads[:1]
    return naive.request(executor.target.kind, task.reference, workloads, **more)


def built(executor: LocalExecutor, cheat: Cheat) -> tuple[dict[str, Any], Path]:
    import json

    build = executor.compile(zoo.task_of(cheat.task), cheat.candidate())
    assert build.status == "ok", build.log
    return json.loads((Path(build.artefact) / "build.json").read_text()), Path(build.artefact)


def fooled(executor: LocalExecutor, cheats: list[Cheat]) -> list[str]:
    """Return how each cheat that fails to fool the ordinary harness fails."""
    failures: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREWARP_ZOO_PORT", str(server.getsockname()[1]))
        results = naive.judge([asked(executor, c) for c in cheats])
    for cheat in cheats:
        zoo.clear(cheat)
    for cheat, made in zip(cheats, results, strict=True):
        assert cheat.fools is not None
        if made is None or not made["correct"] or made["speedup"] < cheat.fools:
            failures.append(f"{cheat.id}: {made}")
    return failures


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_ordinary_harness_is_fooled(cpu: LocalExecutor) -> None:
    failures = fooled(cpu, fooling("cpu"))
    assert not failures, "\n".join(failures)


@pytest.mark.gpu
def test_an_ordinary_harness_is_fooled_on_cuda(cuda: LocalExecutor) -> None:
    failures = fooled(cuda, fooling("cuda"))
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize(("equal_kernels", "outcome"), [(1.4, zoo.GAIN), (2.8, zoo.NOT_TRUSTED)])
def test_a_gain_is_one_only_where_users_are_told_to_trust_it(equal_kernels: float, outcome: str) -> None:
    whole, kernel = full_measurement(), synthetic.seed()
    loud = replace(whole.workloads[0], control=Comparison(1.0, 0.9, equal_kernels, 1.0, 1.0))
    measured = replace(whole, workloads=(loud, *whole.workloads[1:]))
    told = result_of("toy", synthetic.TARGET, kernel, Build("ok", 0.0), measured)
    assert zoo.outcome_of(told, "cuda") == outcome
    cheat = Cheat("a.py", (zoo.NO_GAIN,))
    assert zoo.Attempt(outcome, told).is_right(cheat) is (outcome != zoo.GAIN)


class TestCatalogue:
    def test_the_rows_are_one_to_forty_nine(self) -> None:
        assert [r.number for r in zoo.rows()] == list(range(1, 50))

    def test_every_row_is_tried_or_explained(self) -> None:
        for row in zoo.rows():
            assert row.cheats or row.outcome == "by construction"
            assert row.outcome in ("caught", "no gain", "by construction", "open")

    def test_every_source_is_in_the_catalogue(self) -> None:
        named = {c.file for c in CHEATS} | {c.twin for c in CHEATS if c.twin}
        assert named == {p.name for p in zoo.SOURCES.iterdir() if p.is_file()}

    def test_every_cheat_has_a_name_of_its_own(self) -> None:
        assert len({c.id for c in CHEATS}) == len(CHEATS)

    @pytest.mark.slow
    def test_device_only_cheats_compile(self) -> None:
        executor = LocalExecutor(known_targets()["h200"], limits=zoo.LIMITS)
        try:
            for cheat in [c for c in CHEATS if c.file.endswith((".cu", "_triton.py"))]:
                build = executor.compile(zoo.task_of(cheat.task), cheat.candidate())
                assert build.status in ("ok", *cheat.expect), f"{cheat.id}: {build.log}"
                twin = cheat.honest()
                assert twin is None or executor.compile(zoo.task_of(cheat.task), twin).status == "ok", cheat.twin
        finally:
            executor.close()
