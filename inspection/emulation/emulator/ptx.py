"""Turn inline PTX into calls of functions that do the same on the CPU (native/include/fw_ptx.hpp)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from forewarp.core.errors import CandidateError


class UnsupportedPtx(CandidateError):
    """Inline PTX that is not emulated; the text names the instruction."""


_START = re.compile(r"\b(?:asm|__asm__|__asm)\b(?:\s+(?:volatile|__volatile__|inline))*\s*\(")
_STRING = re.compile(r'\s*"((?:[^"\\]|\\.)*)"')
_OPERAND = re.compile(r'\s*(?:\[(\w+)\]\s*)?"([^"]*)"\s*\((.*)\)\s*\Z', re.DOTALL)
_FENCES = ("fence", "membar")
_ORDERED_ACCESS = re.compile(r"(?:ld|st)\..*\b(?:volatile|relaxed|acquire|release|mmio)\b")
_RELEASING = re.compile(r"\.(?:release|acq_rel)\b")
_NOTHING = ("griddepcontrol", "prefetch", "prefetchu", "discard", "applypriority", "nanosleep")
_TYPES = {
    **dict.fromkeys(("b8", "u8"), "uint8_t"),
    **dict.fromkeys(("b16", "u16", "f16", "bf16"), "uint16_t"),
    **dict.fromkeys(("b32", "u32", "f16x2", "bf16x2"), "uint32_t"),
    **dict.fromkeys(("b64", "u64"), "uint64_t"),
    **{"s8": "int8_t", "s16": "int16_t", "s32": "int32_t", "s64": "int64_t", "f32": "float", "f64": "double"},
    "pred": "bool",
}
_SPECIAL = {
    "laneid": "fw::fw_lane()",
    "warpid": "(fw::fw_thread() / 32)",
    "smid": "0u",
    "nsmid": "1u",
    "clock": "uint32_t(fw::fw_clock())",
    "clock64": "fw::fw_clock()",
    "globaltimer": "fw::fw_clock()",
    "lanemask_lt": "((1u << fw::fw_lane()) - 1)",
    "lanemask_le": "((2u << fw::fw_lane()) - 1)",
    "lanemask_eq": "(1u << fw::fw_lane())",
    "lanemask_gt": "~((2u << fw::fw_lane()) - 1)",
    "lanemask_ge": "~((1u << fw::fw_lane()) - 1)",
    **{f"tid.{a}": f"threadIdx.{a}" for a in "xyz"},
    **{f"ctaid.{a}": f"blockIdx.{a}" for a in "xyz"},
    **{f"ntid.{a}": f"blockDim.{a}" for a in "xyz"},
    **{f"nctaid.{a}": f"gridDim.{a}" for a in "xyz"},
}
_ARITHMETIC = "|".join(
    (
        *("add", "sub", "mul", "fma", "mad", "min", "max", "neg", "abs", "rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin"),
        *("cos", "tanh", "div", "and", "or", "xor", "not", "shl", "shr", "copysign", "popc", "clz", "brev", "rem"),
    )
)
_PACKED = {"f16": "__half", "f16x2": "__half2", "bf16": "__nv_bfloat16", "bf16x2": "__nv_bfloat162"}
_SMALL = {*_PACKED, "tf32"}
_OF_SMALL = ("add", "sub", "mul", "fma", "min", "max", "ex2", "tanh", "neg", "abs")


def translate(source: str) -> str:
    """Replace every inline assembly of a source; raises `UnsupportedPtx`."""
    parts: list[str] = []
    done = 0
    for match in _START.finditer(source):
        if match.start() < done or _in_comment(source, match.start()):
            continue
        end = _closing(source, match.end())
        parts += [source[done : match.start()], _statement(source[match.end() : end])]
        done = end + 1
    return "".join([*parts, source[done:]])


def _in_comment(source: str, position: int) -> bool:
    line = source[source.rfind("\n", 0, position) + 1 : position]
    return "//" in line or source.rfind("/*", 0, position) > source.rfind("*/", 0, position)


def _closing(text: str, start: int) -> int:
    """Return the position of the bracket that closes what was opened before `start`."""
    depth, i = 1, start
    while i < len(text):
        if text[i] == '"':
            string = _STRING.match(text, i)
            i = string.end() if string else i + 1
            continue
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0:
            return i
        i += 1
    raise UnsupportedPtx("inline assembly that does not end")


def _split(text: str, mark: str) -> list[str]:
    """Split at a mark that stands outside brackets and strings."""
    parts, start, i = list[str](), 0, 0
    while i < len(text):
        if text[i] == '"':
            string = _STRING.match(text, i)
            i = string.end() if string else i + 1
            continue
        if text[i] in "([{":
            i = _closing(text, i + 1)
        elif text[i] == mark:
            parts.append(text[start:i])
            start = i + 1
        i += 1
    return [*parts, text[start:]]


@dataclass(frozen=True, slots=True)
class _Scope:
    """The operands of one statement and the registers that it declares."""

    operands: Sequence[str]
    names: Mapping[str, str]
    registers: set[str]

    def value(self, text: str) -> str:
        """Return the C++ for one operand."""
        text = text.strip()
        if text.startswith("!"):
            return f"!{self.value(text[1:])}"
        if found := re.fullmatch(r"%(\d+)", text):
            return self.operands[int(found[1])]
        if found := re.fullmatch(r"%\[(\w+)\]", text):
            return self.names[found[1]]
        if found := re.fullmatch(r"%%?([a-z_]\w*(?:\.[xyz])?)", text):
            if found[1] in self.registers:
                return f"fw_r_{found[1]}"
            if found[1] in _SPECIAL:
                return _SPECIAL[found[1]]
        if found := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})", text):
            return f"fw::bits<float>(0x{found[1]}u)"
        if re.fullmatch(r"-?(?:0[xX][0-9a-fA-F]+|\d+)U?", text) or re.fullmatch(r"-?\d+\.\d*", text):
            return text
        if re.fullmatch(r"[A-Za-z_$]\w*", text) and text in self.registers:
            return f"fw_r_{text}"
        if text == "_":
            return "fw::ptx::ignored()"
        raise UnsupportedPtx(f"the operand {text!r} of inline PTX is not emulated")

    def flat(self, text: str) -> Iterator[str]:
        """Return the C++ for an operand: a vector's elements, an address with its offset, or one value."""
        text = text.strip()
        if text.startswith("{"):
            for part in _split(text[1:-1], ","):
                yield self.value(part)
        elif text.startswith("["):
            base, sign, offset = re.fullmatch(r"\[\s*(.*?)\s*(?:([+-])\s*(\d+|%\d+)\s*)?\]", text, re.DOTALL).groups()  # pyright: ignore[reportOptionalMemberAccess]
            yield f"fw::ptx::at({self.value(base)}){sign or '+'}{self.value(offset) if offset else '0'}"
        else:
            yield self.value(text)


