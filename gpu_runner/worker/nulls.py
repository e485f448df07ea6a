"""Is a task worth measuring? Answers that compute nothing, or too coarsely, must be turned down on every workload."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import torch

from forewarp.core import serde
from forewarp.core.values import Signature, Tolerance, Workload
from forewarp.gpu_runner.worker import memory, operations, outside, perturb
from forewarp.gpu_runner.worker.check import POISON_BYTE, Expected, same_bytes
from forewarp.gpu_runner.worker.loading import load_problem
from forewarp.gpu_runner.worker.problem import ReferenceFailed, copies, outputs_of, tensors_of
from forewarp.gpu_runner.worker.stage import WithWritten, expect_alike, fresh_seed
from forewarp.gpu_runner.worker.state import AlikeCalls, State
from forewarp.gpu_runner.worker.tracebacks import told

MOSTLY = 0.5
"""Share of elements above which it is worth a note that they never change."""
FP8_BITS, TF32_BITS = 3, 10
"""Bits of mantissa, without the leading one."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One set of input values with what is expected of them, and what the reference makes of them in its own dtype.

    `seed` is what torch is seeded with before each call on them, where the reference draws random numbers.
    """

    case: str
    values: Sequence[Any]
    expected: Expected
    outputs: list[torch.Tensor]
    seed: int = field(default_factory=fresh_seed)


Answer = Callable[[Draw, int], torch.Tensor | None]
"""A null candidate's output of a number for a draw; None where it means nothing to the task."""
Null = tuple[str, int | None, Callable[[Draw], list[torch.Tensor] | None]]
"""Name, the output that is replaced (None for all), and all outputs with it replaced."""


def validate(job: dict[str, Any]) -> dict[str, Any]:
    """Return one report per workload, or the reference's error."""
    torch.set_grad_enabled(False)
    workloads = [serde.from_data(Workload, w) for w in job["workloads"]]
    signatures = [serde.from_data(Signature, s) for s in job["signatures"]]
    try:
        reports = [Examination(job, w, s).report() for w, s in zip(workloads, signatures, strict=True)]
    except ReferenceFailed as e:
        return {"error": str(e), "log": ""}
    except Exception as e:
        return {"error": f"{type(e).__name__}: {e}", "log": told(e, 4)}
    return {"workloads": reports}


