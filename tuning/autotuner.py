"""Forecasts in place of Triton's benchmarking, inside the process that launches the kernels.

Triton's autotuner is asked through its own hooks (`prune`, `perf_model`), or changed for a while (`install`,
`listen`). A wrong forecast costs time, never correctness: what is launched is one of the author's configurations. Where
anything goes wrong here, a warning says so once and Triton goes its own way.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from forewarp.core.errors import UsageError
from forewarp.core.values import Target
from forewarp.gpu_runner import devices
from forewarp.tuning import forecasts, inductor, physics
from forewarp.tuning.catching import key_of, space_of
from forewarp.tuning.locks import Lock, LockKey, text_digest
from forewarp.tuning.space import ArgumentValue, Space

CARD = "FOREWARP_CARD"
"""Variable that names the card to forecast for, such as h200, where this machine's GPU is not meant."""


_HEARD: dict[str, dict[str, list[float]]] = {}
"""Timings that Triton made in this process, as octaves over their forecasts, by kernel's text and configuration."""


class ForecastWarning(UserWarning):
    """Triton chose a configuration by itself, because no forecast could be made, or a lock file is stale."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One decision: the configuration chosen first, how many there were and were kept, whether a lock file said so."""

    kernel: str
    label: str
    considered: int
    kept: int
    locked: bool


class Installed(contextlib.AbstractContextManager["Installed"]):
    """A change of Triton's autotuner that lasts until `remove()`, or until the end of a `with`.

    `choices` lists what was decided meanwhile.
    """

    def __init__(self, keep: int | None = None, lock: Lock | None = None, card: str | None = None) -> None:
        """Keep `keep` configurations of each kernel, all for None; raises `UsageError` as `install` does."""
        self._keep, self._lock, self._card = keep, lock, _known(card)
        self._thread = threading.local()
        self.choices: list[Choice] = []
        try:
            from triton.runtime import autotuner
        except ImportError as e:
            raise UsageError("Triton is not installed here", hint='pip install "forewarp[gpu]"') from e
        tuners: Any = autotuner.Autotuner
        if getattr(tuners.prune_configs, "of_forewarp", False):
            raise UsageError(
                "forewarp has changed Triton's autotuner already", hint="remove() the earlier change first"
            )
        own_prune, own_bench = tuners.prune_configs, tuners._bench

        def prune_configs(tuner: Any, kwargs: dict[str, Any]) -> Sequence[Any]:
            configs = own_prune(tuner, kwargs)
            self._thread.single = self._thread.forecasts = None
            try:
                kept = self._decide(tuner, kwargs, configs)
            except Exception as e:
                warn(e)
                return configs
            if 1 < len(kept) < len(configs):
                _compile_together(tuner, kwargs, kept)
            return kept

        def bench(tuner: Any, *args: Any, config: Any, **meta: Any) -> Any:
            if getattr(self._thread, "single", None) is config:
                return [0.0, 0.0, 0.0]  # nothing to choose from, nothing to time
            timed = own_bench(tuner, *args, config=config, **meta)
            if self._keep is None:
                self._learn(config, timed)
            return timed

        prune_configs.of_forewarp = True  # pyright: ignore[reportFunctionMemberAccess]
        self._undo = contextlib.ExitStack()
        if keep is not None:
            self._undo.enter_context(
                inductor.changed(self._compiled, lambda: f"{keep} {card} {forecasts.version()} {lock or ''}")
            )
        for name, own, changed in (("prune_configs", own_prune, prune_configs), ("_bench", own_bench, bench)):
            self._undo.callback(setattr, tuners, name, own)
            setattr(tuners, name, changed)

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Give Triton its own autotuner back; safe to call twice."""
        self._undo.close()

    def _decide(self, tuner: Any, kwargs: Mapping[str, Any], configs: Sequence[Any]) -> Sequence[Any]:
        if len(configs) < 2:
            return configs
        space = space_of(tuner, tuner.nargs, kwargs, configs)
        places, ranked = self._choose(space, key_of(tuner, space))
        if self._keep is None:
            self._thread.forecasts = configs, ranked
            return configs
        if len(places) == 1:
            self._thread.single = configs[places[0]]
        return [configs[i] for i in places]

    def _compiled(self, launch_of: inductor.LaunchOf, count: int) -> Sequence[int]:
        """Return the places of the configurations that Inductor keeps, all where no forecast can be made."""
        if count > (self._keep or count):
            try:
                space, names = launch_of()
                return self._choose(space, {n: v for n, v in space.arguments.items() if n in names})[0]
            except Exception as e:
                warn(e)
        return range(count)

    def _choose(self, space: Space, call: Mapping[str, ArgumentValue]) -> tuple[list[int], Ranking | None]:
        """Return the places of the configurations to keep, with the forecasts if these decided; note the choice."""
        target, labels, ranked = chosen_card(self._card), [c.label for c in space.configurations], None
        key = LockKey.of(space, call, target)
        locked, stale = self._lock.find(key, labels) if self._lock else (None, "")
        if stale:
            tell(stale)
        if locked is not None:
            places = [labels.index(locked)]
        else:
            ranked = Ranking.of(space, target)
            places = ranked.order[: self._keep]
        best = labels[places[0]]
        self.choices.append(Choice(space.kernel, best, len(labels), len(places), locked is not None))
        if self._lock and locked is None:
            try:
                self._lock.keep(key, best)
            except OSError as e:
                tell(f"the choice of {space.kernel} could not be written to the lock file: {e}")
        return places, ranked

    def _learn(self, config: Any, timed: Any) -> None:
        configs, ranked = getattr(self._thread, "forecasts", None) or ((), None)
        milliseconds = timed[0] if isinstance(timed, Sequence) else timed
        if ranked is not None and np.isfinite(milliseconds) and milliseconds > 0:
            place = next(i for i, c in enumerate(configs) if c is config)
            octaves = float(np.log2(milliseconds * 1e-3 / ranked.seconds[place]))
            _HEARD.setdefault(ranked.text, {}).setdefault(ranked.labels[place], []).append(octaves)


@dataclass(frozen=True, slots=True)
class Ranking:
    """Forecasts of the configurations of a launch; `text` names the kernel's."""

    text: str
    labels: Sequence[str]
    seconds: physics.Numbers

    @classmethod
    def of(cls, space: Space, target: Target) -> Ranking:
        """Forecast configurations; raises `NotCounted` where the kernel's text cannot be followed."""
        text, labels = text_digest(space), [c.label for c in space.configurations]
        seconds = _corrected(text, labels, forecasts.forecast(space, target).seconds)
        return cls(text, labels, seconds)

    @property
    def order(self) -> list[int]:
        """Places of the configurations, the fastest forecast first, on every machine alike."""
        return physics.fastest_first(self.seconds, self.labels)


