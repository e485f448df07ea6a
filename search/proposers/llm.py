"""Candidates that a language model writes, in the device-only format of the task's seeds."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic_ai import ModelRetry
from pydantic_ai.models import Model

from forewarp.core.errors import CandidateError, ModelError
from forewarp.core.protocols import Known, Proposal
from forewarp.core.values import Candidate, Cost, Target, Task
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.prompts.render import render
from forewarp.search.proposers import edits, operators
from forewarp.search.proposers.archived import ArchivedProposer
from forewarp.search.proposers.context import prompt
from forewarp.search.proposers.edits import EditError, NewKernel, WholeKernel
from forewarp.search.proposers.operators import Directive
from forewarp.search.proposers.past import Past
from forewarp.surrogate import models
from forewarp.surrogate.models import LanguageModel

MAX_CALLS = 4
"""Candidates that one `propose` asks for at most."""

MISFIT = "(its edits did not fit)"
"""End of the note of a candidate whose edits did not apply, by which a resumed run recognises it."""

_MISFITS = 2
_RETRIES = 2


class LlmProposer:
    """Asks a language model for new programs, up to four at a time, each by another operator or from another parent.

    The answer is edits of the parent's source or a complete file. Edits that do not fit go back once with what is
    wrong, then the complete file is asked for; after two such candidates in a run only complete files are. A launch
    plan that is malformed, or a program that was tried, goes back with the message. What stays malformed is proposed
    as it is where there is any text, so that the gate says why it is none and its cost is on the record.

    Raises `ModelError` only if no call at all gave a reply because the provider could not be reached.
    """

    def __init__(
        self, model: str | Model | LanguageModel, *, base_url: str = "", archived: ArchivedProposer | None = None
    ) -> None:
        self.model = models.resolve(model, base_url)
        self.name = f"llm:{self.model.label}"
        self.owed = Cost()
        """Cost of calls that gave no proposal; it is added to the next proposal that is made."""
        self._archived = archived

    def propose(self, task: Task, target: Target, known: Known, count: int, rng: random.Random) -> list[Proposal]:
        """Return up to `count`, and at most four, new candidates."""
        calls = min(count, MAX_CALLS)
        if calls < 1:
            return []
        past = Past(task, target, known)
        return self.write(past, operators.plan(past, calls, rng))

    def write(self, past: Past, directives: Sequence[Directive]) -> list[Proposal]:
        """Return the model's candidates for the requests; fewer where it gives nothing new."""
        editing = sum(a.proposal.proposer == self.name and a.proposal.note.endswith(MISFIT) for a in past.attempts)
        desk = _Desk(past, directives, edits=editing < _MISFITS)
        inspiration = self._archived.inspiration(past.task, past.languages) if self._archived else None
        prompts = [prompt(past, d, inspiration, edits=desk.takes_edits(i)) for i, d in enumerate(directives)]
        system = render("propose_system.j2", languages=past.languages)
        any_edits = any(desk.takes_edits(i) for i in range(len(directives)))
        if any_edits:
            answers = self.model.ask(system, prompts, NewKernel, check=desk.check, retries=_RETRIES + 1)
        else:
            answers = self.model.ask(system, prompts, WholeKernel, check=desk.check_whole, retries=_RETRIES)
        return self._proposals(answers, desk)

    def _proposals(
        self, answers: Sequence[models.Answer[NewKernel] | models.Answer[WholeKernel] | ModelError], desk: _Desk
    ) -> list[Proposal]:
        made: dict[str, Proposal] = {}
        keys: set[str] = set()
        errors = [a for a in answers if isinstance(a, ModelError)]
        for place, answer in enumerate(answers):
            if isinstance(answer, ModelError):
                continue
            self.owed += answer.cost
            draft = desk.drafts.get(place)
            if draft is None or draft.candidate.sha256 in desk.past.seen or draft.candidate.sha256 in made:
                continue
            key = edits.program_key(draft.candidate)
            if key in keys:
                continue
            keys.add(key)
            directive = desk.directives[place]
            made[draft.candidate.sha256] = Proposal(
                draft.candidate,
                self.name,
                directive.parent,
                draft.note,
                self.owed,
                directive.mate,
                directive.operator.name,
            )
            self.owed = Cost()
        if errors and len(errors) == len(answers):
            raise errors[0]
        return list(made.values())


@dataclass(frozen=True, slots=True)
class _Draft:
    candidate: Candidate
    note: str


class _Desk:
    """Reads replies, sends back what can be mended, and keeps the latest candidate of each request in `drafts`."""

    def __init__(self, past: Past, directives: Sequence[Directive], *, edits: bool) -> None:
        self.past, self.directives, self.drafts = past, directives, dict[int, _Draft]()
        self._edits = edits
        self._misfits, self._repeats = Counter[int](), Counter[int]()

    def takes_edits(self, place: int) -> bool:
        """Return whether a request may be answered by edits."""
        return self._edits and self.directives[place].operator.edits

    def check_whole(self, reply: WholeKernel, place: int) -> WholeKernel:
        """Read a complete file; raises `ModelRetry` with what is wrong."""
        self._read(reply.source, reply.language, reply.idea, place)
        return reply

    def check(self, reply: NewKernel, place: int) -> NewKernel:
        """Read edits or a complete file; raises `ModelRetry` with what is wrong."""
        begin = self.directives[place].begin
        if reply.source.strip():
            self._read(reply.source, reply.language, reply.idea, place)
        elif reply.edits and begin is not None and self.takes_edits(place):
            parent = begin.proposal.candidate
            try:
                source = edits.apply(parent.source, reply.edits)
            except EditError as e:
                self._misfits[place] += 1
                whole = "Leave `edits` empty and send the complete file as `source`, with its `language`."
                raise ModelRetry(
                    f"{e}\n{whole if self._misfits[place] > 1 else 'Send all edits again, corrected.'}"
                ) from None
            self._read(source, parent.language, reply.idea, place)
        else:
            what = (
                "either `edits` or a complete `source`" if self.takes_edits(place) else "the complete file as `source`"
            )
            raise ModelRetry(f"Send {what}.")
        return reply

    def _read(self, source: str, language: str, idea: str, place: int) -> None:
        language = language or self.past.languages[0]
        if language not in self.past.languages:
            raise ModelRetry(f"language must be one of {', '.join(self.past.languages)}, not {language!r}")
        # Some models fence code even inside a field.
        source = edits.unfenced(source)
        begin = self.directives[place].begin
        note = f"{idea} {MISFIT}".lstrip() if self._misfits[place] else idea
        try:
            candidate = edits.candidate_of(source, language, begin.proposal.candidate if begin else None)
        except CandidateError as e:
            if candidates.is_language(language):
                self.drafts[place] = _Draft(Candidate(source, language), note)
            raise ModelRetry(f"The candidate cannot be read: {e}\nSend the complete corrected file.") from None
        self.drafts[place] = _Draft(candidate, note)
        self._new(candidate, place)

    def _new(self, candidate: Candidate, place: int) -> None:
        """Send a program back once that was tried already; the gate would reject it."""
        twin = self.past.twin(candidate)
        if (twin is None and candidate.sha256 not in self.past.seen) or self._repeats[place]:
            return
        self._repeats[place] += 1
        raise ModelRetry("This very program was tried already. Write another one.")