class Examination:
    """Looks at one workload; `report` gives the result as plain data."""

    def __init__(self, job: Mapping[str, Any], workload: Workload, signature: Signature) -> None:
        self.job, self.workload, self.signature = job, workload, signature
        self.device = "cuda" if job["target_kind"] == "cuda" else "cpu"
        self.tolerance = serde.from_data(Tolerance, job["tolerance"]) if job["tolerance"] else None
        self.weight_seed = fresh_seed()
        with outside.seen() as loading:
            loaded = load_problem(job, workload, self.weight_seed)
        values = loaded.inputs(fresh_seed(), self.device)  # which may be drawn with whatever the task likes
        with outside.seen() as making:
            model = loaded.model(self.device)
        self.asked_at_start = list(dict.fromkeys((*loading, *making)))
        self.numbers = _numbers_of(model)
        self.random = self._operations(model, values)
        self.counts = sorted(name for name, value in _numbers_of(model).items() if self.numbers.get(name) != value)
        self.problem = loaded.described(signature.state, random=signature.random or bool(self.random))
        self.inner = loaded.model(self.device)
        self.state = State(self.inner, signature.state)
        if not self.random and self._follows_seeds():
            self.random = ["an operation that torch does not mark as random"]
            self.problem = self.problem.described(signature.state, random=True)
        self.check = self.problem.checker()
        self.oracle = ""
        self.refused: list[str] = []
        inputs, outputs = (memory.bytes_of(s, wide=True) for s in (signature.inputs, signature.outputs))
        self._pieces = memory.in_pieces(inputs, outputs, self.device)
        self.first, self.second = self._draw(), self._draw()

    def report(self) -> dict[str, Any]:
        """Return the nulls, problems (which make the task degenerate) and notes (which do not)."""
        problems, notes = self._looks()
        for _ in self._perturbed():  # to learn which of them the reference refuses: a null seldom gets that far
            pass
        return {
            "workload": self.workload.name,
            "oracle": self.oracle,
            "nulls": [tried for null in self._nulls() if (tried := self._try(*null)) is not None],
            "problems": problems,
            "notes": [*notes, *(f"perturbed inputs are left out: {why}" for why in dict.fromkeys(self.refused))],
            "random": self.random,
        }

    def _operations(self, model: torch.nn.Module, values: Sequence[Any]) -> list[str]:
        """Return the names of the operations that draw random numbers."""
        with operations.Seen() as seen:
            outputs_of(model(*copies(values)))
        with outside.seen() as self.asked:  # apart: what is above loads much of torch, once
            outputs_of(model(*copies(values)))
        return seen.random

    def _follows_seeds(self) -> bool:
        """Return whether outputs depend on torch's seed, and on nothing else that differs between calls."""
        values = self.problem.inputs(fresh_seed(), self.device)
        calls = [AlikeCalls(self.inner, self.state, (), seed, outputs_of)(*copies(values)) for seed in (1, 1, 2)]
        one, same, other = ([c.clone() for c in call] for call in calls)
        return _alike(one, same) and not _alike(one, other)

    def _draw(self) -> Draw:
        return self._of("fresh inputs", self.problem.inputs(fresh_seed(), self.device))

    def _of(self, case: str, values: Sequence[Any]) -> Draw:
        seed = fresh_seed()
        return Draw(case, values, self._expect(values, seed), self._run(values, seed), seed)

    def _expect(self, values: Sequence[Any], seed: int, scales: Sequence[float] | None = None) -> Expected:
        given = (self.problem, self.inner, self.state, values, self.tolerance, self.signature.written, scales)
        allow = bool(self.job.get("allow_tf32"))
        expected, self.oracle = expect_alike(*given, seed=seed, allow_tf32=allow, pieces=self._pieces)
        return expected

    def _run(self, values: Sequence[Any], seed: int, model: torch.nn.Module | None = None) -> list[torch.Tensor]:
        inner, state = (self.inner, self.state) if model is None else (model, State(model, self.signature.state))
        calls = AlikeCalls(inner, state, (), seed if self.problem.random else None, outputs_of)
        results = WithWritten(calls, self.signature.written)(*copies(values))
        return [r.detach().clone(memory_format=torch.contiguous_format) for r in results]

    def _perturbed(self) -> Iterator[Draw]:
        """Yield perturbed inputs as candidates get them, each made when it is asked for."""
        if not self.job["perturb"] or self.check is not None:
            return
        draw = lambda: self.problem.inputs(fresh_seed(), self.device)  # noqa: E731
        seeds = list[int]()

        def expect_drawn(values: Sequence[Any], scales: Sequence[float]) -> Expected:
            seeds.append(fresh_seed())
            try:
                return self._expect(values, seeds[-1], scales)
            except ReferenceFailed as e:
                self.refused.append(next(iter(str(e).splitlines())))
                raise

        for name, values, expected in perturb.cases(self.first.expected, draw, expect_drawn, self.problem.module):
            yield Draw(name, values, expected, self._run(values, seeds[-1]), seeds[-1])

    def _try(
        self, name: str, output: int | None, answer: Callable[[Draw], list[torch.Tensor] | None]
    ) -> dict[str, Any] | None:
        """Put a null to its cases; it passes if each lets it through.

        What stands in for one output must fail on ordinary inputs, those that are timed. Coarse numbers may fail on
        perturbed ones, which are there to tell them.
        """
        error, kernelbench = math.nan, False
        for draw in chain((self.first, self.second), self._perturbed() if output is None else ()):
            outputs = answer(draw)
            if outputs is None:
                return None
            ratio = draw.expected.error(outputs)
            if draw is self.first:
                error, kernelbench = ratio, draw.expected.kernelbench_allclose(outputs)
            if not self._accepted(draw, outputs, ratio):
                return _document(name, output, error, kernelbench, passed=False, case=draw.case)
        return _document(name, output, error, kernelbench, passed=True)

    def _accepted(self, draw: Draw, outputs: list[torch.Tensor], ratio: float) -> bool:
        if self.check is None:
            return ratio <= 1.0
        if self.problem.random:
            torch.manual_seed(draw.seed)
        return self.check(copies(draw.values), outputs[: len(self.signature.outputs)]) == ""

    def _nulls(self) -> Iterator[Null]:
        """Yield each null: those that stand in for one output, and those that compute all of them coarsely."""
        # A task's own check sees what the reference returns, not the inputs that it writes to.
        judged = None if self.check is None else len(self.signature.outputs)
        for output, seen in enumerate(self.first.outputs[:judged]):
            if seen.numel() == 0:
                continue
            alone = FIXED | {"previous output": self._previous}
            for index in range(len(self.signature.inputs)):
                alone[f"input {index} passed through"] = _passing(index)
            for name, answer in alone.items():
                yield name, output, _instead(output, answer)
        for name, change in COARSE.items():
            # fp16 rounds as TF32 does, as long as numbers are of its range.
            if not (self.first.expected.accepts_tf32 and name in AS_TF32):
                yield name, None, self._coarse(change)

    def _previous(self, draw: Draw, output: int) -> torch.Tensor:
        return (self.first if draw is not self.first else self.second).outputs[output]

    def _coarse(
        self, change: Callable[[torch.Tensor], torch.Tensor | None]
    ) -> Callable[[Draw], list[torch.Tensor] | None]:
        """Return the reference on inputs and weights of lower precision, however precisely it then computes."""

        def answer(draw: Draw) -> list[torch.Tensor] | None:
            values = [_changed(v, change) for v in draw.values]
            rough = self.problem.model(self.device)
            rough.load_state_dict({k: _changed(v, change) for k, v in rough.state_dict().items()})
            outputs = self._run(values, draw.seed, rough)
            # Where rounding changes nothing, such as whole numbers, there is nothing to tell apart.
            idle = draw is self.first and all(same_bytes(a, b) for a, b in zip(outputs, draw.outputs, strict=True))
            return None if idle else outputs

        return answer

    def _looks(self) -> tuple[list[str], list[str]]:
        """Return problems and notes from looking at the reference alone."""
        first, second = self.first, self.second
        problems: list[str] = []
        notes: list[str] = []
        for output, (a, b) in enumerate(zip(first.outputs, second.outputs, strict=True)):
            if a.is_floating_point():
                lost = float(torch.isnan(a).double().mean()) if a.numel() else 0.0
                if lost:
                    problems.append(f"output {output}: {100 * lost:.3g} % of the elements are NaN")
                elif not bool(torch.isfinite(a).all()):
                    notes.append(f"output {output} has infinite elements")
            still = float(_close(a, b).double().mean()) if a.numel() else 0.0
            if still > MOSTLY:
                notes.append(f"output {output}: {100 * still:.3g} % of the elements are the same for other inputs")
        self._ask_outside(problems)
        self._repeat(problems, notes)
        self._afresh(problems)
        if not first.expected.reference_agrees():
            notes.append(f"the reference is further from its {self.oracle} oracle than the tolerance alone allows")
        problems += [f"output {i} has no elements" for i, o in enumerate(first.outputs) if not o.numel()]
        self._same_draws(problems)
        self._dependence(problems)
        self._parts(notes)
        self._numbers_matter(notes)
        if first.expected.accepts_tf32:
            why = "as asked for" if self.job.get("allow_tf32") else "because the reference computes so"
            notes.append(f"products in TF32 are accepted, {why}")
        if self.signature.params and not self._weights_matter():
            notes.append("other weights do not change any output")
        return problems, notes

    def _repeat(self, problems: list[str], notes: list[str]) -> None:
        """Look whether calls are alike, and at what the reference changes of itself."""
        first = self.first
        again = self._run(first.values, first.seed)
        if self.signature.state:
            notes.append(f"the reference changes its state, which is put back: {', '.join(self.signature.state)}")
        counted = f" it changes {', '.join(self.counts)} in each call, which cannot be put back" if self.counts else ""
        if _alike(again, first.outputs):
            problems += [f"the reference counts:{counted}: a later call may give other outputs"] if counted else []
        elif first.expected.error(again) <= 1.0:
            notes.append("the reference is not deterministic: the same inputs give other bits")
        else:
            why = counted or " it counts its calls, keeps what it saw, or draws numbers with something else than torch"
            problems.append(f"the same inputs give other outputs at another call, with torch seeded alike:{why}")

    def _ask_outside(self, problems: list[str]) -> None:
        """Name what the reference asks for that no kernel is given; outputs that follow it may do so on another day."""
        for when, names in (("when it is loaded", self.asked_at_start), ("in each call", self.asked)):
            if names:
                problems.append(
                    f"the reference calls {', '.join(names)} {when}: outputs that follow the clock, the process or "
                    "numbers that torch does not draw cannot be compared"
                )

    def _afresh(self, problems: list[str]) -> None:
        """Look whether a reference that was loaded anew, and never called, computes the same."""
        if self.problem.random:
            return
        loaded = load_problem(self.job, self.workload, self.weight_seed)
        outputs = self._run(self.first.values, self.first.seed, loaded.model(self.device))
        if self.first.expected.error(outputs) > 1.0:
            problems.append(
                "the reference gives other outputs when it is loaded anew: it keeps something between calls, or its "
                "weights do not follow from torch's seed alone"
            )

    def _same_draws(self, problems: list[str]) -> None:
        """Say that no draw of inputs is new, so that the result of any call may be kept."""
        pairs = zip(tensors_of(self.first.values), tensors_of(self.second.values), strict=True)
        if self.signature.inputs and all(same_bytes(a.contiguous(), b.contiguous()) for a, b in pairs):
            problems.append("the inputs are the same in each draw: a kernel may keep its first result")

    def _parts(self, notes: list[str]) -> None:
        """Find halves of inputs that no output depends on: a kernel need not read them."""
        for index in range(len(self.signature.inputs)):
            tensor = tensors_of(self.first.values)[index]
            for dim in range(tensor.dim()):
                for name, half in _halves(tensor.shape[dim]):
                    if not self._moved_by(index, (dim, half)) and self._moved_by(index):
                        notes.append(
                            f"the {name} half of input {index} along dimension {dim} does not change any output"
                        )

    def _numbers_matter(self, notes: list[str]) -> None:
        """Find numbers among the inputs that no output depends on."""
        for place, value in enumerate(self.first.values):
            if isinstance(value, torch.Tensor):
                continue
            values = list(self.first.values)
            values[place] = not value if isinstance(value, bool) else value + 1
            try:
                outputs = self._run(values, self.first.seed)
            except Exception:  # whatever it refuses, it looks at
                continue
            shapes_differ = any(a.shape != b.shape for a, b in zip(outputs, self.first.outputs, strict=True))
            if not shapes_differ and _alike(outputs, self.first.outputs):
                notes.append(f"the number {value} (value {place} of the inputs) does not change any output")

    def _dependence(self, problems: list[str]) -> None:
        """Find inputs that no output depends on, and outputs that depend on no input."""
        count, moved = len(self.signature.outputs), set[int]()
        for index in range(len(self.signature.inputs)):
            changed = self._moved_by(index)
            moved |= changed
            if index in self.signature.written:
                continue
            if not changed:
                problems.append(f"input {index} does not change any output: a kernel may leave it out")
            elif self._within_tolerance(index):
                problems.append(f"input {index} changes outputs by less than the tolerance: a kernel may leave it out")
        for output in range(count):
            if output not in moved and self.first.outputs[output].numel() and self.signature.inputs:
                problems.append(f"output {output} does not depend on the inputs")

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
        """Return what the reference makes of another tensor of the inputs; None where none is known or it refuses.

        It may be another draw's; one that is the same in each draw is changed. A `part` is a dimension and a range of
        it; the rest stays.
        """
        values = list(self.first.values)
        place = [i for i, v in enumerate(values) if isinstance(v, torch.Tensor)][index]
        other = tensors_of(self.second.values)[index]
        if same_bytes(other.contiguous(), values[place].contiguous()):
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

    def _weights_matter(self) -> bool:
        other = load_problem(self.job, self.workload, fresh_seed()).model(self.device)
        return bool(self._changed_by(self._run(self.first.values, self.first.seed, other)))

    def _changed_by(self, outputs: Sequence[torch.Tensor], without: int = -1) -> set[int]:
        """Compare with the first draw's; an input that is written to is no witness of its own change."""
        kept = [True] * len(self.signature.outputs) + [i != without for i in self.signature.written]
        pairs = zip(outputs, self.first.outputs, kept, strict=True)
        return {i for i, (a, b, keep) in enumerate(pairs) if keep and not same_bytes(a, b)}


