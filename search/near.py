"""Near shapes: a task's own sizes changed a little, to ones that nobody has tuned for."""

from __future__ import annotations

import ast
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from forewarp.core.errors import TaskError
from forewarp.core.values import DeviceKind, Signature, Task, TensorSpec, Workload

MOST = 3
"""Near shapes of a task, at most."""
PER_WORKLOAD = 2
"""Near shapes made from one workload, at most."""
LEAST_SIZE = 16
"""Constants below this are left alone: they are rather numbers of heads, of neighbours or of the best k."""
_LONG = 257
_MOST_CONSTANTS = 8
_MOST_WORKLOADS = 4

SizeChange = Callable[[int], int]
Describe = Callable[[Task], Sequence[Signature]]
"""Returns a task's signatures, as `Executor.describe` does; raises `TaskError` where its reference fails."""


@dataclass(frozen=True, slots=True)
class Near:
    """A task of one workload, made from another by changes of its constants, old and new."""

    task: Task
    workload: Workload
    origin: str
    changes: Mapping[str, tuple[int, int]]
    signature: Signature


def near_shapes(task: Task, kind: DeviceKind, signatures: Sequence[Signature], describe: Describe) -> tuple[Near, ...]:
    """Return up to `MOST` near shapes, each in a task of its own; none where no constant is a size.

    Sizes, with which some dimension of an input shrinks and nothing grows, become a prime or a power of two a little
    smaller: as many together as the reference takes by `describe`. `signatures` are the task's, in its workloads'
    order.
    """
    workloads = [
        _Sizes(task, kind, workload, signature, describe)
        for workload, signature in zip(task.workloads[kind], signatures, strict=True)
    ]
    known = {_shapes(s) for s in signatures}
    made: list[Near] = []
    per_workload: Counter[int] = Counter()
    for index, change, least in _order(len(workloads)):
        if len(made) < min(MOST, PER_WORKLOAD * len(workloads)) and per_workload[index] < PER_WORKLOAD:
            near = workloads[index].change(change, least)
            if near is not None and _shapes(near.signature) not in known:
                known.add(_shapes(near.signature))
                made.append(near)
                per_workload[index] += 1
    return tuple(made)


def _order(count: int) -> Iterator[tuple[int, SizeChange, int]]:
    """Yield which workload to change how from which size on; small sizes, such as of heads, come last."""
    long, odd, halved = (_odd, _LONG), (_odd, LEAST_SIZE), (_halved, LEAST_SIZE)
    first = [(0, long), (1, halved), (2, odd)] if count >= 3 else [(0, long), (0, halved), (1, odd)]
    rest = [(i, change) for i in range(min(count, _MOST_WORKLOADS)) for change in (odd, halved)]
    for i, change in [*first, *(pair for pair in rest if pair not in first)]:
        if i < count:
            yield i, *change


def _odd(size: int) -> int:
    """Return the largest prime below a size: no tile divides it."""
    return next(n for n in range(size - 1, 1, -1) if all(n % d for d in range(2, int(n**0.5) + 1)))


def _halved(size: int) -> int:
    """Return the largest power of two below a size."""
    return 1 << ((size - 1).bit_length() - 1)


class _Sizes:
    """The sizes of one workload, and what the reference takes instead of them."""

    def __init__(
        self, task: Task, kind: DeviceKind, workload: Workload, signature: Signature, describe: Describe
    ) -> None:
        self._task, self._workload, self._signature, self._describe = task, workload, signature, describe
        self._kind: DeviceKind = kind
        self._sizes = _constants(task, kind, workload)
        self._answers: dict[tuple[tuple[str, int], ...], Near | None] = {}
        self._refused: set[str] = set()

    def change(self, change: SizeChange, least: int) -> Near | None:
        """Change as many sizes from `least` on as the reference takes together, the largest first; None for none."""
        best: Near | None = None
        chosen: dict[str, int] = {}
        wanted = {name: change(size) for name, size in self._sizes.items() if size >= least}
        for group in self._groups(wanted):
            near = self._near(chosen | group)
            if near is not None:
                chosen, best = chosen | group, near
        return best

    def _groups(self, wanted: Mapping[str, int]) -> Iterator[dict[str, int]]:
        """Yield changes that the reference takes: of one constant, or of equal ones that it refuses one by one."""
        refused: list[str] = []
        for name in sorted(wanted, key=lambda n: (-self._sizes[n], n)):
            if self._near({name: wanted[name]}) is not None:
                yield {name: wanted[name]}
            elif name in self._refused:
                refused.append(name)
        for size in sorted({self._sizes[n] for n in refused}, reverse=True):
            equal = {n: wanted[n] for n in refused if self._sizes[n] == size}
            if len(equal) > 1 and self._near(equal) is not None:
                yield equal

    def _near(self, changed: Mapping[str, int]) -> Near | None:
        key = tuple(sorted(changed.items()))
        if key not in self._answers:
            self._answers[key] = self._tried(changed)
        return self._answers[key]

    def _tried(self, changed: Mapping[str, int]) -> Near | None:
        name = " ".join(f"{k}={v}" for k, v in sorted(changed.items()))
        workload = Workload(name, {**self._workload.constants, **changed})
        shapes: dict[DeviceKind, tuple[Workload, ...]] = {**self._task.workloads, self._kind: (workload,)}
        task = replace(self._task, workloads=shapes, seeds=())
        try:
            (signature,) = self._describe(task)
        except TaskError:
            self._refused |= changed.keys() if len(changed) == 1 else set()
            return None
        if not _smaller(self._signature, signature):
            return None
        changes = {k: (self._sizes[k], v) for k, v in changed.items()}
        return Near(task, workload, self._workload.name, changes, signature)


