"""The folder names are the architecture: links are complete, and imports go the allowed way only."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = sorted(
    {"agent", "api", "archive", "cli", "cluster", "core", "gpu_runner", "mcp_server"}
    | {"prompts", "search", "surrogate", "tasks", "tools", "training"}
)
FACES = {"agent", "api", "mcp_server", "cli"}
FORBIDDEN = {
    "agent": {"gpu_runner", "surrogate", "search", "cluster", "api", "mcp_server", "cli"},
    "api": {"agent", "mcp_server"},
    "mcp_server": {"gpu_runner", "surrogate", "search", "cluster", "agent", "api", "cli"},
    "cli": {"api"},
    "tools": FACES,
    "cluster": set(ROOMS) - {"cluster", "core", "gpu_runner"},
    "search": FACES | {"cluster", "tools", "training"},
    "surrogate": FACES | {"cluster", "tools", "search", "training"},
    "gpu_runner": FACES | {"tools", "search", "surrogate", "archive", "cluster", "prompts", "training"},
    "archive": FACES | {"tools", "search", "surrogate", "cluster", "gpu_runner", "prompts", "training"},
    "prompts": set(ROOMS) - {"prompts"},
    "training": FACES | {"search"},
    "core": set(ROOMS) - {"core"},
    "tasks": set(ROOMS) - {"tasks"},
}


def imported_rooms(path: Path) -> set[str]:
    rooms: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "forewarp":
            names = [f"forewarp.{a.name}" for a in node.names]
        rooms |= {n.split(".")[1] for n in names if n.startswith("forewarp.")}
    return rooms


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_is_linked(room: str) -> None:
    link = ROOT / "src" / "forewarp" / room
    assert link.is_symlink()
    assert link.resolve() == ROOT / room
    assert (ROOT / room / "__init__.py").exists()


def test_no_room_is_forgotten() -> None:
    packages = {p.parent.name for p in ROOT.glob("*/__init__.py")}
    assert packages == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_imports_go_the_allowed_way(room: str) -> None:
    for path in (ROOT / room).rglob("*.py"):
        if "seeds" not in path.parts:
            assert not imported_rooms(path) & FORBIDDEN[room], path


@pytest.mark.parametrize("package", ["core", "gpu_runner"])
def test_the_worker_needs_the_standard_library_numpy_and_torch_only(package: str) -> None:
    needed = set(sys.stdlib_module_names) | {"numpy", "torch", "triton", "forewarp"}
    for path in (ROOT / package).rglob("*.py"):
        # task.yml is read where the task is loaded, by the controller.
        allowed = needed | {"yaml"} if path.name == "kernelbot.py" and path.parent.name == "formats" else needed
        # NVML is optional: without it a result says less about the state of the device.
        allowed |= {"pynvml"} if path.name == "conditions.py" else set()
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            assert {n.split(".")[0] for n in names} <= allowed, path


def test_importing_forewarp_does_no_work() -> None:
    code = "import forewarp, sys; print([m for m in ('torch', 'numpy', 'mcp', 'pydantic') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_command_line_writes_through_two_modules_only() -> None:
    """What others wrote cannot reach a terminal past `printing` and `display`, which take control characters out."""
    for path in [*(ROOT / "cli").glob("*.py"), *(ROOT / "agent").rglob("*.py"), *(ROOT / "tools").rglob("*.py")]:
        if path.parent.name == "cli" and path.name in ("printing.py", "display.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
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
                # Markdown is drawn into memory, from where it goes through the filter of the application.
                assert not writes or path.name == "prose.py", f"{path}:{node.lineno}: {called}"
