"""Comparison of outputs with an fp64 oracle: by the tolerance, or by the distribution of the reference's own errors.

All of it runs where the tensors are, in steps that need little memory beside them, and waits for the device once.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from forewarp.core.values import DEFAULT_TOLERANCES, Tolerance

DEFAULTS: dict[torch.dtype, Tolerance] = {getattr(torch, name): t for name, t in DEFAULT_TOLERANCES.items()}
KERNELBENCH: dict[torch.dtype, float] = {torch.float16: 1e-2, torch.bfloat16: 1e-2}
"""KernelBench's rtol and atol where they are not 1e-4."""
REFERENCE_SHARE = 2.0
"""How many times the reference's own error a candidate may err, element by element, as a distribution, and in the root
mean square: an equally precise program that rounds elsewhere errs alike; bf16 errs by eight times as much as TF32,
the next finer format."""
QUANTILES = (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)
"""Where the distribution of errors is compared with that of the reference's own; besides, the largest are."""
_FAR = 0.02
"""Share of an output's root mean square that no reference errs by as a whole if its oracle is right."""
_FEW = 1.5
"""Of few elements, the distribution is known badly: so many times more is allowed then, at most."""
_BINS_PER_OCTAVE, _OCTAVES = 8, 24
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
SHAKES, SHAKEN_SHARE, SHAKEN_MOST, NEARLY = 4, 0.5, 2.0**-16, 100.0
"""An honest program's result is the exact one for inputs that are off by rounding. So many runs of the oracle on such
inputs tell how far results are moved by it: off by this times √k units of fp32 rounding, where k numbers may be summed,
and at most so much (half precision and TF32 round by ten times that). They are made for outputs that are beyond the
tolerance, by no more than this factor."""
TF32_LIKE, TF32_CORRELATION = 4.0, 0.3
"""Errors are taken for those of TF32 where their root mean square is within this factor of simulated TF32's, and they
correlate with it at least so much. Those of bf16 are eight times as large; those of other orders do not correlate."""
_HALF = 0x1FFF
"""Bits of an fp32 number that neither fp16, bf16 nor TF32 keeps."""
POISON_BYTE = 0xFF
"""A float of 0xFF bytes is a NaN, an integer of them is -1 or the largest: an element left unwritten never passes."""
_SEEN = 1 << 14
"""Elements in which equal ones are looked for."""
_STEP = {"cuda": 1 << 22, "cpu": 1 << 18}
"""Elements per step: at most some 200 MB of fp64 in between on a GPU, and what fits a cache on a CPU."""
_SAMPLED = {"cuda": 1 << 27, "cpu": 1 << 24}
"""Elements that tell how the reference errs. Of a candidate's output, all are compared."""


Exact = Callable[[], Iterator[tuple[slice, torch.Tensor]]]
"""Gives the oracle's elements of one output, in order: stretches of the flat output, and what stands there."""
Shaken = Callable[[float], Sequence[torch.Tensor]]
"""Gives the oracle's outputs on inputs whose elements are off by so much, as a share of themselves, at random."""
InTf32 = Callable[[bool], Sequence[torch.Tensor] | None]
"""Gives the reference's outputs with products in TF32, operands truncated if true, else rounded to nearest; None where
there are no such products."""


class Mismatch(Exception):
    """An output that is wrong; the text says where and by how much."""


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """See a contiguous tensor as whole numbers, so that NaN equals itself; the widest that its size allows."""
    flat = tensor.view(-1)
    size = flat.numel() * flat.element_size()
    wide = size % 8 == 0 and tensor.data_ptr() % 8 == 0 and tensor.storage_offset() * flat.element_size() % 8 == 0
    return flat.view(torch.int64 if wide else torch.uint8)


class Digest:
    """Digest of tensors, 64 bits that nobody can foresee without this object's random numbers."""

    def __init__(self) -> None:
        self._keys = [int.from_bytes(os.urandom(8), "little", signed=True) | 1 for _ in range(2)]

    def of(self, tensor: torch.Tensor) -> int:
        if tensor.numel() == 0:
            return 0
        flat, (first, second) = bits(tensor), self._keys
        total = torch.zeros((), dtype=torch.int64, device=flat.device)
        for part in _steps(flat):
            mixed = flat[part].long() * first  # modulo 2^64, as are all sums and products here
            mixed ^= mixed >> 31
            place = torch.arange(part.start, part.start + len(mixed), device=flat.device)
            total += mixed.mul_(place.mul_(second).bitwise_or_(1)).sum()
        return int(total)


