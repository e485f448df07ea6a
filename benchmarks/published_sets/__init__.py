"""Importers: published sets of measured kernels as rows of a pool, from local files in their own schemas.

Each importer is a function of paths and options that returns an `Imported`. `docs/data.md` says what each relies on.
"""
