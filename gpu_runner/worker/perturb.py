"""Inputs that a shortcut for the usual distribution gets wrong: scaled, negated, zero, whole, and mostly zero.

What a task's inputs are by their nature, they stay: triangular, banded, symmetric.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any, Literal, TypeGuard

import torch

from forewarp.gpu_runner.worker.check import Expected
from forewarp.gpu_runner.worker.problem import ReferenceFailed

_MIND_RANGE = frozenset(
    ["binary_cross_entropy", "BCELoss", "multinomial", "bernoulli", "long", "int", "int32", "int64", "uint8"]
)
"""Names of functions whose kernels assert that values are probabilities, and of what makes indices out of floats."""
_PIECE = 1 << 24
"""Elements that are changed at a time where that takes memory of its own."""
_UNCLEAR = 3.0
"""How many times its usual error, as a share of the tolerance, the reference may err on perturbed inputs."""
FAR = 300.0
"""Distance by which inputs are moved from zero. In fp32, a variance as E[x²] − E[x]² has lost all but two digits there,
in rows of any length; from 1,000 on, references lose as much as is allowed, too."""
_FEWEST_ZEROS = 0.01
"""Share of exact zeros from which on they are no chance."""
_LEAST_SCALE = 1e-3
"""On perturbed inputs, outputs are not held to a scale below this share of their usual one."""


@dataclass(frozen=True, slots=True)
class Perturbation:
    """A change of the float inputs.

    `integers` tells whether it is for references that return integers: not where elements that differed come out equal,
    which leaves their order open. `signs` is true where it changes signs, `grows` where it makes values larger. `only`
    is for the smallest workload, which gets each change by itself, or for those whose oracle is dear. `most` is what
    the reference may err by, as a share of the tolerance: beyond, an honest candidate's rounding may not be allowed.
    """

    name: str
    change: Callable[[torch.Tensor], torch.Tensor]
    integers: Literal["too", "never", "only"] = "too"
    signs: bool = False
    grows: bool = False
    only: Literal["smallest", "larger", ""] = ""
    most: float = math.inf


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    return torch.randint(-4, 5, tuple(tensor.shape), device=tensor.device, dtype=torch.int8)


def _sparse(tensor: torch.Tensor) -> torch.Tensor:
    """Keep so few elements that a sum of products has some 16 terms: its rounding then tells fp32 from less."""
    longest = max(tensor.shape[-2:], default=1)
    share = 4.0 / max(longest, 1) ** 0.5
    kept = torch.empty_like(tensor)
    for part, whole in zip(kept.view(-1).split(_PIECE), tensor.reshape(-1).split(_PIECE), strict=True):
        # Not a product: a mask may hold infinities.
        torch.where(torch.rand(whole.shape, device=whole.device) < share, whole, torch.zeros_like(whole), out=part)
    return kept


def _outlier(tensor: torch.Tensor) -> torch.Tensor:
    changed, place = tensor.flatten().clone(), int(torch.randint(tensor.numel(), ()))
    changed[place] = 1000 * tensor.nan_to_num(0.0, 0.0, 0.0).abs().max()
    return changed.view(tensor.shape)


def _offset(tensor: torch.Tensor) -> torch.Tensor:
    """Move inputs up by `FAR` standard deviations: what cancels in a variance is as much for any width of values."""
    width = float(tensor.std(correction=0))
    return tensor + FAR * (width if 0.0 < width < math.inf else 1.0)


def _mixed(tensor: torch.Tensor) -> torch.Tensor:
    """Move rows up or down by `FAR`, make them zero, give them an outlier, or leave them; vectors stay as they are."""
    if tensor.dim() < 2:
        return tensor
    rows = tensor.flatten(1)
    kind = torch.randint(5, (len(rows), 1), device=tensor.device)
    changed = torch.where(kind == 0, rows + FAR, torch.where(kind == 1, rows - FAR, rows))
    changed.masked_fill_(kind == 2, 0.0)
    place, largest = int(torch.randint(rows.shape[1], ())), rows.nan_to_num(0.0, 0.0, 0.0).abs().amax(1)
    changed[:, place] = torch.where(kind[:, 0] == 3, 1000 * largest, changed[:, place])
    return changed.view(tensor.shape)


PERTURBATIONS = (
    Perturbation("inputs × 3", lambda t: t * 3, grows=True),
    Perturbation("inputs × 32", lambda t: t * 32, "only", grows=True),
    Perturbation("inputs × 100", lambda t: t * 100, "never", grows=True, most=0.25),
    Perturbation("inputs + 300", lambda t: t + FAR, "never", grows=True, only="smallest"),
    Perturbation("inputs − 300", lambda t: t - FAR, "never", signs=True, grows=True, only="smallest"),
    Perturbation("inputs + 300 σ", _offset, "never", grows=True),
    Perturbation("one outlier", _outlier, "never", grows=True, only="smallest", most=0.25),
    Perturbation("mixed rows", _mixed, "never", signs=True, grows=True, only="larger"),
    Perturbation("inputs × 0.01", lambda t: t * 0.01, "never", only="smallest"),
    Perturbation("signs flipped", torch.neg, signs=True, only="smallest"),
    Perturbation("zeros", torch.zeros_like, "never", only="smallest"),
    Perturbation("small integers", _whole, "never", signs=True, grows=True, only="smallest"),
    Perturbation("mostly zeros", _sparse, "never"),
)


def cases(
    usual: Expected,
    draw: Callable[[], Sequence[Any]],
    expect: Callable[[Sequence[Any], Sequence[float]], Expected],
    module: ModuleType,
    *,
    telling: bool = False,
) -> Iterator[tuple[str, list[Any], Expected]]:
    """Yield name, input values and expected outputs of each perturbation that means something to the reference.

    With `telling`, only those that tell most, several changes in one. `draw` gives fresh values, `expect` what values
    call for, given the least scale of each output; `usual` is what an ordinary draw calls for. Left out are
    perturbations that the reference refuses, or on which it is not finite or further from its oracle than usual.
    """
    scales = [_LEAST_SCALE * scale for scale in usual.scales]
    # A reference that computes in TF32 is never within the tolerance of fp32.
    most = max(1.0, _UNCLEAR * usual.reference_error())
    has_integers, finite = usual.has_integers, usual.finite
    del usual  # it may be large
    zeros: frozenset[int] | None = None
    for perturbation in PERTURBATIONS:
        if perturbation.only == ("smallest" if telling else "larger"):
            continue
        if perturbation.integers == ("never" if has_integers else "only"):
            continue
        values = draw()
        if zeros is None:
            zeros = fixed_zeros(values, draw)
        on_gpu = any(isinstance(v, torch.Tensor) and v.is_cuda for v in values)
        keep_range = has_integers or (on_gpu and minds_range(module))
        values = applied(perturbation, values, keep_range=keep_range, zeros=zeros)
        if values is None:
            continue
        try:
            expected = expect(values, scales)
            clear = (expected.finite or not finite) and expected.reference_error() <= min(most, perturbation.most)
        except Exception as e:  # a reference may refuse inputs in any way
            _check_alive(values, perturbation.name, e)
            continue
        if clear:
            yield perturbation.name, values, expected
        del values, expected  # before the next are made


def _check_alive(values: Sequence[Any], name: str, error: Exception) -> None:
    """Raise `ReferenceFailed` if the GPU is lost to this process, as after an assertion in one of torch's kernels."""
    if not any(isinstance(v, torch.Tensor) and v.is_cuda for v in values):
        return
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        raise ReferenceFailed(
            f"the reference broke off on perturbed inputs ({name}): {error}. "
            "If such inputs mean nothing to it, turn them off in the task file with perturb = false"
        ) from error


