"""Building of a Python candidate's extensions, in a confined child and without a device."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forewarp.core.values import Candidate, Target
from forewarp.gpu_runner.compilers.cubin import codes
from forewarp.gpu_runner.compilers.extension.capture import compile_module
from forewarp.gpu_runner.compilers.extension.settings import PRECOMPILED, arch_list, set_arch, use_folder
from forewarp.gpu_runner.compilers.process import MANIFEST, CompileError


def compile_candidate(candidate: Candidate, target: Target, folder: Path) -> dict[str, Any]:
    """Build a Python candidate's extensions into `folder` and return its manifest, also written there.

    A manifest without extensions leaves the module to build for itself. Raises `CompileError` where an extension cannot
    be built. Where `folder` has a link PRECOMPILED, the headers under it are used, and the link is removed.
    """
    precompiled = _linked(folder / PRECOMPILED)

    set_arch(arch_list(target))
    # Nothing here may use the GPU, which somebody else may be measuring on.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    tempfile.tempdir = str(folder / "cache")
    use_folder(folder / "cache")
    try:
        found = compile_module(
            candidate.source, folder, folder / "cache" / "extensions", arch=target.arch, precompiled=precompiled
        )
    except (SyntaxError, ValueError) as e:
        raise CompileError(f"SyntaxError: {e}") from None
    failed = [e for e in found["extensions"].values() if not e["file"]]
    if failed and not _catches(candidate.source):
        raise CompileError("\n".join(f"extension {e['name']}:\n{e['log']}" for e in failed))
    digest = hashlib.sha256(candidate.source.encode())
    for entry in found["extensions"].values():
        if entry["file"]:
            digest.update((folder / entry["file"]).read_bytes())
    manifest = found | {"arch_list": arch_list(target), "binary_sha256": digest.hexdigest()}
    manifest["facts"] = _facts([folder / c for e in found["extensions"].values() for c in e["cubins"]], target)
    (folder / MANIFEST).write_text(json.dumps(manifest))
    return manifest


def _linked(link: Path) -> Path | None:
    if not link.is_symlink():
        return None
    home = link.readlink()
    link.unlink()
    return home


def _facts(cubins: Sequence[Path], target: Target) -> dict[str, float]:
    """Return the worst of the compiled kernels: which of them the module launches is known once it runs."""
    kernels = [code for path in cubins for code in codes(path.read_bytes(), target.arch).values()]
    if not kernels:
        return {}
    return {
        "kernels": float(len(kernels)),
        "registers": float(max(k.registers for k in kernels)),
        "stack_bytes": float(max(k.stack_bytes for k in kernels)),
        "shared_bytes": float(max(k.static_shared_bytes for k in kernels)),
        "code_bytes": float(sum(k.code_bytes for k in kernels)),
    }


def _catches(source: str) -> bool:
    return re.search(r"^\s*except\b", source, re.MULTILINE) is not None
