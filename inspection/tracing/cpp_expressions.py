"""C++ expressions as host code writes them around a launch, evaluated as far as their values are known.

Numbers are Python's, tensors torch's. `UNKNOWN` stands for every value that cannot be told, and whatever is computed
from it is unknown, too.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from forewarp.gpu_runner.compilers.extension.tokens import NotUnderstood, Token, closing, closing_angle
from forewarp.inspection.tracing.cuda_source import split_at


class Unknown:
    """A value that cannot be told."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown()


@dataclass(frozen=True, slots=True)
class TypeName:
    """A C++ type that a name stands for, such as "float" for `scalar_t`."""

    text: str


@dataclass(frozen=True, slots=True)
class KernelName:
    """A kernel, as a value: its name and template arguments."""

    name: str
    arguments: tuple[str, ...] = ()


class Dim(tuple[Any, ...]):
    """A `dim3`: three integers, each perhaps unknown."""

    __slots__ = ()


class Names(Protocol):
    """Interface that resolves names and calls."""

    def value(self, name: str) -> Any:
        """Return the value of a plain or qualified name."""
        ...

    def call(self, name: str, templates: Sequence[str], arguments: list[Any]) -> Any:
        """Call a function."""
        ...

    def method(self, owner: Any, name: str, arguments: list[Any]) -> Any:
        """Call a member function."""
        ...

    def kernel(self, name: str, templates: Sequence[str]) -> KernelName | None:
        """Return the kernel of this name."""
        ...

    def template_text(self, found: Sequence[Token]) -> str:
        """Return a template argument as text that means the same outside of the function."""
        ...


SIZES = {
    **dict.fromkeys(("float", "int", "unsigned", "int32_t", "uint32_t", "half2", "__half2", "__nv_bfloat162"), 4),
    **dict.fromkeys(("double", "long", "int64_t", "uint64_t", "size_t", "float2", "int2"), 8),
    **dict.fromkeys(("half", "__half", "short", "__nv_bfloat16", "c10::Half", "c10::BFloat16", "at::Half"), 2),
    **dict.fromkeys(("char", "bool", "int8_t", "uint8_t"), 1),
    **dict.fromkeys(("float4", "int4", "double2"), 16),
}
_WORDS = {*SIZES, "const", "signed", "unsigned", "void", "auto", "long", "std", "constexpr", "scalar_t"}
_TEMPLATED = {
    *("static_cast", "reinterpret_cast", "const_cast", "data_ptr", "mutable_data_ptr", "const_data_ptr", "min", "max"),
    *("packed_accessor32", "packed_accessor64", "accessor", "item", "numeric_limits", "make_tuple", "packed_accessor"),
}
_LEVELS = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<=", ">=", "<", ">"),
    ("<<", ">>"),
    ("+", "-"),
    "*/%",
)
_INTEGRAL = re.compile(r"(?:unsigned|signed|int|long|short|char|size_t|u?int\d+_t|uint|const|std::|\s|bool)+")


