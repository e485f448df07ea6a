"""Triton to a cubin for a named target, by the Triton package alone.

The source is Python and runs here while it is imported, which is why compiling happens in a confined child.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

from forewarp.core.files import import_file
from forewarp.core.inspection import Code
from forewarp.core.values import Target
from forewarp.gpu_runner.compilers.cubin import codes
from forewarp.gpu_runner.compilers.inspection import kernels_of
from forewarp.gpu_runner.compilers.process import CompileError
from forewarp.gpu_runner.formats.plan import Argument, ResolvedLaunch, ResolvedPlan

_POINTERS = {
    "float64": "*fp64",
    "float32": "*fp32",
    "float16": "*fp16",
    "bfloat16": "*bf16",
    "int64": "*i64",
    "int32": "*i32",
    "int16": "*i16",
    "int8": "*i8",
    "uint8": "*u8",
    "bool": "*i1",
}
_SCALARS = {"i32": "i32", "i64": "i64", "f32": "fp32", "f64": "fp64"}


def build(source: str, plan: ResolvedPlan, target: Target, folder: Path, stem: str) -> dict[str, Any]:
    """Compile each launch to `<stem>_<n>.cubin`."""
    module = _import(source, folder, stem)
    entries: list[dict[str, Any]] = []
    found: list[Code] = []
    for index, launch in enumerate(plan.launches):
        name = f"{stem}_{index}.cubin"
        compiled = _compile(module, launch, plan, target)
        image: bytes = compiled.asm["cubin"]
        (folder / name).write_bytes(image)
        symbol: str = compiled.metadata.name
        if getattr(compiled.metadata, "num_ctas", 1) != 1:
            raise CompileError(f"{launch.kernel}: clusters (num_ctas > 1) are not launched yet")
        entries.append(
            {
                "file": name,
                "symbol": symbol,
                "extra_params": _parameters(compiled.asm["ptx"], symbol) - len(launch.args),
                "shared": compiled.metadata.shared,
                "block": [32 * compiled.metadata.num_warps, 1, 1],
            }
        )
        found.append(codes(image, target.arch)[symbol])
    return {"files": [e["file"] for e in entries], "kernels": kernels_of(plan, target, found, entries)}


def _import(source: str, folder: Path, stem: str) -> ModuleType:
    """Import the candidate from a file: Triton reads a kernel's text through `inspect`."""
    path = folder / f"{stem}_kernel.py"
    path.write_text(source)
    try:
        return import_file(path, "candidate")
    except ModuleNotFoundError as e:
        if e.name == "triton":
            raise CompileError('Triton is not installed: pip install "forewarp[gpu]"') from None
        raise CompileError(f"the source cannot be imported: {e}") from None
    except Exception as e:
        raise CompileError(f"the source cannot be imported: {type(e).__name__}: {e}") from None


def _compile(module: ModuleType, launch: ResolvedLaunch, plan: ResolvedPlan, target: Target) -> Any:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.runtime.jit import JITFunction

    if tuple(map(int, triton.__version__.split(".")[:2])) < (3, 4):
        raise CompileError(f"Triton {triton.__version__} is too old to compile launch plans: 3.4 or newer is needed")
    kernel: Any = getattr(module, launch.kernel, None)
    if not isinstance(kernel, JITFunction):
        raise CompileError(f"the launch plan names {launch.kernel!r}, which is no @triton.jit function of the source")
    signature: dict[str, str] = {}
    attributes: dict[tuple[int, ...], list[list[Any]]] = {}
    constants: dict[tuple[int, ...], Any] = {}
    arguments = iter(launch.args)
    for parameter in kernel.params:
        position = (parameter.num,)
        if parameter.is_constexpr:
            signature[parameter.name] = "constexpr"
            constants[position] = _constant(parameter, plan, launch)
            continue
        argument = next(arguments, None)
        if argument is None:
            raise CompileError(f"{launch.kernel} takes {parameter.name!r}, but launch args end before it")
        signature[parameter.name] = _type(argument)
        if argument.kind == "ptr" or (argument.kind[0] == "i" and int(argument.value) % 16 == 0):
            attributes[position] = [["tt.divisibility", 16]]
    if (extra := next(arguments, None)) is not None:
        raise CompileError(f"launch args go on with {extra.name!r}, but {launch.kernel} takes no more parameters")
    number = int(target.arch.removeprefix("sm_"))
    try:
        return triton.compile(
            ASTSource(kernel, signature, constants, attributes),
            target=GPUTarget("cuda", number, 32),
            options={"num_warps": launch.num_warps, "num_stages": launch.num_stages},
        )
    except Exception as e:
        raise CompileError(_said(e)) from None


def _said(error: BaseException) -> str:
    """Return an error's text with its causes: Triton's own names the line, the innermost says what is wrong with it."""
    text = f"{type(error).__name__}: {error}"
    while (cause := error.__cause__) is not None:
        error = cause
        if str(error) not in text:
            text = f"{text}\n{type(error).__name__}: {error}"
    return text


def _constant(parameter: Any, plan: ResolvedPlan, launch: ResolvedLaunch) -> Any:
    if parameter.name in plan.constants:
        return plan.constants[parameter.name]
    if parameter.has_default:
        return parameter.default
    raise CompileError(f"{launch.kernel}: constexpr {parameter.name!r} is neither a tunable nor in [constants]")


def _type(argument: Argument) -> str:
    if argument.kind != "ptr":
        return _SCALARS[argument.kind]
    if argument.dtype not in _POINTERS:
        raise CompileError(f"{argument.name} has dtype {argument.dtype}, which Triton has no pointer for")
    return _POINTERS[argument.dtype]


def _parameters(ptx: str, symbol: str) -> int:
    """Count the parameters of a kernel in its PTX: Triton appends scratch pointers of its own."""
    entry = re.search(rf"\.entry {re.escape(symbol)}\((.*?)\)", ptx, re.DOTALL)
    return entry.group(1).count(".param") if entry else 0
