"""Compile a candidate as C++ and link it with the emulated device into one program.

The device is an object file that is kept for each version of its source and of the compiler.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from forewarp.core.files import write_whole
from forewarp.gpu_runner.compilers.process import CompileError, run_compiler
from forewarp.gpu_runner.formats.plan import ResolvedPlan
from forewarp.inspection.emulation.emulator import ptx

NATIVE = Path(__file__).parent / "native"
HEADERS = NATIVE / "include"
"""Stand-ins for CUDA's headers."""
NAME = "kernel.cu"
"""Name of the candidate's source in the compiler's messages and line tables."""
TIMEOUT_S = 60.0
_PARTS = ("runtime.cpp", "memory.cpp", "main.cpp")
_DEVICE = ("-std=c++17", "-O2", "-g1")
_DIGEST = hashlib.sha256().digest_size
# Of later DWARF, binutils take the name of the wrong file.
_CANDIDATE = (
    *("-std=c++20", "-O1", "-g1", "-gdwarf-4", "-w", "-fmax-errors=5"),
    *("-fno-exceptions", "-fno-omit-frame-pointer", "-fpermissive", "-fno-strict-aliasing", "-fwrapv"),
    # These make the compiler announce accesses and faults; the functions that it calls are in native/memory.cpp.
    *("-fsanitize=thread,alignment,bounds-strict", "-fsanitize-recover=alignment,bounds-strict"),
    *("--param", "tsan-distinguish-volatile=1", "--param", "tsan-instrument-func-entry-exit=0"),
)
_DYNAMIC = re.compile(
    r"\bextern\s+(?:volatile\s+)?__shared__\s+(?P<type>(?:(?:alignas|__align__)\s*\([^()]*\)\s*|[\w:<>,*]+\s+)+?)"
    r"(?:(?:alignas|__align__)\s*\([^()]*\)\s*)?(?P<name>\w+)\s*\[\s*\]\s*;"
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([\w./]+)[>"]', re.MULTILINE)
_ALIGNMENT = re.compile(r"(?:alignas|__align__)\s*\([^()]*\)")
_SHARED_ALIGNED = re.compile(r"__shared__\s+(alignas\s*\([^()]*\))")
_LEXEME = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(?P<end>\w*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|'(?:\\.[^'\n]*|[^'\\\n]{1,4})'"""
    r"""|^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*|[^"'/#;{}()\n]+|.|\n""",
    re.DOTALL | re.MULTILINE,
)
"""Pieces of C++: comments, literals, directives, single brackets, semicolons and ends of lines, and what is between."""
_STATIC_SHARED = re.compile(r"\bstatic\s+__shared__\b")


def available() -> str:
    """Return why nothing can be emulated on this machine; "" where it can."""
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        return f"emulating CUDA needs Linux on x86-64, not {platform.system()} on {platform.machine()}"
    return "" if _found() else "emulating CUDA needs g++: install it, or set CXX to one"


def build(text: str, plan: ResolvedPlan, folder: Path, name: str, device: Path) -> None:
    """Compile a candidate for one workload to the program `folder/name`; raises `CompileError`, `UnsupportedPtx`."""
    candidate, unit = translate(text, plan)
    (folder / NAME).write_text(candidate)
    (folder / f"{name}.cpp").write_text(unit)
    command = [compiler(), *_CANDIDATE, f"-I{HEADERS}", "-c", f"{name}.cpp", "-o", f"{name}.o"]
    run_compiler(command, folder, "the compiler", TIMEOUT_S)
    run_compiler([compiler(), "-no-pie", f"{name}.o", str(device), "-o", name], folder, "the linker", TIMEOUT_S)


def _found() -> str | None:
    """Return the path of g++: other compilers announce accesses in other ways."""
    names = [n for n in (os.environ.get("CXX", ""), "g++") if "g++" in Path(n).name]
    return next((path for n in names if (path := shutil.which(n))), None)


def compiler() -> str:
    """Return the path of g++; raises `CompileError` where there is none."""
    path = _found()
    if path is None:
        raise CompileError("no g++ was found: install it, or set CXX to one")
    return path


def lines_of(program: Path, addresses: list[int]) -> dict[int, list[tuple[int, int]]]:
    """Return for addresses in a program the candidate's line each belongs to, and those that it is inlined at.

    With each line comes the number of the statement in it, from 0 on, as `statements_apart` counts them.
    """
    tool = shutil.which("addr2line")
    wanted = sorted({a for a in addresses if a})
    if tool is None or not wanted:
        return {}
    # An address that a call returns to is behind the call.
    text = "\n".join(f"{a - 1:#x}" for a in wanted)
    done = subprocess.run(
        [tool, "-a", "-i", "-e", str(program)],
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    lines: dict[int, list[tuple[int, int]]] = {}
    current = 0
    for row in done.stdout.splitlines():
        if re.fullmatch(r"0x[0-9a-f]+", row):
            current = int(row, 16) + 1
        elif found := re.match(rf".*\b{re.escape(NAME)}(?:;(\d+))?:(\d+)", row):
            lines.setdefault(current, []).append((int(found[2]), int(found[1] or 0)))
    return lines


def translate(source: str, plan: ResolvedPlan) -> tuple[str, str]:
    """Return C++ of the candidate, and a unit that includes it, as `NAME`, and has a table of the kernels launched."""
    rewritten = ptx.translate(source)
    headers = ["cuda_shim.hpp" if rewritten == source else "fw_ptx.hpp"]
    headers += [name for name in _INCLUDE.findall(source) if (HEADERS / name).is_file()]
    # Headers come first: a constant may have a name that they use.
    opening = [f'#include "{name}"' for name in headers]
    opening += [f"#define {name} {value}" for name, value in plan.constants.items()]
    source = _DYNAMIC.sub(_dynamic, rewritten)
    source = _STATIC_SHARED.sub("__shared__", _SHARED_ALIGNED.sub(r"\1 __shared__", source))
    source = statements_apart(source)
    kernels = sorted({launch.kernel for launch in plan.launches})
    table = ", ".join(f'Entry<&::{name}>::named("{name}")' for name in kernels)
    opening += [f'#include "{NAME}"', "namespace fw {", f"const Kernel kernels[] = {{{table}}};"]
    return source, "\n".join([*opening, f"const int kernel_count = {len(kernels)};", "}", ""])


def statements_apart(source: str) -> str:
    """Give each further statement of a line a file name of its own, which the compiler keeps with its machine code.

    Line tables tell no columns of inlined calls: two calls on one line could not be told from one that the compiler has
    made code for twice. Lines and columns stay.
    """
    parts, number, column, statement, depth = list[str](), 1, 0, 0, 0
    ended = False
    for found in _LEXEME.finditer(source):
        text = found[0]
        if ended and "(" in source[found.end() : source.find("\n", found.end())] and not text.isspace():
            statement += 1
            parts.append(f'\n#line {number} "{NAME};{statement}"\n{" " * column}')
        ended = (ended and text.isspace() and text != "\n") or (depth == 0 and text in (";", "{", "}"))
        depth = max(0, depth + (text == "(") - (text == ")"))
        parts.append(text)
        lines = text.count("\n")
        number, column = number + lines, len(text) - text.rfind("\n") - 1 if lines else column + len(text)
        if lines and statement:
            parts.append("\n" * (column > 0) + f'#line {number} "{NAME}"\n' + " " * column)
            statement = 0
    return "".join(parts)


def _dynamic(match: re.Match[str]) -> str:
    """Make a pointer of an array whose size the launch decides; it keeps its lines."""
    kind = " ".join(_ALIGNMENT.sub(" ", match["type"]).split())
    volatile = "volatile " if "volatile" in match[0] and "volatile" not in kind else ""
    lines = "\n" * match[0].count("\n")
    return f"{volatile}{kind}* const {match['name']} = reinterpret_cast<{volatile}{kind}*>(fw::DYNAMIC_SHARED);{lines}"


def provide_device(compiler: str, path: Path, cache: Path) -> None:
    """Write the device to `path`, from the cache if it can, where no candidate can write; raises `CompileError`."""
    kept = cache / _key(compiler)
    compiled = _read(kept)
    if compiled is None:
        command = [compiler, *_DEVICE, "-r", "-nostdlib", *(str(NATIVE / p) for p in _PARTS), "-o", path.name]
        run_compiler(command, path.parent, "the compiler", TIMEOUT_S)
        with contextlib.suppress(OSError):
            compiled = path.read_bytes()
            write_whole(kept, hashlib.sha256(compiled).digest() + compiled)
    else:
        path.write_bytes(compiled)


def keep_device(compiler: str, folder: Path, cache: Path) -> None:
    """Have the device in the cache, where that can be done; `folder` is for the work."""
    with contextlib.suppress(CompileError, OSError):
        provide_device(compiler, folder / "device.o", cache)


def _key(compiler: str) -> str:
    try:
        version = subprocess.run(
            [compiler, "--version"], capture_output=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT_S, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as e:
        raise CompileError(f"{compiler} does not tell its version: {e}") from None
    digest = hashlib.sha256(repr((compiler, version, _DEVICE, _PARTS)).encode())
    for path in sorted(p for p in NATIVE.iterdir() if p.is_file()):
        digest.update(repr((path.name, path.read_bytes())).encode())
    return digest.hexdigest()


def _read(kept: Path) -> bytes | None:
    """Return what is kept, which follows its digest; None if it is not there or damaged."""
    try:
        data = kept.read_bytes()
    except OSError:
        return None
    digest, compiled = data[:_DIGEST], data[_DIGEST:]
    return compiled if hashlib.sha256(compiled).digest() == digest else None
