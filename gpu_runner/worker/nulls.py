"""Validation of a task: answers that compute nothing, or too coarsely, must be turned down on every workload."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

import torch

from forewarp.core.validation import NullResult, WorkloadReport
from forewarp.core.values import Signature, Workload
from forewarp.gpu_runner.worker import memory, operations, outside, perturb
from forewarp.gpu_runner.worker.check import POISON_BYTE, Expected, same_bytes
from forewarp.gpu_runner.worker.loading import load_problem
from forewarp.gpu_runner.worker.oracle import AlikeCalls, WithWritten, expect_alike
from forewarp.gpu_runner.worker.problem import ReferenceFailed, copies, outputs_of, tensors_of
from forewarp.gpu_runner.worker.requests import TaskFailure, ValidateJob
from forewarp.gpu_runner.worker.stage import fresh_seed
from forewarp.gpu_runner.worker.state import State
from forewarp.gpu_runner.worker.tracebacks import first_line, format_error

MOSTLY = 0.5
"""Share of elements above which it is worth a note that they never change."""
FP8_BITS = 3
"""Bits of mantissa, without the leading one."""


@dataclass(frozen=True, slots=True)
class Draw:
    """Input values, what is expected of them, what the reference makes of them, and the `seed` of each call."""

    case: str
    values: Sequence[Any]
    expected: Expected
    outputs: list[torch.Tensor]
    seed: int = field(default_factory=fresh_seed)


Outputs = Callable[[Draw], list[torch.Tensor] | None]
"""All outputs of a null candidate for a draw; None where it means nothing to the task."""


def validate(job: ValidateJob) -> dict[str, list[WorkloadReport]] | TaskFailure:
    torch.set_grad_enabled(False)
    try:
        pairs = zip(job.workloads, job.signatures, strict=True)
        return {"workloads": [Examination(job, w, s).report() for w, s in pairs]}
    except ReferenceFailed as e:
        return TaskFailure(str(e))
    except Exception as e:
        return TaskFailure(f"{type(e).__name__}: {e}", format_error(e, 4))


class Examination:
    """Examination of one workload: `problems` make the task degenerate, `notes` do not."""

    def __init__(self, job: ValidateJob, workload: Workload, signature: Signature) -> None:
        self.job, self.workload, self.signature = job, workload, signature
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.device, self.tolerance = job.device, job.task.tolerance
        self.upstream = len(signature.backward.upstream) if signature.backward else 0
        self.weight_seed = fresh_seed()
        with outside.seen() as loading:
            loaded = load_problem(job, workload, self.weight_seed)
        values = loaded.inputs(fresh_seed(), self.device)  # which may be drawn with whatever the task likes
        with outside.seen() as making:
            model = loaded.model(self.device)
        numbers = _numbers_of(model)
        with operations.Seen() as seen:
            outputs_of(model(*copies(values)))
        with outside.seen() as calling:  # apart: what is above loads much of torch, once
            outputs_of(model(*copies(values)))
        self.asked = {"when it is loaded": list(dict.fromkeys((*loading, *making))), "in each call": calling}
        self.counts = sorted(name for name, value in _numbers_of(model).items() if numbers.get(name) != value)
        self.inner = loaded.model(self.device)
        self.state = State(self.inner, signature.state)
        follows = _follows_seeds(AlikeCalls(self.inner, self.state, None), values, marked=bool(seen.random))
        self.random = (seen.random or ["an operation that torch does not mark as random"]) if follows else []
        self.problem = replace(loaded, state=signature.state, random=follows, outputs=signature.outputs)
        self.check = self.problem.checker()
        self.oracle = ""
        self.refused: list[str] = []
        inputs, outputs = (memory.bytes_of(s, wide=True) for s in (signature.inputs, signature.outputs))
        self._pieces = memory.in_pieces(inputs, outputs, self.device)
        self.first, self.second = self._draw(), self._draw()

    def report(self) -> WorkloadReport:
        self._look_at_outputs()
        self._look_at_calls()
        self._look_at_inputs()
        for _ in self._perturbed():  # to learn which of them the reference refuses: a null seldom gets that far
            pass
        nulls = tuple(tried for null in self._nulls() if (tried := self._try(*null)) is not None)
        notes = [*self.notes, *(f"perturbed inputs are left out: {why}" for why in dict.fromkeys(self.refused))]
        found = tuple(self.problems), tuple(notes), tuple(self.random)
        return WorkloadReport(self.workload.name, self.oracle, nulls, *found)

    def _draw(self) -> Draw:
        values, seed = self.problem.inputs(fresh_seed(), self.device), fresh_seed()
        return Draw("fresh inputs", values, self._expect(values, seed), self._run(values, seed), seed)

    def _expect(self, values: Sequence[Any], seed: int, scales: Sequence[float] | None = None) -> Expected:
        given = (self.problem, self.inner, self.state, values, self.tolerance, self.signature.written, scales)
        allow = self.job.task.allow_tf32
        expected, self.oracle = expect_alike(*given, seed=seed, allow_tf32=allow, pieces=self._pieces)
        return expected

    def _run(self, values: Sequence[Any], seed: int, model: torch.nn.Module | None = None) -> list[torch.Tensor]:
        inner, state = (self.inner, self.state) if model is None else (model, State(model, self.signature.state))
        calls = AlikeCalls(inner, state, seed if self.problem.random else None)
        results = WithWritten(calls, self.signature.written)(*copies(values))
        return [r.detach().clone(memory_format=torch.contiguous_format) for r in results]

    def _perturbed(self) -> Iterator[Draw]:
        """Yield perturbed inputs as candidates get them, each made when it is asked for."""
        if not self.job.task.perturb or self.check is not None:
            return
        draw = lambda: self.problem.inputs(fresh_seed(), self.device)  # noqa: E731
        seeds = list[int]()

        def expect_drawn(values: Sequence[Any], scales: Sequence[float]) -> Expected:
            seeds.append(fresh_seed())
            try:
                return self._expect(values, seeds[-1], scales)
            except ReferenceFailed as e:
                self.refused.append(first_line(e))
                raise

        for name, values, expected in perturb.cases(self.first.expected, draw, expect_drawn, self.problem.module):
            yield Draw(name, values, expected, self._run(values, seeds[-1]), seeds[-1])

    def _nulls(self) -> Iterator[tuple[str, int | None, Outputs]]:
        """Yield name, output that is replaced (None for all), and outputs of each null candidate."""
        # A task's own check sees what the reference returns, not the inputs that it writes to.
        judged = None if self.check is None else len(self.signature.outputs)
        for output, right in enumerate(self.first.outputs[:judged]):
            if not right.numel():
                continue
            for name, answer in FIXED.items():
                yield name, output, partial(_instead, output, lambda draw, o, answer=answer: answer(draw.outputs[o]))
            yield "previous output", output, partial(_instead, output, self._previous)
            # Of several gradients, one may be the upstream gradient as it is: that of a sum's term.
            passed_on = self.upstream if len(self.first.outputs) > 1 else 0
            for index in range(len(self.signature.inputs) - passed_on):
                yield f"input {index} passed through", output, partial(_instead, output, partial(_passed, index))
        for name, change in COARSE.items():
            # fp16 rounds as TF32 does, as long as numbers are of its range.
            if not (self.first.expected.accepts_tf32 and name in AS_TF32):
                yield name, None, partial(self._coarse, change)

    def _try(self, name: str, output: int | None, outputs_for: Outputs) -> NullResult | None:
        """Put a null to its cases; it passes if each lets it through.

        What stands in for one output must fail on ordinary inputs. Coarse numbers may fail on perturbed ones instead.
        """
        error, kernelbench, failed = math.nan, False, ""
        for draw in chain((self.first, self.second), self._perturbed() if output is None else ()):
            outputs = outputs_for(draw)
            if outputs is None:
                return None
            ratio = draw.expected.error(outputs)
            if draw is self.first:
                error, kernelbench = ratio, draw.expected.kernelbench_allclose(outputs)
            if not self._accepted(draw, outputs, ratio):
                failed = draw.case
                break
        finite = error if math.isfinite(error) else None
        return NullResult(name, output, not failed, finite, failed, kernelbench)

    def _accepted(self, draw: Draw, outputs: list[torch.Tensor], ratio: float) -> bool:
        if self.check is None:
            return ratio <= 1.0
        if self.problem.random:
            torch.manual_seed(draw.seed)
        return self.check(copies(draw.values), outputs[: len(self.signature.outputs)]) == ""

    def _previous(self, draw: Draw, output: int) -> torch.Tensor:
        return (self.first if draw is not self.first else self.second).outputs[output]

    def _coarse(self, change: Callable[[torch.Tensor], torch.Tensor | None], draw: Draw) -> list[torch.Tensor] | None:
        """Return the reference on inputs and weights of lower precision, however precisely it then computes."""
        rough = self.problem.model(self.device)
        rough.load_state_dict({k: _changed(v, change) for k, v in rough.state_dict().items()})
        outputs = self._run([_changed(v, change) for v in draw.values], draw.seed, rough)
        # Where rounding changes nothing, such as whole numbers, there is nothing to tell apart.
        return None if draw is self.first and _alike(outputs, draw.outputs) else outputs

    def _look_at_outputs(self) -> None:
        for output, (a, b) in enumerate(zip(self.first.outputs, self.second.outputs, strict=True)):
            if not a.numel():
                continue
            if a.is_floating_point():
                lost = float(torch.isnan(a).double().mean())
                if lost:
                    self.problems.append(f"output {output}: {100 * lost:.3g} % of the elements are NaN")
                elif not bool(torch.isfinite(a).all()):
                    self.notes.append(f"output {output} has infinite elements")
            still = float(_close(a, b).double().mean())
            if still > MOSTLY:
                self.notes.append(f"output {output}: {100 * still:.3g} % of the elements are the same for other inputs")

    def _look_at_calls(self) -> None:
        first, random = self.first, self.problem.random
        self.problems += [
            f"the reference calls {', '.join(names)} {when}: outputs that follow the clock, the process or numbers "
            "that torch does not draw cannot be compared"
            for when, names in self.asked.items()
            if names
        ]
        if self.signature.state:
            self.notes.append(f"the reference changes its state, which is put back: {', '.join(self.signature.state)}")
        counted = f" it changes {', '.join(self.counts)} in each call, which cannot be put back" if self.counts else ""
        again = self._run(first.values, first.seed)
        if _alike(again, first.outputs):
            if counted:
                self.problems.append(f"the reference counts:{counted}: a later call may give other outputs")
        elif first.expected.error(again) <= 1.0:
            self.notes.append("the reference is not deterministic: the same inputs give other bits")
        else:
            why = counted or " it counts its calls, keeps what it saw, or draws numbers with something else than torch"
            self.problems.append(f"the same inputs give other outputs at another call, with torch seeded alike:{why}")
        loaded = None if random else load_problem(self.job, self.workload, self.weight_seed).model(self.device)
        if loaded is not None and first.expected.error(self._run(first.values, first.seed, loaded)) > 1.0:
            self.problems.append(
                "the reference gives other outputs when it is loaded anew: it keeps something between calls, or its "
                "weights do not follow from torch's seed alone"
            )
        if not first.expected.reference_agrees():
            self.notes.append(f"the reference is further from its {self.oracle} oracle than the tolerance alone allows")

    def _look_at_inputs(self) -> None:
        """Find what of inputs and weights no output depends on, and outputs that depend on no input."""
        first, inputs = self.first, range(len(self.signature.inputs))
        self.problems += [f"output {i} has no elements" for i, o in enumerate(first.outputs) if not o.numel()]
        if inputs and _alike(tensors_of(first.values), tensors_of(self.second.values)):
            self.problems.append("the inputs are the same in each draw: a kernel may keep its first result")
        moved = [self._moved_by(index) for index in inputs]
        # A gradient may well follow from the upstream one alone, as that of a sum does.
        free = len(inputs) - self.upstream if self.job.task.gradients == "only" else 0
        for index in (i for i in inputs if i not in self.signature.written):
            if not moved[index]:
                (self.notes if index < free else self.problems).append(
                    f"input {index} does not change any output: a kernel may leave it out"
                )
            elif self._within_tolerance(index):
                self.problems.append(
                    f"input {index} changes outputs by less than the tolerance: a kernel may leave it out"
                )
        self.problems += [
            f"output {output} does not depend on the inputs"
            for output in range(len(self.signature.outputs))
            if inputs and first.outputs[output].numel() and not any(output in changed for changed in moved)
        ]
        for index in (i for i in inputs if moved[i]):
            for dim, size in enumerate(tensors_of(first.values)[index].shape):
                for name, half in _halves(size):
                    if not self._moved_by(index, (dim, half)):
                        self.notes.append(
                            f"the {name} half of input {index} along dimension {dim} does not change any output"
                        )
        for place, value in enumerate(first.values):
            if not isinstance(value, torch.Tensor) and not self._number_matters(place, value):
                self.notes.append(f"the number {value} (value {place} of the inputs) does not change any output")
        if first.expected.accepts_tf32:
            why = "as asked for" if self.job.task.allow_tf32 else "because the reference computes so"
            self.notes.append(f"products in TF32 are accepted, {why}")
        if self.signature.params:
            other = load_problem(self.job, self.workload, fresh_seed()).model(self.device)
            if not self._changed_by(self._run(first.values, first.seed, other)):
                self.notes.append("other weights do not change any output")

    def _number_matters(self, place: int, value: Any) -> bool:
        values = list(self.first.values)
        values[place] = not value if isinstance(value, bool) else value + 1
        try:
            outputs = self._run(values, self.first.seed)
        except Exception:  # whatever it refuses, it looks at
            return True
        shapes_differ = any(a.shape != b.shape for a, b in zip(outputs, self.first.outputs, strict=True))
        return shapes_differ or not _alike(outputs, self.first.outputs)

    def _within_tolerance(self, index: int) -> bool:
        """Return whether outputs pass that are computed with another tensor in place of an input."""
        outputs = self._with_other(index)
        return outputs is not None and self.check is None and self.first.expected.error(outputs) <= 1.0

    def _moved_by(self, index: int, part: tuple[int, slice] | None = None) -> set[int]:
        """Return which results change with a tensor of the inputs, or a part of it; all, where that cannot be told."""
        outputs = self._with_other(index, part)
        if outputs is None:
            return set(range(len(self.first.outputs)))
        return self._changed_by(outputs, without=index)

    def _with_other(self, index: int, part: tuple[int, slice] | None = None) -> list[torch.Tensor] | None:
        """Return what the reference makes of another tensor of the inputs, or `part` of one; None if it refuses."""
        values = list(self.first.values)
        place = [i for i, v in enumerate(values) if isinstance(v, torch.Tensor)][index]
        other = tensors_of(self.second.values)[index]
        if same_bytes(other, values[place]):
            other = _altered(other)
            if other is None:
                return None
        if part is not None:
            dim, kept = part[0], values[place].clone()
            kept.transpose(0, dim)[part[1]] = other.transpose(0, dim)[part[1]]
            other = kept
        values[place] = other
        try:
            return self._run(values, self.first.seed)
        except Exception:  # whatever it refuses, it looks at
            return None

    def _changed_by(self, outputs: Sequence[torch.Tensor], without: int = -1) -> set[int]:
        """Compare with the first draw's; an input that is written to is no witness of its own change."""
        kept = [True] * len(self.signature.outputs) + [i != without for i in self.signature.written]
        pairs = zip(outputs, self.first.outputs, kept, strict=True)
        return {i for i, (a, b, keep) in enumerate(pairs) if keep and not same_bytes(a, b)}