def minds_range(module: ModuleType) -> bool:
    """Return whether code names something that stops a whole GPU process on values out of range."""
    pending = [v for v in vars(module).values() if isinstance(v, type | FunctionType)]
    for value in list(pending):
        if isinstance(value, type) and value.__module__ == module.__name__:
            pending += [v for v in vars(value).values() if isinstance(v, FunctionType)]
    codes = [v.__code__ for v in pending if isinstance(v, FunctionType)]
    while codes:
        code = codes.pop()
        if not _MIND_RANGE.isdisjoint(code.co_names):
            return True
        codes += [c for c in code.co_consts if isinstance(c, CodeType)]
    return False


def fixed_zeros(values: Sequence[Any], draw: Callable[[], Sequence[Any]]) -> frozenset[int]:
    """Return the places of the tensors that are zero at the same elements, not all, in another draw, too."""
    some = [i for i, v in enumerate(values) if _is_changed(v) and has_zeros(v)]
    others = draw() if some else ()

    def elsewhere(i: int) -> float:
        pairs = zip(values[i].reshape(-1).split(_PIECE), others[i].reshape(-1).split(_PIECE), strict=True)
        return float(sum(((one == 0) != (other == 0)).sum() for one, other in pairs)) / values[i].numel()

    # Some draws hold a zero by chance.
    return frozenset(i for i in some if elsewhere(i) < _FEWEST_ZEROS)