def _statement(inside: str) -> str:
    """Return the C++ for what stands in the brackets of an asm statement."""
    lines = inside.count("\n")
    newline = "\\\n" if re.search(r"\\[ \t]*\n", inside) else "\n"
    inside = re.sub(r"\\[ \t]*\n", "\n", inside)
    template, *lists = _split(inside, ":")
    strings = _STRING.findall(template)
    if _STRING.sub("", template).strip():
        raise UnsupportedPtx("inline PTX made with macros or by pasting strings is not emulated")
    operands, names = list[str](), dict[str, str]()
    for text in (part for items in lists[:2] for part in _split(items, ",") if part.strip()):
        found = _OPERAND.match(text)
        if found is None:
            raise UnsupportedPtx(f"the operand {text.strip()!r} of inline assembly is not emulated")
        operands.append(f"({found[3]})")
        if found[1]:
            names[found[1]] = operands[-1]
    scope = _Scope(operands, names, set())
    code = "".join(strings).replace("\\n", "\n").replace("\\t", " ").replace("\\r", " ").replace('\\"', '"')
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", code, flags=re.DOTALL)
    body = " ".join(_instruction(text, scope) for text in _instructions(code))
    flat = re.sub(r"\s+", " ", body)
    return f"do {{ {flat} }} while (0)" + newline * lines


