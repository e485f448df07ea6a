"""Gate: the checks of a candidate that are free, namely whether it is well formed, new, and compiles."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from forewarp.core.errors import CandidateError
from forewarp.core.protocols import Executor, with_evidence
from forewarp.core.untrusted_text import clip
from forewarp.core.values import DEVICE_ONLY, Build, Candidate, GateOutcome, Signature, Task
from forewarp.gpu_runner.compilers.extension import settings
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import plan as plans

LOG_CHARS = 2000

_SAME_CODE = "compiles to the same code as "
_ERROR = re.compile(r"\berror: .*")
"""An error as compilers print it, without the file that it is in."""
_OF_VALUES = re.compile(r"static.assert|#error", re.IGNORECASE)
"""Errors that a source raises itself for values that it does not take."""


@dataclass(frozen=True, slots=True)
class GateAnswer:
    """Answer of the gate about one candidate."""

    outcome: GateOutcome
    reason: str = ""
    build: Build | None = None


@dataclass(frozen=True, slots=True)
class _Keys:
    """A candidate's keys: equal `program` means equal text and plan, equal `launches` means equal launches."""

    program: str
    launches: str

    def code(self, build: Build | None) -> str:
        """Return a key of machine code and launches, "" where unknown; a module's binary lacks its host code."""
        known = build is not None and build.binary_sha256 and self.launches
        return f"{build.binary_sha256}\n{self.launches}" if build and known else ""


