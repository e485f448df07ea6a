"""Settings of torch's extension builds, and summaries of their manifests; needs no torch, for the controller."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from forewarp.core.values import Target

ARCH_VARIABLE = "TORCH_CUDA_ARCH_LIST"


def wanted(source: str) -> bool:
    return "cpp_extension" in source


def arch_list(target: Target) -> str:
    """Return the value of TORCH_CUDA_ARCH_LIST that torch itself would use on this device; empty for a CPU."""
    found = re.fullmatch(r"sm_(\d+)(\d)", target.arch)
    return f"{found[1]}.{found[2]}+PTX" if found else ""


def set_arch(archs: str) -> None:
    """Set the architectures that torch builds for, unless they are set: it would otherwise look for a GPU."""
    if archs:
        os.environ.setdefault(ARCH_VARIABLE, archs)


def use_folder(folder: Path) -> None:
    """Let torch write extensions under `folder`, a confined process's own."""
    os.environ["TORCH_EXTENSIONS_DIR"] = str(folder / "torch_extensions")


def summary(manifest: dict[str, Any]) -> str:
    """Say in a line per extension how it was built, and what of the module could not be run without a GPU."""
    lines = [
        f"extension {e['name']}: {'built' if e['file'] else 'refused'}, {e['way']} headers, {e['seconds']:.1f} s"
        for e in manifest["extensions"].values()
    ]
    return "\n".join(lines + [f"passed over while compiling: {s}" for s in manifest["skipped"]])