def _instructions(code: str) -> Iterator[str]:
    """Return instructions; braces that only open or close a scope are dropped, those of vectors stay."""
    for text in code.split(";"):
        text = text.strip()
        while text.startswith(("{", "}")):
            text = text[1:].strip()
        if text.endswith("}") and text.count("{") < text.count("}"):
            text = text[:-1].strip()
        if text:
            yield text


def _instruction(text: str, scope: _Scope) -> str:
    if text.startswith(".reg"):
        return _declare(text, scope)
    guard = ""
    if found := re.match(r"@(!?)\s*(%?[\w$]+)\s+", text):
        guard, text = f"if ({found[1]}{scope.value(found[2])}) ", text[found.end() :]
    opcode, _, rest = text.partition(" ")
    if found := re.match(r"\S*?(?=[\[{])", text) if "[" in opcode or "{" in opcode else None:
        opcode, rest = found[0], text[found.end() :]
    opcode = opcode.strip()
    operands = _split(rest, ",") if rest.strip() else []
    if any(opcode == n or opcode.startswith(n + ".") for n in _NOTHING):
        return ""
    if opcode.partition(".")[0] in _FENCES:
        return f"{guard}fw::fw_fence();"
    flat = [v for o in operands for v in scope.flat(o)]
    call = f"fw::ptx::{_call(opcode, operands)}({', '.join(flat)});"
    if _ORDERED_ACCESS.match(opcode):
        call = f"fw::fw_order_unknown(); {call}"
    elif _RELEASING.search(opcode):
        call = f"fw::fw_fence(); {call}"
    return f"{guard}{{ {call} }}" if guard and call.startswith("fw::fw_") else f"{guard}{call}"


def _declare(text: str, scope: _Scope) -> str:
    found = re.match(r"\.reg\s+\.(\w+)\s+(.*)\Z", text, re.DOTALL)
    if found is None or found[1] not in _TYPES or "<" in found[2]:
        raise UnsupportedPtx(f"the PTX declaration {text!r} is not emulated")
    names = [n.strip().lstrip("%") for n in found[2].split(",")]
    scope.registers.update(names)
    return f"{_TYPES[found[1]]} " + ", ".join(f"fw_r_{n} = 0" for n in names) + ";"


def _call(opcode: str, operands: Sequence[str]) -> str:
    """Return the function, with template arguments, that does what an instruction does; raises `UnsupportedPtx`."""
    for pattern, function in _INSTRUCTIONS:
        if (found := re.match(pattern, opcode)) and (call := function(found, operands)):
            return call
    hint = "; the intrinsic of C++ is" if re.match(r"(shfl|vote|match|redux)\b|activemask", opcode) else ""
    raise UnsupportedPtx(f"the PTX instruction {opcode} is not emulated{hint}")


def _mma(found: re.Match[str], _: Sequence[str]) -> str:
    k, d, a, b, c = found.groups()
    return f"mma_{a}_{d}<{k}>" if a == b and d == c and (d == "s32") == (a in ("s8", "u8")) else ""


def _matrix(found: re.Match[str], _: Sequence[str]) -> str:
    return f"{found[1]}<{found[2]}, {'true' if found[3] else 'false'}>"


def _barrier(found: re.Match[str], _: Sequence[str]) -> str:
    return "barrier_arrive" if "arrive" in found[0] else "warp_sync" if "warp" in found[0] else "barrier"


def _memory(found: re.Match[str], _: Sequence[str]) -> str:
    known = found[3] in _TYPES and ".async" not in found[0]
    name = "store" if found[1] == "st" else "load"
    return f"{name}<{_TYPES[found[3]]}, {found[2][1:] if found[2] else 1}>" if known else ""


