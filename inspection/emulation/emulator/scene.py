"""One workload as an emulated candidate sees it: buffers in a file, launches as text, results for the judge."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from forewarp.core import serde
from forewarp.core.values import Candidate, Tolerance, Workload
from forewarp.gpu_runner.formats import plan as plans
from forewarp.gpu_runner.worker.check import POISON_BYTE
from forewarp.gpu_runner.worker.loading import load_problem
from forewarp.gpu_runner.worker.problem import copies, outputs_of
from forewarp.gpu_runner.worker.stage import ArmBuffers, Stage, fresh_seed
from forewarp.inspection.describing import describe

PAGE = 4096


@dataclass(frozen=True, slots=True)
class Slot:
    """Where one buffer lies in the file, in bytes, and whether a kernel may write to it."""

    name: str
    offset: int
    size: int
    writable: bool


class Scene:
    """Everything about one workload at one shape; building it runs the reference, and raises what that raises.

    A scene's file holds inputs, parameters, outputs and scratch, each from a page's start on.
    """

    def __init__(self, job: Mapping[str, Any], workload: Workload, candidate: Candidate) -> None:
        """`job` has the keys of `describe_job`, and `tolerance` and `perturb`; raises `CandidateError`."""
        self.workload = workload
        self.signature = describe(job, workload, flops=False)
        loaded = load_problem(job, workload, fresh_seed())
        problem = loaded.described(self.signature.state, random=self.signature.random)
        self.plan = plans.resolve(plans.parse(candidate), self.signature, candidate.tunables)
        self.model = problem.model("cpu")
        self.weights = {k: v.detach().contiguous() for k, v in self.model.state_dict().items()}
        drawn = problem.inputs(fresh_seed(), "cpu")
        self.values = [v.contiguous() if isinstance(v, torch.Tensor) else v for v in drawn]
        self.outputs = [torch.empty(s.shape, dtype=getattr(torch, s.dtype)) for s in self.signature.outputs]
        self.stage = Stage(
            problem,
            self.model,
            ArmBuffers([self.values], self.outputs),
            serde.from_data(Tolerance, job["tolerance"]) if job["tolerance"] else None,
            written=self.signature.written,
            aliases=self.signature.aliases,
            perturb=bool(job["perturb"]),
        )
        self.stage.allow_tf32 = bool(job.get("allow_tf32"))
        self.slots = self._lay_out()

    def _tensors(self) -> dict[str, tuple[torch.Tensor, bool]]:
        """Return the tensors that kernels see by the plan's names, and whether kernels may write to them."""
        names = [n for n, v in zip(self.plan.inputs, self.values, strict=True) if isinstance(v, torch.Tensor)]
        tensors = [v for v in self.values if isinstance(v, torch.Tensor)]
        found = {n: (t, i in self.signature.written) for i, (n, t) in enumerate(zip(names, tensors, strict=True))}
        found |= {local: (self.weights[key], False) for local, key in self.plan.params.items()}
        outputs = zip(self.plan.outputs, self.outputs, strict=True)
        return found | {n: (t, True) for n, t in outputs if n not in self.plan.aliases}

    def _lay_out(self) -> dict[str, Slot]:
        sizes = {n: (t.numel() * t.element_size(), writable) for n, (t, writable) in self._tensors().items()}
        for spec in self.plan.scratch:
            kind: torch.dtype = getattr(torch, spec.dtype)
            sizes[spec.name] = math.prod(spec.shape) * kind.itemsize, True
        slots, offset = dict[str, Slot](), 0
        for name, (size, writable) in sizes.items():
            slots[name] = Slot(name, offset, size, writable)
            offset += max(PAGE, -(-size // PAGE) * PAGE)
        return slots

    def write(self, path: Path) -> None:
        """Write the buffers as the stage has prepared them; scratch is zero."""
        with path.open("wb") as file:
            for name, (tensor, _) in self._tensors().items():
                file.seek(self.slots[name].offset)
                file.write(_bytes(tensor))
            file.truncate(self.size)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        last = max(self.slots.values(), key=lambda s: s.offset)
        return last.offset + max(PAGE, last.size)

    def orders(self, seconds: float, *, descending: bool = False, sample: bool = False) -> str:
        """Return the text that tells the program what to run, in at most so many seconds."""
        places = {name: i for i, name in enumerate(self.slots)}
        places |= {output: places[source] for output, source in self.plan.aliases.items()}
        rows = [
            f"order {int(descending)}",
            f"seconds {seconds:.3f}",
            *([f"sample {0.7 * seconds:.3f}"] if sample else []),
        ]
        rows += [f"buffer {s.name} {s.size} {s.offset} {int(s.writable)}" for s in self.slots.values()]
        for launch in self.plan.launches:
            extents = " ".join(str(v) for v in (*launch.grid, *launch.block, launch.shared))
            rows.append(f"launch {launch.kernel} {extents}")
            for a in launch.args:
                rows.append(f"arg ptr {places[a.name]}" if a.kind == "ptr" else f"arg {a.kind} {a.value!r}")
        return "\n".join(rows) + "\n"

    def read(self, data: bytes) -> None:
        """Put what kernels have left in the file where the stage looks for it; where it is cut off, nothing."""
        for name, (tensor, writable) in self._tensors().items():
            slot = self.slots[name]
            left = bytearray(data[slot.offset : slot.offset + slot.size])
            if writable and left and len(left) == slot.size:
                tensor.view(-1).view(torch.uint8).copy_(torch.frombuffer(left, dtype=torch.uint8))

    def unwritten(self) -> dict[str, int]:
        """Return how many elements of each output still hold what was there before the call, where any do."""
        counts = {n: int(_blank(t).sum()) for n, t in zip(self.plan.outputs, self.outputs, strict=True)}
        return {n: c for n, c in counts.items() if c and n not in self.plan.aliases}

    def fill_unwritten(self) -> None:
        """After a sample, put the reference's own results where no block that ran has written."""
        for output, right in zip(self.outputs, outputs_of(self.model(*copies(self.values))), strict=True):
            blank = _blank(output)
            output.view(-1)[blank] = right.contiguous().view(-1)[blank]


def merged(workload: Workload, device: Workload | None) -> Workload:
    """Return a CPU workload with the text constants, such as dtypes, of one for a GPU.

    CUDA kernels are written for the GPU's dtype, which a task may leave out of what the CPU device runs.
    """
    text = {k: v for k, v in device.constants.items() if isinstance(v, str)} if device else {}
    return Workload(workload.name, {**workload.constants, **text})


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def _blank(tensor: torch.Tensor) -> torch.Tensor:
    """Return for each element, in order, whether all its bytes are those that outputs are filled with."""
    raw = tensor.contiguous().view(-1).view(torch.uint8).view(tensor.numel(), tensor.element_size())
    return (raw == POISON_BYTE).all(dim=1)
