"""The operations of a reference: which a kernel cannot do without, which draw random numbers, which change state.

The arithmetic that is counted in a reference is that of the reference: a kernel may skip what a mask throws away, pull
a sum in front of a product, or choose other chunks for a recurrence. It is a bound only where every product goes into
the outputs as it is.
"""

from __future__ import annotations

import contextlib
import copy
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from forewarp.core.values import Operation
from forewarp.gpu_runner.worker import numerics
from forewarp.gpu_runner.worker.nest import storage_of
from forewarp.gpu_runner.worker.problem import dtype_name

_PRODUCTS = frozenset(("mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "convolution"))
_SHAPES = (
    *("view", "_unsafe_view", "reshape", "t", "transpose", "permute", "expand", "unsqueeze", "squeeze", "alias"),
    *("detach", "clone", "contiguous", "_to_copy", "empty", "zeros", "arange"),
)
_ELEMENTS = (
    *("add", "sub", "rsub", "mul", "div", "neg", "exp", "bitwise_and", "bitwise_or", "__rshift__", "__lshift__"),
    *("tanh", "sigmoid", "relu", "gelu", "silu", "leaky_relu", "elu", "softplus", "mish", "hardswish", "hardsigmoid"),
    *("hardtanh", "clamp", "clamp_min", "clamp_max", "_softmax", "_log_softmax"),
    *("native_layer_norm", "native_group_norm", "native_batch_norm"),
)
_KEEPING = _PRODUCTS.union(_SHAPES, _ELEMENTS)
"""Operations each of whose results depends on every product that goes in, and that drop none."""

_SHARES = ("dropout_p", "dropout", "p")
_SWITCHES = ("train", "training", "is_training")
_SILENT = frozenset(["_fused_sdp_choice"])
"""Operations that are marked as random and draw nothing."""

_UNWRITTEN = ("empty", "new_empty")
"""Beginnings of names of operations that launch nothing, although their result is new."""
_KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("sort", ("sort", "topk", "median", "kthvalue", "mode", "unique")),
    ("scan", ("cum",)),
    ("indexed", ("index", "gather", "scatter", "embedding", "take", "put_", "bincount", "histc", "nonzero", "masked_")),
    ("window", ("pool", "im2col", "col2im", "upsample", "grid_sampl")),
    ("reduction", ("sum", "mean", "prod", "max", "min", "var", "std", "norm", "softmax", "any", "all", "loss")),
    ("pointwise", ("copy", "clone", "cat", "stack", "pad", "flip", "roll", "fill", "zero", "one", "full", "arange")),
)
"""Kinds of operations by parts of their names; the first that fits counts. Products and what torch calls pointwise are
told apart without."""


class OperationMode(TorchDispatchMode):
    """A dispatch mode for whose first operation torch does not import its compiler, which takes one to two seconds."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class Seen(OperationMode):
    """The operations that ran while this was entered.

    `random` names those that drew random numbers; `statistics` are the tensors that batch normalisations updated, of
    which version counters tell nothing. With `sizes`, `operations` has what each of them moves and computes.
    """

    def __init__(self, *, sizes: bool = False) -> None:
        super().__init__()
        self._times: Counter[str] = Counter()
        self._flops = flop_formulas() if sizes else None
        self._sized: Counter[Operation] = Counter()
        self._made: set[int] = set()
        self.random: list[str] = []
        self.statistics: list[torch.Tensor] = []

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name: str = func.overloadpacket.__name__
        self._times[name] += 1
        marked = torch.Tag.nondeterministic_seeded in func.tags and name not in _SILENT
        if marked or "batch_norm" in name:
            given = _arguments(func, args, kwargs or {})
            if marked and _draws(given) and name not in self.random:
                self.random.append(name)
            if not marked and any(given.get(switch) for switch in _SWITCHES):
                self.statistics += [t for key, t in given.items() if key.startswith("running_") and t is not None]
        run: Callable[..., Any] = func
        result = run(*args, **(kwargs or {}))
        if self._flops is not None:
            self._measure(func, name, args, kwargs or {}, result)
        return result

    def _measure(self, func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
        """Note what an operation moved and computed; views and what only allocates move nothing."""
        given, made = _tensors((args, kwargs)), _tensors(result)
        held = {storage_of(t) for t in given}
        written = [t for t in made if func._schema.is_mutable or storage_of(t) not in held]
        if not written or name.startswith(_UNWRITTEN):
            return
        count = (self._flops or {}).get(func.overloadpacket)
        flops = 0.0
        if count is not None:
            # torch's formulas assume the usual forms of arguments: a forecast without one is better than no task.
            with contextlib.suppress(Exception):
                flops = float(count(*args, **kwargs, out_val=result))
        dtype = dtype_name((given or made)[0])
        kind = _kind(func, name, flops)
        if kind == "pointwise" and any(_is_crosswise(t, written[0]) for t in given):
            kind = "crosswise"
        # Libraries multiply matrices whose rows or columns are contiguous; torch copies others first.
        copied = [t for t in given if _is_scattered(t)] if kind == "product" else []
        for tensor in copied:
            self._add("clone", "crosswise", dtype, [tensor], [tensor], 0.0)
        self._add(name, kind, dtype, given, written, flops)

    def _add(
        self,
        name: str,
        kind: str,
        dtype: str,
        given: Sequence[torch.Tensor],
        written: Sequence[torch.Tensor],
        flops: float,
    ) -> None:
        kept = sum(_bytes(t) for t in given if storage_of(t) in self._made)
        moved = sum(map(_bytes, given)), kept, sum(map(_bytes, written))
        self._sized[Operation(name, kind, dtype, *moved, flops)] += 1
        self._made |= {storage_of(t) for t in written}

    @contextlib.contextmanager
    def as_one(self, name: str, kind: str, given: Any) -> Generator[list[Any]]:
        """Count what runs within as one operation, whose results are to be put into the list."""
        results, sized, made = list[Any](), self._sized, set(self._made)
        self._sized = Counter()
        try:
            yield results
        finally:
            flops = sum(o.flops * n for o, n in self._sized.items())
            self._sized, self._made = sized, made
        tensors, written = _tensors(given), _tensors(results)
        if self._flops is not None and tensors and written:
            self._add(name, kind, dtype_name(tensors[0]), tensors, written, flops)

    @property
    def operations(self) -> tuple[Operation, ...]:
        return tuple(replace(o, times=n) for o, n in self._sized.items())

    @property
    def all_needed(self) -> bool:
        """True if no operation was seen that throws products away, sums them up or takes parts of them.

        Of several products in a row, the order may be changed: only attention's two, with a softmax between, count.
        Strassen and Winograd are not reckoned with: none is known to beat the direct one's time on tensor cores.
        """
        products = sum(self._times[name] for name in _PRODUCTS)
        return self._times.keys() <= _KEEPING and (products == 1 or (products == 2 and self._times["_softmax"] == 1))


class FusedAttention(TorchFunctionMode):
    """A mode in which attention counts as one operation, as on a GPU: without one, torch takes it apart."""

    def __init__(self, seen: Seen) -> None:
        super().__init__()
        self._seen = seen

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        run: Callable[..., Any] = func
        named = kwargs or {}
        if func is not torch.nn.functional.scaled_dot_product_attention:
            return run(*args, **named)
        with self._seen.as_one("scaled_dot_product_attention", "attention", (args, named)) as results:
            results.append(run(*args, **named))
        return results[0]


def flop_formulas() -> Mapping[Any, Callable[..., int]]:
    """Return torch's counts of operations by operator; importing them takes long, for Triton comes with them."""
    from torch.utils.flop_counter import flop_registry

    return flop_registry


def _kind(func: Any, name: str, flops: float) -> str:
    if flops or name in _PRODUCTS:
        return "convolution" if "conv" in name else "product"
    if torch.Tag.pointwise in func.tags:
        return "pointwise"
    return next((kind for kind, parts in _KINDS if any(part in name for part in parts)), "other")


def _is_crosswise(given: torch.Tensor, written: torch.Tensor) -> bool:
    """Return whether neighbours in one tensor's memory are none in the other's, as where a copy transposes."""
    if given.shape != written.shape:
        return False
    inner = [
        i for i, (size, stride) in enumerate(zip(given.shape, given.stride(), strict=True)) if size > 1 and stride == 1
    ]
    return bool(inner) and all(written.stride(i) != 1 for i in inner)


def _is_scattered(tensor: torch.Tensor) -> bool:
    """Return whether neither rows nor columns of a tensor's matrices are contiguous."""
    return tensor.dim() > 1 and all(tensor.stride(i) != 1 and tensor.shape[i] > 1 for i in (-1, -2))


def _tensors(values: Any) -> list[torch.Tensor]:
    return [t for t in tree_leaves(values) if isinstance(t, torch.Tensor) and t.layout is torch.strided]


def _bytes(tensor: torch.Tensor) -> int:
    """Return the bytes of a tensor's elements; one that is expanded has each once."""
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        count *= size if stride else min(size, 1)
    return count * tensor.element_size()


def _arguments(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    declared = func._schema.arguments
    given = {a.name: a.default_value for a in declared if a.has_default_value()}
    return given | {a.name: value for a, value in zip(declared, args, strict=False)} | dict(kwargs)


def _draws(given: Mapping[str, Any]) -> bool:
    """Tell whether an operation draws with these arguments: attention is marked for its dropout, which is mostly 0."""
    if any(given.get(switch) is False for switch in _SWITCHES):
        return False
    shares = [given[name] for name in _SHARES if isinstance(given.get(name), int | float)]
    return not shares or any(share > 0 for share in shares)


_OPERANDS: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(["mm", "bmm", "mv", "dot", "convolution", "_convolution", "linear", "mkldnn_linear"], (0, 1)),
    **dict.fromkeys(["addmm", "addmv", "baddbmm", "addbmm", "_addmm_activation"], (1, 2)),
    "_scaled_dot_product_flash_attention_for_cpu": (0, 1, 2),
    "_scaled_dot_product_efficient_attention": (0, 1, 2),
}
"""Which arguments of an operation tensor cores multiply; what is added to a product is not rounded."""
_RECURRENT = ("rnn", "lstm", "gru", "_transformer_encoder_layer_fwd", "_native_multi_head_attention")
"""Parts of names of operations that hold products of all their arguments."""
_LOST = 13
"""Bits of an fp32 mantissa that TF32 does without."""


def as_tf32(tensor: torch.Tensor, *, truncate: bool = False) -> torch.Tensor:
    """Round fp32 numbers to TF32's ten bits of mantissa, to nearest or towards zero; others stay as they are."""
    if tensor.dtype != torch.float32:
        return tensor
    bits = tensor.contiguous().view(torch.int32)
    kept = ~((1 << _LOST) - 1)
    if truncate:
        return (bits & kept).view(torch.float32)
    half = (1 << (_LOST - 1)) - 1
    rounded = ((bits >> _LOST) & 1).add_(bits).add_(half).bitwise_and_(kept).view(torch.float32)
    return torch.where(torch.isfinite(tensor), rounded, tensor)


class Tf32(OperationMode):
    """Mode that rounds the operands of every product to TF32; `products` counts those in fp32."""

    def __init__(self, *, truncate: bool) -> None:
        super().__init__()
        self.truncate, self.products = truncate, 0

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name: str = func.overloadpacket.__name__
        run: Callable[..., Any] = func
        positions = _OPERANDS.get(name)
        if positions is None and any(part in name for part in _RECURRENT):
            positions = tuple(range(len(args)))
        changed = list(args)
        for position in positions or ():
            changed[position] = self._rounded(changed[position])
        return run(*changed, **(kwargs or {}))

    def _rounded(self, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [self._rounded(v) for v in value]
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
            return value
        self.products += 1
        return as_tf32(value, truncate=self.truncate)


def run_in_tf32(model: torch.nn.Module, values: Sequence[Any], *, truncate: bool) -> Any:
    """Return what a model makes of values with operands of products in TF32; None where it has no fp32 product.

    Tensor cores round to nearest or towards zero, as whoever loads their operands sees fit.
    """
    with numerics.without_tf32(), Tf32(truncate=truncate) as mode:
        result = copy.deepcopy(model)(*values)
    return result if mode.products else None
