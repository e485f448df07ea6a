"""Propose, gate, forecast, decide, measure, record, until the budget is spent.

Knows archives, executors and forecasters by their protocols; knows nothing of faces and tools.
"""
