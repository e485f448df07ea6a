"""The actors of a cluster: one per device, kept alive, each taking the next measurement when it is free."""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
import time
from collections import Counter
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

from forewarp.core.errors import DeviceError, WorkerError
from forewarp.gpu_runner.remote import cluster, slot
from forewarp.gpu_runner.remote.cluster import RayNode
from forewarp.gpu_runner.remote.far_end import bootstrap
from forewarp.gpu_runner.remote.far_end.wire import LOST, Frame, WireAnswer

START_S: Final = 180.0
"""Longest time for an actor to be placed and for its agent to load torch."""
OTHERS_S: Final = 45.0
"""Longest time for further devices to answer once the first one has."""
JOB_S: Final = 900.0
"""Time without an answer after which a measurement's machine counts as lost; the agent's own limits are far below."""
IDLE_S: Final = 300.0
"""Longest time that work waits while no machine of the cluster can do it."""
BEATS: Final = 4
"""Number of heartbeats asked of an actor within the time after which it counts as silent."""
BACK_S: Final = 30.0
"""Longest time for nodes to join again after their head was restarted."""
AGAIN_S: Final = 2.0
LOOK_S: Final = 0.5
"""Time between two looks whether an actor is still there."""

_EXCLUSIVE = ("measure", "validate")
"""Requests that a device serves for one caller at a time."""


@dataclass(slots=True)
class Post:
    """A place for one actor, for as long as the fleet lives: it may come to stand on another node.

    `times` is false where only compiling is done. `compiling` counts what is being compiled there.
    """

    number: int
    times: bool
    node: RayNode | None = None
    actor: Any = None
    problem: str = ""
    tried: threading.Event = field(default_factory=threading.Event)
    opened: dict[str, Any] | None = None
    compiling: int = 0


class Pulse:
    """The heartbeat of one actor."""

    def __init__(self, actor: Any, silent_s: float) -> None:
        self._actor, self._silent_s = actor, silent_s
        self._watch, self._beat, self._asked = actor.watch.remote(), actor.beat.remote(), time.monotonic()

    def check(self) -> None:
        """Raise once the actor is gone, or has said nothing for `silent_s` seconds."""
        ray, since = cluster.ray(), time.monotonic() - self._asked
        done, _ = ray.wait([self._watch, self._beat], num_returns=2, timeout=0)
        for reference in done:
            ray.get(reference)  # raises the error of an actor that is gone
        if self._beat not in done and since > self._silent_s:
            raise TimeoutError
        if self._beat in done and since > self._silent_s / BEATS:
            self._beat, self._asked = self._actor.beat.remote(), time.monotonic()


