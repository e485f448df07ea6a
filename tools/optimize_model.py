"""Optimise a whole model: a search for each of its most promising lines, within one budget, and the winners put in.

Its folder holds all that it is resumed from: the record, and the lines as tasks. The runs are in the archive.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from forewarp.archive.store import Archive
from forewarp.core.budget import Currency, Spend
from forewarp.core.errors import CandidateError, TaskError, UsageError
from forewarp.core.files import write_whole, writing
from forewarp.gpu_runner.formats import task as tasks
from forewarp.models.patching import Replacement
from forewarp.search.events import Event, Measured
from forewarp.tools import session as sessions
from forewarp.tools.apply_model import AppliedKernel, ApplyResult, LineKernel, PatchedModel
from forewarp.tools.export import MODULE, drop_in
from forewarp.tools.parts import SCHEMA_VERSION, Amounts, Device, Interval, OnStage, Part, unwatched
from forewarp.tools.profile_model import ProfiledModel, Share, open_model
from forewarp.tools.requests import OptimizeModelRequest, ResumeRequest
from forewarp.tools.run_report import BudgetUse
from forewarp.tools.search import Own, SearchJob, open_search, prepare, resume_search
from forewarp.tools.session import Executors, closing_executors
from forewarp.tools.wording import counted

PREFIX = "w-"
"""Of the ids of searches for whole models, which are the names of their folders."""
RECORD, NEW_MODEL = "record.json", "model_new.py"
LEAST = 2
"""Measurements of a line's search: one, and one that confirms it."""
WHOLE, WHOLE_AT_LEAST = 3, 1
"""Judgements whose seconds are kept for judging the whole: under torch.compile takes longer, and may be left out."""
LATE = 0.5
"""Part of a judgement's seconds that a search may take beyond its share, until what it measures is finished."""
_SECONDS: Mapping[Currency, str] = {"wall_s": "--deadline", "device_s": "--max-gpu-seconds"}


class SearchedLine(Part):
    """A line of the model's profile that is searched for, and the best kernel found for it."""

    number: int
    subgraph: str
    operations: str
    places: int
    gain: Share = Field(description="Forecast share of the model's device time that a kernel saves.")
    run_id: str = Field(default="", description="Its run in the archive; empty where none was begun.")
    compiled_alone: float | None = Field(default=None, description="Speed-up that torch.compile alone gives.")
    best: Interval | None = Field(default=None, description="Of the best kernel over the line itself.")
    why_none: str = Field(default="", description="Why there is no kernel to put into the model.")


class OptimizeModelResult(Part):
    """A model's lines with the best kernels found for them, and the model with those that help it."""

    summary: str
    schema_version: int = SCHEMA_VERSION
    status: Literal["finished", "interrupted"]
    run_id: str = Field(description="Name of the folder, by which it is resumed.")
    folder: str
    model: str
    device: Device
    lines: list[SearchedLine]
    budget: BudgetUse
    applied: ApplyResult | None = Field(description="Null until the whole was judged.")


class ModelRecord(Part):
    """State of a model's search, as it is kept on disk to be resumed."""

    schema_version: int = SCHEMA_VERSION
    request: OptimizeModelRequest
    model: str
    device: Device
    lines: list[SearchedLine]
    judged: list[AppliedKernel] = Field(default_factory=list[AppliedKernel])
    judging: Amounts = Amounts(measurements=0, device_s=0.0)
    judgement: Amounts = Field(default=Amounts(device_s=0.0, wall_s=0.0), description="The dearest one's seconds.")
    wall_s: float = Field(default=0.0, description="Since the command began, without the time until it was resumed.")
    applied: ApplyResult | None = None


def is_model_search(name: str) -> bool:
    """Return whether a name is that of a model's search: its folder, or its id below `forewarp-runs`."""
    return name.startswith(PREFIX) or (Path(name).expanduser() / RECORD).is_file()


