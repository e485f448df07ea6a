"""The three verbs, `forecast_kernel`, `measure_kernel` and `search`: typed input, typed output, one file each.

Both faces, the command line and MCP, call the same functions. Must not import `agent`, `mcp_server` or `cli`.
"""
