"""Exceptions that end a run from within its work."""

from __future__ import annotations


class Stopped(Exception):
    """`Search.stop()` was called."""


class BudgetSpent(Exception):
    """The budget for searching is used up, by the currency that went first."""

    def __init__(self, currency: str) -> None:
        super().__init__(currency)
        self.currency = currency