def _alike(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    return all(same_bytes(a, b) for a, b in zip(one, other, strict=True))


def _halves(size: int) -> list[tuple[str, slice]]:
    return [("first", slice(0, size // 2)), ("last", slice(size - size // 2, size))] if size > 1 else []


def _altered(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return other values that a reference should take as well, integers in another order; None if unknown."""
    if tensor.dtype == torch.bool:
        return ~tensor
    if tensor.is_floating_point() or tensor.is_complex():
        wide = tensor if tensor.element_size() > 1 else tensor.float()
        return (wide * 0.5 + 0.25).to(tensor.dtype)
    rolled = tensor.flatten().roll(1).view(tensor.shape)
    return None if same_bytes(rolled, tensor) else rolled


def _follows_seeds(calls: AlikeCalls, values: Sequence[Any], *, marked: bool) -> bool:
    """Return whether outputs depend on torch's seed, and on nothing else that differs between calls.

    Of operations `marked` as random it is enough that outputs differ: what they draw may be overwritten.
    """
    found: list[list[torch.Tensor]] = []
    for calls.seed in (1, 1, 2):
        found.append([o.clone() for o in calls(*copies(values))])
    one, same, other = found
    return not _alike(one, other) and (marked or _alike(one, same))


def _numbers_of(model: torch.nn.Module) -> dict[str, Any]:
    return {
        f"{name}.{key}".removeprefix("."): value
        for name, module in model.named_modules()
        for key, value in vars(module).items()
        if isinstance(value, bool | int | float)
    }


def _instead(output: int, answer: Callable[[Draw, int], torch.Tensor | None], draw: Draw) -> list[torch.Tensor] | None:
    made = answer(draw, output)
    return None if made is None else [made if i == output else o for i, o in enumerate(draw.outputs)]


def _mean(right: torch.Tensor, dim: int | None) -> torch.Tensor:
    return right.double().mean(dim, keepdim=True).to(right.dtype).expand(right.shape).contiguous()


def _unwritten(right: torch.Tensor) -> torch.Tensor:
    blank = torch.empty_like(right)
    blank.view(-1).view(torch.uint8).fill_(POISON_BYTE)
    return blank


FIXED: dict[str, Callable[[torch.Tensor], torch.Tensor | None]] = {
    "unwritten": _unwritten,
    "zeros": torch.zeros_like,
    "ones": torch.ones_like,
    "mean of the output": lambda right: _mean(right, None),
    "mean of each row": lambda right: _mean(right, -1) if right.dim() > 1 and right.shape[-1] > 1 else None,
    "rows shifted by one": lambda right: right.roll(1, 0) if right.dim() and right.shape[0] > 1 else None,
    "sign flipped": lambda right: ~right if right.dtype == torch.bool else -right,
}
"""What stands in for an output, made of the right one; None where that means nothing."""


def _passed(index: int, draw: Draw, output: int) -> torch.Tensor | None:
    given, right = tensors_of(draw.values)[index], draw.outputs[output]
    if given.numel() == right.numel():
        return given.to(right.dtype).reshape(right.shape).contiguous()
    try:
        return given.to(right.dtype).expand(right.shape).contiguous()
    except RuntimeError:
        return None


def rounded(tensor: torch.Tensor, mantissa: int) -> torch.Tensor:
    """Round to so many bits of mantissa, to nearest, the range staying as it is."""
    fraction, exponent = torch.frexp(tensor.double())
    return torch.ldexp((fraction * 2.0 ** (mantissa + 1)).round_(), exponent - mantissa - 1).to(tensor.dtype)


def _through(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor | None]:
    return lambda t: t.to(dtype).to(t.dtype) if t.dtype in (torch.float32, torch.float64) else None


COARSE: dict[str, Callable[[torch.Tensor], torch.Tensor | None]] = {
    "in TF32": lambda t: operations.as_tf32(t) if t.dtype == torch.float32 else None,
    "in fp16": _through(torch.float16),
    "in bf16": _through(torch.bfloat16),
    "in fp8": lambda t: rounded(t, FP8_BITS) if t.dtype in (torch.float16, torch.bfloat16) else None,
}
"""What a tensor becomes where a candidate computes in less than the task's precision; None for what stays."""
AS_TF32 = ("in TF32", "in fp16")


def _changed(value: Any, change: Callable[[torch.Tensor], torch.Tensor | None]) -> Any:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    new = change(value)
    return value if new is None else new


def _close(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return torch.isclose(one, other, rtol=1e-5, atol=0.0, equal_nan=True) if one.is_floating_point() else one == other
