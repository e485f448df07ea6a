from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic_ai.models.test import TestModel
from support import synthetic_executor as synthetic

from forewarp.archive.store import Archive
from forewarp.core.protocols import Proposal
from forewarp.search.proposers.portfolio import Portfolio
from forewarp.search.proposers.recorded import ArchivedProposer
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.surrogate import models
from forewarp.tools.proposer import earlier_kernels, from_label, label, make_proposer, reads_archive, several

EXECUTOR = synthetic.SyntheticExecutor()


def test_without_a_model_tunables_are_varied() -> None:
    assert isinstance(make_proposer(EXECUTOR, synthetic.task(), None), TunablesProposer)


def test_models_come_with_tunables() -> None:
    model = models.resolve(TestModel())
    one = make_proposer(EXECUTOR, synthetic.task(), model)
    two = make_proposer(EXECUTOR, synthetic.task(), [model, replace(model, label="other")])
    assert isinstance(one, Portfolio)
    assert one.name == f"llm:{model.label}+tunables"
    assert two.name == f"llm:{model.label}+llm:other+tunables"


def test_a_label_makes_the_same_proposer_again() -> None:
    assert from_label(label(None, None, replaying=True)) == (None, None, True)
    assert from_label(label(None, None, replaying=False)) == (None, None, False)
    assert from_label(label("a:b", None, replaying=False)) == ("a:b", None, False)
    assert from_label(label("a:b", "http://h/v1", replaying=False, archived=True)) == ("a:b", "http://h/v1", False)
    assert several(from_label(label(["a:b", "a:c"], "http://h", replaying=False))[0]) == ["a:b", "a:c"]
    assert several(None) == []
    assert reads_archive(label("a:b", None, replaying=False, archived=True))
    assert reads_archive(label(None, None, replaying=False, archived=True))
    assert not reads_archive(label("a:b+archived", None, replaying=False))


def test_kernels_of_earlier_runs_are_read_from_the_archive(tmp_path: Path) -> None:
    task = synthetic.task()
    other = replace(task, name="other", reference=task.reference + "\nclass Extra: ...\n")
    strange = replace(task, name="strange", reference="a wholly different thing", family="x")
    kernel, relative = synthetic.seed(UNROLL=2), synthetic.seed(UNROLL=4)
    with Archive(tmp_path / "a.db") as archive:
        for of, candidate in ((task, kernel), (other, relative), (strange, synthetic.seed(UNROLL=8))):
            run = archive.create_run(of, synthetic.TARGET, {}, {})
            (proposal,) = archive.add_proposals(run, 0, [Proposal(candidate, "tests")])
            number = archive.begin_measurement(
                of, synthetic.TARGET, candidate, run=run, proposal=proposal, purpose="candidate"
            )
            build = EXECUTOR.compile(of, candidate)
            archive.finish_measurement(number, EXECUTOR.measure(of, candidate, build), build)
        found = earlier_kernels(archive, task, synthetic.TARGET)
        assert [(k.task, k.same_task, k.candidate) for k in found] == [
            ("toy", True, kernel),
            ("other", False, relative),
        ]
        proposer = make_proposer(EXECUTOR, task, None, archive=archive)
    assert proposer.name == "archived+tunables"
    own = ArchivedProposer(found)
    assert own.inspiration(task, ("cpp",)) == found[1]
    assert own.inspiration(task, ("cuda",)) is None
