"""Assertions with which the compiler compares a launch plan's arguments with the parameters of its kernels.

A kernel is called by its address, so that nothing else would notice an `int` passed for an `int64_t` before it crashes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import TypeVar

from forewarp.core.files import template
from forewarp.core.values import Language
from forewarp.gpu_runner.compilers.process import CompileError
from forewarp.gpu_runner.formats import c_types
from forewarp.gpu_runner.formats.plan import Argument, ResolvedPlan

T = TypeVar("T")

_FILE = "launch-plan"
"""Name of the file in which compilers find the assertions."""
_FAILED = re.compile(rf"{_FILE}\W\d+.*?static.assert.*?(args\b.*?)\"?$", re.MULTILINE)


def checked(source: str, plan: ResolvedPlan, compile_text: Callable[[str], T]) -> T:
    """Compile a source with the assertions, or without if they cannot be compared; raises `CompileError`."""
    types = template(__file__, "plan_types.h").template
    try:
        return compile_text(f'{source}\n#line 1 "{_FILE}"\n{types}{"".join(_assertions(plan))}}}\n')
    except CompileError as e:
        if wrong := dict.fromkeys(_FAILED.findall(str(e))):
            raise CompileError("\n".join(wrong)) from None
        if _FILE not in str(e):
            raise
        return compile_text(source)


def _assertions(plan: ResolvedPlan) -> Iterator[str]:
    scratch = {buffer.name for buffer in plan.scratch}
    for number, launch in enumerate(plan.launches):
        name, count = launch.kernel, len(launch.args)
        yield f"using P{number} = decltype(of({name}));\n"
        for sign, word in (("<=", "more"), (">=", "fewer")):
            said = f"args of {name} has {count} entries, but the function takes {word} parameters"
            yield f"static_assert(P{number}::count {sign} {count}, {json.dumps(said)});\n"
        for i, argument in enumerate(launch.args):
            known = _described(argument, plan.language)
            for wrong, why in _mismatches(argument, plan.language, scratch=argument.name in scratch):
                said = f"args[{i}] of {name}, {argument.name!r}, is {known}, but parameter {i + 1} {why}"
                condition = wrong.replace("@", f"P{number}::at<{i}>::")
                yield f"static_assert(!({condition}), {json.dumps(said)});\n"


def _described(argument: Argument, language: Language) -> str:
    if argument.kind == "ptr":
        return f"a pointer to {argument.dtype}"
    if argument.kind == "map":
        return "a tensor map of 128 bytes"
    return f"{argument.kind} ({c_types.number(argument.kind, language)})"


def _mismatches(argument: Argument, language: Language, *, scratch: bool) -> Iterator[tuple[str, str]]:
    """Yield conditions under which a parameter does not fit, with `@` for the parameter, and what it is then."""
    name, kind = argument.name, argument.kind
    if kind == "ptr":
        yield "@kind == integer || @kind == real", "is a number"
        element = c_types.element(argument.dtype, language)
        if element and not scratch:
            fits = {"float": 4, "double": 8}.get(element, 0)
            yield f"@to == real && @to_bytes != {fits}", f"points to other elements; use {element}"
        return
    yield "@kind == pointer", "is a pointer"
    if kind == "map":
        yield "@kind != other", "is a number; write const __grid_constant__ and a struct of 128 bytes, aligned to 64"
        return
    if kind in ("i32", "i64"):
        yield "@kind == real && @bytes == 4", f"is a float; write {name}:f32"
        yield "@kind == real && @bytes == 8", f"is a double; write {name}:f64"
        if kind == "i32":
            yield "@kind == integer && @bytes == 8", f"has 64 bits; write {name}:i64"
        return
    yield "@kind == integer", f"is an integer; write {name}:i32 or {name}:i64"
    bytes_, other = (8, "f64") if kind == "f32" else (4, "f32")
    yield f"@kind == real && @bytes == {bytes_}", f"is a {c_types.number(other, language)}; write {name}:{other}"
