"""Inspection of kernels before a device runs them: traced launches, features, and emulation on the CPU."""