class Expression:
    """Evaluates one expression."""

    def __init__(self, found: Sequence[Token], names: Names) -> None:
        self.found, self.names, self.place = found, names, 0

    def value(self) -> Any:
        """Return the value; raises `NotUnderstood`."""
        result = self._ternary()
        if self.place < len(self.found):
            raise NotUnderstood("an expression goes on")
        return result

    def _sign(self, *wanted: str) -> str:
        """Take the longest of the wanted operators if one stands here."""
        for sign in sorted(wanted, key=len, reverse=True):
            these = self.found[self.place : self.place + len(sign)]
            if len(these) < len(sign) or any(t.kind != "sign" for t in these):
                continue
            if "".join(t.text for t in these) == sign and these[-1].end - these[0].start == len(sign):
                self.place += len(sign)
                return sign
        return ""

    def _ternary(self) -> Any:
        condition = self._binary(0)
        if not self._sign("?"):
            return condition
        first = self._ternary()
        if not self._sign(":"):
            raise NotUnderstood("a ? without its :")
        second = self._ternary()
        return UNKNOWN if condition is UNKNOWN else first if condition else second

    def _binary(self, level: int) -> Any:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while True:
            start = self.place
            sign = self._sign(*_LEVELS[level])
            following = self.found[self.place].text if self.place < len(self.found) else ""
            if not sign or (sign in "|&" and following == sign) or (following == "=" and sign not in ("==", "!=")):
                self.place = start
                return left
            left = _apply(sign, left, self._binary(level + 1))

    def _unary(self) -> Any:
        sign = self._sign("-", "+", "!", "~", "*", "&", "++", "--")
        if sign:
            value = self._unary()
            if isinstance(value, KernelName):
                return value
            if sign in ("*", "&", "++", "--") or not isinstance(value, int | float):
                return UNKNOWN
            return {"-": lambda: -value, "+": lambda: value, "!": lambda: not value, "~": lambda: ~int(value)}[sign]()
        return self._postfix(self._primary())

    def _primary(self) -> Any:
        if self.place >= len(self.found):
            raise NotUnderstood("an expression ends early")
        token = self.found[self.place]
        if token.kind == "number":
            self.place += 1
            return number(token.text)
        if token.kind == "text":
            self.place += 1
            return token.text
        if token.kind == "name":
            return self._name()
        end = closing(self.found, self.place) if token.text in "([{" else -1
        if token.text == "(":
            inner = self.found[self.place + 1 : end]
            self.place = end + 1
            if _is_type(inner) and self.place < len(self.found) and self._starts_value():
                return cast(" ".join(t.text for t in inner), self._unary())
            return Expression(inner, self.names).value()
        if token.text == "{":
            inner = self.found[self.place + 1 : end]
            self.place = end + 1
            return [Expression(p, self.names).value() for p in split_at(inner, ",")]
        if token.text == "[":  # a lambda
            while self.place < len(self.found) and self.found[self.place].text != "{":
                self.place = (
                    closing(self.found, self.place) + 1 if self.found[self.place].text in "([" else self.place + 1
                )
            self.place = closing(self.found, self.place) + 1
            return UNKNOWN
        raise NotUnderstood(f"an expression begins with {token.text}")

    def _starts_value(self) -> bool:
        token = self.found[self.place]
        return token.kind in ("name", "number") or token.text in "(-*&!"

    def _name(self) -> Any:
        name = self._qualified()
        last = name.rpartition("::")[2]
        if name == "sizeof":
            return self._sizeof()
        templates: list[str] = []
        following = self.found[self.place].text if self.place < len(self.found) else ""
        takes = last in _TEMPLATED or self.names.kernel(last, ()) is not None
        if following == "<" and (takes or self._called_template()):
            end = closing_angle(self.found, self.place)
            inner = self.found[self.place + 1 : end]
            templates = [self.names.template_text(p) for p in split_at(inner, ",")]
            self.place = end + 1
            following = self.found[self.place].text if self.place < len(self.found) else ""
        kernel = self.names.kernel(last, templates)
        if kernel is not None:
            return kernel
        if following == "(" or (following == "{" and last == "dim3"):
            return self._call(name, templates)
        if self._sign("::"):  # a member of a class template, such as a limit
            self._qualified()
            return (
                self._call("", []) if self.place < len(self.found) and self.found[self.place].text == "(" else UNKNOWN
            )
        return self.names.value(name)

    def _called_template(self) -> bool:
        """Return whether `<` here opens template arguments: its closing bracket is followed by a call."""
        try:
            end = closing_angle(self.found, self.place)
        except NotUnderstood:
            return False
        return end + 1 < len(self.found) and self.found[end + 1].text == "("

    def _qualified(self) -> str:
        name = self.found[self.place].text
        self.place += 1
        while self._sign("::"):
            if self.place >= len(self.found) or self.found[self.place].kind != "name":
                self.place -= 2
                return name
            name += f"::{self.found[self.place].text}"
            self.place += 1
        return name

    def _arguments(self) -> list[Any]:
        end = closing(self.found, self.place)
        pieces = split_at(self.found[self.place + 1 : end], ",")
        self.place = end + 1
        return [evaluate(p, self.names) for p in pieces]

    def _call(self, name: str, templates: list[str]) -> Any:
        arguments = self._arguments()
        if name in ("static_cast", "reinterpret_cast", "const_cast"):
            return cast(templates[0] if templates else "", arguments[0] if arguments else UNKNOWN)
        if name.rpartition("::")[2] in SIZES or name in ("int", "float", "double", "bool", "unsigned", "long"):
            return cast(name, arguments[0] if arguments else UNKNOWN)
        return self.names.call(name, templates, arguments)

    def _sizeof(self) -> Any:
        end = closing(self.found, self.place)
        text = self.names.template_text(self.found[self.place + 1 : end])
        self.place = end + 1
        words = [w for w in text.replace("std::", "").split() if w != "const"]
        return 8 if "*" in text else SIZES.get(" ".join(words), SIZES.get(words[-1] if words else "", UNKNOWN))

    def _postfix(self, value: Any) -> Any:
        while self.place < len(self.found):
            if self._sign(".", "->"):
                name = self.found[self.place].text
                self.place += 1
                if name == "template":
                    name = self.found[self.place].text
                    self.place += 1
                if self._follows("<"):
                    self.place = closing_angle(self.found, self.place) + 1
                if not self._follows("("):
                    value = value["xyz".index(name)] if isinstance(value, Dim) and name in ("x", "y", "z") else UNKNOWN
                    continue
                value = self.names.method(value, name, self._arguments())
            elif self._follows("["):
                end = closing(self.found, self.place)
                index = evaluate(self.found[self.place + 1 : end], self.names)
                self.place = end + 1
                value = _item(value, index)
            elif self._follows("("):
                self._arguments()
                value = UNKNOWN
            elif self._sign("++", "--"):
                value = UNKNOWN
            else:
                break
        return value

    def _follows(self, sign: str) -> bool:
        return self.place < len(self.found) and self.found[self.place].text == sign


