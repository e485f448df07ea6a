"""A lean view of torch's headers: the same declarations, only those that a source can reach by the names it writes.

`torch/extension.h` brings all operators, modules, optimisers and data loaders into each of the three parses of a CUDA
source. The files in `lean/` stand before torch's own in the include path and leave out what the source does not name.
All that they include is torch's, and operators come from its per-operator headers, so that what compiles means the
same.
"""

from __future__ import annotations

import re
import shutil
from functools import lru_cache
from pathlib import Path

PYTHON, LIBRARY, INDEXING = "FOREWARP_PYTHON", "FOREWARP_LIBRARY", "FOREWARP_INDEXING"
FACTORIES, BODIES = "FOREWARP_FACTORIES", "FOREWARP_BODIES"

# Names that only one part of the headers declares: a source with such a name needs that part.
_PARTS = {
    PYTHON: {"PYBIND11_MODULE", "TORCH_EXTENSION_NAME", "pybind11", "py", "wrap_pybind_function", "PyObject"},
    LIBRARY: {"TORCH_LIBRARY", "TORCH_LIBRARY_FRAGMENT", "TORCH_LIBRARY_IMPL", "Library"},
    INDEXING: {"indexing", "Slice", "Ellipsis", "index", "index_put_"},
}
ALL_PARTS = (*_PARTS, FACTORIES, BODIES)

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_QUALIFIED = re.compile(r"\b(?:at|torch)\s*::\s*(\w+)")
_LOCAL_INCLUDE = re.compile(r'^\s*#\s*include\s*"', re.MULTILINE)


def torch_include() -> Path:
    import torch

    return Path(torch.__file__).parent / "include"


@lru_cache(maxsize=1)
def _operators() -> frozenset[str]:
    files = (torch_include() / "ATen" / "ops").glob("*.h")
    return frozenset(p.stem for p in files if not p.stem.endswith(("_ops", "_native", "_dispatch", "_meta")))


@lru_cache(maxsize=1)
def _factories() -> frozenset[str]:
    path = torch_include() / "torch" / "csrc" / "autograd" / "generated" / "variable_factories.h"
    names = re.findall(r"^inline at::Tensor (\w+)\(", path.read_text(), re.MULTILINE)
    return frozenset([*names, "Deleter", "Variable", "autograd", "make_variable"])


def write(folder: Path) -> None:
    """Write the lean headers under `folder`, for `-I`."""
    shutil.copytree(Path(__file__).parent / "lean", folder, dirs_exist_ok=True)


def parts(source: str) -> tuple[str, ...]:
    """Return the names to define so that the lean headers have the parts which `source` needs."""
    if _LOCAL_INCLUDE.search(source):
        return ALL_PARTS  # names in files that were not read
    names = _names(source)
    wanted = [part for part, signs in _PARTS.items() if names & signs]
    if names & _factories():
        wanted.append(FACTORIES)
    # One brace is the module's own: the rest only declares.
    if wanted != [PYTHON] or source.count("{") > 1:
        wanted.append(BODIES)
    return tuple(wanted)


def operators(source: str) -> str:
    """Return a header that declares every operator which `source` names.

    In a source of declarations alone, an unqualified name such as `matmul` is its own function's.
    """
    names = _names(source) if parts(source) != (PYTHON,) else set(_QUALIFIED.findall(source))
    used = sorted(names & _operators())
    return "#pragma once\n" + "".join(f"#include <ATen/ops/{name}.h>\n" for name in used)


def _names(source: str) -> set[str]:
    return set(_IDENTIFIER.findall(source))
