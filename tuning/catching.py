"""Catching the autotuned launches of a call, with what is needed to forecast and to repeat them.

Everything here runs in the process that owns the kernel: the user's own, or a confined child.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import textwrap
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from forewarp.tuning.space import ArgumentValue, Configuration, Space, TensorArgument, proposals

_MOST_HELPERS = 40


@dataclass(frozen=True, slots=True)
class TunedLaunch:
    """The first launch of an autotuned kernel: its autotuner, arguments and configurations to choose from.

    `keywords` are also those beyond the kernel's own arguments, the grid among them.
    """

    tuner: Any
    positional: tuple[Any, ...]
    keywords: Mapping[str, Any]
    configs: Sequence[Any]

    @classmethod
    def of(cls, tuner: Any, positional: tuple[Any, ...], keywords: Mapping[str, Any]) -> TunedLaunch:
        """Return a launch with what the author's own `early_config_prune` leaves: others may give wrong results."""
        launch = cls(tuner, positional, keywords, list(tuner.configs))
        return replace(launch, configs=launch.pruned(tuner.configs) or tuner.configs)

    def pruned(self, configs: Sequence[Any]) -> list[Any]:
        """Return what the author's own `early_config_prune` leaves of configurations."""
        prune = self.tuner.early_config_prune
        if prune is None or not configs:
            return list(configs)
        given = {n: v for n, v in self.keywords.items() if n != "warmup"}
        return list(prune(list(configs), dict(zip(self.tuner.arg_names, self.positional, strict=False)), **given))

    def widened(self) -> TunedLaunch:
        """Return the launch with configurations beyond the author's, behind his; they get the hook of his."""
        first = self.configs[0]
        if any(config.pre_hook is not first.pre_hook for config in self.configs):
            return self
        more = [
            type(first)(
                dict(c.values),
                num_warps=c.warps,
                num_stages=c.stages,
                num_ctas=c.blocks,
                maxnreg=c.registers,
                pre_hook=first.pre_hook,
            )
            for c in proposals([Configuration.of(config) for config in self.configs])
        ]
        return replace(self, configs=[*self.configs, *self.pruned(more)])

    @property
    def kernel(self) -> str:
        """Name of the kernel."""
        return self.tuner.base_fn.__name__

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments by name, given by position or by keyword."""
        named = dict(zip(self.tuner.arg_names, self.positional, strict=False))
        return named | {n: v for n, v in self.keywords.items() if n in self.tuner.arg_names}

    def keep_timings(self, timings: Mapping[Any, float | None]) -> str:
        """Have Triton write milliseconds of configurations into its cache, for autotuners with `cache_results=True`.

        Triton itself does it, so that the name of the file is the one that it looks for. Returns why it does not.
        """
        tuner = self.tuner
        if not hasattr(tuner, "check_disk_cache"):
            return "this Triton keeps no timings"
        if any(config.pre_hook for config in tuner.configs):
            return "Triton keeps no timings of configurations with hooks"
        if tuner.perf_model:
            return "its perf_model decides what Triton times, so that the name of the file is not known"
        named = self.arguments
        key = [named[k] for k in tuner.keys if k in named]
        key += [str(value.dtype) for value in named.values() if hasattr(value, "dtype")]

        def benchmark() -> None:
            tuner.configs_timings = {config: [milliseconds] for config, milliseconds in timings.items()}

        tuner.check_disk_cache(tuple(key), self.pruned(tuner.configs), benchmark)
        return ""

    def run(self, config: Any, **more: Any) -> Any:
        """Launch with a configuration, its own hook left out; returns Triton's compiled kernel."""
        return self.tuner.fn.run(*self.positional, **self.keywords, **config.all_kwargs(), **more)

    def prepare(self, config: Any) -> None:
        """Run what belongs before each launch: the configuration's hook, and the autotuner's resetting of outputs."""
        full = {**self.arguments, **self.keywords, **config.all_kwargs()}
        if config.pre_hook:
            config.pre_hook(full)
        for name in getattr(self.tuner, "reset_to_zero", ()):
            full[name].zero_()


class Enough(BaseException):
    """All launches that were waited for are there. No Exception, so that the file's own `except` lets it pass."""


@contextlib.contextmanager
def catching(
    found: list[TunedLaunch],
    *,
    launch: bool = True,
    chosen: Mapping[str, Any] | None = None,
    enough: Callable[[TunedLaunch], bool] = lambda _: False,
) -> Generator[None]:
    """Have Triton's autotuners note their launches in `found`, and run a first configuration that works.

    `chosen` holds configurations by the names of kernels. Without `launch` nothing is launched: outputs keep
    what was in them. Once `enough` says so of a launch, `Enough` ends the call.
    """
    from triton.runtime.autotuner import Autotuner

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        caught = TunedLaunch.of(self, args, kwargs)
        if all(earlier.tuner is not self for earlier in found):
            found.append(caught)
            if enough(caught):
                raise Enough
        if not launch:
            return None
        error: BaseException | None = None
        own_choice = (chosen or {}).get(caught.kernel)
        for config in [own_choice] if own_choice else caught.configs:
            try:
                caught.prepare(config)
                return caught.run(config)
            except Exception as e:
                error = e
        raise RuntimeError(f"no configuration of {caught.kernel} runs") from error

    # Libraries with an autotuner of their own override `run`.
    own: list[tuple[Any, Any]] = [(kind, vars(kind)["run"]) for kind in _kinds(Autotuner) if "run" in vars(kind)]
    for kind, _ in own:
        kind.run = run
    try:
        yield
    finally:
        for kind, method in own:
            kind.run = method


