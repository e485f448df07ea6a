"""The record of everything that was proposed, forecast, decided and measured: one SQLite file, and Parquet pools.

Knows the shared values only; imports nothing but `core`.
"""
