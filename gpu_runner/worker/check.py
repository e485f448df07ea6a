"""Is an output right? Element by element against an fp64 oracle, scaled by the reference's own error.

All of it runs where the tensors are, in steps that need little memory beside them, and waits for the device once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from forewarp.core.values import Tolerance

# KernelBench's tolerances, with the absolute part taken relative to the output's root mean square: a softmax over many
# columns has outputs far below any fixed absolute tolerance.
DEFAULTS: dict[torch.dtype, Tolerance] = {
    torch.float64: Tolerance(1e-7, 1e-7),
    torch.float32: Tolerance(1e-4, 1e-4),
    torch.float16: Tolerance(1e-2, 1e-2),
    torch.bfloat16: Tolerance(1.6e-2, 1e-2),
}
KERNELBENCH: dict[torch.dtype, float] = {torch.float16: 1e-2, torch.bfloat16: 1e-2}
"""KernelBench's rtol and atol where they are not 1e-4."""
REFERENCE_SHARE = 4.0
RMS_SHARE = 0.3
"""Of atol, for the root mean square of the errors: 3e-5 of the outputs' size in fp32. That of TF32 is about 2e-4, but
where errors partly cancel, the largest one can pass for an fp32 one."""
SUM_SHARE = 2.0
"""Where k numbers are summed, errors may have a root mean square of this times √k units of fp32 rounding: twice what a
single accumulator gives."""
ALIKE_SHARE = 0.5
"""Where k equal numbers are summed, roundings add up: errors may be this times k units. One accumulator errs by k/3."""
STRAYS = 1e-6
"""Share of an output's elements that may be off by up to `STRAY_REACH` times what is allowed. Of 30 million honest
rounding errors, the largest is one that nobody meets among the million of a test."""
STRAY_REACH = 2.0
POISON_BYTE = 0xFF
"""A float of 0xFF bytes is a NaN, an integer of them is -1 or the largest: an element left unwritten never passes."""
_SEEN = 1 << 14
"""Elements in which equal ones are looked for."""
_STEP = {"cuda": 1 << 22, "cpu": 1 << 18}
"""Elements per step: at most some 200 MB of fp64 in between on a GPU, and what fits a cache on a CPU."""


class Mismatch(Exception):
    """An output that is wrong; the text says where and by how much."""


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """See a contiguous tensor as whole numbers, so that NaN equals itself; the widest that its size allows."""
    flat = tensor.view(-1)
    size = flat.numel() * flat.element_size()
    wide = size % 8 == 0 and tensor.data_ptr() % 8 == 0 and tensor.storage_offset() * flat.element_size() % 8 == 0
    return flat.view(torch.int64 if wide else torch.uint8)


