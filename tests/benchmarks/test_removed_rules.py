"""The rules that `benchmarks/removed_rules.py` takes out stand in the source."""

from __future__ import annotations

import pytest
from removed_rules import ROOT, RULES, Rule


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_stands_once_in_its_file_and_has_tests(rule: Rule) -> None:
    assert (ROOT / rule.file).read_text().count(rule.text) == 1
    assert all((ROOT / path).exists() for path in rule.tests.split())