def _alike(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    return all(same_bytes(a.contiguous(), b.contiguous()) for a, b in zip(one, other, strict=True))


def _halves(size: int) -> list[tuple[str, slice]]:
    """Return the halves of a dimension by name; none of one that cannot be halved."""
    return [("first", slice(0, size // 2)), ("last", slice(size - size // 2, size))] if size > 1 else []


def _altered(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return other values that a reference should take as well; None where none are known.

    Integers stay those that were there, in another order: they may be indices.
    """
    if tensor.dtype == torch.bool:
        return ~tensor
    if tensor.is_floating_point() or tensor.is_complex():
        wide = tensor if tensor.element_size() > 1 else tensor.float()
        return (wide * 0.5 + 0.25).to(tensor.dtype)
    rolled = tensor.flatten().roll(1).view(tensor.shape)
    return None if same_bytes(rolled.contiguous(), tensor.contiguous()) else rolled


def _numbers_of(model: torch.nn.Module) -> dict[str, Any]:
    """Return the numbers among the attributes of a module and those in it, by name."""
    return {
        f"{name}.{key}".removeprefix("."): value
        for name, module in model.named_modules()
        for key, value in vars(module).items()
        if isinstance(value, bool | int | float)
    }


def _instead(output: int, answer: Answer) -> Callable[[Draw], list[torch.Tensor] | None]:
    """Replace one output, and leave the others right."""

    def outputs(draw: Draw) -> list[torch.Tensor] | None:
        made = answer(draw, output)
        return None if made is None else [made if i == output else o for i, o in enumerate(draw.outputs)]

    return outputs


def _document(
    name: str, output: int | None, error: float, kernelbench: bool, *, passed: bool, case: str = ""
) -> dict[str, Any]:
    return {
        "name": name,
        "output": output,
        "passed": passed,
        "error": error if math.isfinite(error) else None,
        "turned_down_on": case,
        "passes_kernelbench": kernelbench,
    }


def _zeros(draw: Draw, output: int) -> torch.Tensor:
    return torch.zeros_like(draw.outputs[output])


def _ones(draw: Draw, output: int) -> torch.Tensor:
    return torch.ones_like(draw.outputs[output])


def _mean(draw: Draw, output: int) -> torch.Tensor:
    seen = draw.outputs[output]
    return seen.double().mean().to(seen.dtype).expand(seen.shape).contiguous()


def _row_mean(draw: Draw, output: int) -> torch.Tensor | None:
    seen = draw.outputs[output]
    if seen.dim() < 2 or seen.shape[-1] < 2:
        return None
    return seen.double().mean(-1, keepdim=True).to(seen.dtype).expand(seen.shape).contiguous()


def _shuffled(draw: Draw, output: int) -> torch.Tensor | None:
    seen = draw.outputs[output]
    return seen.roll(1, 0) if seen.dim() and seen.shape[0] > 1 else None


def _negated(draw: Draw, output: int) -> torch.Tensor:
    seen = draw.outputs[output]
    return ~seen if seen.dtype == torch.bool else -seen


def _unwritten(draw: Draw, output: int) -> torch.Tensor:
    blank = torch.empty_like(draw.outputs[output])
    blank.view(-1).view(torch.uint8).fill_(POISON_BYTE)
    return blank


FIXED: dict[str, Answer] = {
    "unwritten": _unwritten,
    "zeros": _zeros,
    "ones": _ones,
    "mean of the output": _mean,
    "mean of each row": _row_mean,
    "rows shifted by one": _shuffled,
    "sign flipped": _negated,
}


def _passing(index: int) -> Answer:
    def answer(draw: Draw, output: int) -> torch.Tensor | None:
        given, wanted = tensors_of(draw.values)[index], draw.outputs[output]
        if given.numel() == wanted.numel():
            return given.to(wanted.dtype).reshape(wanted.shape).contiguous()
        try:
            return given.to(wanted.dtype).expand(wanted.shape).contiguous()
        except RuntimeError:  # of another shape
            return None

    return answer


def rounded(tensor: torch.Tensor, mantissa: int) -> torch.Tensor:
    """Round to so many bits of mantissa, to nearest, the range staying as it is."""
    fraction, exponent = torch.frexp(tensor.double())
    return torch.ldexp((fraction * 2.0 ** (mantissa + 1)).round_(), exponent - mantissa - 1).to(tensor.dtype)


def _through(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor | None]:
    return lambda t: t.to(dtype).to(t.dtype) if t.dtype in (torch.float32, torch.float64) else None


COARSE: dict[str, Callable[[torch.Tensor], torch.Tensor | None]] = {
    "in TF32": lambda t: rounded(t, TF32_BITS) if t.dtype == torch.float32 else None,
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