def _atomic(found: re.Match[str], _: Sequence[str]) -> str:
    kind = _PACKED.get(found[3]) or _TYPES.get(found[3])
    return f"{found[1]}_{found[2]}<{kind}>" if kind else ""


def _move(found: re.Match[str], operands: Sequence[str]) -> str:
    vectors = [o.strip().startswith("{") for o in operands]
    move = "pack" if vectors == [False, True] else "unpack" if vectors == [True, False] else "mov"
    return move if found[1] in _TYPES else ""


def _conversion(found: re.Match[str], _: Sequence[str]) -> str:
    how, to, origin = found.groups()
    if origin == "f32" and to in _SMALL:
        return f"to_{to}"
    if to == "f32" and origin in ("f16", "bf16"):
        return f"from_{origin}"
    known = to in _TYPES and origin in _TYPES and not {to, origin} & _SMALL
    return f"convert_{how or 'rn'}<{_TYPES[to]}, {_TYPES[origin]}>" if known else ""


def _predicate(found: re.Match[str], _: Sequence[str]) -> str:
    return f"setp_{found[1]}<{_TYPES[found[2]]}>" if found[2] in _TYPES else ""


def _arithmetic(found: re.Match[str], _: Sequence[str]) -> str:
    base, how, kind = found.groups()
    if ".hi." in how or kind not in _TYPES or (kind in _PACKED and base not in _OF_SMALL):
        return ""
    if kind in _PACKED:
        return f"small_{kind}::{base}"
    wide = "_wide" if ".wide." in how else ""
    return f"mad{wide}<{_TYPES[kind]}>" if base == "mad" else f"{base}_{wide}<{_TYPES[kind]}>"


def _always(call: str) -> Callable[[re.Match[str], Sequence[str]], str]:
    return lambda found, _: found.expand(call)


_INSTRUCTIONS: tuple[tuple[str, Callable[[re.Match[str], Sequence[str]], str]], ...] = (
    (r"cp\.async\.c[ag]\.shared(::cta)?\.global", _always("copy_async")),
    (r"cp\.async\.(commit_group|wait_group|wait_all)\Z", _always(r"\1")),
    (
        r"mma\.sync\.aligned\.m16n8k(4|8|16|32)\.row\.col(?:\.satfinite)?"
        r"\.(f32|f16|s32)\.(f16|bf16|tf32|s8|u8)\.(f16|bf16|tf32|s8|u8)\.(f32|f16|s32)\Z",
        _mma,
    ),
    (r"(ldmatrix|stmatrix)\.sync\.aligned\.m8n8\.x([124])(\.trans)?\.shared(?:::cta)?\.b16\Z", _matrix),
    (r"(ld|st|ldu)\.(?:[\w:]+\.)*?(?:(v[248])\.)?(\w+)\Z", _memory),
    (r"(atom|red)\.(?:[\w:]+\.)*?(add|min|max|exch|cas|and|or|xor|inc|dec)\.(?:noftz\.)?(\w+)\Z", _atomic),
    (r"bar(?:rier)?\..*(?:sync|aligned|arrive)\Z", _barrier),
    (r"mov\.(?:.*\.)?(\w+)\Z", _move),
    (r"cvta\b.*\.to\.shared", _always("to_shared")),
    (r"cvta\b", _always("mov")),
    (r"createpolicy\b", _always("policy")),
    (r"cvt\.(?:(rn|rz|rna|rni|rzi|rmi|rpi)\.)?(?:(?:ftz|sat|relu|satfinite)\.)*(\w+)\.(\w+)\Z", _conversion),
    (r"setp\.(\w+)\.(?:.*\.)?(\w+)\Z", _predicate),
    (rf"selp\.(?:.*\.)?(?:{'|'.join(_TYPES)})\Z", _always("selp")),
    (rf"({_ARITHMETIC})(\.(?:.*\.)?)(\w+)\Z", _arithmetic),
    (r"(prmt|lop3)\b", _always(r"\1")),
)
"""Patterns of instructions, and what returns the function for one, "" if it is not emulated."""
