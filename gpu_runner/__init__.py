"""Tasks, candidates and their measurement. Knows devices; knows nothing of forecasting, searching or faces.

Needs the standard library, numpy and torch only, so that it runs on a bare GPU machine with `PYTHONPATH=src`.
"""