def same_bytes(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two contiguous tensors of one shape and dtype hold the same bytes."""
    if one.numel() == 0:
        return True
    a, b = bits(one), bits(other)
    if a.dtype != b.dtype:
        a, b = one.view(-1).view(torch.uint8), other.view(-1).view(torch.uint8)
    return torch.equal(a, b)


class Expected:
    """What one set of inputs calls for; built once, compared against often.

    `exact` comes from the oracle, `reference` from the reference in the task's own precision. `scales` are the least
    root mean squares that the absolute tolerance is taken relative to, one per output: for inputs on which an output
    comes out unusually small. `sizes` are the numbers of elements of inputs and weights, from which follows how many
    numbers an element of an output may be a sum of, `repeats` those of inputs that occur more than once, which may make
    equal terms.
    """

    def __init__(
        self,
        exact: Sequence[torch.Tensor],
        reference: Sequence[torch.Tensor],
        tolerance: Tolerance | None,
        scales: Sequence[float] | None = None,
        sizes: Sequence[int] = (),
        repeats: float = 0.0,
    ) -> None:
        least = scales or [0.0] * len(exact)
        self.parts: list[_Floats | _Integers] = []
        for index, (e, r) in enumerate(zip(exact, reference, strict=True)):
            kind = _Kind(tuple(r.shape), r.dtype, r.device.type)
            if r.is_floating_point() or r.is_complex():
                self.parts.append(_Floats.of(index, kind, _flat(e), _flat(r), tolerance, least[index], sizes, repeats))
            else:
                self.parts.append(_Integers(index, kind, _flat(e), _flat(r).clone()))

    @property
    def scales(self) -> list[float]:
        """Root mean square of each output; 0 for integers."""
        return [p.rms if isinstance(p, _Floats) else 0.0 for p in self.parts]

    @property
    def has_integers(self) -> bool:
        """Whether any output is not of floats."""
        return any(isinstance(p, _Integers) for p in self.parts)

    @property
    def finite(self) -> bool:
        """Whether every expected element is finite."""
        return all(p.finite for p in self.parts if isinstance(p, _Floats))

    def compare(self, outputs: Sequence[torch.Tensor]) -> float:
        """Return the largest error as a fraction of what is allowed; raises `Mismatch` above one."""
        if len(outputs) != len(self.parts):
            raise Mismatch(f"{len(outputs)} outputs, the task returns {len(self.parts)}")
        for part, output in zip(self.parts, outputs, strict=True):
            part.kind.check(part.index, output)
        worst = self._worst(outputs)
        for part, output, ratio in zip(self.parts, outputs, worst, strict=True):
            if not ratio <= 1.0:  # also for NaN
                part.explain(_flat(output))
        return max(worst)

    def error(self, outputs: Sequence[torch.Tensor]) -> float:
        """Return the largest error as `compare` does, however large; infinite where only one side is finite."""
        worst = self._worst(outputs)
        return math.inf if any(math.isnan(r) for r in worst) else max(worst)

    def _worst(self, outputs: Sequence[torch.Tensor]) -> list[float]:
        return torch.stack([p.worst(_flat(o)) for p, o in zip(self.parts, outputs, strict=True)]).tolist()

    def reference_agrees(self) -> bool:
        """Return whether the reference is finite where the oracle is, and within the plain tolerance of it."""
        return all(p.reference_agrees() for p in self.parts)

    def kernelbench_allclose(self, outputs: Sequence[torch.Tensor]) -> bool:
        """Return what KernelBench's own check says: `allclose` to the reference, at its tolerance for the dtype."""
        close = [p.allclose(_flat(o)) for p, o in zip(self.parts, outputs, strict=True)]
        return bool(torch.stack(close).all())


@dataclass(frozen=True, slots=True)
class _Kind:
    """What an output must be before its elements are looked at."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: str

    def check(self, index: int, output: torch.Tensor) -> None:
        if type(output) is not torch.Tensor:
            raise Mismatch(f"output {index} is a {type(output).__name__}, not a plain tensor")
        found = _Kind(tuple(output.shape), output.dtype, output.device.type)
        if found != self:
            raise Mismatch(f"output {index} is {found}, the task returns {self}")

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')} {list(self.shape)} on {self.device}"

    def place(self, position: int) -> list[int]:
        """Return the index of the element at a flat position."""
        index: list[int] = []
        for size in reversed(self.shape):
            position, rest = divmod(position, size)
            index.insert(0, rest)
        return index


@dataclass(slots=True)
class _Integers:
    """An output of integers or truth values: each must equal the oracle's or the reference's."""

    index: int
    kind: _Kind
    exact: torch.Tensor
    reference: torch.Tensor

    def worst(self, output: torch.Tensor) -> torch.Tensor:
        count = torch.zeros((), dtype=torch.float64, device=output.device)
        for part in _steps(output):
            count += self._wrong(output, part).sum()
        return count * 2.0  # any wrong element is above one

    def _wrong(self, output: torch.Tensor, part: slice) -> torch.Tensor:
        seen = output[part]
        return (seen != self.exact[part]) & (seen != self.reference[part])

    def explain(self, output: torch.Tensor) -> None:
        count, first = _survey(self._wrong(output, part) for part in _steps(output))
        raise Mismatch(
            f"output {self.index}: {count} of {output.numel()} integers differ; first at {self.kind.place(first)}: "
            f"got {output[first].item()}, expected {self.exact[first].item()}"
        )

    def reference_agrees(self) -> bool:
        return torch.equal(self.exact, self.reference)

    def allclose(self, output: torch.Tensor) -> torch.Tensor:
        return (output == self.reference).all()


@dataclass(slots=True)
class _Floats:
    """An output of floats: `exact` in fp64, `reference` in the task's dtype, both flat.

    `absolute` is the part of what is allowed that all elements share, `rms_limit` the most that the root mean square of
    the errors may be.
    """

    index: int
    kind: _Kind
    exact: torch.Tensor
    reference: torch.Tensor
    rtol: float
    absolute: float
    rms: float
    rms_limit: float
    finite: bool

    @classmethod
    def of(
        cls,
        index: int,
        kind: _Kind,
        exact: torch.Tensor,
        reference: torch.Tensor,
        tolerance: Tolerance | None,
        least: float,
        sizes: Sequence[int],
        repeats: float,
    ) -> _Floats:
        limits = tolerance or DEFAULTS.get(reference.dtype, DEFAULTS[torch.float32])
        # What overflows the task's dtype is infinite in it, however it was computed.
        wide, total = exact.double(), torch.zeros(3, dtype=torch.float64, device=exact.device)
        if bool(torch.stack([_overflows(wide[p], reference.dtype).any() for p in _steps(wide)] or [total[0]]).any()):
            wide = wide.clone()
            for part in _steps(wide):
                wide[part][_overflows(wide[part], reference.dtype)] *= math.inf
        for part in _steps(wide):
            odd = ~torch.isfinite(wide[part])
            own = (reference[part].double() - wide[part]).nan_to_num_(0.0, 0.0, 0.0)
            sums = wide[part].masked_fill(odd, 0.0).square_().sum(), own.square_().sum(), odd.sum()
            total += torch.stack([x.double() for x in sums])
        squares, own_squares, odds = total.tolist()
        count = max(1, wide.numel() - odds)
        rms, own_rms = math.sqrt(squares / count), math.sqrt(own_squares / count)
        scale, tiny = max(rms, least), torch.finfo(reference.dtype).tiny
        unit = torch.finfo(torch.float64 if reference.dtype == torch.float64 else torch.float32).eps / 2
        alike = ALIKE_SHARE * unit * max(_alike(wide), repeats / max(1, wide.numel()))
        share = max(RMS_SHARE * limits.atol, SUM_SHARE * unit * math.sqrt(_terms(sizes, wide.numel())), alike)
        # Over a few elements, the mean of the squares says little.
        rms_limit = max(share * scale, REFERENCE_SHARE * own_rms) * (1.0 + 3.0 / math.sqrt(count))
        # The smallest normal number: an honest kernel may flush what is smaller to zero.
        absolute, relative = limits.atol * scale + tiny, max(limits.rtol, 2.0 * alike)
        return cls(
            index, kind, wide, reference.clone(), relative, absolute, rms, max(rms_limit, tiny), finite=odds == 0
        )

    def worst(self, output: torch.Tensor) -> torch.Tensor:
        worst, squares, over = torch.zeros(3, dtype=torch.float64, device=output.device)
        for error, allowed in self._errors(output):
            squares = squares + error.square().sum()
            share = error.div_(allowed)
            worst, over = torch.maximum(worst, share.max()), over + (share > 1.0).sum()
        stray = (over <= self._strays(output)) & (worst <= STRAY_REACH)
        worst = torch.where(stray, worst.clamp(max=1.0), worst)
        return torch.maximum(worst, (squares / max(1, output.numel())).sqrt() / self.rms_limit)

    def _strays(self, output: torch.Tensor) -> int:
        return int(STRAYS * output.numel())

    def _error(
        self, output: torch.Tensor, part: slice, share: float = REFERENCE_SHARE
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return error and what is allowed per element.

        The error is NaN or infinite where only one of output and oracle is finite.
        """
        exact = self.exact[part]
        allowed = (self.reference[part].double() - exact).abs_().nan_to_num_(0.0, 0.0, 0.0).mul_(share)
        allowed.add_(exact.abs(), alpha=self.rtol).add_(self.absolute)
        seen = output[part].double()
        error = seen.sub(exact).abs_()
        if not self.finite:
            # Against an infinite oracle a difference says nothing: there, only the same infinity will do.
            odd, same = ~torch.isfinite(exact), (seen == exact) | (torch.isnan(seen) & torch.isnan(exact))
            error.masked_fill_(odd, math.inf).masked_fill_(same, 0.0)
            allowed.masked_fill_(odd, 1.0)
        return error, allowed

    def explain(self, output: torch.Tensor) -> None:
        odd, first = _survey(~torch.isfinite(error) for error, _ in self._errors(output))
        if odd:
            raise Mismatch(
                f"output {self.index}: {odd} elements are not finite or should not be{self._at(output, first)}"
            )
        wrong, first = _survey(error > allowed for error, allowed in self._errors(output))
        worst = max(float((error / allowed).max()) for error, allowed in self._errors(output))
        if wrong > self._strays(output) or worst > STRAY_REACH:
            raise Mismatch(
                f"output {self.index}: {100 * wrong / output.numel():.3g} % of the elements are off, by up to "
                f"{worst:.3g} times the tolerance{self._at(output, first)}"
            )
        rms = math.sqrt(sum(float(error.square().sum()) for error, _ in self._errors(output)) / output.numel())
        raise Mismatch(
            f"output {self.index}: no element is far off, but the root mean square of the errors, {rms:.3g}, is "
            f"{rms / self.rms_limit:.3g} times what is allowed, as if less precise numbers had been used, or very many "
            "been summed up one by one"
        )

    def _errors(self, output: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        return (self._error(output, part) for part in _steps(output))

    def _at(self, output: torch.Tensor, first: int) -> str:
        got, expected = output[first].item(), self.exact[first].item()
        return f"; first at {self.kind.place(first)}: got {got:.6g}, expected {expected:.6g}"

    def reference_agrees(self) -> bool:
        worst = torch.zeros((), dtype=torch.float64, device=self.exact.device)
        for part in _steps(self.exact):
            error, allowed = self._error(self.reference, part, share=0.0)
            worst = torch.maximum(worst, error.div_(allowed).max())
        return float(worst) <= 1.0

    def allclose(self, output: torch.Tensor) -> torch.Tensor:
        limit = KERNELBENCH.get(self.reference.dtype, 1e-4)
        close = torch.ones((), dtype=torch.bool, device=output.device)
        for part in _steps(output):
            close &= torch.isclose(output[part].double(), self.reference[part].double(), limit, limit).all()
        return close


def _overflows(wide: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.isinf(wide.to(dtype).double()) & torch.isfinite(wide)


def _survey(masks: Iterator[torch.Tensor]) -> tuple[int, int]:
    """Return how many elements are true in one mask after another, and the position of the first one."""
    count, first, position = 0, -1, 0
    for mask in masks:
        found = int(mask.sum())
        if found and first < 0:
            first = position + int(mask.nonzero()[0])
        count += found
        position += mask.numel()
    return count, first


def _terms(sizes: Sequence[int], results: int) -> float:
    """Return how many numbers a result may be the sum of: all inputs shared out, or the inner length of a product."""
    first, second = [*sorted(sizes, reverse=True), 0, 0][:2]
    return max(1.0, sum(sizes) / max(1, results), math.sqrt(first * second / max(1, results)))


def repeated(tensors: Sequence[torch.Tensor]) -> float:
    """Return how many elements of float tensors have an equal one beside them, as far as their first elements tell."""
    total = 0.0
    for tensor in tensors:
        if tensor.is_floating_point() and tensor.numel():
            seen = tensor.flatten()[:_SEEN].float()
            total += tensor.numel() * (1.0 - len(torch.unique(seen)) / len(seen))
    return total


def _alike(exact: torch.Tensor) -> int:
    """Return how often the value of a typical element occurs, zero aside; seen in the first elements.

    A softmax of equal numbers is the usual case: each of its results has the sum of as many equal terms in it.
    """
    seen = exact[:_SEEN].float()
    counts = torch.unique(seen[seen != 0], return_counts=True)[1].sort(descending=True).values
    median = int((2 * counts.cumsum(0) < seen.numel()).sum())
    return int(counts[median]) if median < len(counts) else 1


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements in order, complex ones as pairs, truth values as bytes (a byte of 0xFF is not true)."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    flat = tensor.contiguous().view(-1)
    return flat.view(torch.uint8) if flat.dtype == torch.bool else flat


def _steps(tensor: torch.Tensor) -> Iterator[slice]:
    step = _STEP.get(tensor.device.type, _STEP["cpu"])
    return (slice(start, start + step) for start in range(0, tensor.numel(), step))
