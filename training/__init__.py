"""Training of the forecaster: measured kernels as prompts with outcomes. Imports no user interface."""
