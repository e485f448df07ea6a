"""Triton candidates run on the CPU, in Triton's own interpreter, with rounding and memory as on a GPU."""
