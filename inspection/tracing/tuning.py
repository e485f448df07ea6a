"""Autotuned Triton kernels: every configuration is compiled, some at a time, and the first that fits is taken."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from forewarp.inspection.tracing.driver import call_once
from forewarp.inspection.tracing.recorder import Recorder, Trial

MOST_CONFIGURATIONS = 16
"""Configurations of one kernel that are compiled for one set of shapes; the rest are counted and left out."""


@dataclass(slots=True)
class _Tuning:
    """One kernel tuned for one set of shapes."""

    kernel: str
    wanted: int
    left_out: int
    trials: list[Trial] = field(default_factory=list[Trial])

    def report(self, recorder: Recorder) -> None:
        fits = [t.text for t in self.trials if not t.problem]
        recorder.tuned(self.kernel, self.trials, fits[0] if fits else "", self.left_out)
        if not fits:
            recorder.problem(f"{self.kernel}: no configuration fits: {self.trials[-1].problem}")
            return
        recorder.note(
            f"{self.kernel} is autotuned over {self.wanted + self.left_out} configurations; the first that fits is "
            f"taken ({fits[0]}), because only a run tells which is the fastest"
        )


class _Tuner:
    """Replacements for two methods of Triton's Autotuner, whose own are `prune` and `bench`."""

    def __init__(self, recorder: Recorder, prune: Callable[..., Any], bench: Callable[..., Any], most: int) -> None:
        self.recorder, self.prune, self.bench, self.most = recorder, prune, bench, most
        self.tunings: dict[int, _Tuning] = {}

    def pruned(self, tuner: Any, kwargs: dict[str, Any]) -> list[Any]:
        """Return the first configurations that the module itself does not rule out, compiled."""
        wanted = list(self.prune(tuner, kwargs))
        tried = wanted[: self.most]
        self.tunings[id(tuner)] = _Tuning(tuner.base_fn.__name__, len(tried), len(wanted) - len(tried))
        self._compile(tuner, tried, kwargs)
        return tried

    def _compile(self, tuner: Any, configurations: list[Any], kwargs: dict[str, Any]) -> None:
        """Compile in parallel; what fails here fails again, and is reported, when it is tried in its turn."""
        meta = {k: v for k, v in kwargs.items() if k not in ("grid", "warmup")}

        def one(configuration: Any) -> None:
            with contextlib.suppress(Exception):
                tuner.fn.run(*tuner.nargs.values(), grid=(1,), warmup=True, **meta, **configuration.all_kwargs())

        with ThreadPoolExecutor(min(4, max(2, os.cpu_count() or 1))) as pool:
            list(pool.map(one, configurations))

    def tried(self, tuner: Any, *args: Any, config: Any, **meta: Any) -> Any:
        """Try one configuration, as `Autotuner._bench`: launch it once, aside."""
        tuning = self.tunings[id(tuner)]
        trial = Trial(str(config))
        tuning.trials.append(trial)

        def once(function: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return call_once(function, *args, **kwargs)
            except Exception as e:
                trial.problem = f"{type(e).__name__}: {e}"
                raise

        tuner.__dict__["do_bench"] = once
        raised = True
        self.recorder.trying = True
        try:
            with self.recorder.aside(trial.events):
                times = self.bench(tuner, *args, config=config, **meta)
            raised = False
        finally:
            self.recorder.trying = False
            if raised or len(tuning.trials) == tuning.wanted:
                tuning.report(self.recorder)
        return times


@contextlib.contextmanager
def trying_all(recorder: Recorder, most: int = MOST_CONFIGURATIONS) -> Generator[None]:
    """Have Triton's autotuners compile their first configurations and report them, within this context."""
    from triton.runtime.autotuner import Autotuner

    kind: Any = Autotuner
    own = {name: getattr(kind, name) for name in ("prune_configs", "_bench")}
    ours = _Tuner(recorder, own["prune_configs"], own["_bench"], most)

    def prune_configs(tuner: Any, kwargs: dict[str, Any]) -> list[Any]:
        return ours.pruned(tuner, kwargs)

    def bench(tuner: Any, *args: Any, config: Any, **meta: Any) -> Any:
        return ours.tried(tuner, *args, config=config, **meta)

    kind.prune_configs, kind._bench = prune_configs, bench
    try:
        yield
    finally:
        for name, method in own.items():
            setattr(kind, name, method)
