"""Profile a model: export it, cut its graph into subgraphs, time them, and write each as a task.

Runs confined in a child of the worker, as all code of tasks does.
"""

from __future__ import annotations

import os
import resource
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

import torch
from torch.autograd.profiler import DeviceType  # pyright: ignore[reportPrivateImportUsage]
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils import _pytree as pytree

from forewarp.gpu_runner.worker import memory
from forewarp.gpu_runner.worker.channel import Channel
from forewarp.gpu_runner.worker.loading import load_problem
from forewarp.gpu_runner.worker.problem import ReferenceFailed, build_model, load_module, running_reference
from forewarp.gpu_runner.worker.requests import TaskFailure, TaskJob
from forewarp.gpu_runner.worker.task_confinement import run_confined
from forewarp.gpu_runner.worker.tracebacks import first_line, format_error
from forewarp.models.graph import GLOBALS, GraphProgram, NoGraph, RecordedGraph, record
from forewarp.models.jobs import KernelTime, ModelProfile, PeakJob, ProfileJob, Statement, Subgraph, SubgraphPlace
from forewarp.models.partition import RIDGE, OperationNode, Partition
from forewarp.models.problem_text import Piece, drawn, parameter_names, problem

_SEED = 1
_MARK = "forewarp statement "
_LEAST_CALLS, _MOST_CALLS = 2, 30
_SHARE = 0.3
"""Of the seconds that are left of a job: for calls of the model as it is, made twice, and for those of its graph."""
_MOST_KERNELS = 50
_PART = (
    "profile a part of the model that has none of this: --call NAME, a function that returns the part and its inputs"
)
_NARROWED = 8
"""Times that inputs of a task may be drawn narrower, by `_NARROWER` each, until its results are finite."""
_NARROWER = 0.25
_BITS = {"float16": 16, "bfloat16": 16, "float32": 32, "float64": 32}


def run(job: ProfileJob, answer: Channel) -> None:
    if job.device == "cpu":
        memory.bound_host()
    answer.send(run_confined(job, job.device, lambda: _checked(job, partial(_profile, job))))


def run_peak(job: PeakJob, answer: Channel) -> None:
    """Answer with `{"bytes": …}`, or with why a call of the reference could not be made."""
    answer.send(run_confined(job, job.device, lambda: _checked(job, partial(_peak, job))))


def _checked(job: TaskJob, work: Callable[[torch.nn.Module, Any], Any]) -> Any:
    """Return what `work` makes of the reference and the values that it is called with."""
    try:
        with running_reference("the model"), torch.no_grad():
            loaded = load_problem(job, job.workloads[0], _SEED)
            model = build_model(loaded.module, "Model", loaded.module, job.device, _SEED, job.task.mode)
            return work(model, loaded.arguments(_SEED, job.device))
    except NoGraph as e:
        return TaskFailure(str(e), hint=_PART, doing="profiled")
    except ReferenceFailed as e:
        return TaskFailure(str(e))
    except Exception as e:
        return TaskFailure(f"{type(e).__name__}: {first_line(e)}", format_error(e, 6))


