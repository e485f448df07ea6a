"""Is an output right? Element by element against an fp64 oracle, scaled by the reference's own error."""

from __future__ import annotations

from collections.abc import Sequence

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
REFERENCE_SHARE = 4.0
POISON_BYTE = 0xFF
"""A float of 0xFF bytes is a NaN, an integer of them is -1 or the largest: an element left unwritten never passes."""


class Mismatch(Exception):
    """An output that is wrong; the text says where and by how much."""


class Expected:
    """What one set of inputs calls for; built once, compared against often.

    `exact` comes from the oracle, `reference` from the reference in the task's own precision.
    """

    def __init__(
        self, exact: Sequence[torch.Tensor], reference: Sequence[torch.Tensor], tolerance: Tolerance | None
    ) -> None:
        self.reference = [None if r.is_floating_point() else r.clone() for r in reference]
        self.exact = [e.double() if r.is_floating_point() else e for e, r in zip(exact, reference, strict=True)]
        self.allowed = [
            _allowed(e, r, tolerance) if r.is_floating_point() else None
            for e, r in zip(self.exact, reference, strict=True)
        ]

    def compare(self, outputs: Sequence[torch.Tensor]) -> float:
        """Return the largest error as a fraction of what is allowed; raises `Mismatch` above one."""
        worst = 0.0
        for index, (output, exact, reference, allowed) in enumerate(
            zip(outputs, self.exact, self.reference, self.allowed, strict=True)
        ):
            if reference is not None:
                _compare_integers(index, output, exact, reference)
            elif allowed is not None:
                worst = max(worst, _compare_floats(index, output, exact, allowed))
        return worst


def _compare_integers(index: int, output: torch.Tensor, exact: torch.Tensor, reference: torch.Tensor) -> None:
    wrong = (output != exact) & (output != reference)
    if bool(wrong.any()):
        raise Mismatch(
            f"output {index}: {int(wrong.sum())} of {wrong.numel()} integers differ{_first(output, exact, wrong)}"
        )


def _compare_floats(index: int, output: torch.Tensor, exact: torch.Tensor, allowed: torch.Tensor) -> float:
    ratio = output.double().sub_(exact).abs_().div_(allowed)
    worst = float(ratio.max()) if ratio.numel() else 0.0
    if worst <= 1.0:  # false for NaN: anything not finite takes the slow path
        return worst
    return _judge_odd(index, output.double(), exact, allowed)


def _judge_odd(index: int, wide: torch.Tensor, exact: torch.Tensor, allowed: torch.Tensor) -> float:
    """Compare where something is wrong or not finite: infinities and NaN must stand exactly where the oracle's do."""
    odd = ~torch.isfinite(exact)
    same = (wide == exact) | (torch.isnan(wide) & torch.isnan(exact))
    wrong = (odd | ~torch.isfinite(wide)) & ~same
    if bool(wrong.any()):
        raise Mismatch(
            f"output {index}: {int(wrong.sum())} elements are not finite or should not be{_first(wide, exact, wrong)}"
        )
    ratio = ((wide - exact).abs() / allowed).masked_fill(same, 0.0)
    worst = float(ratio.max())
    if worst > 1.0:
        wrong = ratio > 1.0
        raise Mismatch(
            f"output {index}: {100 * float(wrong.double().mean()):.3g} % of the elements are off, by up to {worst:.3g} "
            f"times the tolerance{_first(wide, exact, wrong)}"
        )
    return worst


def _allowed(exact: torch.Tensor, reference: torch.Tensor, tolerance: Tolerance | None) -> torch.Tensor:
    limits = tolerance or DEFAULTS.get(reference.dtype, DEFAULTS[torch.float32])
    finite = exact.nan_to_num(0.0, 0.0, 0.0)
    rms = finite.square().mean().sqrt() if exact.numel() else exact.sum()
    own_error = (reference.double() - exact).abs_().nan_to_num_(0.0, 0.0, 0.0)
    return finite.abs_().mul_(limits.rtol).add_(limits.atol * rms).add_(own_error, alpha=REFERENCE_SHARE)


def _first(output: torch.Tensor, exact: torch.Tensor, wrong: torch.Tensor) -> str:
    position = tuple(int(i) for i in wrong.nonzero()[0])
    return f"; first at {list(position)}: got {output[position].item():.6g}, expected {exact[position].item():.6g}"
