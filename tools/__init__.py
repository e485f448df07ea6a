"""The three verbs, `forecast_kernel`, `measure_kernel` and `search`: typed input, typed output, one file each.

All faces, the command line, Python and MCP, call the same functions. Must not import any of them.
"""
