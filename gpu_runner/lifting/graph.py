"""Nodes and edges of a captured CUDA graph as plain values, and a graph made of them in another process."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from forewarp.gpu_runner.lifting import driver
from forewarp.gpu_runner.lifting.driver import Handle

_KINDS = {
    0: "kernel",
    1: "copy",
    2: "fill",
    3: "a call of a host function",
    4: "a graph within the graph",
    5: "empty",
    6: "a wait for an event from outside",
    7: "an event for outside",
    8: "a signal to an external semaphore",
    9: "a wait for an external semaphore",
    10: "memory allocated by the graph itself",
    11: "memory freed by the graph itself",
    12: "a batch of memory operations",
    13: "a conditional node",
}
_ATTRIBUTES = (1, 2, 4, 5, 8, 9, 10, 11, 14)
"""Attributes of a launch that are kept.

Access policy, cooperative, cluster, its scheduling, priority, memory domains, preferred cluster and shared memory.
"""
_FUNCTION_ATTRIBUTES = (8, 9, 14, 15)
"""Attributes of a function that are kept: most dynamic shared memory, carve-out, non-portable clusters, scheduling."""
_ATTRIBUTE_BYTES = 64
_ELSEWHERE = (1, 3)
"""Kinds of memory that are not device memory with an address: the host's, and arrays."""
_PACKED_POINTER, _PACKED_SIZE = 1, 2
_POINTER_BYTES, _MEMORY_TYPE = 8, 2
PLAIN = "00" * 8
"""The data of an edge by which one node waits for the end of another."""


NO_CAPTURE = "a forward cannot be captured as a CUDA graph"
"""Beginning of the reason where torch refused to capture, or the module crashed."""


class NotLiftable(Exception):
    """The captured graph cannot be run without the process that it was captured in; the text says why."""


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """One launch of the code with number `image`.

    `arguments` are raw bytes in hexadecimal; all of them in one where `packed`. `attributes` (hexadecimal) and
    `function_attributes` go by the driver's numbers.
    """

    name: str
    image: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    arguments: tuple[str, ...]
    packed: bool = False
    attributes: tuple[tuple[int, str], ...] = ()
    function_attributes: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A node of a graph: a launch, or a fill or copy with its parameters in hexadecimal, or an empty one ("join")."""

    kind: Literal["launch", "fill", "copy", "join"]
    launch: KernelLaunch | None = None
    parameters: str = ""


@dataclass(frozen=True, slots=True)
class Edge:
    """The node `to` waits for the node `after`; `data` is `driver.EdgeData` in hexadecimal."""

    after: int
    to: int
    data: str


def within(node: GraphNode, begin: int, end: int) -> bool:
    """Return whether what a fill or a copy touches is device memory from `begin` to `end`."""
    raw = bytes.fromhex(node.parameters)
    if node.kind == "fill":
        fill = driver.MemsetNode.from_buffer_copy(raw)
        reach = max(0, fill.height - 1) * fill.pitch + fill.width * fill.element_bytes
        return begin <= fill.address <= end - reach
    if node.kind == "copy":
        copy = driver.CopyNode.from_buffer_copy(raw)
        return all(_reaches(side, copy, begin, end) for side in (copy.source, copy.target))
    return True


def _reaches(side: Any, copy: driver.CopyNode, begin: int, end: int) -> bool:
    if side.kind in _ELSEWHERE:
        return False
    rows = (side.z + max(1, copy.depth) - 1) * side.height + side.y + max(1, copy.height) - 1
    return begin <= side.device <= end - (rows * side.pitch + side.x + copy.width)


ImageOf = Callable[[int, str], int]
"""Given a function's handle and name, return the number of its code; raises `NotLiftable`."""


def read(graph: int, image_of: ImageOf, ours: Callable[[int], bool]) -> tuple[list[GraphNode], list[Edge]]:
    """Return nodes and edges of a captured graph, whose memory is all `ours`; raises `NotLiftable`."""
    count = ctypes.c_size_t()
    driver.call("cuGraphGetNodes", Handle(graph), None, ctypes.byref(count))
    handles = (Handle * count.value)()
    driver.call("cuGraphGetNodes", Handle(graph), handles, ctypes.byref(count))
    nodes = [_node(Handle(h), image_of, ours) for h in handles]
    return nodes, list(_edges(graph, {h: i for i, h in enumerate(handles)}))