def _compile_together(tuner: Any, kwargs: Mapping[str, Any], configs: Sequence[Any]) -> None:
    """Compile configurations side by side, so that Triton finds them where it would compile one after the other.

    Triton does itself what fails here, or what an older one cannot. Hooks may say what is compiled, so they come first.
    """
    with contextlib.suppress(Exception):
        from triton.runtime._async_compile import AsyncCompileMode

        if "ignore_errors" not in inspect.signature(AsyncCompileMode).parameters or any(c.pre_hook for c in configs):
            return
        given = {name: value for name, value in kwargs.items() if name != "warmup"}
        threads = ThreadPoolExecutor(min(len(configs), os.cpu_count() or 1))
        with threads, AsyncCompileMode(threads, ignore_errors=True):
            for config in configs:
                tuner.fn.warmup(*tuner.nargs.values(), **given, **config.all_kwargs())


def install(
    keep: int = 8, *, deterministic: bool = False, lock: str | os.PathLike[str] | None = None, card: str | None = None
) -> Installed:
    """Have every autotuner of this process keep the `keep` configurations forecast fastest, and benchmark only those.

    With one survivor nothing is benchmarked. `deterministic` chooses by forecast alone, the same for the same arguments
    on every rank and at every boot; `lock` is a file that keeps such choices, to be committed, one for all arguments
    that Triton does not tell apart. `forewarp tune FILE --deterministic` writes it, too; what stands in it is taken as
    it is. `card` is a name such as "h200", instead of the GPU of this machine.

    Raises `UsageError` where Triton is not installed or its autotuner is changed already, and for an unknown card.
    """
    keep = 1 if deterministic or lock is not None else _at_least_one(keep)
    return Installed(keep, Lock(Path(lock)) if lock else None, card)


def listen(card: str | None = None) -> Installed:
    """Learn from the timings that Triton makes anyway; later forecasts of the same kernels are corrected by them.

    It lasts as long as the process. Nothing is left out meanwhile. Raises `UsageError` as `install` does.
    """
    return Installed(card=card)