def evaluate(found: Sequence[Token], names: Names) -> Any:
    """Return an expression's value, `UNKNOWN` for one that is not understood."""
    try:
        return Expression(found, names).value()
    except (NotUnderstood, ArithmeticError, ValueError, TypeError, IndexError, KeyError, RuntimeError):
        return UNKNOWN


def _item(value: Any, index: Any) -> Any:
    if isinstance(value, list | tuple) and type(index) is int and not isinstance(value, Dim):
        return value[index]
    return UNKNOWN


def number(text: str) -> int | float:
    """Return the value of a C++ literal."""
    plain = text.replace("'", "").lower()
    if plain.startswith(("0x", "0b")):
        return int(plain.rstrip("ul"), 0)
    if "." in plain or "e" in plain or plain.endswith("f"):
        return float(plain.rstrip("fl"))
    digits = plain.rstrip("ulz")
    return int(digits, 8) if len(digits) > 1 and digits[0] == "0" else int(digits)


def cast(kind: str, value: Any) -> Any:
    """Convert a number to an integral or floating type; anything else stays."""
    if isinstance(value, int | float) and "*" not in kind:
        return int(value) if _INTEGRAL.fullmatch(kind) else float(value)
    return value


def _is_type(found: Sequence[Token]) -> bool:
    if not found or not all(t.kind == "name" or t.text in "*:&<>" for t in found):
        return False
    names = {t.text for t in found if t.kind == "name"}
    return bool(names & _WORDS) or found[-1].text == "*"


_NUMERIC = (int, float, torch.Tensor)
_OF_TENSORS = {"+": "add", "-": "sub", "*": "mul", "/": "truediv"}


def _apply(sign: str, left: Any, right: Any) -> Any:
    if sign == "&&" and (left is False or right is False):
        return False
    if sign == "||" and (left is True or right is True):
        return True
    if sign in ("==", "!=") and not isinstance(left, torch.Tensor) and left is not UNKNOWN and right is not UNKNOWN:
        return (left == right) == (sign == "==")
    if not isinstance(left, _NUMERIC) or not isinstance(right, _NUMERIC):
        return UNKNOWN
    if isinstance(left, torch.Tensor) or isinstance(right, torch.Tensor):
        return getattr(operator, _OF_TENSORS[sign])(left, right) if sign in _OF_TENSORS else UNKNOWN
    if sign in ("/", "%") and right == 0:
        return UNKNOWN
    return _OPERATORS[sign](left, right)


def _divide(a: Any, b: Any) -> Any:
    return (
        a / b
        if isinstance(a, float) or isinstance(b, float)
        else int(math.trunc(a / b) if abs(a) < 1 << 52 else a // b)
    )


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divide,
    "%": lambda a, b: int(math.fmod(a, b)),
    "<<": lambda a, b: int(a) << int(b),
    ">>": lambda a, b: int(a) >> int(b),
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "&": lambda a, b: int(a) & int(b),
    "|": lambda a, b: int(a) | int(b),
    "^": lambda a, b: int(a) ^ int(b),
    "&&": lambda a, b: bool(a) and bool(b),
    "||": lambda a, b: bool(a) or bool(b),
}