def _node(handle: Handle, image_of: ImageOf, ours: Callable[[int], bool]) -> GraphNode:
    kind = ctypes.c_int()
    driver.call("cuGraphNodeGetType", handle, ctypes.byref(kind))
    name = _KINDS.get(kind.value, f"a node of kind {kind.value}")
    if name == "kernel":
        launch = _launch(handle, image_of)
        if any(_is_foreign(bytes.fromhex(a), ours) for a in launch.arguments if not launch.packed):
            raise NotLiftable(f"{launch.name} uses memory that torch did not allocate on the device")
        return GraphNode("launch", launch)
    if name == "fill":
        fill = driver.MemsetNode()
        driver.call("cuGraphMemsetNodeGetParams", handle, ctypes.byref(fill))
        if not ours(fill.address):
            raise NotLiftable("it fills memory that torch did not allocate")
        return GraphNode("fill", parameters=bytes(fill).hex())
    if name == "copy":
        copy = driver.CopyNode()
        driver.call("cuGraphMemcpyNodeGetParams", handle, ctypes.byref(copy))
        for end in (copy.source, copy.target):
            if end.kind in _ELSEWHERE or not ours(end.device):
                raise NotLiftable("it copies from or to memory that torch did not allocate on the device")
        return GraphNode("copy", parameters=bytes(copy).hex())
    if name == "empty":
        return GraphNode("join")
    raise NotLiftable(f"it has {name} in it")


def _launch(handle: Handle, image_of: ImageOf) -> KernelLaunch:
    node, name = driver.KernelNode(), ctypes.c_char_p()
    driver.call("cuGraphKernelNodeGetParams_v2", handle, ctypes.byref(node))
    function = Handle(node.function)
    if not node.function:
        driver.call("cuKernelGetFunction", ctypes.byref(function), Handle(node.kernel))
    driver.call("cuFuncGetName", ctypes.byref(name), function)
    text = (name.value or b"").decode()
    return KernelLaunch(
        name=text,
        image=image_of(function.value or 0, text),
        grid=(node.grid_x, node.grid_y, node.grid_z),
        block=(node.block_x, node.block_y, node.block_z),
        shared=node.shared,
        arguments=tuple(_arguments(function, node)) if node.parameters else (_packed(node),),
        packed=not node.parameters,
        attributes=tuple(_launch_attributes(handle)),
        function_attributes=tuple(_function_attributes(function)),
    )


def _is_foreign(argument: bytes, ours: Callable[[int], bool]) -> bool:
    """Return whether an argument is an address that CUDA knows and that does not go along; structures may be any."""
    if len(argument) != _POINTER_BYTES:
        return False
    address, kind = int.from_bytes(argument, "little"), ctypes.c_uint()
    if not address or ours(address):
        return False
    return driver.status("cuPointerGetAttribute", ctypes.byref(kind), _MEMORY_TYPE, ctypes.c_uint64(address)) == 0


def _packed(node: driver.KernelNode) -> str:
    """Return the one buffer of a launch that has all its arguments in one; "" for a launch without any."""
    if not node.extra:
        return ""
    words = {node.extra[i]: node.extra[i + 1] for i in (0, 2) if node.extra[i]}
    size = ctypes.cast(words[_PACKED_SIZE] or 0, ctypes.POINTER(ctypes.c_size_t)).contents.value
    return ctypes.string_at(words[_PACKED_POINTER] or 0, size).hex()


def _arguments(function: Handle, node: driver.KernelNode) -> Iterator[str]:
    index = 0
    offset, size = ctypes.c_size_t(), ctypes.c_size_t()
    sizes = ctypes.byref(offset), ctypes.byref(size)
    while driver.status("cuFuncGetParamInfo", function, ctypes.c_size_t(index), *sizes) == 0:
        yield ctypes.string_at(node.parameters[index], size.value).hex()
        index += 1


def _launch_attributes(handle: Handle) -> Iterator[tuple[int, str]]:
    for number in _ATTRIBUTES:
        value = (ctypes.c_ubyte * _ATTRIBUTE_BYTES)()
        if driver.status("cuGraphKernelNodeGetAttribute", handle, number, ctypes.byref(value)) == 0 and any(value):
            yield number, bytes(value).hex()


def _function_attributes(function: Handle) -> Iterator[tuple[int, int]]:
    for number in _FUNCTION_ATTRIBUTES:
        value = ctypes.c_int()
        if driver.status("cuFuncGetAttribute", ctypes.byref(value), number, function) == 0:
            yield number, value.value


def _edges(graph: int, numbers: dict[int | None, int]) -> Iterator[Edge]:
    count = ctypes.c_size_t()
    driver.call("cuGraphGetEdges_v2", Handle(graph), None, None, None, ctypes.byref(count))
    first, second = (Handle * count.value)(), (Handle * count.value)()
    data = (driver.EdgeData * count.value)()
    if count.value:
        driver.call("cuGraphGetEdges_v2", Handle(graph), first, second, data, ctypes.byref(count))
    for i in range(count.value):
        yield Edge(numbers[first[i]], numbers[second[i]], bytes(data[i]).hex())


