"""What a training run of the forecaster reads: measured kernels as prompts with outcomes. Knows no face."""
