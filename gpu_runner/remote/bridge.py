"""The process that speaks Ray, with frames on its standard streams: `python -m …remote.bridge ADDRESS SECONDS`.

Ray writes to standard output and ends the process that it runs in when the cluster's head is gone. Here it can do
both: frames have a descriptor of their own, and who started the bridge starts another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from forewarp.core.errors import ForewarpError, WorkerError
from forewarp.gpu_runner.remote import engine, nodes
from forewarp.gpu_runner.remote.far_end.wire import READY, Frame, Wire, WireClosed
from forewarp.gpu_runner.remote.fleet import Fleet

CONNECT_S = 60.0
"""Longest time to join a cluster; Ray by itself would wait far longer."""
OBJECT_STORE = 128 << 20
"""Bytes of shared memory that a cluster started here sets aside; nothing big travels."""
OWN = "forewarp:own"
"""Resource by which a cluster shows that a bridge started it."""
LOOK_S = 5.0
"""Time between two checks that the head still answers."""
SILENT_S = 20.0
"""Time without an answer after which the head counts as lost."""

Answer = tuple[dict[str, Any], tuple[bytes, ...]]


class Bridge:
    """Answers requests by means of a fleet of actors."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._fleet: Fleet | None = None
        self._opening = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._verbs: dict[str, Callable[[Frame], Awaitable[Answer]]] = {
            "open": self._open,
            "nodes": self._nodes,
            "describe": self._pass,
            "compile": self._pass,
            "measure": self._pass,
            "validate": self._pass,
        }

    async def serve(self) -> None:
        """Answer until the input ends."""
        loop, frames = asyncio.get_running_loop(), asyncio.Queue[Frame | None]()
        threading.Thread(target=self._receive, args=(loop, frames), daemon=True).start()
        while (frame := await frames.get()) is not None:
            task = loop.create_task(self._answer(frame))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _receive(self, loop: asyncio.AbstractEventLoop, frames: asyncio.Queue[Frame | None]) -> None:
        frame: Frame | None = Frame({})
        while frame is not None:
            try:
                frame = self._wire.receive()
            except WireClosed:
                frame = None
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(frames.put_nowait, frame)

    async def _answer(self, frame: Frame) -> None:
        head: dict[str, Any] = {}
        blobs: tuple[bytes, ...] = ()
        try:
            head, blobs = await self._verbs[frame.head["verb"]](frame)
        except ForewarpError as e:
            head = {"error": {"code": e.code, "message": e.message, "hint": e.hint}}
        except Exception as e:
            head = {"error": {"code": "internal", "message": f"{type(e).__name__}: {e}", "hint": ""}}
        with contextlib.suppress(WireClosed):
            self._wire.send({**head, "id": frame.head["id"]}, blobs)

    async def _open(self, frame: Frame) -> Answer:
        async with self._opening:
            if self._fleet is None:
                fleet = Fleet(frame.head["body"])
                await fleet.start()
                self._fleet = fleet
        return {"ok": self._fleet.opened}, ()

    async def _nodes(self, _: Frame) -> Answer:
        ray = engine.ray()
        free: dict[str, float] = ray.available_resources()
        found = nodes.living(ray.nodes())
        listed = [{"address": n.address, "cores": n.cores, "cards": dict(n.cards)} for n in found]
        return {
            "ok": {"nodes": listed, "free": {k: v for k, v in free.items() if k in ("GPU", "CPU") or nodes.TAG in k}}
        }, ()

    async def _pass(self, frame: Frame) -> Answer:
        if self._fleet is None:
            raise WorkerError("nothing was opened yet")
        return await self._fleet.ask(frame)


def connect(address: str) -> None:
    """Join the cluster, or start one on this machine where no address is given and none runs here."""
    ray = engine.ray()
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "namespace": "forewarp"}
    if address:
        ray.init(address=address, **quiet)
        return
    try:
        ray.init(address="auto", **quiet)
    except ConnectionError:
        pass
    else:
        if not any(OWN in n.get("Resources", {}) for n in ray.nodes()):
            return
        ray.shutdown()  # the cluster is another bridge's, which ends with that bridge
    own: dict[str, Any] = {"resources": {OWN: 1}, "object_store_memory": OBJECT_STORE, "include_dashboard": False}
    ray.init(address="local", **own, **quiet)


def _reach(address: str, wait_s: float) -> None:
    """Return once the head listens; raises `OSError` if it does not within `wait_s` seconds."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError("an address is HOST:PORT, such as 10.0.0.1:6379")
    until = time.monotonic() + wait_s
    while True:
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=5.0):
                return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.5)


def _give_up(address: str) -> None:
    print(f"no Ray cluster at {address}: it did not let us join within {CONNECT_S:.0f} s", file=sys.stderr)
    sys.stderr.flush()
    os._exit(1)


def _watch(over: threading.Event) -> None:
    """End this process once it is no part of the cluster any more: it can then reach no actor, and place none.

    This has a thread of its own, since calls into Ray that wait for a silent head would keep the loop from it.
    """
    ray, looking = engine.ray(), ThreadPoolExecutor(1)
    own = ray.get_runtime_context().get_node_id()
    why = ""
    while not why:
        if over.wait(LOOK_S):
            return
        try:
            seen = looking.submit(ray.nodes).result(SILENT_S)
        except Exception:
            why = "the head of the cluster does not answer"
        else:
            # A head that was restarted knows other nodes, and nothing of us.
            if not any(n.id == own for n in nodes.living(seen)):
                why = "the node that leads to the cluster is gone"
    if over.is_set():
        return
    print(why, file=sys.stderr)
    sys.stderr.flush()
    os._exit(1)  # leaving in order would wait for the head


def main(address: str, wait_s: float) -> int:
    """Connect, waiting for a head that may be restarting, report readiness, and serve."""
    frames = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    late = threading.Timer(CONNECT_S, _give_up, (address,))
    late.daemon = True
    try:
        if address:
            _reach(address, wait_s)
        late.start()
        connect(address)
    except (ConnectionError, RuntimeError, ValueError, OSError) as e:
        print(f"no Ray cluster at {address or 'this machine'}: {e}", file=sys.stderr)
        return 1
    finally:
        late.cancel()
    frames.write(READY)
    frames.flush()
    over = threading.Event()
    threading.Thread(target=_watch, args=(over,), daemon=True).start()
    asyncio.run(Bridge(Wire(sys.stdin.buffer, frames)).serve())
    over.set()
    engine.ray().shutdown()
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1], float(sys.argv[2]))
    sys.stderr.flush()
    os._exit(code)