def _peak(job: PeakJob, model: torch.nn.Module, args: Sequence[Any]) -> dict[str, int]:
    for _ in range(2):
        model(*args)
    if job.device == "cuda":
        torch.cuda.synchronize()
        return {"bytes": torch.cuda.max_memory_allocated()}
    return {"bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10}


def _profile(job: ProfileJob, model: torch.nn.Module, args: Sequence[Any]) -> ModelProfile:
    device, problems = job.device, list[str]()
    end = time.monotonic() + job.seconds
    called: Callable[..., Any] = model
    if job.compiled:
        model(*args)  # what it raises is its own
        called = torch.compile(model, dynamic=False)
        called(*args)
    once_s = _timed(lambda: called(*args), device)
    calls = _count(end, 2 * once_s)
    walls = [_timed(lambda: called(*args), device) for _ in range(calls)]
    prof = _calls(lambda: called(*args), device, calls)
    whole, kernels = _by_statement(prof, device)[0], _kernels(prof, device)
    recorded = record(model, args)
    values = {**dict(zip(recorded.graph.inputs, pytree.tree_leaves(tuple(args)), strict=True)), **recorded.held}
    program = GraphProgram(recorded.graph)
    calls = _count(end, max(once_s, min(walls)))
    with _profiled(device) as prof:
        for _ in range(calls):
            program.run(values, lambda index: record_function(f"{_MARK}{index}"))
            _wait(device)
    times = _by_statement(prof, device)
    if job.graphs and (replayed := _replayed(prof, program, values, calls)) is not None:
        times = replayed
    elif job.graphs:
        problems.append("a CUDA graph of the model launches other kernels than its calls, so those are what was timed")
    subgraphs = _subgraphs(recorded, program, values, times, job.task.name)
    if job.compiled:
        subgraphs = _compiled(recorded, program, values, subgraphs, device, calls, end)
        if left := sum(not s.eager_s for s in subgraphs):
            problems.append(
                f"{left} of {len(subgraphs)} subgraphs were timed as they are: torch.compile failed on them, or there "
                "was no time left for it (--deadline)"
            )
    zero = [0.0] * calls
    return ModelProfile(
        recorded.graph,
        tuple(subgraphs),
        tuple(walls),
        tuple(whole),
        tuple(map(sum, zip(zero, *(s.samples_s for s in subgraphs), strict=False))) if subgraphs else (),
        tuple(kernels[:_MOST_KERNELS]),
        _rates(job),
        tuple(problems),
    )


def _calls(call: Callable[[], Any], device: str, count: int) -> Any:
    """Profile so many calls, each marked as statement 0."""
    with _profiled(device) as prof:
        for _ in range(count):
            with record_function(f"{_MARK}0"):
                call()
                _wait(device)
    return prof


def _count(end: float, once_s: float) -> int:
    """Return how many calls that take so long there is time for."""
    return max(_LEAST_CALLS, min(_MOST_CALLS, int(_SHARE * (end - time.monotonic()) / max(once_s, 1e-6))))


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _timed(call: Callable[[], Any], device: str) -> float:
    start = time.perf_counter()
    call()
    _wait(device)
    return time.perf_counter() - start


def _profiled(device: str) -> Any:
    os.environ["KINETO_LOG_LEVEL"] = "99"  # it would tell of its stages on the user's terminal
    on_gpu = [ProfilerActivity.CUDA] if device == "cuda" else []
    return profile(activities=[ProfilerActivity.CPU, *on_gpu])


def _by_statement(prof: Any, device: str) -> dict[int, list[float]]:
    """Return the device's seconds within each marked range in each call, by the number in its mark."""
    found: dict[int, list[float]] = {}
    for index, event in _marked(prof.events()):
        on_gpu = device == "cuda"
        seconds = sum(k.duration for k in _launched(event)) * 1e-6 if on_gpu else event.cpu_time_total * 1e-6
        found.setdefault(index, []).append(seconds)
    return found


def _marked(events: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """Yield the marked ranges with the number in their mark."""
    for event in events:
        # On a GPU a mark is there twice; the one on the device spans gaps, too.
        if event.name.startswith(_MARK) and event.device_type == DeviceType.CPU:
            yield int(event.name.removeprefix(_MARK)), event


def _launched(event: Any) -> list[Any]:
    own = [k for k in event.kernels if not k.name.startswith(_MARK)]
    return own + [kernel for child in event.cpu_children for kernel in _launched(child)]


def _on_device(prof: Any) -> list[Any]:
    """Return the device's own events in the order in which they began."""
    events = [e for e in prof.events() if e.device_type != DeviceType.CPU]
    return sorted((e for e in events if not e.name.startswith(_MARK)), key=lambda e: e.time_range.start)


def _replayed(prof: Any, program: GraphProgram, values: Mapping[str, Any], calls: int) -> dict[int, list[float]] | None:
    """Time the kernels in replays of a CUDA graph; None where it does not launch what calls of statements launch."""
    owners: list[tuple[int, str]] = []
    for index, event in _marked(sorted(prof.events(), key=lambda e: e.time_range.start)):
        if owners and index < owners[-1][0]:
            break  # the next call
        owners += [(index, str(kernel.name)) for kernel in _launched(event)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        program.run(values)
    graph.replay()
    torch.cuda.synchronize()
    found: dict[int, list[float]] = {}
    for _ in range(calls):
        with _profiled("cuda") as each:
            graph.replay()
            torch.cuda.synchronize()
        events = _on_device(each)
        if [e.name for e in events] != [name for _, name in owners]:
            return None
        by_index: Counter[int] = Counter()
        for (index, _), event in zip(owners, events, strict=True):
            by_index[index] += event.device_time_total * 1e-6
        for index, seconds in by_index.items():
            found.setdefault(index, []).append(seconds)
    return found


def _kernels(prof: Any, device: str) -> list[KernelTime]:
    """Return the kernels of all profiled calls, the longest first; operations on a CPU."""
    seconds: Counter[str] = Counter()
    launches: Counter[str] = Counter()
    if device == "cuda":
        for event in _on_device(prof):
            seconds[event.name] += event.device_time_total * 1e-6
            launches[event.name] += 1
    else:
        for event in prof.key_averages():
            if not event.key.startswith(_MARK):
                seconds[event.key], launches[event.key] = event.self_cpu_time_total * 1e-6, event.count
    return [KernelTime(name, s, launches[name]) for name, s in seconds.most_common() if s > 0]


def _rates(job: ProfileJob) -> dict[str, float]:
    """Measure what the target does not know of itself: bytes moved and operations done in a second."""
    found: dict[str, float] = {}
    target, device = job.target, job.device
    if target.memory_bandwidth is None:
        data = torch.ones(16 << 20, device=device)
        found["memory_bandwidth"] = 2 * data.nbytes / min(_timed(data.clone, device) for _ in range(5))
    for name, dtype in (("fp32_flops", torch.float32), ("tensor_flops", torch.bfloat16)):
        if getattr(target, name) is None:
            side = 4096 if device == "cuda" else 768
            a = torch.randn(side, side, device=device).to(dtype)
            found[name] = 2.0 * side**3 / min(_timed(lambda a=a: a @ a, device) for _ in range(3))
    return found


def _subgraphs(
    recorded: RecordedGraph,
    program: GraphProgram,
    values: Mapping[str, Any],
    times: Mapping[int, Sequence[float]],
    model: str,
) -> list[Subgraph]:
    cutter, weights = _Cutter(recorded), recorded.graph.weights
    found: dict[str, list[tuple[int, int, Piece]]] = {}
    for first, last in cutter.stretches():
        piece = cutter.piece(first, last)
        specs = {name: recorded.facts[name].spec for name in (*piece.inputs, *piece.weights)}
        found.setdefault(piece.identity(specs, recorded.graph.constants), []).append((first, last, piece))
    pieces = [places[0][2] for places in found.values()]
    draws, finite = _draws(recorded, program, values, pieces)
    made: list[Subgraph] = []
    for sha256, places in found.items():
        first, last, piece = places[0]
        samples = [times.get(i, ()) for f, t, _ in places for i in range(f, t + 1)]
        own = [s.name for s in recorded.graph.statements[first : last + 1] if s.kind == "value"]
        facts = [recorded.facts[name] for name in own]
        borders = {recorded.facts[name].base for name in (*piece.inputs, *piece.weights, *piece.outputs)}
        one = Subgraph(
            sha256,
            _title([f.operation for f in facts]),
            tuple(SubgraphPlace(f, t, p.inputs, tuple(weights[w] for w in p.weights), p.outputs) for f, t, p in places),
            tuple(map(sum, zip(*(s for s in samples if s), strict=False))),
            sum(recorded.facts[name].size for name in borders),
            tuple(o for f in facts for o in f.operations),
        )
        made.append(_with_problem(one, piece, recorded, draws, finite, model))
    return made


def _compiled(
    recorded: RecordedGraph,
    program: GraphProgram,
    values: Mapping[str, Any],
    subgraphs: Sequence[Subgraph],
    device: str,
    calls: int,
    end: float,
) -> list[Subgraph]:
    """Time subgraphs under torch.compile on a call's values, the longest first, until the `end`."""
    cutter = _Cutter(recorded)
    pieces = {s.sha256: cutter.piece(s.places[0].first, s.places[0].last) for s in subgraphs}
    wanted = {name for piece in pieces.values() for name in piece.inputs}
    held = {**values}
    program.run(values, made=lambda name, value: held.update({name: value} if name in wanted else {}))
    found: dict[str, Subgraph] = {}
    for one in sorted(subgraphs, key=lambda s: -sum(s.samples_s)):
        if time.monotonic() >= end:
            break
        piece = pieces[one.sha256]
        run = torch.compile(piece.function(GLOBALS), dynamic=False)
        given = [held[name] for name in (*piece.inputs, *piece.weights, *piece.constants)]
        with suppress(Exception):  # whatever torch.compile raises, its operations run as they are then
            run(*given)
            times = _by_statement(_calls(lambda run=run, given=given: run(*given), device, calls), device)[0]
            samples = tuple(len(one.places) * seconds for seconds in times)
            found[one.sha256] = replace(one, samples_s=samples, eager_s=one.samples_s)
    return [found.get(s.sha256, s) for s in subgraphs]


def _title(operations: Sequence[str]) -> str:
    """Return the operations in order, those that follow each other alike as one."""
    runs = [(name, len(list(alike))) for name, alike in groupby(filter(None, operations))]
    return ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in runs)


def _is_foreign(statement: Statement) -> bool:
    """Return whether a statement calls an operation that a package, or the model's file, has registered."""
    return statement.text.startswith("torch.ops.") and not statement.text.startswith("torch.ops.aten.")


def _with_problem(
    one: Subgraph,
    piece: Piece,
    recorded: RecordedGraph,
    draws: Mapping[str, str],
    finite: Collection[str],
    model: str,
) -> Subgraph:
    """Add the text of a task, or why there is none."""
    foreign = [s.text.partition("(")[0] for s in piece.statements if _is_foreign(s)]
    why = ""
    if foreign:
        why = (
            f"{foreign[0].removeprefix('torch.ops.')} is none of torch's own operations; write a task around it that "
            "imports the package, or leave it as it is"
        )
    elif not piece.outputs:
        why = "nothing outside of it uses what it makes"
    elif any(not recorded.graph.constants[c] for c in piece.constants):
        why = "it uses a large tensor that the model makes of literals"
    elif strange := [n for n in (*piece.inputs, *piece.outputs) if len(recorded.facts[n].spec) != 1]:
        why = f"{strange[0]} is no tensor"
    if why:
        return replace(one, why_not=why)
    names = parameter_names([recorded.graph.weights[w] for w in piece.weights])
    text = partial(
        problem,
        piece,
        sha256=one.sha256,
        title=one.title,
        model=model,
        parameters=dict(zip(piece.weights, names, strict=True)),
        constants=recorded.graph.constants,
        trained={w: recorded.held[w].is_floating_point() and w.startswith("p_") for w in piece.weights},
    )
    if all(name in finite for name in piece.outputs):
        device = next((t.device for t in recorded.held.values()), torch.device("cpu"))
        draws = _narrowed(piece, draws, lambda draws: text(draws=draws), device)
    specs = (recorded.facts[name].spec[0] for name in piece.outputs)
    layouts = tuple((shape, stride, dtype.removeprefix("torch.")) for shape, stride, dtype in specs)
    return replace(one, problem=text(draws=draws), parameters=tuple(names), layouts=layouts)


def _draws(
    recorded: RecordedGraph, program: GraphProgram, values: Mapping[str, Any], pieces: Sequence[Piece]
) -> tuple[dict[str, str], set[str]]:
    """Return expressions that draw inputs and weights of pieces, and which results are finite, from one more call."""
    found = {w: drawn(recorded.held[w], weight=True) for p in pieces for w in p.weights}
    wanted, given = {name for p in pieces for name in p.inputs}, {name for p in pieces for name in p.outputs}
    found |= {n: drawn(values[n]) for n in wanted if isinstance(values.get(n), torch.Tensor)}
    finite: set[str] = set()

    def keep(name: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            if name in wanted:
                found[name] = drawn(value)
            if name in given and bool(value.isfinite().all()):
                finite.add(name)

    program.run(values, made=keep)
    return found, finite


def _narrowed(
    piece: Piece, draws: Mapping[str, str], text: Callable[[Mapping[str, str]], str], device: torch.device
) -> Mapping[str, str]:
    """Return the draws, the widest inputs narrower while the task's results are not finite, as the model's are.

    Drawn whole numbers may be indices that belong together, so nothing is run on them.
    """
    draws = dict(draws)
    for _ in range(_NARROWED):
        with torch.device(device):
            module = load_module(text(draws), "subgraph", {})
            inputs: list[torch.Tensor] = module.get_inputs()
            if any(not i.is_floating_point() and i.dtype != torch.bool for i in inputs):
                break
            results = module.Model(*module.get_init_inputs())(*inputs)
        if all(bool(t.isfinite().all()) for t in pytree.tree_leaves(results)):
            break
        wide = {n: _reach(i) for n, i in zip(piece.inputs, inputs, strict=True) if i.is_floating_point()}
        if not wide:
            break
        widest = max(wide, key=wide.__getitem__)
        draws[widest] = f"{_NARROWER} * {draws[widest]}"
    return draws


def _reach(tensor: torch.Tensor) -> float:
    """Return the largest finite value's magnitude."""
    finite = tensor[tensor.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0


class _Cutter:
    """Stretches of a graph's statements, and what each of them takes and gives."""

    def __init__(self, recorded: RecordedGraph) -> None:
        self._facts, graph = recorded.facts, recorded.graph
        self._statements, self._graph = graph.statements, graph
        self._by_name = {s.name: s for s in graph.statements if s.kind != "change"}
        self._place = {s.name: i for i, s in enumerate(graph.statements)}
        # Nodes are the statements that make something, each with the parts of a result that has several.
        self._nodes: list[list[int]] = []
        owner: dict[str, int] = {}
        for index, s in enumerate(graph.statements):
            if s.kind != "value":
                continue
            if not self._facts[s.name].operation and s.uses and s.uses[0] in owner:
                owner[s.name] = owner[s.uses[0]]
                self._nodes[owner[s.name]].append(index)
            else:
                owner[s.name] = len(self._nodes)
                self._nodes.append([index])

    def stretches(self) -> list[tuple[int, int]]:
        """Return the first and the last statement of each subgraph."""
        moving = set(self._graph.inputs)
        for s in self._statements:
            if s.kind != "change" and moving & set(s.uses):
                moving.add(s.name)
        nodes = [self._node(indices, moving) for indices in self._nodes]
        last: dict[str, int] = {}
        for place, node in enumerate(nodes):
            last |= dict.fromkeys(node.reads, place)
        kept = {self._facts[name].base for name in self._graph.result if name in self._facts}
        kept |= {self._facts[u].base for s in self._statements if s.kind == "change" for u in s.uses}
        last |= dict.fromkeys(kept, len(nodes))
        sizes = {name: f.size for name, f in self._facts.items()}
        return [
            (self._nodes[first][0], self._nodes[end][-1]) for first, end in Partition(nodes, sizes, last).stretches()
        ]

    def _node(self, indices: Sequence[int], moving: Collection[str]) -> OperationNode:
        names = [self._statements[i].name for i in indices]
        facts = self._facts[names[0]]
        reads = frozenset(self._facts[u].base for u in self._statements[indices[0]].uses) - set(names)
        work = sum(o.flops * o.times / RIDGE[_BITS.get(o.dtype, 8)] for o in facts.operations)
        layer = any(o.kind in ("product", "convolution") for o in facts.operations)
        held = reads & self._graph.weights.keys()
        roots = reads - held if layer and held else None
        foreign = any(_is_foreign(self._statements[i]) for i in indices)
        return OperationNode(reads, frozenset(names), work, roots, names[0] not in moving, foreign)

    def piece(self, first: int, last: int) -> Piece:
        """Return a stretch with the views that it needs from before it; views within it are its own."""
        own = {s.name for s in self._statements[first : last + 1] if s.kind == "value"}
        needed: dict[int, None] = {}
        outside: dict[str, None] = {}

        def need(name: str) -> None:
            statement = self._by_name.get(name)
            if statement is None or (statement.kind == "value" and name not in own):
                outside[name] = None
                return
            if self._place[name] not in needed:
                for used in statement.uses:
                    need(used)
                needed[self._place[name]] = None

        for s in self._statements[first : last + 1]:
            if s.kind == "value":
                need(s.name)
        after = self._used_after(last)
        names = list(outside)  # in the order of use, which is alike in equal subgraphs
        weights, constants = self._graph.weights, self._graph.constants
        return Piece(
            tuple(self._statements[i] for i in sorted(needed)),
            tuple(n for n in names if n not in weights and n not in constants),
            tuple(n for n in names if n in weights),
            tuple(n for n in names if n in constants),
            tuple(s.name for s in self._statements[first : last + 1] if s.name in own & after),
        )

    def _used_after(self, last: int) -> set[str]:
        """Return the owners of what is used after a statement, or returned."""
        used = {u for s in self._statements[last + 1 :] if s.kind != "view" for u in s.uses}
        return {self._facts[u].base for u in used | set(self._graph.result) if u in self._facts}
