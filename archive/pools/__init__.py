"""Pools: recorded measurements as Parquet files, their splits, their checks, and imports of published sets."""
