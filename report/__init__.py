"""Presentation of results for every face: JSON documents, tables and plots for terminals, HTML pages, a run's files."""
