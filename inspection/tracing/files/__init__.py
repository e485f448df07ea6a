"""Triton kernels of a file that comes without a task: its own code is run for calls, and what is left is guessed."""
