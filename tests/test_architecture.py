"""The folder names are the architecture: links are complete, and imports go the allowed way only."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = sorted(
    {"agent", "api", "archive", "cli", "core", "export", "gpu_runner", "inspection", "mcp_server"}
    | {"models", "prompts", "report", "search", "surrogate", "tasks", "tools", "training", "tuning"}
)
FACES = {"agent", "api", "cli", "mcp_server"}
MAY: dict[str, set[str]] = {
    "core": set(),
    "prompts": set(),
    "tasks": set(),
    "archive": {"core"},
    "gpu_runner": {"core"},
    "inspection": {"core", "gpu_runner"},
    # Executors answer with what inspection found, so they stand above it.
    "gpu_runner/executors": {"core", "gpu_runner", "inspection"},
    "gpu_runner/remote": {"core", "gpu_runner", "inspection"},
    "surrogate": {"core", "archive", "inspection", "prompts"},
    "search": {"core", "archive", "gpu_runner", "inspection", "prompts", "surrogate"},
    "tuning": {"core", "gpu_runner", "inspection"},
    "models": {"core", "gpu_runner"},
    "training": {"core", "archive", "inspection", "prompts", "surrogate"},
    "export": {"core", "gpu_runner"},
    "tools": {
        "core",
        "archive",
        "export",
        "gpu_runner",
        "inspection",
        "models",
        "prompts",
        "search",
        "surrogate",
        "training",
        "tuning",
    },
    "report": {"core", "archive", "export", "search", "tools"},
    "agent": {"core", "export", "prompts", "report", "tools"},
    "api": set(ROOMS) - FACES,
    "mcp_server": {"core", "prompts", "report", "tools"},
    # The command is also what starts the agent and the server.
    "cli": set(ROOMS) - {"api"},
}
"""The rooms that each room may import, imports inside functions counted; a folder's own line goes before its room's."""


@cache
def modules() -> dict[str, Path]:
    """Return every module of the product by its name without `forewarp.`."""
    paths = [p for room in ROOMS for p in (ROOT / room).rglob("*.py") if "seeds" not in p.parts]
    return {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p for p in paths}


@cache
def parsed(path: Path) -> ast.Module:
    """Return the tree of a file, which most tests here look at."""
    return ast.parse(path.read_text())


@pytest.fixture(scope="module", autouse=True)
def _trees() -> Iterator[None]:
    yield
    parsed.cache_clear()  # hundreds of thousands of objects


@cache
def imported(path: Path, *, at_once: bool = False) -> frozenset[str]:
    """Return the modules of the product that one imports, anywhere in its text, or `at_once` as it is imported."""
    found: set[str] = set()
    known = modules()
    tree = parsed(path)
    for node in tree.body if at_once else ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "forewarp":
            home = (node.module or "").removeprefix("forewarp").removeprefix(".")
            names = {f"{home}.{a.name}".removeprefix(".") for a in node.names}
            found |= {name if name in known else home for name in names}
        elif isinstance(node, ast.Import):
            found |= {a.name.removeprefix("forewarp.") for a in node.names if a.name.startswith("forewarp.")}
    return frozenset(found - {""})


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_is_linked(room: str) -> None:
    link = ROOT / "src" / "forewarp" / room
    assert link.is_symlink()
    assert link.resolve() == ROOT / room
    assert (ROOT / room / "__init__.py").exists()


def test_no_room_is_forgotten() -> None:
    packages = {p.parent.name for p in ROOT.glob("*/__init__.py")}
    assert packages == set(ROOMS)


@pytest.mark.parametrize("home", MAY)
def test_imports_go_the_allowed_way(home: str) -> None:
    known = modules()
    others = tuple(f"{other}/" for other in MAY if other.startswith(f"{home}/"))
    for path in known.values():
        place = path.relative_to(ROOT).as_posix()
        if place.startswith(f"{home}/") and not place.startswith(others):
            strange = {n for n in imported(path) if n.split(".")[0] not in MAY[home] | {home.split("/")[0]}}
            # A folder that stands above its room is not for the room.
            strange |= {n for n in imported(path) if others and n.replace(".", "/").startswith(others)}
            assert not strange, path


def test_inspection_needs_no_executor() -> None:
    known = modules()
    above = ("gpu_runner.executors", "gpu_runner.remote")
    for name, path in known.items():
        if name.startswith("inspection"):
            assert not {n for n in imported(path) if n.startswith(above)}, path


def test_no_import_goes_in_a_circle() -> None:
    known = modules()
    TopologicalSorter({name: imported(path) for name, path in known.items()}).prepare()


def test_a_public_name_is_one_thing() -> None:
    """Classes have names of their own in the whole project; only an alias may be written twice, if it is the same."""
    found: dict[str, set[str]] = {}
    for name, path in modules().items():
        for node in parsed(path).body if not name.startswith("tasks.") else ():
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, set()).add(name)
            elif isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name):
                found.setdefault(target.id, set()).add(ast.unparse(node.value))
    shared = {name: places for name, places in found.items() if len(places) > 1}
    assert not {name: places for name, places in shared.items() if name[0].isupper() and not name.isupper()}


@pytest.mark.parametrize("package", ["core", "gpu_runner", "inspection"])
def test_the_worker_needs_the_standard_library_numpy_and_torch_only(package: str) -> None:
    needed = set(sys.stdlib_module_names) | {"numpy", "torch", "triton", "forewarp"}
    for path in (ROOT / package).rglob("*.py"):
        # task.yml is read where the task is loaded, by the controller.
        allowed = needed | {"yaml"} if path.name == "kernelbot.py" and path.parent.name == "formats" else needed
        # NVML is optional: without it a result says less about the state of the device.
        allowed |= {"pynvml"} if path.name == "conditions.py" else set()
        # Where the parser is missing, a trace says that CUDA extensions are not read.
        allowed |= {"tree_sitter", "tree_sitter_cuda"} if path.name in ("cuda_source.py", "host_code.py") else set()
        for node in ast.walk(parsed(path)):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            assert {n.split(".")[0] for n in names} <= allowed, path


def test_importing_forewarp_does_no_work() -> None:
    code = "import forewarp, sys; print([m for m in ('torch', 'numpy', 'mcp', 'pydantic') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_face_starts_with_torch() -> None:
    """The core needs no torch, and importing it takes seconds."""
    known = modules()
    reached, new = set[str](), {name for name in known if name.split(".")[0] in FACES}
    while new:
        reached |= new
        new = {n for name in new for n in imported(known[name], at_once=True) if n in known} - reached
    for path in (known[name] for name in reached):
        for node in parsed(path).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                assert not {n.split(".")[0] for n in names} & {"torch", "triton"}, path


def test_the_command_line_writes_through_two_modules_only() -> None:
    """What others wrote cannot reach a terminal past `printing` and `display`, which take control characters out."""
    for path in [p for room in ("agent", "cli", "report", "tools") for p in (ROOT / room).rglob("*.py")]:
        if path.relative_to(ROOT).as_posix() in ("cli/printing.py", "report/display.py"):
            continue
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                writes = called in (
                    "print",
                    "Console",
                    "Text.from_markup",
                    "Text.from_ansi",
                    "traceback.print_exception",
                )
                writes |= called.startswith(("sys.stdout.write", "sys.stderr.write", "sys.__std"))
                writes |= called.endswith((".print_exception", ".status", ".from_markup"))
                writes |= called in ("Content.assemble", "Content.styled") and path.name != "printable.py"
                assert not writes, f"{path}:{node.lineno}: {called}"


def test_no_folder_stays_behind_a_killed_process() -> None:
    """Above the worker, whose temporary folder is the controller's, folders are those that the next start removes."""
    rooms = (
        "agent",
        "api",
        "archive",
        "cli",
        "mcp_server",
        "models",
        "report",
        "search",
        "surrogate",
        "tools",
        "tuning",
    )
    for path in [p for room in (*rooms, "training") for p in (ROOT / room).rglob("*.py")]:
        called = {ast.unparse(node.func) for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)}
        assert called.isdisjoint(("tempfile.TemporaryDirectory", "tempfile.mkdtemp")), f"{path}: use temporary_folder()"


def test_a_test_file_has_a_name_of_its_own() -> None:
    """Two of one name stop pytest before the first test."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
