"""The job that profiles a model, and its answer: the model's graph as Python, its subgraphs, and times.

They stand apart because the controller, which asks for them, does without torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from forewarp.core.values import Operation
from forewarp.gpu_runner.worker.requests import TaskJob


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileJob(TaskJob):
    """Profile the model of a task; with `graphs` in replays of a CUDA graph, if `compiled` by torch.compile."""

    run = "forewarp.models.profiling:run"
    seconds: float
    graphs: bool = False
    compiled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakJob(TaskJob):
    """Find the most device memory that a call of the reference takes, weights and inputs included."""

    run = "forewarp.models.profiling:run_peak"


@dataclass(frozen=True, slots=True)
class Statement:
    """`name` is assigned `text`, over the names in `uses`; a "view" shares memory, a "change" writes to a buffer."""

    name: str
    text: str
    uses: tuple[str, ...]
    kind: Literal["value", "view", "change"] = "value"


@dataclass(frozen=True, slots=True)
class ModelGraph:
    """A model's forward as Python.

    `inputs` are the names of the leaves of forward's arguments in order, `described` their shapes and dtypes, of what
    is no tensor the value. `weights` gives by name the path of a parameter, a buffer or a large tensor that is neither,
    `constants` an expression for each other tensor, "" for a large one. `result` are the names or literals of the
    result's leaves, and `spec` their nest as `treespec_dumps` writes it, "" for a single tensor. `training` is the mode
    that it is for, None for both.
    """

    statements: tuple[Statement, ...]
    inputs: tuple[str, ...]
    weights: Mapping[str, str]
    constants: Mapping[str, str]
    result: tuple[str, ...]
    spec: str
    described: tuple[Any, ...]
    training: bool | None = None


@dataclass(frozen=True, slots=True)
class SubgraphPlace:
    """A place of a subgraph: its statements, what goes in and comes out, weights in order of its parameters."""

    first: int
    last: int
    inputs: tuple[str, ...]
    weights: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Subgraph:
    """Equal subgraphs: same operations, shapes, dtypes, strides.

    `problem` is the text of a KernelBench file, "" where `why_not` says why there is none; its model's weights are
    called `parameters`, and `layouts` are shape, stride and dtype of what it returns. `samples_s` are seconds of all
    `places` together in each profiled call; where torch.compile compiled it, `eager_s` are those before. `moved` are
    bytes of inputs, weights and outputs of one place, `operations` those of one place.
    """

    sha256: str
    title: str
    places: tuple[SubgraphPlace, ...]
    samples_s: tuple[float, ...]
    moved: int
    operations: tuple[Operation, ...]
    problem: str = ""
    why_not: str = ""
    parameters: tuple[str, ...] = ()
    layouts: tuple[tuple[tuple[int, ...], tuple[int, ...], str], ...] = ()
    eager_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelTime:
    """A kernel by name (an operation of torch on a CPU) with its seconds in all calls of the model, and launches."""

    name: str
    seconds: float
    launches: int


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """A model's graph, its subgraphs, and their times.

    `calls_s` are seconds of whole calls by the host's clock, `device_s` of all kernels in a call, both of the model as
    it is; `graph_s` of all subgraphs in a call. `rates` are what was measured here of `memory_bandwidth` (bytes/s),
    `fp32_flops` and `tensor_flops`, for targets of which nobody knows them.
    """

    graph: ModelGraph
    subgraphs: tuple[Subgraph, ...]
    calls_s: tuple[float, ...]
    device_s: tuple[float, ...]
    graph_s: tuple[float, ...]
    kernels: tuple[KernelTime, ...]
    rates: Mapping[str, float] = field(default_factory=dict[str, float])
    problems: tuple[str, ...] = ()
