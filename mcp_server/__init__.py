"""The MCP server: the verbs of `tools` as MCP tools, with handles for long work and budgets. Knows nothing of kernels.

Must not import `gpu_runner`, `surrogate` or `search`: it goes through `tools`.
"""
