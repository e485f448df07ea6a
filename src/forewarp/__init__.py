"""forewarp: faster GPU kernels on fewer measurements.

    import forewarp

    result = forewarp.optimize("softmax", budget=12)
    print(result.summary)
    result.save("out/")

`docs/commands.md` explains. `__init__.pyi` lists what is offered here; it is imported when it is first used, so that
`import forewarp` takes no time. The sub-packages are links to the folders at the top of the repository;
`docs/architecture.md` says what each one knows and what it must not import.
"""

__version__ = "0.1.0"

_homes: dict[str, str] = {}
"""The module of each name that is offered, once the list was read."""


def __getattr__(name: str) -> object:
    """Import what is offered here when it is asked for the first time."""
    from importlib import import_module

    if name == "__all__":
        return __dir__()
    module = _offered().get(name)
    if module is None:
        raise AttributeError(f"module 'forewarp' has no attribute {name!r}")
    found = import_module(module)
    value = getattr(found, name) if hasattr(found, name) else import_module(f"{module}.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return what is offered."""
    return sorted({*_offered(), "__version__"})


def _offered() -> dict[str, str]:
    if not _homes:
        import ast
        from pathlib import Path

        for node in ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                _homes.update({alias.name: node.module for alias in node.names})
    return _homes
