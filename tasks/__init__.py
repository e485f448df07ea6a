"""Bundled tasks: a reference program, its workloads and seed kernels in one folder each."""
