"""Whole models: where their device time goes, subgraphs as tasks, and kernels in the subgraphs' places."""
