from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from forewarp.core.protocols import Attempt, Known, Proposal, Subject, Trial
from forewarp.core.values import Build, Candidate, Measurement, Verdict
from forewarp.search.puct import Node, Tree, attempts_of


def candidate(name: str, **tunables: int) -> Candidate:
    return Candidate(name, "cpp", tunables)


def key(name: str) -> str:
    return candidate(name).sha256


def attempt(
    name: str,
    log2: float | None = None,
    parent: str = "",
    mate: str = "",
    *,
    verdict: Verdict = "faster",
    **tunables: int,
) -> Attempt:
    measurement = None if log2 is None else Measurement("ok", verdict, "d", "T0", speedup=2.0**log2)
    above = [key(p) if len(p) < 20 else p for p in (parent, mate)]
    made = Proposal(candidate(name, **tunables), "p", above[0] if parent else "", mate=above[1] if mate else "")
    return Attempt(made, "passed", "", Build("ok", 0.0), None, measurement)


def names(nodes: list[Node] | tuple[Node, ...]) -> list[str]:
    return [n.candidate.source for n in nodes]


def shown(nodes: Sequence[Node]) -> list[tuple[str, float | None, float | None, int]]:
    return [(n.identity, n.value, n.best, n.expansions) for n in nodes]


def random_run(number: int, size: int = 60) -> list[Attempt]:
    rng = random.Random(number)
    made: list[Attempt] = []
    for i in range(size):
        above = [f"k{rng.randrange(i)}" if i and rng.random() < share else "" for share in (0.8, 0.2)]
        made.append(attempt(f"k{i}", rng.uniform(-2, 2) if rng.random() < 0.5 else None, *above))
    return made


def lines(run: list[Attempt]) -> dict[str, set[str]]:
    """Each identity's ancestors, by the plain definition."""
    found: dict[str, set[str]] = {}
    for a in run:
        above = [p for p in (a.proposal.parent, a.proposal.mate) if p]
        found[a.proposal.candidate.sha256] = set(above).union(*(found[p] for p in above))
    return found


@pytest.mark.parametrize("number", range(8))
def test_best_is_the_highest_of_a_node_and_its_descendants(number: int) -> None:
    run = random_run(number)
    above = lines(run)
    values = {
        a.proposal.candidate.sha256: math.log2(a.measurement.speedup)
        for a in run
        if a.measurement and a.measurement.speedup
    }
    for node in Tree(run).nodes:
        family = [v for k, v in values.items() if k == node.identity or node.identity in above[k]]
        assert node.best == pytest.approx(max(family))


@pytest.mark.parametrize("number", range(8))
def test_a_batch_holds_no_ancestor_with_its_descendant(number: int) -> None:
    run = random_run(number)
    tree, above = Tree(run), lines(run)
    free = 0
    chosen = [n.identity for n in tree.choose(8)]
    assert len(chosen) == 8
    for place, one in enumerate(chosen):
        related = [o for o in chosen[:place] if o == one or o in above[one] or one in above[o]]
        if related:
            # Only where nothing unrelated was left.
            rest = [n.identity for n in tree.nodes]
            assert all(any(tree.related(r, c) for c in chosen[:place]) for r in rest)
        free += not related
    assert free >= 2


@pytest.mark.parametrize("by_source", [False, True])
def test_equal_runs_give_equal_choices(by_source: bool) -> None:
    run = random_run(3)
    once, again = (Tree(list(run), by_source=by_source) for _ in range(2))
    assert shown(once.nodes) == shown(again.nodes)
    assert shown(once.choose(9)) == shown(again.choose(9))


def test_equals_are_told_apart_by_identity() -> None:
    run = [attempt(n, 1.0) for n in "abcd"]
    assert names(Tree(run).nodes) == names(Tree(run[::-1]).nodes)
    assert names(Tree(run).choose(3)) == names(Tree(run[::-1]).choose(3))


def test_expansions_count_for_the_whole_line() -> None:
    run = [
        attempt("a", 1),
        attempt("b", 0, "a"),
        attempt("c", 0, "b"),
        attempt("d", None, "c"),
        attempt("e", None, "b", "a"),
    ]
    found = {n.candidate.source: n.expansions for n in Tree(run).nodes}
    assert found == {"a": 5, "b": 3, "c": 1}


@pytest.mark.parametrize(("expanded", "chosen"), [(3, "fast"), (30, "slow")])
def test_the_more_was_expanded_the_more_a_worse_one_is_worth_a_try(expanded: int, chosen: str) -> None:
    run = [attempt("fast", 1.0), attempt("slow", -1.0), *(attempt(f"c{i}", None, "fast") for i in range(expanded))]
    assert names(Tree(run).choose(1)) == [chosen]


@pytest.mark.parametrize("number", range(6))
def test_choices_follow_the_formula(number: int) -> None:
    run = random_run(number, 40)
    tree = Tree(run)
    nodes = {n.identity: n for n in tree.nodes}
    first = {a.proposal.candidate.sha256: a.proposal.parent or a.proposal.mate for a in run}
    expansions = {key: node.expansions for key, node in nodes.items()}
    total = sum(bool(a.proposal.parent) + bool(a.proposal.mate and a.proposal.mate != a.proposal.parent) for a in run)
    values = [n.value or 0.0 for n in tree.nodes]
    whole = len(nodes) * (len(nodes) + 1) / 2

    def score(rank: int, node: Node) -> float:
        gain = ((node.best or 0.0) - min(values)) / (max(values) - min(values))
        return gain + (len(nodes) - rank) / whole * math.sqrt(1 + total) / (1 + expansions[node.identity])

    expected: list[str] = []
    for _ in range(12):
        ranked = sorted(enumerate(tree.nodes), key=lambda pair: -score(*pair))
        expected.append(ranked[0][1].identity)
        total += 1
        above = expected[-1]
        while above:
            if above in expansions:
                expansions[above] += 1
            above = first.get(above, "")
    assert [n.identity for n in tree.choose(12, blocking=False)] == expected