class Built:
    """A graph made of nodes and edges, ready to be launched or to stand within another one."""

    def __init__(self) -> None:
        self.graph = Handle()
        driver.call("cuGraphCreate", ctypes.byref(self.graph), 0)
        self._executable: Handle | None = None
        self._ends: list[Handle] = []

    def add(self, nodes: Sequence[GraphNode], edges: Sequence[Edge], functions: Sequence[Handle]) -> None:
        """Add nodes behind all that was added before; `functions` are the code of the launches, by node."""
        before, handles = self._ends, [self._add(node, functions[i]) for i, node in enumerate(nodes)]
        # A node behind an edge of another kind may begin before the node in front of it has ended.
        begun, followed = {e.to for e in edges}, {e.after for e in edges if e.data == PLAIN}
        for edge in edges:
            self._connect(handles[edge.after], handles[edge.to], edge.data)
        for end in before:
            for index, handle in enumerate(handles):
                if index not in begun:
                    self._connect(end, handle)
        self._ends = [h for i, h in enumerate(handles) if i not in followed] or before

    def _add(self, node: GraphNode, function: Handle) -> Handle:
        handle = Handle()
        where = ctypes.byref(handle), self.graph, None, ctypes.c_size_t(0)
        parameters = bytes.fromhex(node.parameters)
        if node.launch is not None:
            _add_launch(where, handle, node.launch, function)
        elif node.kind == "fill":
            fill = driver.MemsetNode.from_buffer_copy(parameters)
            driver.call("cuGraphAddMemsetNode", *where, ctypes.byref(fill), _context())
        elif node.kind == "copy":
            copy = driver.CopyNode.from_buffer_copy(parameters)
            driver.call("cuGraphAddMemcpyNode", *where, ctypes.byref(copy), _context())
        else:
            driver.call("cuGraphAddEmptyNode", *where)
        return handle

    def _connect(self, after: Handle, to: Handle, data: str = PLAIN) -> None:
        edge = driver.EdgeData.from_buffer_copy(bytes.fromhex(data))
        ends: Sequence[Any] = (ctypes.byref(after), ctypes.byref(to), ctypes.byref(edge))
        driver.call("cuGraphAddDependencies_v2", self.graph, *ends, ctypes.c_size_t(1))

    def upload(self, stream: int) -> None:
        """Make the graph ready, so that its first launch takes no longer than others; nothing can be added any more."""
        driver.call("cuGraphUpload", self._ready(), Handle(stream))

    def launch(self, stream: int) -> None:
        driver.call("cuGraphLaunch", self._ready(), Handle(stream))

    def _ready(self) -> Handle:
        if self._executable is None:
            self._executable = Handle()
            driver.call("cuGraphInstantiateWithFlags", ctypes.byref(self._executable), self.graph, ctypes.c_uint64(0))
        return self._executable

    def close(self) -> None:
        if self._executable is not None:
            driver.status("cuGraphExecDestroy", self._executable)
        driver.status("cuGraphDestroy", self.graph)


def _add_launch(where: Sequence[Any], handle: Handle, launch: KernelLaunch, function: Handle) -> None:
    raw = [bytes.fromhex(a) for a in launch.arguments]
    buffers = [ctypes.create_string_buffer(r, max(len(r), 1)) for r in raw]
    pointers, extra = (Handle * max(len(buffers), 1))(*[ctypes.addressof(b) for b in buffers]), None
    size = ctypes.c_size_t(len(raw[0]) if launch.packed else 0)
    if launch.packed:
        words = _PACKED_POINTER, ctypes.addressof(buffers[0]), _PACKED_SIZE, ctypes.addressof(size), 0
        pointers, extra = None, (Handle * len(words))(*words)
    how = driver.KernelNode(function, *launch.grid, *launch.block, launch.shared, pointers, extra, None, None)
    try:
        driver.call("cuGraphAddKernelNode_v2", *where, ctypes.byref(how))
    except driver.CudaError as e:
        shape = f"grid {launch.grid}, block {launch.block}, {launch.shared} bytes of shared memory"
        raise driver.CudaError(f"{e} ({launch.name}, {shape})") from None
    for number, value in launch.attributes:
        data = (ctypes.c_ubyte * _ATTRIBUTE_BYTES).from_buffer_copy(bytes.fromhex(value))
        driver.call("cuGraphKernelNodeSetAttribute", handle, number, ctypes.byref(data))


def _context() -> Handle:
    context = Handle()
    driver.call("cuCtxGetCurrent", ctypes.byref(context))
    return context
