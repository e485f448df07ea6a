"""Importers: published sets of measured kernels as rows of a pool, from local files in their own schemas.

Each is a function of paths and options that returns an `Imported`. `benchmarks/README.md` says what it relies on.
"""
