"""The way of a measurement is as short as docs/architecture.md says."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from support.small_tasks import cpp, small_task

import forewarp
from forewarp.tools.measure_kernel import MeasureRequest, measure_kernel
from forewarp.tools.parts import Kernel, Place
from forewarp.tools.session import Executors

HOME = Path(forewarp.__file__).parent
DOCUMENT = Path(__file__).parents[1] / "docs" / "architecture.md"
ELSEWHERE = ("core/", "gpu_runner/worker/")
"""The values that all rooms speak in, and what runs in the worker's own processes."""
PREPARING = (
    *("gpu_runner/formats/", "archive/migrations.py", "tools/parts.py", "tools/plan_proposal.py"),
    *("tools/requests.py", "tools/session.py", "tools/sources.py"),
)
"""Reads the request and opens the session, before there is anything to measure."""


@contextmanager
def entered(found: set[str]) -> Generator[None]:
    """Add the files of forewarp whose functions run meanwhile, in any thread."""

    def see(frame: FrameType, event: str, argument: Any) -> None:
        del argument
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(f"{HOME}/") and frame.f_code.co_name != "<module>":
            found.add(path.removeprefix(f"{HOME}/"))

    threading.setprofile(see)
    sys.setprofile(see)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@pytest.mark.slow
def test_a_measurement_goes_the_way_that_the_document_shows(tmp_path: Path) -> None:
    section = DOCUMENT.read_text().partition("## The way of a measurement\n")[2].partition("\n\nNo import")[0]
    shown = set(re.findall(r"`([a-z_/]+\.py)`", section))
    kernel = Kernel(source=cpp().source, language="cpp")
    other = kernel.model_copy(update={"source": f"{kernel.source}\n// another\n"})
    request = MeasureRequest(
        task=small_task(), kernel=kernel, place=Place(device="cpu", archive=str(tmp_path / "archive.db"))
    )
    found: set[str] = set()
    with Executors() as executors:
        measure_kernel(request, executors=executors)
        with entered(found):
            assert measure_kernel(request.model_copy(update={"kernel": other}), executors=executors).status == "ok"
    assert {path for path in found if not path.startswith((*ELSEWHERE, *PREPARING))} == shown
