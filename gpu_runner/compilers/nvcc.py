"""CUDA C++ with host code to a shared library, through nvcc; for plans that name a host function."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from forewarp.core import serde
from forewarp.core.values import Target
from forewarp.gpu_runner.compilers import signatures
from forewarp.gpu_runner.compilers.cubin import check_defined, codes
from forewarp.gpu_runner.compilers.nvrtc import exact_architecture
from forewarp.gpu_runner.compilers.process import CompileError, run_compiler
from forewarp.gpu_runner.formats.plan import ResolvedPlan

FLAGS = ("-shared", "-Xcompiler", "-fPIC", "-O3", "-std=c++17")
TIMEOUT_S = 120


def compiler() -> str | None:
    """Return the path of nvcc: on PATH, under $CUDA_HOME, or in the usual place."""
    homes = [h for h in (os.environ.get("CUDA_HOME"), "/usr/local/cuda") if h]
    return shutil.which("nvcc") or next(filter(None, (shutil.which("nvcc", path=f"{h}/bin") for h in homes)), None)


def architecture(arch: str) -> str:
    """Return nvcc's flag for "sm_90"; from 90 on with the instructions of that very architecture."""
    exact = exact_architecture(arch)
    return f"-gencode=arch={exact.replace('sm_', 'compute_')},code={exact}"


def build(source: str, plan: ResolvedPlan, target: Target, folder: Path, stem: str) -> dict[str, Any]:
    """Compile to `<stem>.so`; facts are the worst of its kernels, since only the host code knows what is launched."""
    path = compiler()
    if path is None:
        raise CompileError(
            "nvcc was not found: a .cu file with host code needs the CUDA toolkit. Install it, put nvcc on PATH or set "
            "CUDA_HOME; or give the file a plan with [[launch]] tables, which needs no nvcc"
        )
    library = f"{stem}.so"
    kept = folder / f"{stem}.kept"
    kept.mkdir()
    # One file name for all, and intermediate files under their own names, so that equal code gives equal bytes.
    defines = [f"-D{name}={value}" for name, value in plan.constants.items()]
    arch = architecture(target.arch)
    command = [path, *FLAGS, arch, "--keep", f"--keep-dir={kept.name}", *defines, "kernel.cu", "-o", library]

    def compile_text(text: str) -> None:
        (folder / "kernel.cu").write_text(text)
        run_compiler(command, folder, "nvcc", TIMEOUT_S)

    try:
        signatures.checked(source, plan, compile_text)
        images = [p.read_bytes() for p in sorted(kept.glob("*.cubin"))]
    finally:
        shutil.rmtree(kept, ignore_errors=True)
    check_defined((folder / library).read_bytes(), [plan.launches[0].kernel])
    # Which of them the host code launches, and how, is known once it runs.
    found = [code for image in images for code in codes(image, target.arch).values()]
    return {"files": [library], "kernels": {}, "codes": serde.to_data(found)}
