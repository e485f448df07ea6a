"""Cutting of operations into subgraphs, on operations of a few sizes."""

from __future__ import annotations

from forewarp.models.partition import OperationNode, Partition

SIZES = {"x": 1000, "w1": 400, "w2": 400, "a": 1000, "b": 1000, "c": 1000, "d": 1000}


def node(reads: str, makes: str, work: float = 0.0, roots: str | None = None) -> OperationNode:
    return OperationNode(
        frozenset(reads.split()), frozenset(makes.split()), work, None if roots is None else frozenset(roots.split())
    )


def cut(*nodes: OperationNode, result: str) -> list[tuple[int, int]]:
    last = {name: place for place, n in enumerate(nodes) for name in n.reads}
    return Partition(nodes, SIZES, last | {result: len(nodes)}).stretches()


def test_elementwise_operations_in_a_row_are_one_subgraph() -> None:
    assert cut(node("x", "a"), node("a", "b"), node("b", "c"), result="c") == [(0, 2)]


def test_a_layer_takes_its_epilogue_and_two_layers_stay_apart() -> None:
    nodes = [node("x w1", "a", 5000, "x"), node("a", "b"), node("b w2", "c", 5000, "b"), node("c", "d")]
    assert cut(*nodes, result="d") == [(0, 1), (2, 3)]


def test_layers_on_the_same_values_are_one_subgraph() -> None:
    nodes = [node("x w1", "a", 5000, "x"), node("a", "b"), node("x w2", "c", 5000, "x"), node("b c", "d")]
    assert cut(*nodes, result="d") == [(0, 3)]


def test_products_of_activations_join_where_little_else_passes() -> None:
    small = node("x a", "b", 500), node("b", "c"), node("c x", "d", 500)
    assert cut(*small, result="d") == [(0, 2)]
    large = node("x a", "b", 50_000), node("b x", "d", 50_000)
    assert cut(*large, result="d") == [(0, 0), (1, 1)]


def test_what_depends_on_no_input_stays_apart() -> None:
    """A mask is made once, before the first of many layers that are alike."""
    mask = OperationNode(frozenset(), frozenset(["a"]), fixed=True)
    assert cut(mask, node("x a", "b"), node("b a", "c"), result="c") == [(0, 0), (1, 2)]


def test_a_value_that_is_used_later_is_no_reason_to_join() -> None:
    """The residual: both sides read it, and it has to be written all the same."""
    nodes = [node("x w1", "a", 1000, "x"), node("a", "b"), node("b w2", "c", 1000, "b"), node("b c", "d")]
    assert cut(*nodes, result="d") == [(0, 1), (2, 3)]


def test_an_operation_that_a_package_registered_stays_alone() -> None:
    """No task can be made of what holds it, so that its neighbours would have none either."""
    foreign = OperationNode(frozenset(["a"]), frozenset(["b"]), foreign=True)
    nodes = [node("x", "a"), foreign, node("b", "c"), node("c", "d")]
    assert cut(*nodes, result="d") == [(0, 0), (1, 1), (2, 3)]
