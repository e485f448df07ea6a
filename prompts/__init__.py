"""Every text that goes to a language model: Jinja templates with their renderer, cards, and texts of the MCP server."""
