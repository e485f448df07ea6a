"""Languages of candidates: the devices that run them, and the files that they are written in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from forewarp.core.values import DeviceKind, Language


class LanguageTraits(NamedTuple):
    """Devices that run a language, and suffixes of its files, the usual one first."""

    devices: tuple[DeviceKind, ...]
    suffixes: tuple[str, ...]


LANGUAGES: Mapping[Language, LanguageTraits] = {
    "cpp": LanguageTraits(("cpu",), (".cpp", ".cc")),
    "triton": LanguageTraits(("cuda",), (".py",)),
    "cuda": LanguageTraits(("cuda",), (".cu",)),
    "python": LanguageTraits(("cpu", "cuda"), (".py",)),
}
KERNEL_SUFFIXES = tuple(dict.fromkeys(s for traits in LANGUAGES.values() for s in traits.suffixes))
"""Suffixes of all files that may hold a kernel."""
C_SUFFIXES: Mapping[str, Language] = {s: name for name in ("cpp", "cuda") for s in LANGUAGES[name].suffixes}
"""Languages by suffix, where the suffix tells them; a `.py` file is Triton or a module by its text."""


def languages_on(kind: DeviceKind) -> tuple[Language, ...]:
    return tuple(name for name, traits in LANGUAGES.items() if kind in traits.devices)


def suffix_of(language: Language) -> str:
    return LANGUAGES[language].suffixes[0]