@contextmanager
def open_model_search(
    request: OptimizeModelRequest,
    folder: Path | None = None,
    *,
    stage: OnStage = unwatched,
    executors: Executors | None = None,
) -> Generator[ModelSearch]:
    """Profile a model and write its most promising lines and the record; the searches begin with `work`.

    Where seconds are capped, the model is judged alone first: that says how much is kept for judging, and for which
    lines the rest will do. Raises `UsageError`, also where the budget is too small, and `TaskError` with the model's
    error.
    """
    search, begun = request.search, time.monotonic()
    capped = search.budget.device_s is not None or search.budget.wall_s is not None
    _check_budget(search.budget, 1, capped)  # before the model is profiled
    prepare(search)
    with closing_executors(executors) as kept:
        stage("profiling the model")
        most_s = search.budget.wall_s or math.inf
        model = open_model(
            *(str(search.task), request.call, search.place, kept), most_s=most_s, compile=request.compile
        )
        chosen = [(s, line) for s, line in model.lines if s.problem][: request.top]
        if not chosen:
            raise UsageError(f"no line of {model.task.name} can be made a task", hint="`forewarp profile` says why")
        _check_budget(search.budget, len(chosen), capped)
        folder = (folder or Path("forewarp-runs") / f"{PREFIX}{secrets.token_hex(3)}").expanduser().absolute()
        if (folder / RECORD).exists():
            raise UsageError(f"{folder} holds a search already", hint=f"`forewarp resume {folder}` goes on with it")
        place = search.place.model_copy(update={"archive": str(sessions.archive_path(search.place).absolute())})
        search = search.model_copy(update={"task": str(Path(str(search.task)).expanduser().absolute()), "place": place})
        record = ModelRecord(
            request=request.model_copy(update={"search": search}),
            model=model.task.name,
            device=Device.of(model.target),
            lines=[SearchedLine.of(line, subgraph=s.sha256) for s, line in chosen],
        )
        with writing(folder, "pass another --out"):
            for subgraph, line in chosen:
                write_whole(folder / f"line{line.number}.py", subgraph.problem)
        with sessions.open_archive(place) as archive:
            opened = ModelSearch(folder, record, archive, kept, begun)
            if capped:
                stage("judging the model alone, to know how long that takes")
                opened.judge_alone(opened.patched(model))
            opened.save()
            yield opened


def _check_budget(budget: Amounts, lines: int, capped: bool) -> None:
    """Raise `UsageError` where the measurements are too few for so many lines; `capped` costs one more."""
    least = (LEAST + 1) * lines + 2 + capped
    if budget.measurements is not None and budget.measurements < least:
        raise UsageError(
            f"{counted(lines, 'line')} and judging the whole take at least {least} measurements",
            hint=f"pass --budget {least} or more{', or a lower --top' if lines > 1 else ''}",
        )


@contextmanager
def resume_model_search(name: str, executors: Executors | None = None) -> Generator[ModelSearch]:
    """Take up a model's search by its folder or id; raises `UsageError` where there is none."""
    path = Path(name).expanduser()
    folder = (path if (path / RECORD).is_file() else Path("forewarp-runs") / name).absolute()
    try:
        record = ModelRecord.model_validate_json((folder / RECORD).read_bytes())
    except (OSError, ValidationError):
        raise UsageError(f"{folder} holds no model's search", hint="pass the folder that `optimize` named") from None
    with closing_executors(executors) as kept, sessions.open_archive(record.request.search.place) as archive:
        yield ModelSearch(folder, record, archive, kept)


