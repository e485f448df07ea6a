"""Checks of device-only CUDA candidates in the emulator."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Generator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from forewarp.core.checking import Check, CheckedWorkload, CheckStatus
from forewarp.core.values import Workload
from forewarp.gpu_runner.formats import plan as plans
from forewarp.gpu_runner.worker.check import POISON_BYTE, Mismatch
from forewarp.inspection.emulation.check import Bounds, CaseJudge, Checker, WorkloadJudgement, unjudged
from forewarp.inspection.emulation.emulator import build, ptx
from forewarp.inspection.emulation.emulator.run import Emulation, Ending
from forewarp.inspection.emulation.scene import Scene
from forewarp.inspection.emulation.shapes import Shrinker, Size, defaults

_STATUS: Mapping[Ending, CheckStatus] = {"failed": "failed", "waits": "unsupported", "unsupported": "unsupported"}
_MISFIT = "which its code may not be made for"


class EmulatorCheck(Checker):
    """Checks a CUDA candidate."""

    bounds = Bounds(
        first=Size(1 << 17, 256),
        whole=Size(1 << 17, 256),
        most=Size(1 << 20, 1 << 10),
        stretched=Size(1 << 19, 1 << 10),
        again_s=5.0,
        unsuited=(_MISFIT, _MISFIT),
    )

    def check(self) -> Check:
        """Check all workloads; raises `CandidateError` for a wrong plan."""
        why = self._refusal()
        if why:
            return Check(self.job.how, "unsupported", (), (), 0.0, why)
        with tempfile.TemporaryDirectory(prefix="emulate-") as folder, torch.no_grad():
            self._emulation = Emulation(self.candidate, Path(folder), self.job.memory, Path(self.job.cache))
            return super().check()

    def _refusal(self) -> str:
        """Return why a candidate cannot be emulated at all, or ""."""
        if plans.parse(self.candidate).host_code:
            return "only device-only CUDA candidates can be emulated; this one has host code"
        try:
            ptx.translate(self.candidate.source)
        except ptx.UnsupportedPtx as e:
            return str(e)
        return build.available()

    def unhidden(self, workload: Workload, shrinker: Shrinker, judged: WorkloadJudgement) -> WorkloadJudgement:
        """Look for faulty addresses at the task's own shape."""
        own = defaults(self.job, workload)
        try:
            shape = self.shape_only(shrinker, own)
        except Exception as e:  # the reference's own code may raise anything
            return judged.with_note(f"not looked at at the task's own shape: {type(e).__name__}: {e}")
        if judged.wrong or self._emulation.prepare(shape.plan) is not None:
            return judged
        return judged.with_findings(self._emulation.look(shape), own)

    @contextlib.contextmanager
    def started(self, scene: Scene) -> Generator[CaseJudge | WorkloadJudgement]:
        refused = self._emulation.prepare(scene.plan)
        if refused is None:
            yield partial(self._judge, scene)
        else:
            yield unjudged(scene.workload, refused.message, scene.plan.programs, _STATUS[refused.ending])

    def _judge(self, scene: Scene, limit_s: float, *, sample: bool, first: bool) -> WorkloadJudgement:
        """Run the candidate; if right the `first` time, again with threads and blocks in descending order."""
        judged = self._judge_once(scene, limit_s, sample=sample)
        if judged.status != "ok" or not first or sample:
            return judged
        scene.stage.prepare(0)
        again = self._judge_once(scene, limit_s, descending=True)
        if again.slow or again.status == "unsupported":
            return judged  # only blocks that run in order can wait for each other's results
        return judged.with_case(again, "only where threads and blocks run in descending order, so the order matters")

    def _judge_once(
        self, scene: Scene, limit_s: float, *, descending: bool = False, sample: bool = False
    ) -> WorkloadJudgement:
        outcome = self._emulation.run(scene, limit_s, descending=descending, sample=sample)
        programs = scene.plan.programs
        partial = sample and outcome.ending == "ok" and outcome.blocks < programs
        seen = CheckedWorkload(scene.workload.name, scene.workload.constants, outcome.blocks, programs, None)
        # Shared memory that is read before it is written may be padding that nobody uses; where outputs are wrong, not.
        certain = tuple(f for f in outcome.findings if f.kind != "uninitialised")
        judged = WorkloadJudgement("ok", seen, certain)
        if outcome.ending == "timeout":
            message = f"{outcome.message}: an endless loop, or too large a shape for the time allowed"
            slow = limit_s * programs / max(0.5, outcome.blocks)
            return judged.with_message(message, status="failed" if sample else "unsupported", slow=slow)
        if outcome.ending != "ok":
            return judged.with_message(outcome.message, status=_STATUS[outcome.ending])
        if partial and outcome.atomics:
            message = "too slow to emulate, and what only some blocks add up cannot be compared"
            return unjudged(scene.workload, message, programs)
        blank = {name: _blank(scene.outputs[name]) for name in scene.masks}
        missing = [f"{int(b.sum())} elements of {name} were never written" for name, b in blank.items() if b.any()]
        try:
            if partial:
                for name, mask in scene.masks.items():
                    mask.copy_(~blank[name])
                scene.fill_unwritten()
            scene.stage.check_inputs()
            return replace(judged, workload=replace(seen, error=scene.stage.compare(0)))
        except Mismatch as e:
            message = "; ".join([str(e), *(missing if not partial else ())])
            wrong = replace(seen, error=scene.stage.error(0), message=message)
            return WorkloadJudgement("incorrect", wrong, outcome.findings)


def _blank(tensor: torch.Tensor) -> torch.Tensor:
    """Return for each element whether all its bytes are those that outputs are filled with."""
    raw = tensor.view(-1).view(torch.uint8).view(*tensor.shape, tensor.element_size())
    return (raw == POISON_BYTE).all(dim=-1)
