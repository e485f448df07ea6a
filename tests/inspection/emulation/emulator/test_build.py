"""Text of candidates as the emulator compiles it."""

from __future__ import annotations

import re

from forewarp.inspection.emulation.emulator.build import statements_apart

TEXT = """#define TWICE(f) do { f(); f(); } while (0)
if (x) f(); else { g(";"); }
for (int i = 0; i < 3; i++) h(); /* a();
b(); */ TWICE(h); char c = ';'; k(1'000);
int y = 0;
"""


def test_each_further_statement_of_a_line_has_a_file_name_of_its_own() -> None:
    names = re.findall(r'^#line (\d+) "kernel.cu(?:;(\d+))?"$', statements_apart(TEXT), re.MULTILINE)
    assert names == [("2", "1"), ("2", "2"), ("3", ""), ("3", "1"), ("4", ""), ("4", "1"), ("4", "2"), ("5", "")]


def test_lines_and_columns_stay() -> None:
    grid = [list(" " * len(line)) for line in TEXT.splitlines()]
    line = 0
    for row in statements_apart(TEXT).splitlines():
        if found := re.match(r'#line (\d+) "', row):
            line = int(found[1]) - 1
            continue
        for column, letter in enumerate(row):
            grid[line][column] = letter if letter != " " else grid[line][column]
        line += 1
    assert ["".join(row) for row in grid] == TEXT.splitlines()
