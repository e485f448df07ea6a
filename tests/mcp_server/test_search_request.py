"""Requests of searches as the process that does them gets them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forewarp.mcp_server.jobs import Jobs
from forewarp.mcp_server.options import ServerOptions
from forewarp.tools.parts import Place


@pytest.mark.parametrize(("device", "pool"), [("cpu", None), ("replay", "some.parquet")])
def test_a_pool_goes_along_for_replay_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, pool: str | None
) -> None:
    from forewarp.mcp_server.work import Work

    asked: list[Any] = []

    def start(jobs: Jobs, kind: str, session: str, task: str, request: Any, reserved: Any) -> None:
        asked.append(request)
        raise KeyboardInterrupt

    monkeypatch.setattr(Jobs, "start", start)
    place = Place(device=device, pool="some.parquet", archive=str(tmp_path / "archive.db"))
    work = Work(ServerOptions(place=place, workspace=tmp_path))
    names = ("budget", "max_gpu_seconds", "max_usd", "max_tokens", "deadline_s", "model", "device", "target")
    given = dict.fromkeys(names) | {"task": "softmax", "forecaster": "none", "seed_kernels": [], "detail": "concise"}
    with pytest.raises(KeyboardInterrupt):
        work.search("s", given, lambda _: None)
    assert asked[0].place.pool == pool
    assert asked[0].place.archive == str(tmp_path / "archive.db")
