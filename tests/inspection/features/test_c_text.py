"""C++ text cut at its brackets."""

from __future__ import annotations

import pytest

from forewarp.inspection.features.c_text import balanced, choices, enclosed, split, statements


def test_a_block_ends_at_its_own_brace() -> None:
    text = "if (a) { x = {1}; } y;"
    assert enclosed(text, text.index("{") + 1) == " x = {1}; "
    assert enclosed("{ a; ", 1) == " a; "


def test_a_loops_head_is_one_clause_after_the_other() -> None:
    read = [s.strip() for s in statements("for (int i = 0; i < n; ++i) { y[i] = f(x, 2); } z = 1;")]
    assert [s for s in read if s] == ["for (int i = 0", "i < n", "++i)", "y[i] = f(x, 2)", "z = 1"]


def test_marks_in_brackets_part_nothing() -> None:
    assert split("a, f(b, c), x[i, j], {d, e}") == ["a", " f(b, c)", " x[i, j]", " {d, e}"]
    assert split("") == [""]
    text = "f(a[1], (b)) + c"
    assert text[: balanced(text, 2)] == "f(a[1], (b))"


@pytest.mark.parametrize(
    ("text", "value"),
    [("a ? 1 : b ? 2 : 3", 2), ("(a ? 1 : 2) + (b ? 10 : 20)", 12), ("max(a ? 5 : 7, b ? 6 : 1)", 7), ("3", 3)],
)
def test_choices_read_as_pythons(text: str, value: int) -> None:
    assert eval(choices(text), {"a": 0, "b": 1}) == value
