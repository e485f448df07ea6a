"""What the package declares and what is in it: imports, links, and the files of an sdist."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ROOMS = sorted(p.parent.name for p in ROOT.glob("*/__init__.py"))
# Distributions of modules that need not be installed where the tests run.
KNOWN = {
    **{"torch": "torch", "triton": "triton", "pynvml": "nvidia-ml-py", "lightgbm": "lightgbm"},
    **{"trl": "trl", "peft": "peft", "transformers": "transformers", "datasets": "datasets", "yaml": "pyyaml"},
    **{"sklearn": "scikit-learn", "pydantic_ai": "pydantic-ai-slim"},
}
OPTIONAL = {"IPython", "cosmic_ray", "kernelbench"}
"""A notebook that we may run in; what makes mutants for a benchmark; another project's harness that one times."""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\s<>=!~;\[]", name, maxsplit=1)[0]).lower()


def declared(*extras: str) -> set[str]:
    found = {normal(d) for d in PROJECT["dependencies"]}
    return found | {normal(d) for extra in extras for d in PROJECT["optional-dependencies"][extra]}


def imported(folder: Path) -> dict[str, str]:
    """Return the third-party modules that files of a folder import, also by name, each with one of the files."""
    near = (ROOT / "tests", ROOT / "benchmarks") if folder.name in ("tests", "benchmarks") else (folder,)
    local = {p.stem for n in near for p in n.rglob("*.py")} | {p.name for n in near for p in n.rglob("*") if p.is_dir()}
    # A GPU MODE task is imported as the name that its own files know it by.
    local = local - set(KNOWN) | OPTIONAL | {n.name for n in near} | {"reference"}
    found: dict[str, str] = {}
    for path in folder.rglob("*.py"):
        if {"seeds", "candidates", "modules", "published", "problems"} & set(path.parts):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [a.name for a in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            elif isinstance(node, ast.Call) and "import_module" in (
                getattr(node.func, "id", ""),
                getattr(node.func, "attr", ""),
            ):
                names = [a.value for a in node.args[:1] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            for name in (n.split(".")[0] for n in names):
                if name not in sys.stdlib_module_names and name != "forewarp" and name not in local:
                    found.setdefault(name, str(path.relative_to(ROOT)))
    return found


installed = cache(packages_distributions)


def distributions(module: str) -> set[str]:
    return {normal(d) for d in installed().get(module, [])} | {KNOWN.get(module, module)}


@pytest.mark.parametrize("room", ROOMS)
def test_everything_that_the_product_imports_is_declared(room: str) -> None:
    extras = {"gpu_runner": ("gpu",), "inspection": ("gpu",), "training": ("gpu", "train")}.get(room, ())
    # Elsewhere torch is asked for its version only, and only where it is there.
    may = declared(*extras) | {"torch", "triton"}
    undeclared = {m: p for m, p in imported(ROOT / room).items() if not distributions(m) & may}
    assert undeclared == {}


@pytest.mark.parametrize("folder", ["tests", "benchmarks", "examples"])
def test_everything_that_tests_and_benchmarks_import_is_declared(folder: str) -> None:
    may = declared("gpu", "train", "dev")
    assert {m: p for m, p in imported(ROOT / folder).items() if not distributions(m) & may} == {}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Copy what is tracked, with its links, and leave large data out."""
    made = tmp_path / "checkout"
    made.mkdir()
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if name.startswith(("benchmarks/", "pool/")):
            continue
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).exists():
            shutil.copy2(ROOT / name, made / name, follow_symlinks=False)
    return made


def build(checkout: Path, what: str) -> subprocess.CompletedProcess[str]:
    code = f"from setuptools import build_meta; print(build_meta.build_{what}('dist'))"
    return subprocess.run([sys.executable, "-c", code], cwd=checkout, capture_output=True, text=True, check=False)


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]


def test_a_checkout_whose_links_became_text_is_not_built(checkout: Path) -> None:
    for room in ROOMS:
        link = checkout / "src/forewarp" / room
        target = link.readlink()
        link.unlink()
        link.write_text(str(target))
    for what in ("wheel", "sdist"):
        done = build(checkout, what)
        assert done.returncode != 0
        assert "src/forewarp should hold symbolic links to agent, api, archive" in done.stderr
        assert "git config core.symlinks true" in done.stderr
    (checkout / "src/forewarp/core").unlink()
    assert "core" in build(checkout, "wheel").stderr


@pytest.mark.slow
def test_an_sdist_has_documents_changelog_and_tests_and_can_be_built(checkout: Path, tmp_path: Path) -> None:
    done = build(checkout, "sdist")
    assert done.returncode == 0, done.stderr[-2000:]
    [made] = (checkout / "dist").glob("*.tar.gz")
    with tarfile.open(made) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        archive.extractall(tmp_path / "unpacked", filter="data")
    for name in (
        *(
            "CHANGELOG.md",
            "CITATION.cff",
            "SECURITY.md",
            "LICENSE",
            "README.md",
            "pyproject.toml",
            "server.json",
            "docs/tasks.md",
            "docs/schemas",
        ),
        *("examples/problem.py", "tests/conftest.py", "tests/test_packaging.py", "src/forewarp/core/values.py"),
        *("src/forewarp/tasks/softmax/task.toml", "src/forewarp/prompts"),
    ):
        assert name in names
    assert not [n for n in names if "__pycache__" in n or "node_modules" in n]
    [unpacked] = (tmp_path / "unpacked").iterdir()
    done = build(unpacked, "wheel")
    assert done.returncode == 0, done.stderr[-2000:]
    assert list((unpacked / "dist").glob("*.whl"))
