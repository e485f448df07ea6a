"""The server under the checkers that the protocol's makers publish: their inspector and their conformance suite."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support import conformance_server, official_tools
from support.official_tools import Applicability, Check, Node
from support.ports import free_port
from support.served_mcp import SOURCES, Served, listening

CALL = ("--method", "tools/call", "--tool-name")
KERNEL = json.dumps({"task": "toy.py", "path": "toy.cpp"})
METHODS = {
    "tools": ("--method", "tools/list", "--strict"),
    "resources": ("--method", "resources/list"),
    "resourceTemplates": ("--method", "resources/templates/list"),
    "prompts": ("--method", "prompts/list"),
    "device": (*CALL, "describe", "--tool-args-json", "{}"),
    "recommendation": (*CALL, "forecast_kernel", "--tool-args-json", KERNEL),
}
"""By what the answer holds."""

official = pytest.mark.skipif(bool(official_tools.missing()), reason=official_tools.missing() or "is run")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    folder = Path(os.environ.get(official_tools.INSTALLED) or tmp_path_factory.mktemp("node"))
    if not (folder / "node_modules").exists():
        official_tools.install(folder)
    return Node(folder, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def url(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    with served.over_http("", f"--archive={tmp_path_factory.mktemp('archive') / 'archive.db'}") as url:
        yield url


def inspect(node: Node, holds: str, era: str, *target: str) -> dict[str, Any]:
    flags = ("--protocol-era", era, "--format", "json", "-q")
    done = node.run("mcp-inspector", "--cli", *flags, *METHODS[holds], *target)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)["result"]
    return result.get("structuredContent", result)


@official
@pytest.mark.slow
@pytest.mark.parametrize(("holds", "era"), list(zip(METHODS, ("modern", "legacy") * 3, strict=True)))
def test_the_inspector_finds_no_fault_over_http(node: Node, url: str, holds: str, era: str) -> None:
    assert inspect(node, holds, era, url)[holds]


@official
@pytest.mark.slow
@pytest.mark.parametrize(("holds", "era"), list(zip(METHODS, ("legacy", "modern") * 3, strict=True)))
def test_the_inspector_finds_no_fault_on_stdio(node: Node, served: Served, holds: str, era: str) -> None:
    # The inspector passes on nothing of its own environment but the path and the home folder.
    environment = {"PYTHONPATH": SOURCES, "FOREWARP_ARCHIVE": os.environ["FOREWARP_ARCHIVE"]}
    passed = [part for name, value in environment.items() for part in ("-e", f"{name}={value}")]
    assert inspect(node, holds, era, *passed, "--", sys.executable, *served.arguments)[holds]


@official
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_conformance_suite_passes_where_it_applies(node: Node, url: str) -> None:
    lists = Applicability.read()
    assert lists.unlisted(official_tools.scenarios(node)) == []
    failed: list[str] = []
    with free_port() as port, listening(port, conformance_server.__file__, str(port)) as other:
        # One after the other: the suite gives a server a second or two to answer.
        for at, expected in ((url, lists.product), (other, lists.fixture)):
            runs = {r: official_tools.conformance(node, at, r) for r in lists.revisions}
            failed += lists.failed(expected, runs)
    assert failed == []


LISTS = Applicability(("1",), ("ping", "stateless"), ("text",), ("audio",), frozenset({("stateless", "extra")}))


def test_a_scenario_that_is_in_no_list_is_noticed() -> None:
    exist = ["ping", "stateless", "text", "audio"]
    assert LISTS.unlisted(exist) == []
    assert LISTS.unlisted([*exist[1:], "video"]) == ["video is new", "ping is gone"]


def test_a_check_that_fails_or_is_not_made_is_noticed() -> None:
    failed = partial(LISTS.failed, ("ping", "stateless"))
    good, bad = Check("a", "SUCCESS", ""), Check("b", "FAILURE", "no answer")
    assert failed({"1": {"ping": [good], "stateless": [good, Check("extra", "FAILURE", "")]}}) == []
    assert failed({"1": {"ping": [good, bad], "stateless": [good]}}) == ["ping at 1: b: no answer"]
    assert failed({"1": {"ping": [good]}}) == ["stateless checked nothing"]