@pytest.mark.parametrize("octaves", [1.0, 0.01])
def test_gains_count_by_their_place_between_the_slowest_and_the_fastest(octaves: float) -> None:
    worn = [attempt("fast", octaves), attempt("slow", -octaves), *(attempt(f"c{i}", None, "fast") for i in range(4))]
    assert names(Tree(worn).choose(1)) == ["fast"]


def test_what_is_expanded_often_gives_way() -> None:
    run = [attempt("fast", 1.0), attempt("near", 0.9), attempt("slow", -1.0)]
    assert names(Tree(run).choose(1)) == ["fast"]
    worn = [*run, *(attempt(f"c{i}", None, "fast") for i in range(30))]
    assert names(Tree(worn).choose(1)) == ["near"]


def test_a_batch_without_blocking_returns_to_the_best() -> None:
    run = [attempt("a", 2.0), attempt("b", 1.9, "a"), attempt("c", -2.0)]
    assert set(names(Tree(run).choose(4, blocking=False))) >= {"a", "b"}
    assert names(Tree(run).choose(2))[1] == "c"
    assert len(Tree(run).choose(4)) == 4


def test_untrusted_and_unmeasured_are_no_nodes_but_seeds_are() -> None:
    run = [attempt("a", 1.0), attempt("b"), attempt("c", 5.0, verdict="suspicious")]
    tree = Tree(run, [candidate("seed")])
    assert names(tree.nodes) == ["a", "seed"]
    assert tree.nodes[1].value is None
    assert Tree([]).choose(3) == []
    assert names(Tree([], [candidate("seed")]).choose(2)) == ["seed", "seed"]


def test_a_line_goes_through_what_was_not_measured() -> None:
    run = [attempt("a", 0.0), attempt("b", None, "a"), attempt("c", 2.0, "b")]
    tree = Tree(run)
    assert {n.candidate.source: n.best for n in tree.nodes} == {"a": 2.0, "c": 2.0}
    assert tree.related(key("a"), key("c"))
    assert tree.related(key("c"), key("a"))
    assert tree.related("unknown", "unknown")
    assert not tree.related("unknown", key("a"))


def test_choices_of_one_source_are_one_node() -> None:
    first = candidate("a", N=1)
    run = [
        attempt("a", 0.5, N=1),
        attempt("a", 1.5, first.sha256, N=2),
        attempt("a", None, first.sha256, N=3),
        attempt("a", 1.2, first.sha256, N=4),
        attempt("b", 1.0, first.sha256),
    ]
    tree = Tree(run, by_source=True)
    assert names(tree.nodes) == ["a", "b"]
    assert (tree.nodes[0].candidate.tunables, tree.nodes[0].value, tree.nodes[0].expansions) == ({"N": 2}, 1.5, 1)
    assert tree.related(first.sha256, tree.nodes[0].identity)


def test_what_is_not_in_the_tree_is_related_to_itself_alone() -> None:
    tree = Tree([attempt("a", 1)])
    assert tree.related("unknown", "unknown")
    pairs = [(key("a"), "unknown"), ("unknown", key("a")), ("one", "other"), ("other", "one")]
    assert not any(tree.related(*pair) for pair in pairs)


def test_what_grows_from_a_cross_counts_for_the_first_parents_line_only() -> None:
    run = [attempt("a", 3), attempt("b", 2), attempt("c", 1, "a", "b"), attempt("d", 0, "c")]
    assert [(n.candidate.source, n.expansions) for n in Tree(run).nodes] == [("a", 2), ("b", 1), ("c", 1), ("d", 0)]


def test_a_first_attempt_that_was_not_measured_is_no_node() -> None:
    assert names(Tree([attempt("a"), attempt("b", 1, "a")]).nodes) == ["b"]


def test_of_equally_fast_choices_of_one_source_the_first_stands_for_it() -> None:
    run = [attempt("a", 1, BLOCK=32), attempt("a", 1, BLOCK=64)]
    assert Tree(run, by_source=True).nodes[0].candidate.tunables == {"BLOCK": 32}


def test_choices_of_one_source_are_nodes_of_their_own_unless_asked_for() -> None:
    tree = Tree([attempt("a", 1, BLOCK=32), attempt("a", 2, BLOCK=64)])
    assert [n.value for n in tree.nodes] == [2, 1]


def test_only_nodes_that_qualify_are_chosen() -> None:
    run = [attempt("a", 2.0), attempt("b", 1.0, "a"), attempt("c", 0.0)]
    assert names(Tree(run).choose(1, among=lambda n: n.candidate.source == "b")) == ["b"]


def test_circles_do_no_harm() -> None:
    run = [attempt("a", 1.0, "b"), attempt("b", 2.0, "a"), attempt("c", 0.0, "c")]
    assert len(Tree(run).choose(5)) == 5


def test_trials_of_other_runs_are_nodes_without_parents() -> None:
    own, other = attempt("a", 1.0), attempt("b", 2.0)
    trials = [
        Trial(Subject(a.proposal.candidate, a.build), a.measurement) for a in (other, own) if a.build and a.measurement
    ]
    found = attempts_of(Known([own], trials))
    assert [a.proposal.candidate.source for a in found] == ["b", "a"]
    assert attempts_of(Known([own], trials[1:])) == [own]
