"""The corpus of CUDA extensions: how each is built, that device code stays the same, and that it runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from support.extension_corpus import EXAMPLES, Example

from forewarp.gpu_runner.compilers import cubin
from forewarp.gpu_runner.compilers.extension import builder, capture, headers, settings, torch_build
from forewarp.gpu_runner.worker import extensions

ARCHS = "9.0+PTX"

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not shutil.which("nvcc")
        or not (headers.torch_include() / "c10" / "cuda" / "impl" / "cuda_cmake_macros.h").exists(),
        reason="needs nvcc and a torch with CUDA headers",
    ),
]


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "torch"))
    monkeypatch.setenv(settings.ARCH_VARIABLE, os.environ.get(settings.ARCH_VARIABLE, ARCHS))
    own = torch_build.originals()
    assert own is not None
    yield
    torch_build.install(*own)


def build(example: Example, folder: Path) -> dict[str, object]:
    """Build and return the one entry of the manifest."""
    found = capture.compile_module(example.module(), folder, folder / "scratch", arch="sm_90")
    (entry,) = found["extensions"].values()
    return entry


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_it_is_built_the_expected_way(example: Example, tmp_path: Path) -> None:
    entry = build(example, tmp_path)
    assert entry["file"], entry["log"]
    assert entry["way"] == example.way, entry["log"]
    # The device code beside a library is the one in it, kernel by kernel.
    files = [tmp_path / name for name in cast("list[str]", entry["cubins"])]
    assert files
    held = cubin.embedded_cubins((tmp_path / str(entry["file"])).read_bytes(), "sm_90")
    assert [p.read_bytes() for p in files] == [image for image in held or () if cubin.codes(image, "sm_90")]


def ptx(command: tuple[str, ...], output: Path) -> list[str]:
    """Return the kernels of a compiler's command as PTX, by text, whatever they are called."""
    target = output.with_suffix(".ptx")
    kept = [a for a in command[: command.index("-c")] if not a.startswith("-gencode")]
    source = command[command.index("-c") + 1]
    subprocess.run([*kept, "-arch=compute_90", "--ptx", source, "-o", str(target)], check=True)
    text = re.sub(r"//.*|^\s*\.(?:loc|file).*$|\$L__BB\d+_|__cudart_\w+", "", target.read_text(), flags=re.MULTILINE)
    names = sorted(re.findall(r"\.entry\s+(\w+)", text), key=len, reverse=True)
    bodies = re.findall(r"\.entry.*?^}", text, re.DOTALL | re.MULTILINE)
    for name in names:
        bodies = [b.replace(name, "K") for b in bodies]
    # Names of an anonymous namespace and of staged shared memory carry a hash of the file.
    return sorted(re.sub(r"\s+", " ", re.sub(r"_ZZ\w+|_Z\w+|_INTERNAL\w+", "N", b)) for b in bodies)


@pytest.mark.slow
@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.way == "split"], ids=lambda e: e.name)
def test_splitting_leaves_the_device_code_as_it_is(example: Example, tmp_path: Path) -> None:
    directories: list[Path] = []
    with torch_build.installed(lambda d, *_, **__: directories.append(Path(d)), lambda *_: None):
        skipped = capture.run_module(example.module(), tmp_path / "candidate.py")
    assert not skipped
    recipe = torch_build.read(directories[0])
    assert recipe is not None
    work = builder.LeanBuild(recipe)
    (unit,) = (u for u in recipe.units if u.rule == torch_build.COMPILE_CUDA)
    work.in_halves([], [unit])
    whole = work.whole(unit)
    device = work.work / f"{unit.object}.device.cu"
    half = (*recipe.nvcc, *recipe.cuda_cflags, "-c", str(device))
    assert ptx(half, work.work / "half") == ptx(whole.command, work.work / "whole")


@pytest.mark.gpu
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_it_runs_from_the_artefact(example: Example, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import torch

    manifest = capture.compile_module(example.module(), tmp_path, tmp_path / "scratch")
    manifest["arch_list"] = ARCHS
    extensions.install(str(tmp_path), manifest)
    names: dict[str, object] = {"x": torch.randn(64, 1024, device="cuda")}
    exec(example.module(), names)
    assert eval(example.call, names)
    assert "not built ahead" not in capfd.readouterr().err
