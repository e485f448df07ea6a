"""Choices under torch.compile: of the user's kernels before Inductor compiles them, of its own before it times them.

Its modules are changed once somebody imports them, because importing them takes seconds.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

from forewarp.tuning.catching import space_of
from forewarp.tuning.space import Space

LaunchOf = Callable[[], tuple[Space, Iterable[str]]]
"""Return the space of a launch, and the names of the arguments by which its calls are told apart."""
Choose = Callable[[LaunchOf, int], Sequence[int]]
"""Return the places of the configurations to keep, of so many; it raises nothing."""


def changed(choose: Choose, named: Callable[[], str]) -> contextlib.ExitStack:
    """Have Inductor keep the configurations that `choose` keeps, until the stack is closed.

    `named` says what choices rest on: a compiled graph that Inductor has stored is found again by the same only.
    """
    stack = contextlib.ExitStack()

    def kernels(module: Any) -> None:
        replace(module.UserDefinedTritonKernel, "get_kernel_and_metadata", _kept_kernel)

    def tuners(module: Any) -> None:
        replace(module.CachingAutotuner, "benchmark_all_configs", _kept_benchmark)

    def stored(module: Any) -> None:
        replace(module.FxGraphHashDetails, "__init__", _keyed)

    def replace(kind: Any, name: str, change: Callable[..., Any]) -> None:
        own = getattr(kind, name)
        stack.callback(setattr, kind, name, own)
        setattr(kind, name, change(own, named if change is _keyed else choose))

    changes = {"ir": kernels, "runtime.triton_heuristics": tuners, "codecache": stored}
    finder: Any = _AfterImport({f"torch._inductor.{name}": change for name, change in changes.items()})
    sys.meta_path.insert(0, finder)
    stack.callback(sys.meta_path.remove, finder)
    return stack


class _AfterImport:
    """Finder that has a module changed as soon as it is imported, or at once where it is."""

    def __init__(self, changes: Mapping[str, Callable[[ModuleType], None]]) -> None:
        self._changes = changes
        for name in changes.keys() & sys.modules.keys():
            changes[name](sys.modules[name])

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        change = self._changes.get(name)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target) if change is not None else None
        loader: Any = spec.loader if spec is not None else None
        if change is None or loader is None:
            return None
        own = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            own(module)
            change(module)

        loader.exec_module = exec_module
        return spec


def _kept_kernel(own: Callable[[Any], Any], choose: Choose) -> Callable[[Any], Any]:
    """Return the method by which a launch of a user's kernel in a graph tells its kernel and configurations."""

    def get_kernel_and_metadata(node: Any) -> Any:
        kernel, configs, *rest = own(node)
        state = vars(node)
        if "forewarp_kept" not in state and "grid" in state and len(configs) > 1:  # a node is asked before it is whole
            grids = [*node.grid] * (len(configs) if len(node.grid) == 1 else 1)
            places = choose(lambda: _of_node(node, kernel, configs, grids), len(configs))
            node.grid, node.forewarp_kept = [grids[i] for i in places], [configs[i] for i in places]
        return kernel, state.get("forewarp_kept", configs), *rest

    return get_kernel_and_metadata


def _of_node(node: Any, kernel: Any, configs: Sequence[Any], grids: Sequence[Any]) -> tuple[Space, Iterable[str]]:
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table
    from torch._inductor.virtualized import V

    known: Any = V.graph.sizevars
    hint = getattr(known, "optimization_hint", None) or known.size_hint

    def described(value: Any) -> Any:
        value = getattr(value, "tensor", value)  # of a descriptor
        if hasattr(value, "get_size"):
            return SimpleNamespace(data_ptr=0, dtype=value.get_dtype(), shape=[int(hint(n)) for n in value.get_size()])
        return int(hint(value)) if hasattr(value, "free_symbols") else value

    # Dynamo wraps a kernel anew where its configurations were changed, and forgets what tells its calls apart.
    known_tuners: Any = kernel_side_table.id_to_kernel.values()
    tuner = max((t for t in known_tuners if getattr(t, "fn", None) is kernel), key=lambda t: len(t.keys))
    grid = _in_turn([tuple(int(hint(n)) for n in grid) for grid in grids])
    arguments = {name: described(value) for name, value in node.kwargs.items()}
    return space_of(tuner, arguments, {"grid": grid}, configs), tuner.keys


def _kept_benchmark(own: Callable[..., Any], choose: Choose) -> Callable[..., Any]:
    """Return the method that times the compiled configurations of a kernel, whether Inductor's or a user's."""

    def benchmark_all_configs(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        launchers = tuner.launchers
        places = choose(lambda: _of_tuner(tuner, args, kwargs), len(launchers))
        if len(places) < len(launchers):
            tuner.launchers = [launchers[i] for i in places]
            tuner.save_cache_hook = None  # what it stores is taken for the best of all
        if len(places) == 1:
            return {tuner.launchers[0]: 0.0}
        return own(tuner, *args, **kwargs)

    return benchmark_all_configs


def _of_tuner(tuner: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Space, Iterable[str]]:
    configs = [launcher.config for launcher in tuner.launchers]
    names = [name for name, kind in tuner.triton_meta["signature"].items() if kind != "constexpr"]
    arguments = dict(zip(names, args, strict=False))
    grid = kwargs.get("grid")
    if grid is None:  # since torch 2.7 the configuration says it
        grid = _in_turn([tuner._interpret_args_grid(args, config)[1] for config in configs])
    jitted = tuner.fn
    own = SimpleNamespace(fn=jitted, base_fn=jitted.fn, arg_names=jitted.arg_names)
    return space_of(own, arguments, {"grid": grid}, configs), arguments


def _in_turn(grids: Sequence[tuple[int, ...]]) -> Callable[[object], tuple[int, ...]]:
    """Return a function of meta-parameters as grids are, for configurations that come in this order."""
    following = iter(grids)
    return lambda _: next(following)


def _keyed(own: Callable[..., None], named: Callable[[], str]) -> Callable[..., None]:
    """Return the method that collects what the name of a stored graph rests on."""

    def init(details: Any, *args: Any, **kwargs: Any) -> None:
        own(details, *args, **kwargs)
        details.forewarp = named()

    return init
