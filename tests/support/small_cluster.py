"""A Ray cluster of several nodes on this machine, its head on a port of its own, and ways to break it."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

from support.ports import free_port

STORE = 80 << 20
JOIN_S = 120.0
"""For a node to join: a second or two, and more where other work has the cores."""


class SmallCluster:
    """A head that measures nothing, and nodes that are one CPU device each.

    Each node has a cache of its own under `folder`, as machines have: in one that they share, they would wait for one
    another to hold the device.
    """

    def __init__(self, folder: Path, port: int) -> None:
        from ray.cluster_utils import Cluster

        self.port = port
        self._folder = folder
        self._caches = (folder / f"{number}" for number in itertools.count())
        self._cluster: Any = Cluster(
            initialize_head=True,
            head_node_args={
                **self._sizes(0),
                "wait": False,
                "gcs_server_port": self.port,
                "_system_config": {
                    # Workers are started for actors, not in reserve.
                    "prestart_worker_first_driver": False,
                    "enable_worker_prestart": False,
                    # A silent node is dead after a dozen seconds, not after half a minute. One that only has to wait
                    # for a core must not be.
                    "health_check_initial_delay_ms": 1000,
                    "health_check_period_ms": 1000,
                    "health_check_timeout_ms": 3000,
                    "health_check_failure_threshold": 3,
                },
            },
        )
        self._cluster._wait_for_node(self._cluster.head_node, JOIN_S)

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def add(self, **resources: float) -> Any:
        own = {"FOREWARP_CACHE": str(next(self._caches))}
        node = self._cluster.add_node(wait=False, **self._sizes(1), resources=resources or None, env_vars=own)
        self._cluster._wait_for_node(node, JOIN_S)
        return node

    def _sizes(self, cores: int) -> dict[str, Any]:
        any_port = {"dashboard_agent_listen_port": 0}  # the head would take one that another cluster may have
        return {"num_cpus": cores, "object_store_memory": STORE, "include_dashboard": False, **any_port}

    def kill(self, node: Any) -> None:
        """End a node's processes at once, as a lost machine would."""
        self._cluster.remove_node(node, allow_graceful=False)

    def processes(self, text: str) -> dict[int, int]:
        """Return those of this cluster whose command line holds a text; other tests may run agents of their own."""
        raylets = {n.all_processes["raylet"][0].process.pid for n in self._cluster.list_all_nodes()}
        return {pid: parent for pid, parent in processes(text).items() if parent in raylets or self._knows(pid)}

    def _knows(self, pid: int) -> bool:
        """Tell whether a process has a cache of this cluster, as agents have, or its address, as bridges have."""
        with contextlib.suppress(OSError):
            own = Path(f"/proc/{pid}")
            told = ((own / "environ", str(self._folder)), (own / "cmdline", self.address))
            return any(word.encode() in file.read_bytes() for file, word in told)
        return False

    def crash(self) -> None:
        """End all processes of all nodes at once, the head's first."""
        for node in self._cluster.list_all_nodes():
            node.kill_all_processes(check_alive=False, allow_graceful=False)

    def shutdown(self) -> None:
        self._cluster.shutdown()


@contextlib.contextmanager
def small_cluster(nodes: int, port: int | None = None) -> Generator[SmallCluster]:
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        contextlib.nullcontext(port) if port else free_port() as at,
    ):
        cluster = SmallCluster(Path(folder), at)
        try:
            for _ in range(nodes):
                cluster.add()
            yield cluster
        finally:
            cluster.shutdown()


def processes(text: str) -> dict[int, int]:
    """Return processes whose command line holds a text, by their id, with the id of their parent."""
    found: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            if folder.name.isdigit() and text in (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode():
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                if fields[0] != "Z":
                    found[int(folder.name)] = int(fields[1])
    return found


def holders() -> set[int]:
    """Return the processes that hold a lock on a file, as one that measures does."""
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return {int(fields[4]) for fields in lines if fields[1] == "FLOCK"}
