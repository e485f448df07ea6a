from __future__ import annotations

import random

from support import synthetic_executor as synthetic

from forewarp.core.protocols import Known, Proposal
from forewarp.core.values import Candidate, Target, Task
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.tools.proposer import Chain, make_proposer


class Writes:
    """Writes up to two programs per round."""

    name = "writes"

    def propose(self, task: Task, target: Target, known: Known, count: int, rng: random.Random) -> list[Proposal]:
        made = [Candidate(f"// program {i}", "cpp") for i in range(min(2, count))]
        return [Proposal(c, self.name) for c in made if c.sha256 not in known.seen]


def propose(count: int, seen: frozenset[str] = frozenset()) -> list[Proposal]:
    chain = Chain(Writes(), TunablesProposer())
    assert chain.name == "writes+tunables"
    return chain.propose(synthetic.task(), synthetic.TARGET, Known(seen=seen), count, random.Random(1))


def test_the_second_proposer_fills_what_the_first_left_open() -> None:
    made = propose(6)
    assert [p.proposer for p in made] == ["writes"] * 2 + ["tunables"] * 4
    assert len({p.candidate.sha256 for p in made}) == 6


def test_no_more_than_asked_for_and_nothing_seen_before() -> None:
    assert [p.proposer for p in propose(1)] == ["writes"]
    seen = frozenset(p.candidate.sha256 for p in propose(6))
    assert not seen & {p.candidate.sha256 for p in propose(6, seen)}


def test_without_a_model_tunables_are_varied() -> None:
    assert isinstance(make_proposer(synthetic.SyntheticExecutor(), synthetic.task(), None), TunablesProposer)
