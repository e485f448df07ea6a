"""The process that speaks Ray, with frames on its standard streams: `python -m …remote.bridge ADDRESS SECONDS`.

Ray writes to standard output and ends the process that it runs in when the cluster's head is gone. Here it can do
both: frames have a descriptor of their own, and who started the bridge starts another one.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from forewarp.core import serde
from forewarp.core.errors import WorkerError
from forewarp.gpu_runner.remote import cluster
from forewarp.gpu_runner.remote.far_end.wire import Frame, WireAnswer, frames_on_stdout, ready, serve
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
REQUESTS = 1024
"""Most requests that wait for answers at once; each does so in a thread."""


class Bridge:
    """Answers requests by means of a fleet of actors."""

    def __init__(self) -> None:
        self._fleet: Fleet | None = None
        self._opening = threading.Lock()

    def answer(self, frame: Frame) -> WireAnswer:
        """Return the answer to a request; raises what goes wrong with it."""
        verb = frame.head["verb"]
        if verb == "nodes":
            ray = cluster.ray()
            free: dict[str, float] = ray.available_resources()
            free = {k: v for k, v in free.items() if k in ("GPU", "CPU") or cluster.TAG in k}
            return {"ok": {"nodes": serde.to_data(cluster.living(ray.nodes())), "free": free}}, ()
        if verb == "open":
            with self._opening:
                self._fleet = self._fleet or Fleet(frame.head["body"])
                return {"ok": self._fleet.opened}, ()
        if self._fleet is None:
            raise WorkerError("nothing was opened yet")
        return self._fleet.ask(frame)


def connect(address: str) -> None:
    """Join the cluster, or start one on this machine where no address is given and none runs here."""
    ray = cluster.ray()
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


def _end(why: str) -> None:
    """End this process with an error; leaving in order would wait for a head that does not answer."""
    print(why, file=sys.stderr)
    sys.stderr.flush()
    os._exit(1)


def _watch(over: threading.Event) -> None:
    """End this process once it is no part of the cluster any more: it can then reach no actor, and place none."""
    ray, looking = cluster.ray(), ThreadPoolExecutor(1)
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
            if not any(n.id == own for n in cluster.living(seen)):
                why = "the node that leads to the cluster is gone"
    if not over.is_set():
        _end(why)


def main(address: str, wait_s: float) -> int:
    """Connect, waiting for a head that may be restarting, report readiness, and serve."""
    frames = frames_on_stdout()
    late = f"no Ray cluster at {address}: it did not let us join within {CONNECT_S:.0f} s"
    timer = threading.Timer(CONNECT_S, _end, (late,))
    timer.daemon = True
    try:
        if address:
            _reach(address, wait_s)
        timer.start()
        connect(address)
    except (ConnectionError, RuntimeError, ValueError, OSError) as e:
        print(f"no Ray cluster at {address or 'this machine'}: {e}", file=sys.stderr)
        return 1
    finally:
        timer.cancel()
    over = threading.Event()
    threading.Thread(target=_watch, args=(over,), daemon=True).start()
    pool = ThreadPoolExecutor(REQUESTS)
    serve(ready(frames), Bridge().answer, lambda _, respond: pool.submit(respond))
    over.set()
    cluster.ray().shutdown()
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1], float(sys.argv[2]))
    sys.stderr.flush()
    os._exit(code)
