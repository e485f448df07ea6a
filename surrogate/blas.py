"""Linear algebra in one thread."""

from __future__ import annotations

from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread() -> Any:
    """Keep linear algebra imported so far to one thread: several wait for each other on small matrices."""
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> Any:
    return ThreadpoolController()
