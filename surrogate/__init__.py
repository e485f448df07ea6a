"""Forecasters of a candidate's speed-up, and the measures of how good a forecast was.

The room knows what a candidate looks like before it runs (features, source text, compiled evidence), how to learn from
the trials of a run, how to ask a language model, and how to score distributions over the speed-up. It knows nothing of
budgets, of when a forecast is asked for, or of who asks: it must not import `search`, `tools`, `agent`, `cli` or
`mcp_server`.
"""
