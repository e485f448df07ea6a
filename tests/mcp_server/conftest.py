"""A recorded pool inside a workspace, served in both protocol eras."""

from __future__ import annotations

import pytest
from support.recorded_pool import record
from support.served_mcp import Mode, Served


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    return Served(record(tmp_path_factory.mktemp("workspace"), every=2))


@pytest.fixture(params=["auto", "legacy"])
def mode(request: pytest.FixtureRequest) -> Mode:
    return request.param
