"""Linear algebra in one thread."""

from __future__ import annotations

from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread() -> Any:
    """Keep linear algebra to one thread: threads that wait for each other make small matrices slower, not faster.

    On a loaded machine, several times slower. Import what of scipy is to be kept so before the first call.
    """
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> Any:
    return ThreadpoolController()
