"""The base of classes that see every operation that torch runs."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class OperationMode(TorchDispatchMode):
    """A dispatch mode for whose first operation torch does not import its compiler, which takes one to two seconds."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
