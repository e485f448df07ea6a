"""The actor that holds one device of a cluster: it only passes frames to an agent, which is a process of its own.

Ray gets this class by value, and the agent's code as bytes, so that forewarp need not be installed on the nodes.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import tempfile
from typing import Any


def load(package: bytes) -> None:
    """Import what the slot needs of the agent's code from a file that only this user can change, and remove the file.

    Raises `OSError` if what lies there is not what was written.
    """
    # The name is drawn and the folder made with mode 0700: nobody else can have put it there, or a file into it.
    with tempfile.TemporaryDirectory(prefix="forewarp-slot-") as folder:
        code = os.path.join(folder, "agent.zip")
        handle = os.open(code, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "r+b") as file:
            file.write(package)
        above, here = os.stat(folder, follow_symlinks=False), os.stat(code, follow_symlinks=False)
        ours = above.st_uid == here.st_uid == os.getuid() and not stat.S_IMODE(above.st_mode) & 0o077
        with open(code, "rb") as file:
            whole = file.read() == package
        if not (ours and whole):
            raise OSError(f"{folder} is not private to this user, so no code is run from it")
        sys.path.insert(0, code)
        try:
            from forewarp.gpu_runner.remote.far_end import bootstrap, link, wire

            _ = bootstrap, link, wire
        finally:
            sys.path.remove(code)


class RaySlot:
    """Starts its agent with the first call, and again after the agent was lost: a kernel never ends the actor."""

    def __init__(self, package: bytes, python: str, opening: dict[str, Any]) -> None:
        """`package` is the agent's code, `python` the interpreter that has torch, `opening` the body of `open`."""
        self._package, self._python, self._opening = package, python, opening
        self._link: Any = None
        self._starting = asyncio.Lock()
        load(package)

    async def open(self) -> dict[str, Any]:
        """Start the agent and return what it answers to `open`."""
        head, _ = await self.call("open", self._opening, ())
        return head

    async def call(self, verb: str, body: dict[str, Any], blobs: tuple[bytes, ...]) -> tuple[dict[str, Any], Any]:
        """Return the agent's answer, with the code "lost" where there is none; cancelling this ends the agent."""
        from forewarp.gpu_runner.remote.far_end.link import LinkLost

        try:
            link = await self._started()
            frame = await asyncio.wrap_future(link.submit(verb, body, blobs))
        except LinkLost as e:
            return {"error": {"code": "lost", "message": f"the measuring process was lost: {e}", "hint": ""}}, ()
        except asyncio.CancelledError:
            self._drop()
            raise
        return frame.head, frame.blobs

    async def watch(self) -> None:
        """Wait forever, so that a caller who awaits this learns at once when the actor is gone."""
        await asyncio.Event().wait()

    async def beat(self) -> None:
        """Return at once, so that a caller learns that the actor still works."""

    async def _started(self) -> Any:
        async with self._starting:
            if self._link is None or not self._link.alive:
                self._drop()
                self._link = await asyncio.get_running_loop().run_in_executor(None, self._start)
                await asyncio.wrap_future(self._link.submit("open", self._opening))
            return self._link

    def _start(self) -> Any:
        from forewarp.gpu_runner.remote.far_end import bootstrap
        from forewarp.gpu_runner.remote.far_end.link import Link

        # Ray gives its workers one OpenMP thread; measurements here must run as they do without Ray.
        environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
        return Link(bootstrap.command(self._python, self._package), self._package, environment=environment)

    def _drop(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None
