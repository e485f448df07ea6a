from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from forewarp.gpu_runner.compilers.process import CompileError
from forewarp.inspection.emulation.emulator import build


class Compiler:
    """A program that answers as a compiler does, and notes what it was asked to compile."""

    def __init__(self, folder: Path, version: str = "1") -> None:
        self.path, self._calls = folder / f"g++-{version}", folder / f"calls-{version}"
        self.path.write_text(
            f"#!/bin/sh\nif [ $1 = --version ]; then echo {version}; exit; fi\n"
            f'echo "$@" >> {self._calls}\nwhile [ $# -gt 1 ]; do shift; done\nprintf "device {version}" > "$1"\n'
        )
        self.path.chmod(0o755)

    def provide(self, path: Path, cache: Path) -> str:
        build.provide_device(str(self.path), path, cache)
        return path.read_text()

    @property
    def calls(self) -> int:
        return len(self._calls.read_text().splitlines()) if self._calls.exists() else 0


@pytest.fixture
def compiler(tmp_path: Path) -> Compiler:
    return Compiler(tmp_path)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "emulator"


def test_it_is_compiled_once_for_each_compiler(tmp_path: Path, compiler: Compiler, cache: Path) -> None:
    assert compiler.provide(tmp_path / "a.o", cache) == compiler.provide(tmp_path / "b.o", cache) == "device 1"
    assert compiler.calls == 1
    other = Compiler(tmp_path, "2")
    assert other.provide(tmp_path / "c.o", cache) == "device 2"
    assert len(list(cache.iterdir())) == 2


@pytest.mark.parametrize("keep", [0, 10, 35])
def test_what_is_damaged_is_made_anew(tmp_path: Path, compiler: Compiler, cache: Path, keep: int) -> None:
    compiler.provide(tmp_path / "a.o", cache)
    (kept,) = cache.iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(whole[:keep])
    assert compiler.provide(tmp_path / "b.o", cache) == "device 1"
    assert kept.read_bytes() == whole


def test_a_cache_that_cannot_be_used_is_done_without(tmp_path: Path, compiler: Compiler) -> None:
    (tmp_path / "file").touch()
    assert compiler.provide(tmp_path / "a.o", tmp_path / "file" / "emulator") == "device 1"


def test_several_at_once_leave_one_whole_file(tmp_path: Path, compiler: Compiler, cache: Path) -> None:
    names = [tmp_path / str(i) / "device.o" for i in range(4)]
    for name in names:
        name.parent.mkdir()
    with ThreadPoolExecutor(len(names)) as pool:
        provided = [pool.submit(compiler.provide, name, cache) for name in names]
    assert {p.result() for p in provided} == {"device 1"}
    done = compiler.calls
    assert len(list(cache.iterdir())) == 1
    compiler.provide(tmp_path / "again.o", cache)
    assert compiler.calls == done


def test_what_the_compiler_says_is_the_error(tmp_path: Path, compiler: Compiler, cache: Path) -> None:
    compiler.path.write_text("#!/bin/sh\n[ $1 = --version ] || { echo no space >&2; exit 1; }\n")
    with pytest.raises(CompileError, match="no space"):
        compiler.provide(tmp_path / "a.o", cache)
    compiler.path.unlink()
    with pytest.raises(CompileError, match="does not tell its version"):
        compiler.provide(tmp_path / "a.o", cache)
