"""Prompt for a new program: the program to start from with its feedback, what was tried, what failed.

The program to start from is shown whole, up to `PARENT_CHARS`: nobody can change what they do not see. For the rest,
and as much of the parent as `_MAIN_CHARS`, there is a budget of `SOURCE_CHARS` (about six thousand tokens): the program
to cross it with comes first, then an example of the format, then a kernel of another task.
"""

from __future__ import annotations

import math
from typing import Any

from forewarp.core.protocols import Attempt
from forewarp.core.untrusted_text import clip, first_error
from forewarp.core.values import Forecast, KernelPlan, Measurement
from forewarp.prompts.render import render
from forewarp.search.proposers import diagnosis
from forewarp.search.proposers.advice import cards_for
from forewarp.search.proposers.operators import Directive, is_uneven
from forewarp.search.proposers.past import Past, source_of, works
from forewarp.surrogate import evidence_text
from forewarp.surrogate.listing import FENCES

PARENT_CHARS = 64_000
SOURCE_CHARS = 24_000
_MAIN_CHARS = 16_000
_LOG_CHARS = 3_000
_TRIED = 8
_OTHERS = 5
_FAILED = 4
_SETTINGS = 5
_IDEA_CHARS = 160
_LINE_CHARS = 240
_WIDE = 4.0


def prompt(
    past: Past,
    directive: Directive,
    *,
    edits: bool,
    plan: KernelPlan | None = None,
    plans: int = 0,
    aided: bool = True,
) -> str:
    """Return the text that asks for one candidate, of a `plan` if given, or for plans; `aided` by cards."""
    begin, other, broken = directive.begin, directive.other, directive.operator.begins == "broken"
    main = _program(past, begin, _Room(PARENT_CHARS), PARENT_CHARS, aided=aided) if begin else None
    room = _Room(SOURCE_CHARS - (min(len(main["source"]), _MAIN_CHARS) if main else 0))
    mate = _program(past, other, room, _MAIN_CHARS, aided=aided) if other else None
    uneven = begin.measurement if begin and is_uneven(begin) else None
    shown = {source_of(a) for a in (begin, other) if a is not None}
    tried = _tried(past, begin) if begin and not broken else {}
    return render(
        "propose_user.j2",
        task=past.task,
        target=past.target,
        languages=past.languages,
        fences=FENCES,
        operator=directive.operator.name,
        edits=edits,
        plan=plan,
        plans=plans,
        parent=None if broken else main,
        failure=_failure(main, begin) if broken and main and begin else None,
        repairs=directive.repairs,
        mate=mate,
        weakest=min(uneven.workloads, key=lambda w: w.speedup) if uneven else None,
        example=None if begin else _example(past, room),
        module=None if begin else _module(past, room),
        tried=[_told(past, a) for a in tried.values()],
        others=_others(past, shown),
        failed=_failed(past, shown | set(tried)),
        cards=_cards(past, begin, room) if aided else [],
    )


class _Room:
    """Characters of source that are left for a prompt."""

    def __init__(self, left: int) -> None:
        self.left = left

    def take(self, source: str, most: int) -> str:
        """Return as much of a source as there is room for, at most `most` characters."""
        text = clip(source, max(0, min(most, self.left)))
        self.left -= len(text)
        return text


def _program(past: Past, attempt: Attempt, room: _Room, most: int, *, aided: bool) -> dict[str, Any]:
    candidate, m = attempt.proposal.candidate, attempt.measurement
    worked = m if m is not None and works(attempt) else None
    evidence = attempt.build.evidence if attempt.build else None
    facts = dict(evidence.facts) if evidence else {}
    diagnosed = diagnosis.sentences(candidate, facts, _seconds(m), past.target) if aided else []
    return {
        "language": candidate.language,
        "speedup": worked.speedup if worked else None,
        "low": m.low if m else None,
        "high": m.high if m else None,
        "verdict": m.verdict if m else "",
        "workloads": worked.workloads if worked else (),
        "tunables": dict(candidate.tunables),
        "seconds": _seconds(m),
        "floor": facts.pop("floor_s", None) if _seconds(m) else None,
        "surprise": _surprise(attempt.forecast, worked) if worked else "",
        "settings": _settings(past, attempt) if worked else [],
        "failed": attempt.outcome == "compile_error" or (m is not None and not worked),
        "forecast": _forecast(attempt.forecast) if attempt.forecast else "",
        "idea": _line(attempt.proposal.note, _IDEA_CHARS * 3),
        "facts": [*evidence_text.lines(facts), *diagnosed],
        "problems": evidence.problems if evidence else (),
        "source": room.take(candidate.source, most),
    }


def _failure(program: dict[str, Any], attempt: Attempt) -> dict[str, Any]:
    return program | {"status": _status(attempt), "log": clip(_log(attempt), _LOG_CHARS) or "(no log)"}


def _seconds(m: Measurement | None) -> float | None:
    """Return the candidate's seconds, geometric mean over the workloads; None where it was not timed."""
    times = [w.candidate_median_s for w in m.workloads] if m else []
    return math.exp(sum(map(math.log, times)) / len(times)) if times and min(times) > 0 else None


def _surprise(forecast: Forecast | None, m: Measurement) -> str:
    """Return how the forecast compares with what was measured; "" where there was none."""
    if forecast is None or m.speedup is None:
        return ""
    low, high = forecast.interval
    before = f"Before it ran, it was forecast at {_forecast(forecast)}"
    if low <= m.speedup <= high:
        # A forecast that was nearly uninformative says nothing by coming true.
        return f"{before}: as expected." if high <= _WIDE * low else ""
    how = "faster" if m.speedup > high else "slower"
    return f"{before}: it is {how} than it looks. Find out why before you change it."