class Fleet:
    """Spreads jobs over actors. A job whose actor is lost is answered with the code `LOST`, and never tried again here.

    Timing is exclusive: a post takes one measurement at a time, in a thread of its own. Compiling goes to the least
    busy node. Safe to use from several threads.
    """

    def __init__(self, opening: dict[str, Any]) -> None:
        """Place an actor on every device, and wait for each to answer or fail; raises `DeviceError` if none answers.

        `opening` names `device`, `python`, `limits`, `most` devices to take, and how many it `had` before a loss. An
        actor that has said nothing for `silent_s` seconds is lost, whatever Ray says of its node.
        """
        ray = cluster.ray()
        ray.cloudpickle.register_pickle_by_value(slot)
        self._request = opening
        self._jobs: queue.SimpleQueue[tuple[Frame, Future[WireAnswer]]] = queue.SimpleQueue()
        self._posts: list[Post] = []
        self._placing, self._counting = threading.Lock(), threading.Lock()
        self._actor: Any = ray.remote(slot.RaySlot)
        self._package: Any = ray.put(bootstrap.package())
        self._device_seen = time.monotonic()
        self.opened: dict[str, Any] = {}
        count = self._devices(opening.get("had") or 0)
        found = cluster.living(ray.nodes())
        self._card = cluster.card_of(opening.get("device") or "auto", found)
        count = min(count, opening.get("most") or count)
        self._start_posts([Post(i, times=True) for i in range(count)])
        timing = self._timing()
        if not timing:
            why = next((p.problem for p in self._posts if p.problem), "no node has the device")
            raise DeviceError(f"no device of the cluster can be used: {why}", hint="`forewarp doctor --executor ray`")
        self.opened |= {"devices": len(timing), "cores": 0}
        taken = {p.node.id for p in self._posts if p.node}
        rest = sum(n.id not in taken and n.cores > 0 for n in found)
        self._start_posts([Post(count + i, times=False) for i in range(rest)])
        self.opened["cores"] = sum({p.node.id: p.node.cores or 1 for p in self._posts if p.opened and p.node}.values())

    def ask(self, frame: Frame) -> WireAnswer:
        """Return the answer to a request, or the code `LOST`; raises `WorkerError` if nothing can do it for long."""
        if frame.head["verb"] not in _EXCLUSIVE:
            return self._compile(frame)
        future: Future[WireAnswer] = Future()
        self._jobs.put((frame, future))
        while True:
            with contextlib.suppress(TimeoutError):
                return future.result(AGAIN_S)
            if time.monotonic() - self._device_seen > IDLE_S and future.cancel():
                why = next((p.problem for p in self._posts if p.problem), "")
                raise WorkerError(f"the cluster had no device for {IDLE_S:.0f} s: {why}")

    def _devices(self, had: int) -> int:
        """Return the number of devices; if there were more before, wait up to `BACK_S` for them to come back."""
        ray, until = cluster.ray(), time.monotonic() + BACK_S
        while True:
            found = cluster.living(ray.nodes())
            try:
                card = cluster.card_of(self._request.get("device") or "auto", found)
                count = sum(n.devices(card) for n in found)
            except DeviceError:
                if not had or time.monotonic() > until:
                    raise
                count = 0
            if count >= had or time.monotonic() > until:
                return count
            time.sleep(AGAIN_S / 4)

    def _timing(self) -> list[Post]:
        return [p for p in self._posts if p.times and p.opened]

    def _start_posts(self, posts: list[Post]) -> None:
        self._posts += posts
        for post in posts:
            threading.Thread(target=self._supervise, args=(post,), daemon=True).start()
        until, first = time.monotonic() + START_S, True
        # Ray learns late that a node has just gone: where no device answered for that reason, its next try counts.
        while time.monotonic() < until and not (
            all(p.tried.is_set() for p in posts)
            and (self._timing() or not any(p.problem.startswith("Actor") for p in posts))
        ):
            if first and any(p.opened for p in posts):
                # GPUs that others hold must not keep the rest waiting; they join when they are free.
                first, until = False, min(until, time.monotonic() + OTHERS_S)
            time.sleep(0.05)

    def _supervise(self, post: Post) -> None:
        """Keep an actor at this post and give it jobs, forever; a lost actor is replaced."""
        while True:
            try:
                pulse = self._start_actor(post)
                post.tried.set()
                self._serve_jobs(post, pulse)
            except Exception as e:
                # However an actor is lost, the remedy is the same: another actor.
                post.problem = f"{type(e).__name__}: {e}".splitlines()[0]
            if post.actor is not None:
                with contextlib.suppress(Exception):
                    cluster.ray().kill(post.actor)
            post.actor = post.node = post.opened = None
            post.tried.set()
            time.sleep(AGAIN_S)

    def _start_actor(self, post: Post) -> Pulse:
        """Place an actor and open its agent; raises where there is no room, or it is no device of ours."""
        with self._placing:
            node = post.node = self._node_with_room(post)
            cards = {"num_gpus": 1} if self._card and post.times else {}
            tags = {f"{cluster.TAG}{self._card}": 1} if cards and node.tagged else {}
            # Ray shows each actor its own GPU only.
            body = {"device": "cuda" if self._card else "cpu", "limits": self._request.get("limits")}
            if not post.times:
                body["target"] = self.opened["target"]
            post.actor = self._actor.options(
                num_cpus=0,
                resources=tags,
                scheduling_strategy=cluster.on_node(node.id),
                max_concurrency=1000,
                **cards,
            ).remote(self._package, self._request.get("python") or sys.executable, body)
        head = cluster.ray().get(post.actor.open.remote(), timeout=START_S)
        if "error" in head:
            raise WorkerError(head["error"]["message"])
        ours = self.opened.setdefault("target", head["ok"]["target"])
        if head["ok"]["target"]["name"] != ours["name"]:
            raise DeviceError(f"{node.address} has {head['ok']['target']['name']}, not {ours['name']}")
        pulse = Pulse(post.actor, self._request["silent_s"])
        post.opened, post.problem = head["ok"], ""
        return pulse

    def _node_with_room(self, post: Post) -> RayNode:
        """Return the living node with most room for such a post."""
        others = [(p.node.id, p.times) for p in self._posts if p.node and p is not post]
        taken, timing = Counter(node for node, _ in others), Counter(node for node, times in others if times)
        found = cluster.living(cluster.ray().nodes())
        if post.times:
            rooms = [(n.devices(self._card) - timing[n.id], n) for n in found]
        else:
            rooms = [(n.cores if not taken[n.id] else 0, n) for n in found]
        room, node = max(rooms, key=lambda r: r[0], default=(0, None))
        if node is None or room <= 0:
            raise DeviceError("no living node has room")
        return node

    def _serve_jobs(self, post: Post, pulse: Pulse) -> None:
        """Measure one job after another; raises when the actor is gone."""
        while True:
            pulse.check()
            if not post.times:
                time.sleep(LOOK_S)
                continue
            self._device_seen = time.monotonic()
            try:
                frame, future = self._jobs.get(timeout=LOOK_S)
            except queue.Empty:
                continue
            try:
                pulse.check()
            except Exception:
                self._jobs.put((frame, future))  # another post takes it
                raise
            if future.set_running_or_notify_cancel():
                self._measure(post, pulse, frame, future)

    def _measure(self, post: Post, pulse: Pulse, frame: Frame, future: Future[WireAnswer]) -> None:
        ray, until = cluster.ray(), time.monotonic() + JOB_S
        address = post.node.address if post.node else ""
        try:
            call = post.actor.call.remote(frame.head["verb"], frame.head["body"], frame.blobs)
            while not ray.wait([call], timeout=LOOK_S)[0]:
                pulse.check()
                self._device_seen = time.monotonic()
                if self._device_seen > until:
                    raise TimeoutError
            head, blobs = ray.get(call)
        except Exception as e:
            future.set_result(_lost(f"device {post.number} on {address} was lost: {type(e).__name__}"))
            raise
        future.set_result(({**head, "slot": {"slot": f"{post.number}"}}, tuple(blobs)))

    def _compile(self, frame: Frame) -> WireAnswer:
        """Send the request to the post whose node has most cores to spare, and return the answer."""
        ray, until = cluster.ray(), time.monotonic() + IDLE_S
        while (chosen := self._least_busy()) is None:
            if time.monotonic() > until:
                raise WorkerError("no node of the cluster can compile", hint="`forewarp doctor --executor ray`")
            time.sleep(AGAIN_S / 4)
        post, actor = chosen
        try:
            call = actor.call.remote(frame.head["verb"], frame.head["body"], frame.blobs)
            while not ray.wait([call], timeout=LOOK_S)[0]:
                if post.actor is not actor:
                    return _lost("a node fell silent while it compiled")
            head, blobs = ray.get(call)
        except Exception as e:
            return _lost(f"a node was lost while it compiled: {type(e).__name__}")
        finally:
            with self._counting:
                post.compiling -= 1
        return dict(head), tuple(blobs)

    def _least_busy(self) -> tuple[Post, Any] | None:
        """Return the post to compile at next, counted as busy with it, and its actor; None where none is ready."""
        with self._counting:
            ready = [(p, n, a) for p in self._posts if (a := p.actor) and (n := p.node) and p.opened]
            busy: Counter[str] = Counter()
            for p, n, _ in ready:
                busy[n.id] += p.compiling
            found = min(ready, key=lambda r: (busy[r[1].id] / max(r[1].cores, 1), r[0].compiling), default=None)
            if found is None:
                return None
            found[0].compiling += 1
            return found[0], found[2]


def _lost(why: str) -> WireAnswer:
    return {"error": {"code": LOST, "message": why, "hint": ""}}, ()