def applied(
    perturbation: Perturbation, values: Sequence[Any], *, keep_range: bool = False, zeros: Collection[int] = ()
) -> list[Any] | None:
    """Return the values with every float tensor changed; None where that leaves all as they were.

    With `keep_range`, a tensor drawn from [0, ∞) keeps its signs and one drawn from [0, 1] stays within it. Zeros of
    the tensors at the places `zeros` stay, as in triangular matrices, and symmetric matrices stay such.
    """
    changed: list[Any] = []
    any_changed = False
    for place, value in enumerate(values):
        new = value
        if _is_changed(value):
            new = _changed(perturbation, value, keep_range=keep_range)
            if new is not value:
                any_changed = True
                _keep_nature(new, value, zeros=place in zeros)
        changed.append(new)
    return changed if any_changed else None


def _is_changed(value: object) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel() > 0


def _changed(perturbation: Perturbation, value: torch.Tensor, *, keep_range: bool) -> torch.Tensor:
    wide = value if value.element_size() >= 2 else value.float()
    if keep_range and (perturbation.grows or perturbation.signs):
        least, most = (float(x) for x in wide.aminmax())
        if least >= 0.0 and (perturbation.signs or most <= 1.0):
            return value
    return perturbation.change(wide).to(value.dtype)


def _keep_nature(changed: torch.Tensor, value: torch.Tensor, *, zeros: bool) -> None:
    """Put zeros back where they stay, and mirror what is to be symmetric."""
    if zeros:
        for new, old in zip(changed.view(-1).split(_PIECE), value.reshape(-1).split(_PIECE), strict=True):
            new.masked_fill_(old == 0, 0)
    if is_symmetric(value):
        changed.copy_(changed.triu() + changed.triu(1).mT)


def has_zeros(tensor: torch.Tensor) -> bool:
    """Return whether so many elements of a tensor are exactly zero, and not all, that it is no chance."""
    if tensor.element_size() < 2:  # torch compares no fp8
        return False
    zeros = sum(((part == 0).sum() for part in tensor.reshape(-1).split(_PIECE)), torch.zeros((), device=tensor.device))
    return _FEWEST_ZEROS <= float(zeros) / max(tensor.numel(), 1) < 1.0


def is_symmetric(tensor: torch.Tensor) -> bool:
    if tensor.dim() < 2 or tensor.shape[-1] != tensor.shape[-2] or tensor.shape[-1] < 2 or tensor.element_size() < 2:
        return False
    return torch.equal(tensor[..., 0, :], tensor[..., :, 0]) and torch.equal(tensor, tensor.mT)
