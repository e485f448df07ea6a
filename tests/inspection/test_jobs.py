"""Jobs of this room as the worker finds them."""

from __future__ import annotations

import pytest

from forewarp.gpu_runner.worker import server
from forewarp.inspection import jobs


@pytest.mark.parametrize("name", [n for n in vars(jobs) if n.isupper()])
def test_the_worker_finds_each_job_by_its_name(name: str) -> None:
    assert callable(server.entry(getattr(jobs, name)))