def _forecast(forecast: Forecast) -> str:
    low, high = forecast.interval
    return f"S = {forecast.median:.2f} (80 % interval {low:.2f} to {high:.2f})"


def _settings(past: Past, attempt: Attempt) -> list[dict[str, Any]]:
    """Return other measured tunables of the same source: the fastest few and the slowest, with those that differ."""
    own = attempt.proposal.candidate
    measured = [
        (a.measurement.believed, a)
        for a in past.identified.values()
        if a.measurement is not None
        and source_of(a) == source_of(attempt)
        and a.proposal.candidate.tunables != own.tunables
    ]
    measured.sort(key=lambda pair: -(pair[0] or 0.0))
    kept = measured if len(measured) <= _SETTINGS else [*measured[: _SETTINGS - 1], measured[-1]]
    return [
        {
            "tunables": {k: v for k, v in a.proposal.candidate.tunables.items() if own.tunables.get(k) != v},
            "result": f"S = {speedup:.3f}" if speedup else _status(a).replace("_", " "),
        }
        for speedup, a in kept
    ]


def _tried(past: Past, begin: Attempt) -> dict[tuple[str, str], Attempt]:
    """Return the latest programs that were made from the same source, with their outcomes."""
    source = source_of(begin)
    own = {key for key, a in past.identified.items() if source_of(a) == source} | {begin.proposal.candidate.sha256}
    made = (a for a in reversed(past.attempts) if a.proposal.parent in own or a.proposal.mate in own)
    found: dict[tuple[str, str], Attempt] = {}
    for a in made:
        if source_of(a) != source and len(found) < _TRIED:
            found.setdefault(source_of(a), a)
    return found


def _others(past: Past, shown: set[tuple[str, str]]) -> list[str]:
    nodes = [n for n in past.working if (n.candidate.language, n.candidate.source) not in shown]
    return [_told(past, past.identified[n.identity]) for n in nodes[:_OTHERS] if n.identity in past.identified]


def _failed(past: Past, shown: set[tuple[str, str]]) -> list[str]:
    """Return the latest failures of programs that never worked, and changes that changed no code."""
    worked = {source_of(a) for a in past.identified.values() if _status(a) == "ok"}
    found: dict[tuple[str, str], Attempt] = {}
    for a in reversed(past.attempts):
        if source_of(a) in worked | shown or len(found) >= _FAILED:
            continue
        if a.outcome in ("compile_error", "same_code") or (a.measurement is not None and _status(a) != "ok"):
            found.setdefault(source_of(a), a)
    return [_told(past, a) for a in found.values()]


def _told(past: Past, attempt: Attempt) -> str:
    p = attempt.proposal
    seeds = {(s.language, s.source) for s in past.task.seeds}
    label = "the task's seed" if source_of(attempt) in seeds else p.operator.replace("_", " ") or p.candidate.language
    idea = f" ({_line(p.note, _IDEA_CHARS)})" if p.note else ""
    return f"{label}{idea}: {_outcome(attempt)}"


def _outcome(attempt: Attempt) -> str:
    m = attempt.measurement
    if attempt.outcome == "same_code":
        return "compiled to machine code that was there already"
    if attempt.outcome == "duplicate":
        return "the same program as an earlier one"
    if m is not None and works(attempt):
        span = f" ({m.low:.3f} to {m.high:.3f})" if m.low is not None and m.high is not None else ""
        return f"S = {m.speedup:.3f}{span}"
    if m is not None or attempt.outcome in ("compile_error", "malformed"):
        log = first_error(_log(attempt))[:_LINE_CHARS]
        return f"{_status(attempt).replace('_', ' ')}{f': {log}' if log else ''}"
    if attempt.forecast is not None:
        return f"not measured, forecast {_forecast(attempt.forecast)}"
    return "not measured yet"


def _status(attempt: Attempt) -> str:
    m = attempt.measurement
    if m is None:
        return attempt.outcome
    return m.status if m.status != "ok" or m.trusted else m.verdict


def _log(attempt: Attempt) -> str:
    m = attempt.measurement
    log = m.log if m is not None else attempt.build.log if attempt.build and attempt.build.log else attempt.reason
    return log.strip()


def _line(text: str, limit: int) -> str:
    one = " ".join(text.split())
    return one if len(one) <= limit else f"{one[: limit - 1]}…"


def _example(past: Past, room: _Room) -> dict[str, Any]:
    seed = next((s for s in past.task.seeds if s.language in past.languages), None)
    language = seed.language if seed else past.languages[0]
    source = seed.source if seed else render(f"_example_{language}.j2")
    return {"language": language, "is_seed": seed is not None, "source": room.take(source, _MAIN_CHARS)}


def _module(past: Past, room: _Room) -> str:
    """Return the first module among the seeds, such as that of torch's Inductor; "" where there is none."""
    seed = next((s for s in past.task.seeds if s.language == "python"), None)
    return room.take(seed.source, _MAIN_CHARS) if seed else ""


def _cards(past: Past, begin: Attempt | None, room: _Room) -> list[dict[str, Any]]:
    """Return the cards that apply, with the first example that fits whole and is not what is begun from."""
    evidence = begin.build.evidence if begin and begin.build else None
    facts = evidence.facts if evidence else {}
    shown: list[dict[str, Any]] = []
    for card in cards_for(past.task, past.target, past.languages, past.known.signatures, facts):
        source = card.source
        fits = 0 < len(source) <= room.left and not any(c["source"] for c in shown) and begin is None
        shown.append({"title": card.title, "text": card.text, "source": room.take(source, len(source)) if fits else ""})
    return shown