def is_integral(tensor: torch.Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex())


def same_bytes(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.numel() == 0:
        return True
    one, other = one.contiguous(), other.contiguous()
    a, b = bits(one), bits(other)
    if a.dtype != b.dtype:
        a, b = one.view(-1).view(torch.uint8), other.view(-1).view(torch.uint8)
    return torch.equal(a, b)


class _Limits(NamedTuple):
    """Limits of an output's errors, see `Expected`; `scale` is the least root mean square."""

    tolerance: Tolerance | None
    scale: float
    sizes: Sequence[int]
    repeats: float
    longest: int


class Expected:
    """The expected outputs of one set of inputs; built once, compared against often.

    `exact` comes from the oracle, whole or in stretches (see `Exact`), `reference` from the reference in its own
    precision. `scales` are the least root mean squares that the absolute tolerance is relative to. From the `sizes` of
    inputs and weights follows how many numbers an element may be a sum of, from `repeats` how many equal ones; a norm
    may be taken over `longest`.

    `tf32` runs the reference in TF32, accepted with `allow_tf32` and where the reference itself errs so. `shaken` runs
    the oracle on inputs that are off by rounding: results may be off by as much as that moves them.
    """

    def __init__(
        self,
        exact: Sequence[torch.Tensor | Exact],
        reference: Sequence[torch.Tensor],
        tolerance: Tolerance | None,
        scales: Sequence[float] | None = None,
        sizes: Sequence[int] = (),
        repeats: float = 0.0,
        longest: int = 1,
        *,
        tf32: InTf32 | None = None,
        shaken: Shaken | None = None,
        allow_tf32: bool = False,
    ) -> None:
        self._made, self._shaken = (exact, reference), shaken
        self._limits = [_Limits(tolerance, least, sizes, repeats, longest) for least in scales or [0.0] * len(exact)]
        self._tf32 = tf32 if any(r.dtype == torch.float32 for r in reference) else None
        self.parts = self._parts(exact, reference)
        self.accepts_tf32 = self._tf32 is not None and (allow_tf32 or self._errs_as_tf32())
        rounded = self._tf32(False) if self._tf32 is not None and self.accepts_tf32 else None
        if rounded is not None:
            both = zip(reference, rounded, strict=True)
            self.parts = self._parts(exact, reference, [r if o.dtype == torch.float32 else None for o, r in both])
        self.scales = [p.rms for p in self.parts]  # root mean squares, 0 for integers
        self.has_integers = any(isinstance(p, _Integers) for p in self.parts)
        self.finite = all(p.finite for p in self.parts)

    def _parts(
        self,
        exact: Sequence[torch.Tensor | Exact],
        reference: Sequence[torch.Tensor],
        coarse: Sequence[torch.Tensor | None] | None = None,
    ) -> list[_Floats | _Integers]:
        parts: list[_Floats | _Integers] = []
        for index, (e, r, limits) in enumerate(zip(exact, reference, self._limits, strict=True)):
            source = stretches(e) if isinstance(e, torch.Tensor) else e
            if is_integral(r):
                parts.append(_Integers(index, source, r))
            else:
                rough = None if coarse is None else coarse[index]
                parts.append(_Floats(index, source, r, None if rough is None else _flat(rough), limits))
        return parts

    def _moved_by_rounding(self, shaken: Shaken) -> list[_Floats | _Integers]:
        """Return the parts, with what moves if the inputs are off by rounding counted as the reference's errors."""
        floats = [p for p in self.parts if isinstance(p, _Floats) and p.reference.numel()]
        runs = [shaken(max(p.rounding for p in floats)) for _ in range(SHAKES)]
        coarse = list[torch.Tensor | None]([None] * len(self.parts))
        for part in floats:
            exact = torch.cat([e.double() for _, e in part.exact()])
            moved = torch.stack([_flat(run[part.index]).double() - exact for run in runs])
            coarse[part.index] = moved.square_().mean(0).sqrt_().add_(exact)
        return self._parts(*self._made, coarse)

    def _errs_as_tf32(self) -> bool:
        """Return whether the reference errs by more than fp32 does, and as TF32 does."""
        beyond = [p for p in self.parts if isinstance(p, _Floats) and p.dtype == torch.float32 and p.coarse_itself]
        return bool(beyond) and self._look_like_tf32([(p, p.reference) for p in beyond])

    def _look_like_tf32(self, outputs: Sequence[tuple[_Floats, torch.Tensor]]) -> bool:
        """Return whether the errors of outputs, flat, are those of TF32, whichever way it rounds."""
        for truncate in (False, True):
            simulated = self._tf32(truncate) if self._tf32 is not None else None
            if simulated is None:
                return False
            if any(part.errs_like(output, _flat(simulated[part.index])) for part, output in outputs):
                return True
        return False

    def compare(self, outputs: Sequence[torch.Tensor]) -> float:
        """Return the largest error as a fraction of what is allowed; raises `Mismatch` above one."""
        if len(outputs) != len(self.parts):
            raise Mismatch(f"{len(outputs)} outputs, the task returns {len(self.parts)}")
        for part, output in zip(self.parts, outputs, strict=True):
            part.check_kind(output)
        worst = self._accepted(outputs)
        for part, output, ratio in zip(self.parts, outputs, worst, strict=True):
            if not ratio <= 1.0:  # also for NaN
                raise Mismatch(f"output {part.index}: {part.explain(_flat(output))}{self._named(part, output)}")
        return max(worst)

    def _named(self, part: _Floats | _Integers, output: torch.Tensor) -> str:
        """Return words for errors that are those of TF32 where that is not accepted; else none."""
        if self.accepts_tf32 or not isinstance(part, _Floats) or output.dtype != torch.float32:
            return ""
        if not self._look_like_tf32([(part, _flat(output))]):
            return ""
        return (
            "; the outputs look like TF32 arithmetic in place of fp32; pass --allow-tf32 to accept it, or set "
            "input_precision='ieee' in tl.dot"
        )

    def error(self, outputs: Sequence[torch.Tensor]) -> float:
        """Return the largest error as `compare` does, however large; infinite where only one side is finite."""
        worst = self._accepted(outputs)
        return math.inf if any(math.isnan(r) for r in worst) else max(worst)

    def _accepted(self, outputs: Sequence[torch.Tensor]) -> list[float]:
        """Return the largest error of each output, by the widest of the rules that apply.

        Where TF32 is accepted, also one that truncates: it shrinks every product, which no rounding error covers.
        """
        worst = _worst(self.parts, outputs)
        if all(ratio <= 1.0 for ratio in worst):
            return worst
        if not self.accepts_tf32 or self._tf32 is None:
            most = (NEARLY if isinstance(p, _Floats) else 1.0 for p in self.parts)
            if self._shaken is None or not all(w <= m for w, m in zip(worst, most, strict=True)):
                return worst
            self.parts, self._shaken = self._moved_by_rounding(self._shaken), None
            return _worst(self.parts, outputs)
        truncated, rounded = self._tf32(True), self._tf32(False)
        if truncated is None or rounded is None:
            return worst
        moved = self._parts(truncated, [_moved(*three) for three in zip(self.parts, truncated, rounded, strict=True)])
        return [two if two <= 1.0 else one for one, two in zip(worst, _worst(moved, outputs), strict=True)]

    def reference_agrees(self) -> bool:
        """Return whether the reference is finite where the oracle is, and within the plain tolerance of it."""
        return self.reference_error() <= 1.0

    def reference_error(self) -> float:
        """Return the reference's largest error as a share of the tolerance; infinite where integers differ."""
        return max(p.reference_error() for p in self.parts)

    @property
    def far_off(self) -> bool:
        """True if oracle and reference differ so much that one of them is wrong."""
        return any(p.far_off() for p in self.parts)

    def kernelbench_allclose(self, outputs: Sequence[torch.Tensor]) -> bool:
        """Return what KernelBench's own check says: `allclose` to the reference, at its tolerance for the dtype."""
        close = [p.allclose(_flat(o)) for p, o in zip(self.parts, outputs, strict=True)]
        return bool(torch.stack(close).all())


def _worst(parts: Sequence[_Floats | _Integers], outputs: Sequence[torch.Tensor]) -> list[float]:
    return torch.stack([p.worst(_flat(o)) for p, o in zip(parts, outputs, strict=True)]).tolist()


class _Output:
    """One output: `exact` from the oracle, `reference` in the task's dtype, flat."""

    rms, finite = 0.0, True

    def __init__(self, index: int, exact: Exact, reference: torch.Tensor) -> None:
        self.index, self.exact, self.reference = index, exact, _flat(reference)
        self.dtype, self._shape, self._kind = reference.dtype, tuple(reference.shape), _kind(reference)

    def check_kind(self, output: torch.Tensor) -> None:
        """Raise `Mismatch` for what needs no look at the elements: type, shape, dtype and device."""
        if type(output) is not torch.Tensor:
            raise Mismatch(f"output {self.index} is a {type(output).__name__}, not a plain tensor")
        if _kind(output) != self._kind:
            raise Mismatch(f"output {self.index} is {_kind(output)}, the task returns {self._kind}")

    def place(self, position: int) -> list[int]:
        # Complex elements are pairs of numbers.
        return [int(i) for i in np.unravel_index(position // (1 + self.dtype.is_complex), self._shape)]


def _kind(output: torch.Tensor) -> str:
    return f"{str(output.dtype).removeprefix('torch.')} {list(output.shape)} on {output.device.type}"


class _Integers(_Output):
    """An output of integers or truth values: each must equal the oracle's or the reference's."""

    def worst(self, output: torch.Tensor) -> torch.Tensor:
        count = torch.zeros((), dtype=torch.float64, device=output.device)
        for wrong in self._wrong(output):
            count += wrong.sum()
        return count * 2.0  # any wrong element is above one

    def _wrong(self, output: torch.Tensor) -> Iterator[torch.Tensor]:
        for part, exact in self.exact():
            seen = output[part]
            yield (seen != exact) & (seen != self.reference[part])

    def explain(self, output: torch.Tensor) -> str:
        count, first = _survey(self._wrong(output))
        return (
            f"{count} of {output.numel()} integers differ; first at {self.place(first)}: "
            f"got {output[first].item()}, expected {_element(self.exact, first)}"
        )

    def reference_error(self) -> float:
        same = [torch.equal(exact, self.reference[part]) for part, exact in self.exact()]
        return 0.0 if all(same) else math.inf

    def far_off(self) -> bool:
        return self.reference_error() > 1.0

    def allclose(self, output: torch.Tensor) -> torch.Tensor:
        return (output == self.reference).all()


class _Floats(_Output):
    """An output of floats.

    `coarse` is what the reference gives in a precision that is accepted, too. The reference's errors are seen in every
    `every`-th stretch. `absolute` is the part of what is allowed that all elements share, `rms_limit` the most that the
    root mean square of the errors may be. `spread` are pairs of an error as a share of the plain tolerance and how many
    elements may err by more; empty where the reference itself stays well within it. `full`: elements need all bits of
    fp32.
    """

    def __init__(
        self, index: int, exact: Exact, reference: torch.Tensor, coarse: torch.Tensor | None, limits: _Limits
    ) -> None:
        super().__init__(index, exact, reference)
        self.coarse, self.overflows, self.full, self._equal = coarse, False, False, 1
        size, about = self.reference.numel(), torch.finfo(self.reference.dtype)
        tolerance = limits.tolerance or DEFAULTS.get(self.reference.dtype, DEFAULTS[torch.float32])
        self.every = max(1, -(-size // _SAMPLED.get(reference.device.type, _SAMPLED["cpu"])))
        count, squares, own_squares, odds, own_most, elsewhere = self._look()
        if not elsewhere <= about.max:  # also for NaN: elements that are not finite are rare ones
            self.every = 1
            count, squares, own_squares, odds, own_most, _ = self._look()
        count = max(1, count - odds)
        self.finite = odds == 0
        self.rms, own_rms = math.sqrt(squares / count), math.sqrt(own_squares / count)
        scale = max(self.rms, limits.scale)
        unit = torch.finfo(torch.float64 if self.reference.dtype == torch.float64 else torch.float32).eps / 2
        alike = ALIKE_SHARE * unit * max(self._equal, limits.repeats / max(1, size))
        terms = _terms(limits.sizes, size)
        self.rounding = min(SHAKEN_MOST, SHAKEN_SHARE * unit * math.sqrt(max(terms, limits.longest)))
        share = max(RMS_SHARE * tolerance.atol, SUM_SHARE * unit * math.sqrt(terms), alike)
        # Over a few elements, the mean of the squares says little.
        few = 1.0 + 3.0 / math.sqrt(count)
        # The smallest normal number: an honest kernel may flush what is smaller to zero.
        self.rms_limit = max(max(share * scale, REFERENCE_SHARE * own_rms) * few, about.tiny)
        self.absolute, self.rtol = tolerance.atol * scale + about.tiny, max(tolerance.rtol, 2.0 * alike)
        self.coarse_itself, self._far_off = own_rms > share * scale, own_rms > _FAR * self.rms
        factor = REFERENCE_SHARE * min(few, _FEW)
        self.spread = self._spread_of_own(factor) if factor * own_most > self.absolute else []

    def _look(self) -> list[float]:
        """Look at oracle and reference in every `every`-th stretch.

        Return the number of elements, sums of squares of oracle and reference's errors, how many are not finite, the
        largest error, and the largest number in the other stretches.
        """
        total, overflowing = torch.zeros(6, dtype=torch.float64, device=self.reference.device), []
        for number, (part, stretch) in enumerate(self.exact()):
            wide = stretch.double()
            if number % self.every:
                total[5] = torch.maximum(total[5], wide.abs().max())
                continue
            over = _overflows(wide, self.reference.dtype)
            overflowing.append(over.any())
            odd = ~torch.isfinite(wide) | over
            own = self._own(part, wide).masked_fill_(odd, 0.0)
            if part.start == 0:
                self._equal = _alike(wide)
                fp32 = self.reference.dtype == torch.float32
                self.full = fp32 and _need_all_bits(wide.float(), self.reference[part])
            sums = wide.masked_fill(odd, 0.0).square_().sum(), own.square().sum(), odd.sum().double()
            total[0] += len(wide)
            total[1:4] += torch.stack(sums)
            total[4] = torch.maximum(total[4], own.max())
        # What overflows the task's dtype is infinite in it, however it was computed.
        self.overflows = bool(torch.stack(overflowing).any()) if overflowing else False
        return total.tolist()

    def _stretches(self) -> Iterator[tuple[slice, torch.Tensor]]:
        """Yield the oracle's elements in fp64, infinite where they are so in the task's dtype."""
        for part, stretch in self.exact():
            wide = stretch.double()
            if self.overflows:
                wide = torch.where(_overflows(wide, self.reference.dtype), wide * math.inf, wide)
            yield part, wide

    def _sample(self) -> Iterator[tuple[slice, torch.Tensor]]:
        return (found for number, found in enumerate(self._stretches()) if number % self.every == 0)

    def _plain(self, exact: torch.Tensor) -> torch.Tensor:
        return exact.abs().mul_(self.rtol).add_(self.absolute)

    def _own(self, part: slice, exact: torch.Tensor) -> torch.Tensor:
        """Return the reference's errors, and where it is less precise the coarse run's; 0 where not finite."""
        own = (self.reference[part].double() - exact).abs_().nan_to_num_(0.0, 0.0, 0.0)
        if self.coarse is not None:
            own = torch.maximum(own, (self.coarse[part].double() - exact).abs_().nan_to_num_(0.0, 0.0, 0.0))
        return own

    def _spread_of_own(self, factor: float) -> list[tuple[float, int]]:
        """Return by how much how many elements may err, from the distribution of the reference's own errors."""
        device, bins = self.reference.device, _BINS_PER_OCTAVE * _OCTAVES
        counts, most = (torch.zeros(n, dtype=torch.float64, device=device) for n in (bins, 1))
        for part, exact in self._sample():
            share = self._own(part, exact).div_(self._plain(exact)).nan_to_num_(0.0, 0.0, 0.0)
            most = torch.maximum(most, share.max())
            # From 2^-2, an eighth of an octave each.
            place = share.clamp_(min=0.25).log2_().add_(2.0).mul_(_BINS_PER_OCTAVE).long().clamp_(max=bins - 1)
            counts += torch.bincount(place, minlength=bins)
        below, size = counts.cumsum(0).tolist(), self.reference.numel()
        spread: list[tuple[float, int]] = []
        for quantile in QUANTILES:
            bin_ = next((i for i, c in enumerate(below) if c >= quantile * below[-1]), bins - 1)
            limit = min(2.0 ** ((bin_ + 1) / _BINS_PER_OCTAVE - 2.0), float(most))
            spread.append((max(1.0, factor * limit), int((1.0 - quantile) * size) + self._strays()))
        # The largest of two equal distributions differ more than their other quantiles.
        largest = max(1.0, factor * float(most))
        return [*spread, (largest, self._strays() + 1), (STRAY_REACH * largest, 0)]

    def worst(self, output: torch.Tensor) -> torch.Tensor:
        worst, squares, over, most = torch.zeros(4, dtype=torch.float64, device=output.device)
        beyond = torch.zeros(len(self.spread), dtype=torch.int64, device=output.device)
        seen = 0
        for number, (error, allowed, plain) in enumerate(self._errors(output, self._stretches())):
            if number % self.every == 0:
                # Where the limit comes from: where a few elements make up the mean, it is that of these stretches only.
                squares, seen = squares + error.square().sum(), seen + len(error)
            share = error / allowed
            worst, bad = torch.maximum(worst, share.max()), share > 1.0
            over = over + bad.sum()
            if self.spread:
                plainly = error.div_(plain).masked_fill_(~bad & ~torch.isnan(share), 0.0)
                beyond += torch.stack([(plainly > limit).sum() for limit, _ in self.spread])
                most = torch.maximum(most, plainly.max())
        stray = (over <= self._strays()) & (worst <= STRAY_REACH)
        worst = torch.where(stray, worst.clamp(max=1.0), worst)
        if self.spread:
            room = torch.tensor([count for _, count in self.spread], device=output.device)
            as_spread = (beyond <= room).all() & torch.isfinite(most)
            as_spread = as_spread & (worst > 1.0)
            worst = torch.where(as_spread, (most / self.spread[-2][0]).clamp(max=1.0), worst)
            worst = torch.where(self._is_rounded(output), worst.clamp(min=STRAY_REACH), worst)
        return torch.maximum(worst, (squares / max(1, seen)).sqrt() / self.rms_limit)

    def _strays(self) -> int:
        return int(STRAYS * self.reference.numel())

    def _is_rounded(self, output: torch.Tensor) -> torch.Tensor:
        """Return whether an output that needs all bits of fp32 holds only as many as half precision has."""
        if not self.full or output.dtype != torch.float32:
            return torch.zeros((), dtype=torch.bool, device=output.device)
        return _short(output) > 0.99

    def _errors(
        self, output: torch.Tensor, oracle: Iterator[tuple[slice, torch.Tensor]]
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Yield errors (not finite where one side is not), what is allowed per element, and the plain tolerance."""
        for part, exact in oracle:
            plain = self._plain(exact)
            allowed = self._own(part, exact).mul_(REFERENCE_SHARE).add_(plain)
            seen = output[part].double()
            error = seen.sub(exact).abs_()
            if not self.finite:
                # Against an infinite oracle a difference says nothing: there, only the same infinity will do.
                odd, same = ~torch.isfinite(exact), (seen == exact) | (torch.isnan(seen) & torch.isnan(exact))
                error.masked_fill_(odd, math.inf).masked_fill_(same, 0.0)
                allowed.masked_fill_(odd, 1.0)
                plain.masked_fill_(odd, 1.0)
            yield error, allowed, plain

    def explain(self, output: torch.Tensor) -> str:
        odd, first = _survey(~torch.isfinite(error) for error, _, _ in self._errors(output, self._stretches()))
        if odd:
            return f"{odd} elements are not finite or should not be{self._at(output, first)}"
        if self.spread and bool(self._is_rounded(output)):
            return (
                "its fp32 elements hold ten bits of mantissa or fewer, as if computed in half precision; the "
                "reference's hold more"
            )
        wrong, first = _survey(error > allowed for error, allowed, _ in self._errors(output, self._stretches()))
        worst = max(float((error / allowed).max()) for error, allowed, _ in self._errors(output, self._stretches()))
        if wrong > self._strays() or worst > STRAY_REACH:
            return (
                f"{100 * wrong / output.numel():.3g} % of the elements are off, by up to {worst:.3g} times the "
                f"tolerance{self._at(output, first)}"
            )
        squares, seen = 0.0, 0
        for error, _, _ in self._errors(output, self._sample()):
            squares, seen = squares + float(error.square().sum()), seen + len(error)
        rms = math.sqrt(squares / max(1, seen))
        return (
            f"no element is far off, but the root mean square of the errors, {rms:.3g}, is "
            f"{rms / self.rms_limit:.3g} times what is allowed, as if less precise numbers had been used, or very many "
            "been summed up one by one"
        )

    def _at(self, output: torch.Tensor, first: int) -> str:
        got, expected = output[first].item(), _element(self._stretches, first)
        return f"; first at {self.place(first)}: got {got:.6g}, expected {expected:.6g}"

    def errs_like(self, output: torch.Tensor, simulated: torch.Tensor) -> bool:
        """Return whether an output's errors have the size of another's, and go with them."""
        total = torch.zeros(3, dtype=torch.float64, device=output.device)
        for part, exact in self._sample():
            seen, other = ((t[part].double() - exact).nan_to_num_(0.0, 0.0, 0.0) for t in (output, simulated))
            total += torch.stack([seen.square().sum(), other.square().sum(), (seen * other).sum()])
        seen, other, both = total.tolist()
        if not seen or not other or not 1.0 / TF32_LIKE <= math.sqrt(seen / other) <= TF32_LIKE:
            return False
        return both / math.sqrt(seen * other) >= TF32_CORRELATION

    def reference_error(self) -> float:
        worst = torch.zeros((), dtype=torch.float64, device=self.reference.device)
        for error, _, plain in self._errors(self.reference, self._sample()):
            worst = torch.maximum(worst, error.div_(plain).max())
        return math.inf if math.isnan(float(worst)) else float(worst)

    def far_off(self) -> bool:
        return self._far_off

    def allclose(self, output: torch.Tensor) -> torch.Tensor:
        limit = KERNELBENCH.get(self.reference.dtype, 1e-4)
        close = torch.ones((), dtype=torch.bool, device=output.device)
        for part in _steps(output):
            close &= torch.isclose(output[part].double(), self.reference[part].double(), limit, limit).all()
        return close


def _moved(part: _Floats | _Integers, truncated: torch.Tensor, rounded: torch.Tensor) -> torch.Tensor:
    """Return what errs against truncated TF32 as rounded TF32 does against the oracle; integers stay."""
    if isinstance(part, _Integers) or part.dtype != torch.float32:
        return truncated
    moved, centre, spread = torch.empty_like(part.reference), _flat(truncated), _flat(rounded)
    for stretch, exact in part.exact():
        moved[stretch] = (centre[stretch].double() + spread[stretch].double() - exact).float()
    return moved.view(truncated.shape)


def _short(tensor: torch.Tensor) -> torch.Tensor:
    """Return the share of fp32 numbers, zero aside, that half precision or TF32 holds; seen in the first elements."""
    seen = tensor[:_SEEN].contiguous().view(torch.int32)
    counted = seen != 0
    return ((seen & _HALF) == 0).logical_and_(counted).sum() / counted.sum().clamp(min=1)


def _need_all_bits(exact: torch.Tensor, reference: torch.Tensor) -> bool:
    """Return whether of the first elements of both most need more bits than half precision has."""
    return exact.numel() >= 64 and bool((_short(exact) < 0.5) & (_short(reference) < 0.5))


def stretches(exact: torch.Tensor) -> Exact:
    """Return the elements of a tensor as `Expected` takes them, in steps."""
    flat = _flat(exact)
    return lambda: ((part, flat[part]) for part in _steps(flat))


def _element(exact: Exact, position: int) -> Any:
    return next(stretch[position - part.start].item() for part, stretch in exact() if position < part.stop)


def _overflows(wide: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if torch.finfo(dtype).max >= torch.finfo(torch.float64).max:
        return torch.zeros_like(wide, dtype=torch.bool)
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
    """Return how often the value of a typical element occurs, as the sum of equal terms in a softmax; zeros aside."""
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
