"""Flags that are made from the fields of requests.

A verb decorated with `takes(SomeRequest, …)` gets the request as its first argument. Help, choices, bounds and defaults
of its flags are those of the request's fields.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Concatenate,
    ParamSpec,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from cyclopts import Parameter
from cyclopts.validators import Number
from pydantic import BeforeValidator

from forewarp.cli.options import HERE, PlaceOptions, positive
from forewarp.core.errors import UsageError
from forewarp.tools.parts import Amounts, Kernel, Part, Place
from forewarp.tools.requests import Caps, checked

if TYPE_CHECKING:
    from cyclopts import Token
    from pydantic.fields import FieldInfo

Made = TypeVar("Made", bound=Part)
P = ParamSpec("P")
_BOUNDS = {"gt": "gt", "ge": "gte", "lt": "lt", "le": "lte"}
"""Bounds of a field by their names in pydantic, and in cyclopts."""
_PAIRS = {
    "tunables": ("is no tunable", "NAME=INTEGER"),
    "size": ("is no size", "NAME=INTEGER"),
    "families": ("says no family", "TASK=FAMILY"),
}
"""Problem of what is no pair, and the form of a pair, by the field that holds them."""


def takes(
    kind: type[Made], positional: str, *, without: str = "", **changes: Parameter
) -> Callable[[Callable[Concatenate[Made, P], int]], Callable[..., int]]:
    """Give a verb the flags of a request's fields, and as its first argument the request that they make.

    `positional` names fields that need no flag, in their order, `without` those that keep their defaults; `changes` are
    by field what its flag has beside the field's own: another name, a group, a way to read it.
    """
    first, left_out = positional.split(), without.split()
    ordered = sorted(kind.model_fields, key=lambda name: first.index(name) if name in first else len(first))
    taken = [_Flags(name, kind.model_fields[name], name in first, changes) for name in ordered if name not in left_out]

    def decorate(verb: Callable[Concatenate[Made, P], int]) -> Callable[..., int]:
        hints = get_type_hints(verb, include_extras=True)
        _, *own = inspect.signature(verb).parameters.values()
        made = [p for flags in taken for p in flags.parameters()]
        made += [p.replace(annotation=hints[p.name]) for p in own]
        signature = inspect.Signature(sorted(made, key=lambda p: p.kind))

        @wraps(verb)
        def run(*args: Any, **kwargs: Any) -> int:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            request = checked(kind, **{flags.field: flags.value(bound.arguments) for flags in taken})
            first = [bound.arguments[p.name] for p in own if p.kind is p.POSITIONAL_ONLY]
            rest: dict[str, Any] = {p.name: bound.arguments[p.name] for p in own if p.kind is p.KEYWORD_ONLY}
            return verb(request, *first, **rest)  # pyright: ignore[reportCallIssue]

        run.__dict__["__signature__"] = signature
        run.__annotations__ = {}
        return run

    return decorate


@dataclass(frozen=True)
class _Flags:
    """The flags of one field: one, but for the fields that hold a device, caps, or kernels with their tunables."""

    field: str
    info: FieldInfo
    positional: bool
    changes: Mapping[str, Parameter]

    def parameters(self) -> list[inspect.Parameter]:
        """Return them as parameters of the verb."""
        kind = inspect.Parameter.POSITIONAL_ONLY if self.positional else inspect.Parameter.KEYWORD_ONLY
        if self.info.annotation is Place:
            return [inspect.Parameter("where", kind, default=HERE, annotation=PlaceOptions)]
        if self.info.annotation is Amounts:
            return [
                p
                for name, info in Caps.model_fields.items()
                for p in _Flags(name, info, False, self.changes).parameters()
            ]
        made = [self._parameter(self.field, self.info, kind)]
        if self.info.annotation == list[Kernel]:
            several = Parameter(
                negative="", show_default=False, help="NAME=VALUE of a declared tunable, for every kernel."
            )
            annotation = Annotated[tuple[str, ...], several]
            made.append(inspect.Parameter("tunable", inspect.Parameter.KEYWORD_ONLY, default=(), annotation=annotation))
        return made

    def value(self, given: Mapping[str, Any]) -> Any:
        """Return what the field gets of what was given."""
        if self.info.annotation is Place:
            return given["where"].place()
        if self.info.annotation is Amounts:
            return checked(Caps, **{name: given[name] for name in Caps.model_fields}).amounts()
        if self.info.annotation == list[Kernel]:
            tunables = _pairs("tunables", given["tunable"])
            return [{"path": path, "tunables": tunables} for path in given[self.field]]
        if get_origin(self.info.annotation) is dict:
            return _pairs(self.field, given[self.field])
        return given[self.field]

    def _parameter(self, name: str, info: FieldInfo, kind: Any) -> inspect.Parameter:
        taken = Path if any(isinstance(m, BeforeValidator) for m in info.metadata) else _taken(info.annotation)
        change = self.changes.get(name, Parameter())
        if change.converter is not None:
            taken = tuple[str, ...]  # what becomes of the texts is checked with the request
        several = get_origin(taken) is tuple
        default: Any = inspect.Parameter.empty
        if not info.is_required():
            default = info.get_default(call_default_factory=True)
            default = tuple(default or ()) if several else default
        text = re.sub(r"`(\w+)`", lambda field: self._called(field[1]), info.description or "")
        if several and not self.positional:
            text += (
                " Several are separated by commas." if change.converter is commas else " May be given several times."
            )
        plain = several or default == "" or isinstance(default, bool)
        parameter = Parameter(
            help=text,
            validator=_bounds(info.metadata),
            show_default=False if plain else None,
            negative="" if several or default is False else None,
        )
        annotation = Annotated[taken | None if default is None else taken, parameter, change]
        return inspect.Parameter(name, kind, default=default, annotation=annotation)

    def _called(self, field: str) -> str:
        """Return the flag of a field that a description speaks of."""
        names = [*(self.changes.get(field, Parameter()).name or ())]
        return names[0] if names else f"--{field.replace('_', '-')}"


def _taken(annotation: Any) -> Any:
    """Return the type that a flag is read as: `Path` for files and kernels, a tuple for lists and pairs."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:  # a `FilePath`, or a task itself, instead of which there is its name
        return Path if arguments[0] is str else str
    if origin in (Union, UnionType):  # of one and several, several
        return [_taken(a) for a in arguments if a is not NoneType][-1]
    if origin is list:
        return tuple[_taken(arguments[0]), ...]
    return tuple[str, ...] if origin is dict else Path if annotation is Kernel else annotation


def _bounds(metadata: Sequence[Any]) -> Callable[[Any, Any], None] | None:
    """Return a check of a field's bounds."""
    found = {name: getattr(m, short) for m in metadata for short, name in _BOUNDS.items() if hasattr(m, short)}
    if not found:
        return None
    return positive if found == {"gt": 0} else Number(**found)


def _pairs(field: str, given: Sequence[str]) -> dict[str, str]:
    """Read NAME=VALUE pairs; raises `UsageError`."""
    wrong, form = _PAIRS[field]
    split = [pair.partition("=") for pair in given]
    for pair, (name, _, value) in zip(given, split, strict=True):
        if not (name and value) or ("INTEGER" in form and not value.lstrip("-").isdigit()):
            raise UsageError(f"{pair!r} {wrong}", hint=f"write it as {form}")
    return {name: value for name, _, value in split}


def commas(_: object, tokens: Sequence[Token]) -> tuple[str, ...]:
    """Read names that commas separate."""
    return tuple(name.strip() for token in tokens for name in token.value.split(",") if name.strip())
