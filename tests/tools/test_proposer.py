from __future__ import annotations

from dataclasses import replace

from pydantic_ai.models.test import TestModel
from support import synthetic_executor as synthetic

from forewarp.search.proposers.portfolio import Portfolio
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.surrogate import models
from forewarp.tools.proposer import from_label, label, make_proposer

EXECUTOR = synthetic.SyntheticExecutor()


def test_without_a_model_tunables_are_varied() -> None:
    assert isinstance(make_proposer(EXECUTOR, synthetic.task()), TunablesProposer)


def test_models_come_with_tunables() -> None:
    model = models.resolve(TestModel())
    one = make_proposer(EXECUTOR, synthetic.task(), [model])
    two = make_proposer(EXECUTOR, synthetic.task(), [model, replace(model, label="other")])
    assert isinstance(one, Portfolio)
    assert one.name == f"llm:{model.label}+tunables"
    assert two.name == f"llm:{model.label}+llm:other+tunables"


def test_a_label_makes_the_same_proposer_again() -> None:
    assert from_label(label([], None, replaying=True)) == ([], None, True)
    assert from_label(label([], None, replaying=False)) == ([], None, False)
    assert from_label(label(["a:b"], None, replaying=False)) == (["a:b"], None, False)
    assert from_label(label(["a:b"], "http://h/v1", replaying=False)) == (["a:b"], "http://h/v1", False)
    assert from_label("llm+archived a:b") == (["a:b"], None, False)  # of older versions
    assert from_label(label(["a:b", "a:c"], "http://h", replaying=False))[0] == ["a:b", "a:c"]
