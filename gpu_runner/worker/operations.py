"""Which of a reference's operations a kernel cannot do without.

The arithmetic that is counted in a reference is that of the reference: a kernel may skip what a mask throws away, pull
a sum in front of a product, or choose other chunks for a recurrence. It is a bound only where every product goes into
the outputs as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

_PRODUCTS = frozenset(["mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "convolution"])
_SHAPES = frozenset(
    [
        "view",
        "_unsafe_view",
        "reshape",
        "t",
        "transpose",
        "permute",
        "expand",
        "unsqueeze",
        "squeeze",
        "alias",
        "detach",
        "clone",
        "contiguous",
        "_to_copy",
        "empty",
        "zeros",
    ]
)
_ELEMENTS = frozenset(
    [
        "add",
        "sub",
        "rsub",
        "mul",
        "div",
        "neg",
        "exp",
        "tanh",
        "sigmoid",
        "relu",
        "gelu",
        "silu",
        "leaky_relu",
        "elu",
        "softplus",
        "mish",
        "hardswish",
        "hardsigmoid",
        "hardtanh",
        "clamp",
        "clamp_min",
        "clamp_max",
        "arange",
        "bitwise_and",
        "bitwise_or",
        "__rshift__",
        "__lshift__",
        "_softmax",
        "_log_softmax",
        "native_layer_norm",
        "native_group_norm",
        "native_batch_norm",
    ]
)
_KEEPING = _PRODUCTS | _SHAPES | _ELEMENTS
"""Operations each of whose results depends on every product that goes in, and that drop none."""


class Seen(TorchDispatchMode):
    """The operations that ran while this was entered."""

    def __init__(self) -> None:
        super().__init__()
        self._times: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Note the name of an operation and run it."""
        self._times[func.overloadpacket.__name__] += 1
        run: Callable[..., Any] = func
        return run(*args, **(kwargs or {}))

    @property
    def all_needed(self) -> bool:
        """Whether no operation was seen that throws products away, sums them up or takes parts of them.

        Of several products in a row, the order may be changed: only attention's two, with a softmax between, are kept
        apart. A faster algorithm than the direct one (Strassen, Winograd) is not reckoned with: none is known to beat
        the direct one's time at the full rate of tensor cores.
        """
        products = sum(self._times[name] for name in _PRODUCTS)
        return self._times.keys() <= _KEEPING and (products == 1 or (products == 2 and self._times["_softmax"] == 1))