class Gate:
    """Checks candidates in order and remembers them, so that nothing is compiled or measured twice."""

    def __init__(
        self,
        executor: Executor,
        task: Task,
        signatures: Sequence[Signature],
        threads: int = 4,
        *,
        forecasting: bool = False,
    ) -> None:
        """Without `signatures` nothing is the same code; if `forecasting`, long builds pass as pending."""
        self._executor, self._task, self._signatures, self._threads = executor, task, tuple(signatures), threads
        # Recorded candidates did run once: a launch plan that does not resolve here is no reason to reject them.
        self._recorded = executor.candidates(task) is not None
        self._forecast_first = forecasting and not self._recorded
        self._programs: dict[str, Candidate] = {}
        self._code: dict[str, Candidate] = {}
        self._right: set[str] = set()  # sources of which a choice of the tunables compiles
        self._failed: dict[tuple[str, ...], Candidate] = {}
        self._broken: dict[str, str] = {}

    def remember(self, candidate: Candidate, outcome: GateOutcome, build: Build | None) -> None:
        """Take note of a candidate that was checked before; later copies of it are duplicates."""
        if outcome not in ("passed", "compile_error", "same_code"):
            return
        keys = self._keys(candidate)
        self._programs.setdefault(keys.program, candidate)
        code = keys.code(build)
        if outcome == "passed" and code:
            self._code.setdefault(code, candidate)
        self._note(candidate, build)

    def key(self, candidate: Candidate) -> str:
        """Return a key that is equal for candidates that are the same program; raises `CandidateError` if malformed."""
        return self._keys(candidate).program

    def check(self, batch: Sequence[Candidate]) -> Generator[GateAnswer]:
        """Yield an answer per candidate, compiles ahead in threads until closed; raises `WorkerError`."""
        pool = ThreadPoolExecutor(self._threads, thread_name_prefix="compile")
        try:
            answers = [self._begin(candidate, pool) for candidate in batch]
            for answer in answers:
                yield answer if isinstance(answer, GateAnswer) else answer()
        finally:
            pool.shutdown(cancel_futures=True)

    def _begin(self, candidate: Candidate, pool: ThreadPoolExecutor) -> GateAnswer | Callable[[], GateAnswer]:
        """Return the answer about a candidate, or the function that waits for its compile and returns it then."""
        try:
            keys = self._keys(candidate)
        except CandidateError as e:
            return GateAnswer("malformed", str(e))
        if keys.program in self._programs:
            return GateAnswer("duplicate", f"is the same program as {self._programs[keys.program].short}")
        self._programs[keys.program] = candidate
        if refused := self._refusal(candidate):
            return refused
        return partial(self._compiled, candidate, keys, pool.submit(self._build, candidate))

    def build(self, candidate: Candidate) -> GateAnswer:
        """Compile a candidate whose build was pending."""
        if refused := self._refusal(candidate):
            return refused
        gated = _gated(lambda: self._evidenced(candidate, self._executor.compile(self._task, candidate)))
        self._note(candidate, gated.build)
        return gated

    def _refusal(self, candidate: Candidate) -> GateAnswer | None:
        """Return the answer about a candidate whose source fails whatever its tunables are; None for any other."""
        if candidate.source in self._right or candidate.source not in self._broken:
            return None
        return _gated(lambda: Build("compile_error", 0.0, self._broken[candidate.source]))

    def _note(self, candidate: Candidate, build: Build | None) -> None:
        """Take a source for broken once two choices of its tunables fail with the same errors, and none compiled."""
        if build is None or build.pending:
            return
        if build.status == "ok":
            self._right.add(candidate.source)
        errors = _ERROR.findall(build.log) if build.status == "compile_error" else []
        if not errors or any(map(_OF_VALUES.search, errors)):
            return
        first = self._failed.setdefault((candidate.source, *errors), candidate)
        if first.tunables != candidate.tunables:
            both = f"{first.short} and {candidate.short}, which have other values of the tunables"
            self._broken.setdefault(candidate.source, f"not built, because {both}, fail with the same {errors[0]}")

    def _build(self, candidate: Candidate) -> Build:
        """Compile and trace; a torch extension, where forecast first, only by its code: building it takes long."""
        later = self._forecast_first and candidate.language == "python" and settings.wanted(candidate.source)
        build = Build("ok", 0.0, pending=True) if later else self._executor.compile(self._task, candidate)
        return self._evidenced(candidate, build)

    def _evidenced(self, candidate: Candidate, build: Build) -> Build:
        return with_evidence(self._executor, self._task, candidate, build)

    def _compiled(self, candidate: Candidate, keys: _Keys, compiling: Future[Build]) -> GateAnswer:
        gated = _gated(compiling.result)
        self._note(candidate, gated.build)
        code = keys.code(gated.build) if gated.outcome == "passed" else ""
        if code and self._code.setdefault(code, candidate) is not candidate:
            return GateAnswer("same_code", f"{_SAME_CODE}{self._code[code].short}", gated.build)
        return gated

    def _keys(self, candidate: Candidate) -> _Keys:
        """Return the candidate's keys; raises `CandidateError` if its plan or its tunables are not in order."""
        if candidate.language not in DEVICE_ONLY:
            plans.parse(candidate).check(candidate.tunables)
            return _Keys(program_key(candidate), "")
        program = program_key(candidate)
        try:
            plan = plans.parse(candidate)
            resolved = [plans.resolve(plan, s, candidate.tunables) for s in self._signatures]
            plan.check(candidate.tunables)
        except CandidateError:
            if not self._recorded:
                raise
            return _Keys(program, "")
        launches = [(r.inputs, r.params, r.outputs, r.scratch, r.launches) for r in resolved]
        return _Keys(program, repr(launches or sorted((plan.defaults() | dict(candidate.tunables)).items())))


def _gated(compiled: Callable[[], Build]) -> GateAnswer:
    try:
        build = compiled()
    except CandidateError as e:
        return GateAnswer("malformed", str(e))
    if build.status != "ok":
        return GateAnswer("compile_error", f"{build.status}: {clip(build.log.strip(), LOG_CHARS)}", build)
    return GateAnswer("passed", "", build)


def program_key(candidate: Candidate) -> str:
    """Return a key that is equal for candidates that are the same program.

    That is the normal form, the tunables chosen, and the plan, unless it is malformed, without their choices.
    """
    text, chosen, launches = candidates.normalise(candidate), dict(candidate.tunables), ""
    if candidate.language == "python":
        chosen = {}  # they are in its text
    else:
        try:
            plan = plans.parse(candidate)
            chosen = plan.defaults() | chosen
            launches = repr(dataclasses.replace(plan, tunables={}, constraints=()))
        except CandidateError:
            pass
    return f"{candidate.language}\n{sorted(chosen.items())!r}\n{launches}\n{text}"
