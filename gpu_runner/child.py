"""Starting another Python on our own modules, which nothing in the working folder or on PYTHONPATH may replace.

PYTHONPATH is how some people bring torch. Its folders are searched, but after the standard library, and after the
interpreter's own packages unless they bring a torch.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

NOTHING_FROM_HERE = "import sys; sys.path[:] = [p for p in sys.path if p]"  # -P is newer than some Pythons

START = f"""
{NOTHING_FROM_HERE}
import os, runpy
_, module, source, given = sys.argv[1:5]
own = [p for p in given.split(os.pathsep) if p]
torch = [p for p in own if os.path.isfile(os.path.join(p, "torch", "__init__.py"))]
names = [os.path.basename(p) for p in sys.path]
place = min((i for i, n in enumerate(names) if n in ("site-packages", "dist-packages")), default=len(names))
sys.path[:] = [source, *sys.path[:place], *torch, *sys.path[place:], *(p for p in own if p not in torch)]
os.environ["PYTHONPATH"] = os.pathsep.join([source, *own])
sys.argv[1:] = sys.argv[5:]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""
"""What the other Python runs; its arguments are `-m`, the module, the folder of forewarp and the PYTHONPATH."""


def command(python: str, module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a module of forewarp under `python`; start it in `environment()`."""
    source = str(Path(__file__).absolute().parents[2])
    given = os.pathsep.join(os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p)
    return [python, "-c", START, "-m", module, source, given, *arguments]


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without PYTHONPATH, which the command line carries."""
    return {name: value for name, value in variables.items() if name != "PYTHONPATH"}
