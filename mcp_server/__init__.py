"""The MCP server: the three verbs of `tools` as MCP tools, and handles for long runs. Knows nothing of kernels.

Must not import `gpu_runner`, `surrogate` or `search`: it goes through `tools`.
"""
