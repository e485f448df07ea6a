"""The chat agent: a stream of typed events that headless and terminal faces consume alike.

Must not import `gpu_runner`, `surrogate` or `search`: it goes through `tools`.
"""