def _constants(task: Task, kind: DeviceKind, workload: Workload) -> dict[str, int]:
    """Return what may be sizes: the workload's whole numbers, or the reference's own where no workload sets any."""
    given = dict(workload.constants)
    if task.format == "kernelbench" and not any(w.constants for w in task.workloads[kind]):
        given = {**_module_constants(task.reference)}
    sizes = {k: v for k, v in given.items() if type(v) is int and v >= LEAST_SIZE}
    return dict(sorted(sizes.items(), key=lambda item: -item[1])[:_MOST_CONSTANTS])


def _module_constants(reference: str) -> dict[str, int]:
    """Return the whole numbers that a file assigns to names, each once, at its top; the file is parsed, not run."""
    values: dict[str, list[int | None]] = {}
    for name, value in (pair for node in ast.parse(reference).body for pair in _assigned(node)):
        values.setdefault(name, []).append(_number(value))
    once = {name: each[0] for name, each in values.items() if len(each) == 1 and not name.startswith("_")}
    return {name: value for name, value in once.items() if value is not None}


def _assigned(node: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield each name that a statement assigns to, with its value as far as that can be told."""
    if isinstance(node, ast.AnnAssign | ast.AugAssign):
        value = node.value if isinstance(node, ast.AnnAssign) else None
        pairs: list[tuple[ast.expr, ast.expr | None]] = [(node.target, value)]
    elif isinstance(node, ast.Assign):
        pairs = [(target, node.value) for target in node.targets]
    else:
        return
    for target, value in pairs:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            yield from ((t.id, v) for t, v in zip(target.elts, value.elts, strict=True) if isinstance(t, ast.Name))
        else:
            yield from ((t.id, value) for t in ast.walk(target) if isinstance(t, ast.Name))


_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.LShift: operator.lshift,
    ast.Pow: operator.pow,
}
_LARGE = 1 << 40


def _number(node: ast.expr | None) -> int | None:
    """Return the value of a whole number, or of arithmetic on such; None for anything else."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if not isinstance(node, ast.BinOp) or type(node.op) not in _ARITHMETIC:
        return None
    left, right = _number(node.left), _number(node.right)
    if left is None or right is None or max(abs(left), abs(right)) > _LARGE:
        return None
    too_far = isinstance(node.op, ast.LShift | ast.Pow) and not 0 <= right <= 40
    if too_far or (isinstance(node.op, ast.FloorDiv) and not right):
        return None
    return _ARITHMETIC[type(node.op)](left, right)


def _shapes(signature: Signature) -> tuple[TensorSpec, ...]:
    return (*signature.inputs, *signature.params, *signature.outputs)


def _smaller(before: Signature, after: Signature) -> bool:
    """Return whether an input or a parameter has shrunk, nothing has grown, and all else is as it was."""
    old, new = _shapes(before), _shapes(after)
    if [(s.name, s.dtype, len(s.shape)) for s in old] != [(s.name, s.dtype, len(s.shape)) for s in new]:
        return False
    if (before.written, before.aliases) != (after.written, after.aliases):
        return False
    if any(n > o for one, other in zip(old, new, strict=True) for o, n in zip(one.shape, other.shape, strict=True)):
        return False
    given = len(before.inputs) + len(before.params)
    return [s.shape for s in old[:given]] != [s.shape for s in new[:given]]
