"""Candidates that a language model writes, in the device-only format of the task's seeds."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_ai import ModelRetry
from pydantic_ai.models import Model

from forewarp.core.errors import CandidateError, ModelError
from forewarp.core.protocols import Proposal
from forewarp.core.values import Candidate, Cost, RatedPlan
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.prompts.render import render
from forewarp.search.gate import program_key
from forewarp.search.proposers import edits
from forewarp.search.proposers.context import prompt
from forewarp.search.proposers.edits import EditError, NewKernel, WholeKernel
from forewarp.search.proposers.operators import Directive
from forewarp.search.proposers.past import Past
from forewarp.search.proposers.plans import Planner
from forewarp.surrogate import models
from forewarp.surrogate.models import Answer, LanguageModel

MISFIT = "(its edits did not fit)"
"""End of the note of a candidate whose edits did not apply, by which a resumed run recognises it."""

_MISFITS = 2
_RETRIES = 2


class KernelWriter:
    """Asks a language model for new programs, each by another operator or from another parent.

    Unless `aided`, for comparison, prompts hold no cards. With a `planner` it answers with plans first. Edits that do
    not fit go back once with what is wrong, then the complete file is asked for, as it is always after two misfits in a
    run; so does a malformed plan or a program that was tried. Any text is proposed in the end: its cost is on the
    record.
    """

    def __init__(
        self,
        model: Model | LanguageModel,
        *,
        planner: Planner | None = None,
        aided: bool = True,
    ) -> None:
        self.model = models.resolve(model)
        self.name = f"llm:{self.model.label}"
        self.owed = Cost()
        """Cost of calls that gave no proposal; it is added to the next proposal that is made."""
        self._planner, self._aided = planner, aided

    def write(self, past: Past, directives: Sequence[Directive]) -> list[Proposal]:
        """Return the model's new candidates; raises `ModelError` only if no call could reach the provider."""
        misfits = sum(a.proposal.proposer == self.name and a.proposal.note.endswith(MISFIT) for a in past.attempts)
        chosen = [(d, None) for d in directives]
        if self._planner is not None:
            chosen, cost = self._planner.choose(self.model, past, directives)
            self.owed += cost
        requests = [_Request(past, d, plan, edits=d.operator.edits and misfits < _MISFITS) for d, plan in chosen]
        edited = any(r.edits for r in requests)
        output: type[NewKernel | WholeKernel] = NewKernel if edited else WholeKernel
        answers = self.model.ask(
            render("propose_system.j2", languages=past.languages),
            [
                prompt(
                    past,
                    r.directive,
                    edits=r.edits,
                    plan=r.plan.plan if r.plan else None,
                    aided=self._aided,
                )
                for r in requests
            ],
            output,
            check=lambda reply, place: requests[place].check(reply),
            retries=_RETRIES + edited,
        )
        errors = [a for a in answers if isinstance(a, ModelError)]
        if errors and len(errors) == len(answers):
            raise errors[0]
        return self._proposals(past, requests, answers)

    def _proposals(
        self,
        past: Past,
        requests: Sequence[_Request],
        answers: Sequence[Answer[NewKernel | WholeKernel] | ModelError],
    ) -> list[Proposal]:
        made: list[Proposal] = []
        taken: set[str] = set()
        for request, answer in zip(requests, answers, strict=True):
            if isinstance(answer, ModelError):
                continue
            self.owed += answer.cost
            candidate = request.candidate
            if candidate is None or candidate.sha256 in past.seen or program_key(candidate) in taken:
                continue
            taken.add(program_key(candidate))
            parent, mate = request.directive.parents
            operator = request.directive.operator.name
            made.append(Proposal(candidate, self.name, parent, request.note, self.owed, mate, operator, request.plan))
            self.owed = Cost()
        return made


class _Request:
    """One request to the model: reads replies, sends back what can be mended, and keeps the latest candidate."""

    def __init__(self, past: Past, directive: Directive, plan: RatedPlan | None, *, edits: bool) -> None:
        self.directive, self.plan, self.edits = directive, plan, edits
        self.candidate: Candidate | None = None
        self.note = ""
        self._past, self._misfits, self._repeated = past, 0, False

    def check(self, reply: NewKernel | WholeKernel) -> NewKernel | WholeKernel:
        """Read edits or a complete file; raises `ModelRetry` with what is wrong."""
        begin = self.directive.begin
        parent = begin.proposal.candidate if begin else None
        changes = reply.edits if isinstance(reply, NewKernel) else []
        if isinstance(reply, WholeKernel) or reply.source.strip():
            self._read(reply.source, reply.language, reply.idea, parent)
        elif changes and parent is not None and self.edits:
            try:
                source = edits.apply(parent.source, changes)
            except EditError as e:
                self._misfits += 1
                whole = "Leave `edits` empty and send the complete file as `source`, with its `language`."
                raise ModelRetry(f"{e}\n{whole if self._misfits > 1 else 'Send all edits again, corrected.'}") from None
            self._read(source, parent.language, reply.idea, parent)
        else:
            either = "either `edits` or a complete `source`"
            raise ModelRetry(f"Send {either if self.edits else 'the complete file as `source`'}.")
        return reply

    def _read(self, source: str, language: str, idea: str, parent: Candidate | None) -> None:
        language = language or self._past.languages[0]
        if language not in self._past.languages:
            raise ModelRetry(f"language must be one of {', '.join(self._past.languages)}, not {language!r}")
        # Some models fence code even inside a field.
        source = edits.unfenced(source)
        note = f"{idea} {MISFIT}".lstrip() if self._misfits else idea
        try:
            candidate = edits.candidate_of(source, language, parent)
        except CandidateError as e:
            if candidates.is_language(language):
                self.candidate, self.note = Candidate(source, language), note
            raise ModelRetry(f"The candidate cannot be read: {e}\nSend the complete corrected file.") from None
        self.candidate, self.note = candidate, note
        # The gate would reject a program that was tried already: it goes back, once.
        tried = candidate.sha256 in self._past.seen or self._past.twin(candidate) is not None
        if tried and not self._repeated:
            self._repeated = True
            raise ModelRetry("This very program was tried already. Write another one.")
