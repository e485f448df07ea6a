"""The tools that the model may call: the three verbs, and reading files of the working folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from forewarp.core.errors import ForewarpError, UsageError
from forewarp.tools.forecast_kernel import ForecastRequest, forecast_kernel
from forewarp.tools.measure_kernel import MeasureRequest, measure_kernel
from forewarp.tools.parts import Amounts, Kernel, Place
from forewarp.tools.search import SearchRequest, search
from forewarp.tools.session import Executors

MAX_READ = 64_000
MAX_BUDGET = 200


class Kit:
    """The tools of one conversation, on one device."""

    def __init__(self, place: Place, folder: Path) -> None:
        self._place, self._folder = place, folder.resolve()
        self._executors = Executors()

    def tools(self) -> list[Callable[..., dict[str, Any]]]:
        """Return the functions as the model gets them."""
        return [self.forecast_kernel, self.measure_kernel, self.search, self.read_file]

    def close(self) -> None:
        """End the measuring processes."""
        self._executors.close()

    def forecast_kernel(
        self, task: str, source: str | None = None, path: str | None = None, tunables: dict[str, int] | None = None
    ) -> dict[str, Any]:
        """Forecast a kernel's speed-up over the task's reference without running it, and say whether to measure it.

        Args:
            task: Bundled task, or the path of a KernelBench file.
            source: The kernel's text; or pass path.
            path: The kernel's file; or pass source.
            tunables: Values of declared tunables.
        """
        return self._told(
            lambda: forecast_kernel(
                ForecastRequest(task=self._task(task), kernel=self._kernel(source, path, tunables), place=self._place),
                executors=self._executors,
            )
        )

    def measure_kernel(
        self, task: str, source: str | None = None, path: str | None = None, tunables: dict[str, int] | None = None
    ) -> dict[str, Any]:
        """Check a kernel against the task's reference and time both on the device. Forecast it first.

        Args:
            task: Bundled task, or the path of a KernelBench file.
            source: The kernel's text; or pass path.
            path: The kernel's file; or pass source.
            tunables: Values of declared tunables.
        """
        return self._told(
            lambda: measure_kernel(
                MeasureRequest(task=self._task(task), kernel=self._kernel(source, path, tunables), place=self._place),
                executors=self._executors,
            )
        )

    def search(self, task: str, budget: int = 12, seed_kernels: list[str] | None = None) -> dict[str, Any]:
        """Try many variants of the seed kernels under a budget of measurements; takes a few seconds per measurement.

        Args:
            task: Bundled task, or the path of a KernelBench file.
            budget: Most measurements, at most 200.
            seed_kernels: Files to start from; a task of the user's own needs some.
        """
        return self._told(
            lambda: search(
                SearchRequest(
                    task=self._task(task),
                    place=self._place,
                    budget=Amounts(measurements=min(max(1, budget), MAX_BUDGET)),
                    seed_kernels=[str(self._inside(p)) for p in seed_kernels or ()],
                )
            ),
            leave_out={"candidates"},
        )

    def read_file(self, path: str, offset: int = 0) -> dict[str, Any]:
        """Read a text file of the working folder.

        Args:
            path: The file, seen from the working folder.
            offset: Character to start at.
        """
        try:
            text = self._inside(path).read_text(errors="replace")
        except (OSError, UsageError) as e:
            return {"error": str(e)}
        part = text[max(0, offset) : max(0, offset) + MAX_READ]
        return {"summary": f"{len(part)} of {len(text)} characters of {path}", "text": part}

    def _inside(self, path: str) -> Path:
        found = (self._folder / path).resolve()
        if not found.is_relative_to(self._folder):
            raise UsageError(f"{path} is outside of the working folder {self._folder}")
        return found

    def _task(self, name_or_path: str) -> str:
        there = (self._folder / name_or_path).exists()
        return str(self._inside(name_or_path)) if there else name_or_path

    def _kernel(self, source: str | None, path: str | None, tunables: dict[str, int] | None) -> Kernel:
        return Kernel(source=source, path=path and str(self._inside(path)), tunables=tunables or {})

    def _told(self, call: Callable[[], BaseModel], leave_out: set[str] | None = None) -> dict[str, Any]:
        """Return a result, or an error with its hint, as the model reads it."""
        try:
            return call().model_dump(mode="json", exclude=leave_out)
        except ForewarpError as e:
            return {"error": e.message, "hint": e.hint, "retryable": e.retryable}
