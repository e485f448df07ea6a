"""A port of this machine for a server of a test."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Generator


@contextlib.contextmanager
def free_port() -> Generator[int]:
    """Yield a port that nobody else is given meanwhile, and that a server can listen on, also a second time.

    It stays bound here without listening, which only those can share who set SO_REUSEADDR, as servers do.
    """
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        yield int(kept.getsockname()[1])
