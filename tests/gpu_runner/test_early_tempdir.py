"""A package that asks for the temporary folder when it is imported, as dill does, must not break compiling."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("triton")

from forewarp.core.values import Candidate
from forewarp.gpu_runner.devices import known_targets
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.gpu_runner.formats import task as tasks
from forewarp.gpu_runner.formats.candidate import load


@pytest.mark.slow
def test_a_device_only_triton_kernel_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("import tempfile\ntempfile.gettempdir()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    executor = LocalExecutor(known_targets()["h200"], cache=tmp_path / "cache")
    try:
        task = tasks.load("softmax")
        candidate: Candidate = load(tasks.BUNDLED / "softmax" / "seeds" / "softmax.py")
        build = executor.compile(task, candidate)
    finally:
        executor.close()
    assert (build.status, build.log) == ("ok", "")
