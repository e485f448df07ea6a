"""How results are shown by every face: JSON documents, tables and plots for terminals, HTML pages, files of a run."""
