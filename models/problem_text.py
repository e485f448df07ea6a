"""A subgraph as the text of a KernelBench file: its operations, and inputs and weights like those recorded."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from forewarp.core.files import template
from forewarp.models.jobs import Statement

SPREAD = 0.1
"""Standard deviation given to weights that are all equal, as in models without training: a kernel has to use them."""
_PIECE = 1 << 24
_FAR = 3.0
"""Standard deviations from the mean at which the ends of a range say nothing."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A subgraph at one place: statements with the views they need, and names of what goes in and comes out."""

    statements: tuple[Statement, ...]
    inputs: tuple[str, ...]
    weights: tuple[str, ...]
    constants: tuple[str, ...]
    outputs: tuple[str, ...]

    def identity(self, specs: Mapping[str, Any], constants: Mapping[str, str]) -> str:
        """Return what is equal for equal subgraphs: operations, shapes, strides and dtypes, whatever their names."""
        names = (*self.inputs, *self.weights, *self.constants, *(s.name for s in self.statements))
        number = {name: f"v{i}" for i, name in enumerate(names)}
        lines = [f"{number[s.name]} = {renamed(s.text, number)}" for s in self.statements]
        lines += [str(specs[name]) for name in (*self.inputs, *self.weights)]
        lines += [constants[name] for name in self.constants]
        lines += [number[name] for name in self.outputs]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]

    def function(self, scope: Mapping[str, Any]) -> Callable[..., Any]:
        """Return a function of inputs, weights and constants, whose statements may use the names of `scope`."""
        names = ", ".join((*self.inputs, *self.weights, *self.constants))
        lines = [f"{s.name} = {s.text}" for s in self.statements]
        lines.append(f"return {', '.join(self.outputs)}")
        made = dict(scope)
        exec(f"def subgraph({names}):\n" + "".join(f"    {line}\n" for line in lines), made)
        return made["subgraph"]


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Return an expression with other names for values; attributes and keywords keep theirs."""
    return re.sub(r"(?<![.\w\"'])[A-Za-z_]\w*(?!\w|\s*=[^=]|[\"'])", lambda m: names.get(m[0], m[0]), text)


def problem(
    piece: Piece,
    *,
    sha256: str,
    title: str,
    model: str,
    parameters: Mapping[str, str],
    constants: Mapping[str, str],
    draws: Mapping[str, str],
    trained: Mapping[str, bool],
) -> str:
    """Return the file, with names for weights, expressions that draw values, and which weights are `trained`."""
    own = {name: f"self.{parameters[name]}" for name in piece.weights} | {c: f"self.{c}" for c in piece.constants}
    weights = [
        f"self.{parameters[name]} = torch.nn.Parameter({draws[name]})"
        if trained[name]
        else f'self.register_buffer("{parameters[name]}", {draws[name]})'
        for name in piece.weights
    ]
    weights += [f"self.{name} = {constants[name]}" for name in piece.constants]
    body = [f"{s.name} = {renamed(s.text, own)}" for s in piece.statements]
    return template(__file__, "templates/task.py.txt").substitute(
        title=title,
        model=model,
        sha256=sha256,
        weights="".join(f"        {line}\n" for line in weights),
        parameters=", ".join(("self", *piece.inputs)),
        body="\n".join(f"        {line}" for line in body),
        outputs=", ".join(piece.outputs),
        inputs="".join(f"        {draws[name]},\n" for name in piece.inputs),
    )


def parameter_names(paths: Sequence[str]) -> list[str]:
    """Return names for weights by the ends of their paths, each once, such as `q_weight` of `layers.0.q.weight`."""
    found: list[str] = []
    for path in paths:
        parts = [p for p in path.split(".") if not p.isdigit()]
        names = ["_".join(parts[-n:]) for n in range(2, len(parts) + 1)] or parts[-1:]
        numbered = (f"{names[-1]}_{i}" for i in range(1, len(paths) + 1))
        found.append(next(n for n in (*names, *numbered) if n not in found))
    return found


def drawn(tensor: torch.Tensor, *, weight: bool = False) -> str:
    """Return an expression that draws a tensor like this one: shape, memory order, dtype, and range of values."""
    order = sorted(range(tensor.dim()), key=lambda d: -tensor.stride(d))
    plain = tensor.permute(order)
    if tensor.is_contiguous() or not plain.is_contiguous():
        return _drawn(tensor, weight=weight)
    inverse = sorted(range(len(order)), key=order.__getitem__)
    return f"{_drawn(plain, weight=weight)}.permute({tuple(inverse)})"


def _drawn(tensor: torch.Tensor, *, weight: bool) -> str:
    shape, dtype = tuple(tensor.shape), tensor.dtype
    if not tensor.numel():
        return f"torch.empty({shape}, dtype={dtype})"
    if dtype == torch.bool:
        return _triangle(tensor) or f"torch.rand({shape}) < {float(tensor.float().mean()):.4g}"
    if not tensor.is_floating_point():
        return f"torch.randn({shape}, dtype={dtype})" if tensor.is_complex() else _whole(tensor)
    about = _distribution(tensor)
    if about is None:
        return _special(tensor, weight=weight)
    mean, std = about["mean"], about["std"]
    empty = f"torch.empty({shape}, dtype={dtype})"
    if about["unit"]:
        half = min(math.sqrt(3.0) * std, mean, 1.0 - mean)
        return f"{empty}.uniform_({mean - half:.4g}, {mean + half:.4g})"
    low, high = (float(v) for v in tensor.aminmax())
    ends = f".clamp_({low:.4g}, {high:.4g})" if min(mean - low, high - mean) < _FAR * std else ""
    return f"{empty}.normal_({mean:.4g}, {std:.4g}){ends}"


def _distribution(tensor: torch.Tensor) -> dict[str, Any] | None:
    """Return mean, standard deviation, and whether all is in [0, 1]; None of a mask, a constant, infinities."""
    count = tensor.numel()
    if not count:
        return None
    least, most, total = math.inf, -math.inf, 0.0
    for piece in _pieces(tensor):
        if not bool(piece.isfinite().all()):
            return None
        least, most = min(least, float(piece.min())), max(most, float(piece.max()))
        total += float(piece.sum())
    mean = total / count
    squares, others = 0.0, False
    for piece in _pieces(tensor):
        squares += float((piece - mean).square().sum())
        others = others or bool(((piece != least) & (piece != most)).any())
    if not others:
        return None
    return {"mean": mean, "std": math.sqrt(squares / count), "unit": least >= 0.0 and most <= 1.0}


def _pieces(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the elements in fp64, so many at a time that this takes little memory."""
    return (piece.double() for piece in tensor.reshape(-1).split(_PIECE))


