"""In a cell: give a Python candidate the extensions that were built ahead, when it asks torch to build them."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forewarp.core.files import import_file
from forewarp.gpu_runner.compilers.extension import settings


def install(artefact: str, manifest: Mapping[str, Any]) -> None:
    """Let `load` and `load_inline` take from `artefact` what `manifest` lists; call before the module is imported.

    What it does not list is built by torch. What it lists as refused raises RuntimeError, as in torch.
    """
    settings.use_folder(Path(tempfile.gettempdir()))
    if not artefact or not manifest.get("extensions"):
        return
    from forewarp.gpu_runner.compilers.extension import torch_build

    settings.set_arch(manifest["arch_list"])
    own = torch_build.originals()
    if own is None:
        return
    own_build, own_load = own
    entries: Mapping[str, Any] = manifest["extensions"]
    found: dict[tuple[str, str], Mapping[str, Any]] = {}

    def run(directory: str, verbose: bool, error_prefix: str) -> None:
        entry = entries.get(torch_build.fingerprint(Path(directory)))
        known = torch_build.read(Path(directory))
        if entry is None or known is None:
            print(f"{directory}: not built ahead; torch builds it now", file=sys.stderr)
            own_build(directory, verbose, error_prefix)
        elif not entry["file"]:
            raise RuntimeError(f"{error_prefix}: {entry['log']}")
        else:
            found[directory, known.name] = entry

    def load(name: str, directory: str, is_python_module: bool) -> Any:
        entry = found.get((directory, name))
        if entry is None:
            return own_load(name, directory, is_python_module)
        path = Path(artefact) / entry["file"]
        if not is_python_module:
            import torch

            torch.ops.load_library(path)
            return str(path)
        # The library's entry point bears the name that it was built under, whatever the module calls it this time.
        module = import_file(path, entry["name"])
        module.__name__ = name
        return module

    torch_build.install(run, load)
