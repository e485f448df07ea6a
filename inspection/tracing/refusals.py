"""Triton kernels that cannot be launched: noted, and on request passed over, so that others are still reached."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from typing import Any

from forewarp.inspection.tracing.driver import bytes_of
from forewarp.inspection.tracing.masquerade import replaced
from forewarp.inspection.tracing.recorder import Recorder
from forewarp.inspection.tracing.values import TracedLaunch
from forewarp.inspection.tracing.wording import words


class Refusals:
    """Stands before the `run` of kernels and autotuners: notes each that fails, and passes over it if `passing`.

    A kernel that fails within an autotuner's trial is that autotuner's matter.
    """

    def __init__(self, recorder: Recorder, *, passing: bool) -> None:
        self.recorder, self.passing = recorder, passing
        self.reasons: dict[str, str] = {}
        self._last: BaseException | None = None

    def run(self, own: Callable[..., Any], kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        """Run a kernel as Triton does; return None for one that fails and is passed over."""
        try:
            return own(kernel, *args, grid=grid, warmup=warmup, **kwargs)
        except Exception as e:
            if warmup or self.recorder.trying:
                raise
            name = getattr(kernel, "base_fn", kernel.fn).__name__
            self.reasons[name], self._last = words(e), e
            if not self.passing:
                raise
            self.recorder.problem(f"{name}: {words(e)}")
            self.recorder.add(TracedLaunch(name, "", "", None, None, bytes=bytes_of([*args, *kwargs.values()])))
            return None

    def caused(self, error: BaseException) -> bool:
        """Return whether an error is that of the last kernel that failed, or was raised because of it."""
        chain: BaseException | None = error
        while chain is not None:
            if chain is self._last:
                return True
            chain = chain.__cause__ or chain.__context__
        return False


@contextlib.contextmanager
def refusing(recorder: Recorder, *, passing: bool) -> Generator[Refusals]:
    """Note, in the `Refusals` that it yields, which kernels fail within this context."""
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    ours = Refusals(recorder, passing=passing)

    def standing_before(own: Callable[..., Any]) -> Callable[..., Any]:
        def run(kernel: Any, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
            return ours.run(own, kernel, *args, grid=grid, warmup=warmup, **kwargs)

        return run

    kinds: tuple[Any, ...] = (JITFunction, Autotuner)
    with replaced([(kind, "run", standing_before(kind.run)) for kind in kinds]):
        yield ours
