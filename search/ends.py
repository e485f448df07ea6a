"""Exceptions that end a run from within its work."""

from __future__ import annotations

from forewarp.core.budget import Budget, Spend


class Stopped(Exception):
    """`Search.stop()` was called."""


class BudgetSpent(Exception):
    """The budget for searching is used up, by the currency that went first."""

    def __init__(self, currency: str) -> None:
        super().__init__(currency)
        self.currency = currency

    def reason(self, budget: Budget, spend: Spend) -> str:
        """Say which cap is used up, and how many measurements were kept back for the end and not used."""
        left = budget.left("measurements", spend) if self.currency == "measurements" else None
        kept = f", except {left:g} kept back for the end and not used" if left else ""
        return budget.spent_words(self.currency) + kept
