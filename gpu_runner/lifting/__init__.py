"""From a module to a device program: observe one forward on a GPU, and run what was observed without the module.

`observe` runs in a confined process beside the module and captures one forward as a CUDA graph. `program` is what it
hands over: launches, compiled code, and memory. `replay` rebuilds the graph in the launcher, at the same addresses.
"""
