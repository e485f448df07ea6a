"""Kernels run on the CPU to find what is wrong with them: Triton interpreted, CUDA emulated. No time comes of it."""
