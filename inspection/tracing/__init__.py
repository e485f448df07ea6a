"""Tracing: the launches that a Python module would make on a CUDA device, found without one.

The module runs in a confined child on tensors that pass for CUDA tensors, with a Triton driver that compiles and
records in place of launching; CUDA extensions are read from their sources. `docs/inspecting.md` says what can and
cannot be seen.
"""