def _kinds(kind: type) -> list[type]:
    """Return a class with all that are derived from it."""
    return [kind, *(k for derived in kind.__subclasses__() for k in _kinds(derived))]


def tuners_of(module: Any) -> dict[str, Any]:
    """Return the autotuners among a module's values, also those under other decorators, by their kernels' names."""
    from triton.runtime.autotuner import Autotuner

    found: dict[str, Any] = {}
    for held in list(vars(module).values()):
        value: Any = held
        for _ in range(8):
            if isinstance(value, Autotuner):
                found[value.base_fn.__name__] = value
                break
            value = getattr(value, "fn", None)
    return found


def space_of(tuner: Any, arguments: Mapping[str, Any], keywords: Mapping[str, Any], configs: Sequence[Any]) -> Space:
    """Return the space of some configurations of Triton's autotuner; raises ValueError without the kernel's text.

    `arguments` are by name, `keywords` what else was given with them, such as the grid.
    """
    jitted, rules = _unwrapped(tuner)
    plain = {name: described(value) for name, value in arguments.items()}
    plain |= {n: described(v) for n, v in keywords.items() if n in tuner.arg_names}
    grid = keywords.get("grid")
    configurations: list[Configuration] = []
    grids: list[tuple[int, ...]] = []
    for config in configs:
        full = {**arguments, **keywords, **config.all_kwargs()}
        configuration = Configuration.of(config)
        derived = {name: rule(full) for name, rule in rules.items()}
        values = {name: described(value) for name, value in configuration.values.items()}
        rest = {name: described(value) for name, value in derived.items()}
        configurations.append(replace(configuration, values=values, derived=rest))
        sizes: Any = grid({**full, **derived}) if callable(grid) else grid
        sizes = sizes if isinstance(sizes, Sequence) else (sizes or 1,)
        grids.append(tuple(int(n) for n in sizes))
    source = text_of(jitted)
    helpers, constants = _surroundings(jitted, source)
    return Space(tuner.base_fn.__name__, source, plain, configurations, grids, helpers, constants)


def key_of(tuner: Any, space: Space) -> dict[str, ArgumentValue]:
    """Return the arguments by which an autotuner tells calls apart, their dtypes aside."""
    return {k: space.arguments[k] for k in getattr(tuner, "keys", ()) if k in space.arguments}


def described(value: Any) -> ArgumentValue:
    """Return a tensor as its dtype and shape, any other value as it is if it is plain, else None."""
    if hasattr(value, "data_ptr") and hasattr(value, "dtype"):
        return TensorArgument(
            str(value.dtype).removeprefix("torch."), tuple(int(n) for n in getattr(value, "shape", ()))
        )
    if hasattr(value, "base") and hasattr(value, "block_shape"):  # a host-side tensor descriptor
        return described(value.base)
    value = getattr(value, "value", value)
    return value if isinstance(value, bool | int | float | str) or value is None else str(value)


def text_of(jitted: Any) -> str:
    """Return the text of a jitted function, from its `def` on."""
    source = getattr(jitted, "src", None)
    try:
        text = textwrap.dedent(source if isinstance(source, str) else inspect.getsource(jitted.fn))
    except (OSError, TypeError, AttributeError) as e:
        raise ValueError("the text of the kernel is not there") from e
    return text[max(0, text.find("def ")) :]


def _unwrapped(tuner: Any) -> tuple[Any, dict[str, Callable[[Mapping[str, Any]], Any]]]:
    """Return the jitted function under an autotuner, and the heuristics between them."""
    rules: dict[str, Callable[[Mapping[str, Any]], Any]] = {}
    inner = tuner.fn
    for _ in range(8):
        if hasattr(inner, "values") and hasattr(inner, "fn"):
            rules |= inner.values
        if not hasattr(inner, "fn") or hasattr(inner, "src") or inspect.isfunction(inner.fn):
            break
        inner = inner.fn
    return inner, rules


def _surroundings(jitted: Any, source: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the jitted functions that a kernel calls, with theirs, and the numbers that it reads, by name."""
    helpers: dict[str, str] = {}
    constants: dict[str, Any] = {}
    waiting = [(source, getattr(getattr(jitted, "fn", jitted), "__globals__", {}))]
    while waiting and len(helpers) < _MOST_HELPERS:
        text, names = waiting.pop()
        for node in ast.walk(ast.parse(text)):
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            value = _looked_up(node, names) if name else None
            if value is None or name in helpers:
                continue
            if inspect.isfunction(getattr(value, "fn", None)) and hasattr(value, "arg_names"):
                try:
                    helpers[name] = text_of(value)
                except ValueError:
                    continue
                waiting.append((helpers[name], getattr(value.fn, "__globals__", {})))
            else:
                plain = getattr(value, "value", value)
                if isinstance(plain, bool | int | float) and isinstance(node, ast.Name):
                    constants[name] = plain
    return helpers, constants


def _looked_up(node: ast.AST, names: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        module = names.get(node.value.id)
        if getattr(module, "__name__", "").startswith(("triton.language", "torch", "numpy")):
            return None
        return getattr(module, node.attr, None) if module is not None and hasattr(module, "__dict__") else None
    return None
