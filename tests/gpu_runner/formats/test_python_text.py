from __future__ import annotations

import ast

from forewarp.gpu_runner.formats.python_text import bindings, replaced


def test_nodes_are_replaced_where_they_stand_also_behind_wide_characters() -> None:
    source = 'µ = "é"; A, B = 1, -2\r\nC = (3 +\r\n     4)  # kept\r\n'
    assigned = [n for n in ast.parse(source).body if isinstance(n, ast.Assign)]
    pair, total = assigned[1].value, assigned[2].value
    assert isinstance(pair, ast.Tuple)
    changes = [(pair.elts[0], "100"), (total, "9"), (pair.elts[1], "7")]
    assert replaced(source, changes) == 'µ = "é"; A, B = 100, 7\r\nC = (9)  # kept\r\n'


def test_a_form_feed_ends_no_line() -> None:
    source = "x = 1  # \x0c\ny = 2\n"
    assert replaced(source, [(n.value, "0") for n in ast.parse(source).body if isinstance(n, ast.Assign)]) == (
        "x = 0  # \x0c\ny = 0\n"
    )


def test_names_are_told_with_what_they_mean() -> None:
    found = bindings(
        "import os.path\nimport torch as t\nfrom math import inf\nfrom a import *\ndef f(): ...\nx = y = 1\n"
    )
    assert found.keys() == {"os", "t", "inf", "f", "x", "y"}
    assert (found["t"], found["inf"]) == ("torch", "math.inf")
    assert bindings("def f():  # said\n  ...")["f"] == found["f"]
