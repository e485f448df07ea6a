"""Write the chosen tunables into a kernel's launch plan as the defaults."""

from __future__ import annotations

import re

from forewarp.core.errors import CandidateError
from forewarp.core.values import Candidate, Language
from forewarp.gpu_runner.formats import candidate as candidates


def bake(candidate: Candidate) -> str:
    """Return the source with the chosen tunables as defaults, as it is where its plan is written too unusually."""
    if not candidate.tunables:
        return candidate.source
    source = candidates.with_chosen(candidate).source
    for name, value in candidate.tunables.items():
        source = re.sub(
            rf"^(\s*{re.escape(name)}\s*=\s*)\[([^\]]*)\]",
            lambda m, value=value: f"{m.group(1)}[{_front(m.group(2), value)}]",
            source,
            count=1,
            flags=re.MULTILINE,
        )
    return source if _defaults(source, candidate.language) == dict(candidate.tunables) else candidate.source


def _front(choices: str, value: int) -> str:
    listed = [int(c, 0) for c in re.findall(r"[-+]?\w+", re.sub(r"#[^\n]*", "", choices))]
    return ", ".join(str(c) for c in (value, *(c for c in listed if c != value)))


def _defaults(source: str, language: Language) -> dict[str, int]:
    try:
        return dict(candidates.from_source(source, language).tunables)
    except CandidateError:
        return {}
