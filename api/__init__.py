"""The Python interface: the same verbs as the command line, on plain arguments; `import forewarp` offers them.

A face like `cli` and `mcp_server`: thin over `tools`, and nothing else imports it.
"""
