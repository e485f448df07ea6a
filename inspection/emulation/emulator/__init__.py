"""Run device-only CUDA candidates on the CPU, to check what they compute and what they do to memory.

A host compiler translates the kernels against headers of this package that stand in for CUDA's. Each thread of a block
is a fiber, blocks run one after another, and the compiler's instrumentation announces every access to memory, so that
what is out of bounds, uninitialised or a race is found where it happens. Nothing here says anything of speed.
"""
