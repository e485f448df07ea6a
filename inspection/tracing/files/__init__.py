"""Files with Triton kernels: what their text shows, how they are imported, and calls of their functions."""