def prune(keep: int = 8, *, card: str | None = None) -> Callable[..., list[Any]]:
    """Return a function for `prune_configs_by={"early_config_prune": …}` that keeps the `keep` forecast fastest.

    Under torch.compile it keeps all. Raises `UsageError` for an unknown card.
    """
    _at_least_one(keep)
    _known(card)
    compiling = _asks_for_compiling()

    def early_config_prune(configs: Sequence[Any], named_args: Mapping[str, Any], **keywords: Any) -> list[Any]:
        if compiling() or len(configs) <= keep:
            return list(configs)
        try:
            space = space_of(_calling_tuner(), named_args, keywords, configs)
            ranked = Ranking.of(space, chosen_card(card))
            return [configs[i] for i in ranked.order[:keep]]
        except Exception as e:
            warn(e)
            return list(configs)

    return early_config_prune


def perf_model(card: str | None = None) -> Callable[..., float]:
    """Return a function for `prune_configs_by={"perf_model": …, "top_k": k}`: a configuration's forecast milliseconds.

    Triton asks for one configuration at a time, so `prune` is faster. Under torch.compile all are forecast alike.
    Raises `UsageError` for an unknown card.
    """
    _known(card)
    compiling = _asks_for_compiling()

    def milliseconds(**everything: Any) -> float:
        if compiling():
            return 1.0
        try:
            tuner = _calling_tuner()
            config = next(c for c in tuner.configs if all(everything.get(n) == v for n, v in c.all_kwargs().items()))
            own = config.all_kwargs()
            arguments = {n: v for n, v in everything.items() if n in tuner.arg_names and n not in own}
            space = space_of(tuner, arguments, {"grid": everything.get("grid")}, [config])
            ranked = Ranking.of(space, chosen_card(card))
            return float(ranked.seconds[0]) * 1e3
        except Exception as e:
            warn(e)
            return 1.0

    return milliseconds


def chosen_card(name: str | None = None) -> Target:
    """Return the card to forecast for: the one named, or in `FOREWARP_CARD`, or the GPU of this machine.

    Raises `UsageError` where none of them is known.
    """
    name = name or os.environ.get(CARD)
    known = devices.known_targets()
    target = known.get(name.lower()) if name else _own_card()
    if target is None or target.memory_bandwidth is None:
        what = f"the card {name!r} is not known to forewarp" if name else "no GPU that forewarp knows is here"
        raise UsageError(what, hint=f"name a similar one by card= or {CARD}: {', '.join(known)}")
    return target


def warn(error: Exception) -> None:
    """Warn that Triton goes its own way."""
    said = f"forewarp could not forecast configurations, so Triton times all of them: {type(error).__name__}: {error}"
    tell(said, stacklevel=5)


def tell(text: str, *, stacklevel: int = 4) -> None:
    """Warn; Python shows the same warning once."""
    warnings.warn(text, ForecastWarning, stacklevel=stacklevel)


def _corrected(text: str, labels: Sequence[str], seconds: physics.Numbers) -> physics.Numbers:
    """Return forecasts moved by what was heard of each configuration, the less the fewer timings there are."""
    known = _HEARD.get(text)
    if not known:
        return seconds
    level = fmean(fmean(v) for v in known.values())
    moved = [(fmean(v) - level) * len(v) / (len(v) + 1) if (v := known.get(label)) else 0.0 for label in labels]
    return seconds * np.exp2(np.array(moved))


def _calling_tuner() -> Any:
    """Return Triton's autotuner, which calls the hook without saying for which kernel."""
    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame.f_back if frame is not None else None
    tuner = frame.f_locals.get("self") if frame is not None else None
    if not hasattr(tuner, "base_fn"):
        raise UsageError("the hook was not called by Triton's autotuner", hint="use forewarp.triton.install() instead")
    return tuner


def _asks_for_compiling() -> Callable[[], bool]:
    """Return the function that says whether Dynamo traces the caller: it cannot follow a forecast, and would raise."""
    try:
        import torch
    except ImportError:
        return lambda: False
    return torch.compiler.is_compiling


@cache
def _own_card() -> Target | None:
    """Return this machine's GPU; `perf_model` asks for it with each configuration."""
    return devices.detect_cuda()


def _known(card: str | None) -> str | None:
    """Return a card's name; raises `UsageError` for an unknown one, where it is named and not at the first launch."""
    return card and chosen_card(card) and card


def _at_least_one(keep: int) -> int:
    if keep < 1:
        raise UsageError(f"keep={keep} leaves no configuration", hint="keep at least one")
    return keep