class ModelSearch:
    """A search for kernels of a whole model; the record is written after each step, so that a killed one goes on.

    `runs` are those that were begun so far. `begun` is when the command was, by `time.monotonic`; now if left out.
    """

    def __init__(
        self, folder: Path, record: ModelRecord, archive: Archive, executors: Executors, begun: float | None = None
    ) -> None:
        self.folder, self.record, self.archive, self._executors = folder, record, archive, executors
        self._earlier_s, self._begun = record.wall_s, time.monotonic() if begun is None else begun
        self.runs = [line.run_id for line in record.lines if line.run_id]
        self._working: SearchJob | None = None
        self._stopped = False

    @property
    def run_id(self) -> str:
        return self.folder.name

    def save(self) -> None:
        self.record = self.record.model_copy(update={"wall_s": self.spent().wall_s})
        write_whole(self.folder / RECORD, self.record.model_dump_json(indent=1))

    def stop(self) -> None:
        self._stopped = True
        if self._working is not None:
            self._working.stop()

    def judge_alone(self, model: PatchedModel) -> None:
        """Judge the model against itself, and leave the lines that the seconds will not do for.

        Raises `UsageError` where they will do for none.
        """
        model.judge_alone()
        self._book(model)
        lines = self.record.lines
        count = next((n for n in range(len(lines), 0, -1) if self._affords(n)), 0)
        if not count:
            (self.folder / RECORD).unlink()
            capped = self._capped()[0]
            least = self.spent().of(capped) + (1 + WHOLE) * self._judgement(capped)
            raise UsageError(
                f"judging the model takes {self._judgement('wall_s'):.0f} s or more each time: the budget leaves no "
                "time to search for a kernel",
                hint=f"pass {_SECONDS[capped]} {math.ceil(least)} or more",
            )
        for index in range(count, len(lines)):
            self._note(index, why_none="the budget leaves no time for it")

    def patched(self, model: ProfiledModel) -> PatchedModel:
        """Return the model as what kernels are tried in until the deadline."""
        request = self.record.request
        end = time.monotonic() + self._left("wall_s") if "wall_s" in self._caps() else math.inf
        return PatchedModel(model, request.search.place, self._executors, under_compile=request.compile, end=end)

    def _affords(self, lines: int) -> bool:
        """Return whether so many lines can be searched for, for as long as a judgement takes, and be judged."""
        return all(self._free(c, lines, lines) >= lines * self._judgement(c) for c in self._capped())

    def _capped(self) -> list[Currency]:
        return [c for c in _SECONDS if c in self._caps()]

    def _caps(self) -> dict[Currency, float]:
        return self.record.request.search.budget.budget().caps

    def _judgement(self, currency: Currency) -> float:
        return getattr(self.record.judgement, currency) or 0.0

    def _left(self, currency: Currency) -> float:
        return self._caps()[currency] - self.spent().of(currency)

    def _free(self, currency: Currency, searched: int, judged: int) -> float:
        """Return the seconds for so many searches, of what is left beside so many kernels to judge, and the whole."""
        left, each = self._left(currency), self._judgement(currency)
        ample, least = (left - (judged + whole + LATE) * each for whole in (WHOLE, WHOLE_AT_LEAST))
        return ample if ample >= searched * each else least

    def _affords_judgements(self, number: int) -> bool:
        return all(self._left(c) >= number * self._judgement(c) for c in self._capped())

    def work(self, stage: OnStage = unwatched, watch: Callable[[Event], None] = unwatched) -> None:
        """Do what is left: search for each line, the most promising first, then judge the whole.

        `stage` gets what is being done, `watch` each event of the runs.
        """
        for index, line in enumerate(self.record.lines):
            if not (self._stopped or line.why_none):
                try:
                    self._search(index, stage, watch)
                except (CandidateError, TaskError, UsageError) as e:
                    self._note(index, why_none=e.message)
        if not self._stopped and self.record.applied is None:
            self._apply(stage)

    def result(self) -> OptimizeModelResult:
        record, applied = self.record, self.record.applied
        found = sum(line.best is not None and not line.why_none for line in record.lines)
        said = applied.summary if applied else f"The search for {record.model} goes on with `resume {self.folder}`."
        return OptimizeModelResult.of(
            record,
            summary=f"Kernels to try for {found} of {counted(len(record.lines), 'line')}. {said}",
            status="finished" if applied else "interrupted",
            run_id=self.run_id,
            folder=str(self.folder),
            budget=BudgetUse(spent=Amounts.of(self.spent()), limit=record.request.search.budget),
        )

    def spent(self) -> Spend:
        """Return what searches and judging have spent; seconds of wall time are those of the command."""
        spent = sum(map(self.archive.spend, self.runs), _spend(self.record.judging))
        return replace(spent, wall_s=self._earlier_s + time.monotonic() - self._begun)

    def _share(self, index: int) -> Amounts:
        """Return what a line may spend: its part, by gain, of what is left for it and the lines after it.

        Raises `UsageError` where nothing is left.
        """
        lines, spent = [line for line in self.record.lines if not line.why_none], self.spent()
        gains = [max(line.gain.value, 1e-6) for line in self.record.lines[index:] if not line.why_none]
        shares: dict[Currency, float] = {}
        for currency, cap in self._caps().items():
            left, after = cap - spent.of(currency), 0
            if currency == "measurements":
                left, after = left - len(lines) - 2, LEAST * (len(gains) - 1)
            elif currency in _SECONDS:
                left = self._free(currency, len(gains), len(lines))
            share = left * gains[0] / sum(gains)
            if currency in ("measurements", "tokens"):
                share = max(min(LEAST, left), min(round(share), left - after))
            if share <= 0:
                raise UsageError("the budget was spent before it was searched for")
            shares[currency] = share
        return Amounts.model_validate(shares)

    def _search(self, index: int, stage: OnStage, watch: Callable[[Event], None]) -> None:
        """Search for one line, or go on with its run, and keep its winner."""
        line, of = self.record.lines[index], f"line {index + 1} of {len(self.record.lines)}"
        if line.best is not None:
            return
        if not (line.run_id and self.archive.run(line.run_id).status == "finished"):
            with self._run_of(index) as job, closing(job.events()) as events:
                stage(f"{of} ({line.operations}): run {job.run_id}")
                self._working = job
                for event in events:
                    watch(event)
                    if isinstance(event, Measured):
                        best = f"best {event.best:.3g}×" if event.best else "nothing works yet"
                        stage(f"{of}: {event.spend.measurements} measured, {best}")
            self._working = None
        if not self._stopped:  # else the run is taken up again
            self._take_winner(index)

    @contextmanager
    def _run_of(self, index: int) -> Generator[SearchJob]:
        line, request = self.record.lines[index], self.record.request.search
        own = Own(executors=self._executors)
        if line.run_id:
            with resume_search(ResumeRequest.of(request, run_id=line.run_id), own) as job:
                yield job
            return
        text = (self.folder / f"line{line.number}.py").read_text(encoding="utf-8")
        task = tasks.from_source(text, f"{self.record.model}_line{line.number}")
        with open_search(request.model_copy(update={"task": task, "budget": self._share(index)}), own) as job:
            self.runs.append(job.run_id)
            self._note(index, run_id=job.run_id)
            yield job

    def _take_winner(self, index: int) -> None:
        """Write the module of a line's winner, or note why there is none."""
        line = self.record.lines[index]
        made = drop_in(self.archive, line.run_id)
        if made is None or made.text is None:
            self._note(index, why_none=made.evidence.why_no_module if made else "nothing worked")
            return
        write_whole(self._module(line), made.text)
        best = made.evidence.speedup
        self._note(index, best=best, why_none=why_not_judged(best, line.compiled_alone))

    def _apply(self, stage: OnStage) -> None:
        """Judge the model with each winner, which the record keeps, then with those that help it."""
        record, request = self.record, self.record.request
        search = request.search
        model = open_model(str(search.task), request.call, search.place, self._executors, compile=request.compile)
        subgraphs = {s.sha256: s for s, _ in model.lines}
        patched = self.patched(model)
        patched.spent, patched.dearest = _spend(record.judging), _spend(record.judgement)
        judged = list(record.judged)
        found = [line for line in record.lines if not line.why_none]
        for place, line in enumerate(found):
            if line.subgraph not in subgraphs:
                raise UsageError(f"{record.model} has changed since its lines were searched for", hint="begin anew")
            module = self._module(line)
            text = module.read_text(encoding="utf-8")
            winner = LineKernel(str(module), line.number, Replacement(subgraphs[line.subgraph], text))
            if place >= len(judged) and not self._affords_judgements(1 + WHOLE_AT_LEAST):
                judged.append(winner.judged("not judged", None, "the budget leaves no time to judge it"))
            elif place >= len(judged):
                stage(f"judging the model with the kernel of line {line.number} ({place + 1} of {len(found)})")
                judged.append(patched.judge(winner))
                self._book(patched, judged=judged)
            elif judged[place].kept:
                patched.keep(winner)
            if self._stopped:
                return

        def affords_compiled() -> bool:
            self._book(patched)
            return self._affords_judgements(WHOLE - WHOLE_AT_LEAST)

        applied = patched.result(judged, str(self.folder / NEW_MODEL), stage, affords_compiled)
        self._book(patched, applied=applied)

    def _book(self, patched: PatchedModel, **fields: object) -> None:
        """Keep what judging has spent, with fields of the record."""
        spent, dearest = patched.spent, patched.dearest
        self._set(
            judging=Amounts(measurements=spent.measurements, device_s=spent.device_s),
            judgement=Amounts(device_s=dearest.device_s, wall_s=dearest.wall_s),
            **fields,
        )

    def _module(self, line: SearchedLine) -> Path:
        return self.folder / f"line{line.number}" / MODULE

    def _note(self, index: int, **fields: object) -> None:
        lines = list(self.record.lines)
        lines[index] = lines[index].model_copy(update=fields)
        self._set(lines=lines)

    def _set(self, **fields: object) -> None:
        self.record = self.record.model_copy(update=fields)
        self.save()


def why_not_judged(best: Interval, compiled_alone: float | None) -> str:
    """Return why a line's best kernel cannot help the model, "" where it may; `compiled_alone` is of `SearchedLine`."""
    if best.ratio <= 1:
        return "no kernel is faster than the line"
    if compiled_alone is not None and best.high < compiled_alone:
        return f"no kernel is as fast as what torch.compile makes of the line ({compiled_alone:.3g}×)"
    return ""


def _spend(amounts: Amounts) -> Spend:
    return Spend(amounts.measurements or 0, amounts.device_s or 0.0, wall_s=amounts.wall_s or 0.0)
