"""`forewarp mcp`: the MCP server on stdio."""

from __future__ import annotations

from forewarp.cli.options import HERE, Where


def mcp(*, where: Where = HERE) -> int:
    """Serve forecast_kernel, measure_kernel and search over MCP on stdio; see docs/mcp.md.

    Args:
        where: Device and archive; a call may name another device.
    """
    from forewarp.mcp_server.server import build_server

    build_server(where.place()).run()
    return 0