def _triangle(mask: torch.Tensor) -> str:
    """Return an expression for a mask of a triangle, else "": a random one would show values that stay hidden."""
    if mask.dim() < 2 or bool(mask.all()) or not bool(mask.any()):
        return ""
    ones = torch.ones_like(mask)
    row = mask.reshape(-1, *mask.shape[-2:])[0, 0]
    edge = int(row.to(torch.int8).argmin()) if bool(row[0]) else int(row.to(torch.int8).argmax())
    for name, diagonal in (("triu", edge), ("tril", edge - 1)):
        if bool((mask == getattr(ones, name)(diagonal)).all()):
            return f"torch.ones({tuple(mask.shape)}, dtype=torch.bool).{name}({diagonal})"
    return ""


def _whole(tensor: torch.Tensor) -> str:
    """Draw whole numbers: a count or a permutation where it is one, else any in the range."""
    shape, dtype, count = tuple(tensor.shape), tensor.dtype, tensor.numel()
    flat = tensor.reshape(-1)
    along = torch.arange(shape[-1] if shape else 1, device=tensor.device, dtype=dtype)
    if shape and bool((tensor == along).all()):
        return f"torch.arange({shape[-1]}, dtype={dtype}).repeat({(*shape[:-1], 1)})"
    if count > 2 and int(flat.min()) == 0 and bool((flat.sort().values == torch.arange(count).to(flat)).all()):
        return f"torch.randperm({count}).to({dtype}).reshape({shape})"
    return f"torch.randint({int(flat.min())}, {int(flat.max()) + 1}, {shape}, dtype={dtype})"


def _special(tensor: torch.Tensor, *, weight: bool) -> str:
    """Draw what is no sample: one value, a mask of two, or numbers with infinities among them."""
    shape, dtype = tuple(tensor.shape), tensor.dtype
    values = tensor.unique()[:3].tolist() if not bool(tensor.isnan().any()) else []
    texts = [f"{v:.6g}" if math.isfinite(v) else f'float("{v}")' for v in values]
    if len(values) == 1:
        if weight:
            return f"torch.empty({shape}, dtype={dtype}).normal_({texts[0]}, {SPREAD})"
        return f"torch.full({shape}, {texts[0]}, dtype={dtype})"
    if len(values) == 2:
        first = tensor == values[0]
        if triangle := _triangle(first):
            return f"torch.full({shape}, {texts[1]}, dtype={dtype}).masked_fill({triangle}, {texts[0]})"
        often = float(first.float().mean())
        return f"torch.where(torch.rand({shape}) < {often:.4g}, {texts[0]}, {texts[1]}).to({dtype})"
    finite = tensor[tensor.isfinite()].float()
    mean, std = (float(finite.mean()), float(finite.std())) if finite.numel() > 1 else (0.0, 1.0)
    return f"torch.empty({shape}, dtype={dtype}).normal_({mean:.4g}, {std:.4g})"
