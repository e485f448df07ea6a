"""The actors of a cluster: one per device, kept alive, each taking the next measurement when it is free."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from forewarp.core.errors import DeviceError, WorkerError
from forewarp.gpu_runner.remote import engine, nodes, slot
from forewarp.gpu_runner.remote.executor import LOST
from forewarp.gpu_runner.remote.far_end import bootstrap
from forewarp.gpu_runner.remote.far_end.wire import Frame
from forewarp.gpu_runner.remote.nodes import RayNode, Wanted

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

_EXCLUSIVE = ("measure", "validate")
"""Requests that a device serves for one caller at a time."""

Answer = tuple[dict[str, Any], tuple[bytes, ...]]


@dataclass(slots=True)
class Post:
    """A place for one actor, for as long as the fleet lives: it may come to stand on another node.

    `times` is false where only compiling is done. `gone` ends when the actor does, or has fallen silent.
    `compiling` counts what is being compiled there.
    """

    number: int
    times: bool
    node: RayNode | None = None
    actor: Any = None
    gone: asyncio.Future[None] | None = None
    problem: str = ""
    tried: asyncio.Event = field(default_factory=asyncio.Event)
    opened: dict[str, Any] | None = None
    compiling: int = 0


class Fleet:
    """Spreads jobs over actors. A job whose actor is lost is answered with the code "lost", and never tried again here.

    Timing is exclusive: a post takes one measurement at a time. Compiling goes to the least busy node.
    """

    def __init__(self, opening: dict[str, Any]) -> None:
        """`opening` names `device`, `python`, `limits`, `most` devices to take, and how many it `had` before a loss.

        An actor that has said nothing for `silent_s` seconds is lost, whatever Ray says of its node.
        """
        self._request = opening
        self._jobs: asyncio.Queue[tuple[Frame, asyncio.Future[Answer]]] = asyncio.Queue()
        self._posts: list[Post] = []
        self._keepers: list[asyncio.Task[None]] = []
        self._placing = asyncio.Lock()
        self._wanted = Wanted("")
        self._package: Any = None
        self._actor: Any = None
        self._able = time.monotonic()
        self.opened: dict[str, Any] = {}

    async def start(self) -> None:
        """Place an actor on every device, and wait for each to answer or fail; raises `DeviceError` if none answers."""
        ray = engine.ray()
        ray.cloudpickle.register_pickle_by_value(slot)
        self._actor = ray.remote(slot.RaySlot)
        self._package = ray.put(bootstrap.package())
        count = await self._awaited_devices(self._request.get("had") or 0)
        found = nodes.living(ray.nodes())
        self._wanted = nodes.choose(self._request.get("device") or "auto", found)
        count = min(count, self._request.get("most") or count)
        await self._begin([Post(i, times=True) for i in range(count)])
        await self._second_try()
        timing = [p for p in self._posts if p.opened]
        if not timing:
            why = next((p.problem for p in self._posts if p.problem), "no node has the device")
            raise DeviceError(f"no device of the cluster can be used: {why}", hint="`forewarp doctor --executor ray`")
        target = (timing[0].opened or {})["target"]
        self.opened = {"target": target, "devices": len(timing), "cores": 0}
        taken = {p.node.id for p in self._posts if p.node}
        rest = sum(n.id not in taken and n.cores > 0 for n in found)
        await self._begin([Post(count + i, times=False) for i in range(rest)])
        self.opened["cores"] = sum({p.node.id: p.node.cores or 1 for p in self._posts if p.opened and p.node}.values())
        self._keepers.append(asyncio.ensure_future(self._give_up()))

    async def _awaited_devices(self, had: int) -> int:
        """Return the number of devices; if there were more before, wait up to `BACK_S` for them to come back."""
        ray, until = engine.ray(), time.monotonic() + BACK_S
        while True:
            found = nodes.living(ray.nodes())
            try:
                wanted = nodes.choose(self._request.get("device") or "auto", found)
                count = sum(wanted.slots(n) for n in found)
            except DeviceError:
                if not had or time.monotonic() > until:
                    raise
                count = 0
            if count >= had or time.monotonic() > until:
                return count
            await asyncio.sleep(AGAIN_S / 4)

    async def ask(self, frame: Frame) -> Answer:
        """Return the answer to a request, or the code "lost"."""
        if frame.head["verb"] not in _EXCLUSIVE:
            return await self._compile(frame)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._jobs.put_nowait((frame, future))
        return await future

    async def _begin(self, posts: list[Post]) -> None:
        self._posts += posts
        self._keepers += [asyncio.ensure_future(self._keep(p)) for p in posts]
        until, first = time.monotonic() + START_S, 0.0
        while not all(p.tried.is_set() for p in posts) and time.monotonic() < until:
            if not first and any(p.opened for p in posts):
                # GPUs that others hold must not keep the rest waiting; they join when they are free.
                first = time.monotonic()
                until = min(until, first + OTHERS_S)
            await asyncio.sleep(0.05)

    async def _second_try(self) -> None:
        """Wait for a first device where none answered because its node had just gone: Ray learns of that late."""
        until = time.monotonic() + START_S
        while time.monotonic() < until and not any(p.opened for p in self._posts):
            if not any(p.problem.startswith("Actor") for p in self._posts):
                return
            await asyncio.sleep(0.1)

    async def _keep(self, post: Post) -> None:
        """Keep an actor at this post and give it jobs, forever; a lost actor is replaced."""
        while True:
            try:
                gone = await self._man(post)
                post.tried.set()
                await self._work(post, gone)
            except Exception as e:
                # However an actor is lost, the remedy is the same: another actor.
                post.problem = f"{type(e).__name__}: {e}".splitlines()[0]
            self._leave(post)
            post.tried.set()
            await asyncio.sleep(AGAIN_S)

    async def _man(self, post: Post) -> asyncio.Future[None]:
        """Place an actor, open its agent, and return a future that ends when the actor is gone.

        Raises where there is no room, or it is no device of ours.
        """
        async with self._placing:
            node = post.node = self._room(post)
            cards = {"num_gpus": 1} if self._wanted.card and post.times else {}
            tags = {f"{nodes.TAG}{self._wanted.card}": 1} if cards and node.tagged else {}
            body: dict[str, Any] = {"device": self._wanted.device, "limits": self._request.get("limits")}
            if not post.times:
                body["target"] = self.opened["target"]
            post.actor = self._actor.options(
                num_cpus=0,
                resources=tags,
                scheduling_strategy=engine.on_node(node.id),
                max_concurrency=1000,
                **cards,
            ).remote(self._package, self._request.get("python") or sys.executable, body)
        head = await asyncio.wait_for(post.actor.open.remote(), START_S)
        if "error" in head:
            raise WorkerError(head["error"]["message"])
        ours = self.opened.get("target", head["ok"]["target"])
        if head["ok"]["target"]["name"] != ours["name"]:
            raise DeviceError(f"{node.address} has {head['ok']['target']['name']}, not {ours['name']}")
        self.opened.setdefault("target", ours)
        post.opened, post.problem = head["ok"], ""
        post.gone = asyncio.ensure_future(_gone(post.actor, self._request["silent_s"]))
        return post.gone

    def _room(self, post: Post) -> RayNode:
        """Return the living node with most room for such a post."""
        ray = engine.ray()
        taken = Counter(p.node.id for p in self._posts if p.node and p is not post)
        timing = Counter(p.node.id for p in self._posts if p.node and p is not post and p.times)
        found = nodes.living(ray.nodes())
        if post.times:
            rooms = [(self._wanted.slots(n) - timing[n.id], n) for n in found]
        else:
            rooms = [(n.cores if not taken[n.id] else 0, n) for n in found]
        room, node = max(rooms, key=lambda r: r[0], default=(0, None))
        if node is None or room <= 0:
            raise DeviceError("no living node has room")
        return node

    def _leave(self, post: Post) -> None:
        ray = engine.ray()
        if post.gone is not None:
            post.gone.cancel()
        if post.actor is not None:
            with contextlib.suppress(Exception):
                ray.kill(post.actor)
        post.actor = post.gone = post.node = post.opened = None

    async def _work(self, post: Post, gone: asyncio.Future[None]) -> None:
        """Measure one job after another; raises when the actor is gone."""
        while post.times:
            taking = asyncio.ensure_future(self._jobs.get())
            await asyncio.wait({taking, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not taking.done():
                taking.cancel()
                break
            frame, future = taking.result()
            if gone.done():
                self._jobs.put_nowait((frame, future))  # another post takes it
                break
            await self._measure(post, frame, future)
        await gone

    async def _measure(self, post: Post, frame: Frame, future: asyncio.Future[Answer]) -> None:
        address, number = post.node.address if post.node else "", post.number
        try:
            answer = await _call(post, frame, JOB_S)
        except Exception as e:
            _settle(future, _lost(f"device {number} on {address} was lost: {type(e).__name__}"))
            raise
        answer[0]["slot"] = {"slot": f"{number}"}
        _settle(future, answer)

    async def _compile(self, frame: Frame) -> Answer:
        """Send the request to the post whose node has most cores to spare, and return the answer."""
        deadline = time.monotonic() + IDLE_S
        while not (ready := [p for p in self._posts if p.opened and p.node]):
            if time.monotonic() > deadline:
                raise WorkerError("no node of the cluster can compile", hint="`forewarp doctor --executor ray`")
            await asyncio.sleep(AGAIN_S / 4)
        busy: Counter[str] = Counter()
        for p in ready:
            busy[p.node.id if p.node else ""] += p.compiling
        post = min(ready, key=lambda p: (busy[p.node.id] / max(p.node.cores, 1) if p.node else 0.0, p.compiling))
        post.compiling += 1
        try:
            return await _call(post, frame)
        except Exception as e:
            return _lost(f"a node was lost while it compiled: {type(e).__name__}")
        finally:
            post.compiling -= 1

    async def _give_up(self) -> None:
        """Fail the waiting jobs when there has been no device for long."""
        while True:
            await asyncio.sleep(AGAIN_S)
            if any(p.opened for p in self._posts if p.times):
                self._able = time.monotonic()
            while time.monotonic() - self._able > IDLE_S and not self._jobs.empty():
                _, future = self._jobs.get_nowait()
                why = next((p.problem for p in self._posts if p.problem), "")
                error = {
                    "code": "worker",
                    "message": f"the cluster had no device for {IDLE_S:.0f} s: {why}",
                    "hint": "",
                }
                _settle(future, ({"error": error}, ()))


async def _call(post: Post, frame: Frame, limit_s: float | None = None) -> Answer:
    """Return the actor's answer; raises when it is gone first, and `TimeoutError` after `limit_s` seconds."""
    calling = asyncio.ensure_future(
        _awaited(post.actor.call.remote(frame.head["verb"], frame.head["body"], frame.blobs))
    )
    ends = {calling} if post.gone is None else {calling, post.gone}
    ended, _ = await asyncio.wait(ends, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
    if calling not in ended:
        calling.cancel()
        for gone in ended:
            await gone
        raise TimeoutError
    head, blobs = await calling
    return dict(head), tuple(blobs)


async def _gone(actor: Any, silent_s: float) -> None:
    """Raise when the actor has gone, or has said nothing for `silent_s` seconds."""
    watch = asyncio.ensure_future(_awaited(actor.watch.remote()))
    try:
        while not watch.done():
            await asyncio.wait_for(_awaited(actor.beat.remote()), silent_s)
            await asyncio.wait({watch}, timeout=silent_s / BEATS)
        await watch
    finally:
        watch.cancel()


async def _awaited(reference: Any) -> Any:
    return await reference


def _settle(future: asyncio.Future[Answer], answer: Answer) -> None:
    if not future.done():
        future.set_result(answer)


def _lost(why: str) -> Answer:
    return {"error": {"code": LOST, "message": why, "hint": ""}}, ()
