"""`forewarp mcp bundle`: the server as one file that Claude Desktop installs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

from forewarp.cli import exits, printing
from forewarp.cli.mcp_install import flags_of
from forewarp.core.errors import UsageError

SUFFIX = ".mcpb"


def write(to: Path, given: Mapping[str, str], model: tuple[str, ...], *, only_print: bool) -> int:
    """Write the bundle, or print its manifest; raises `UsageError`.

    Flags become what the fields of the application's form begin with; those without a field are fixed.
    """
    if to.suffix != SUFFIX:
        raise UsageError(f"{to} is no name of a bundle", hint=f"pass a file that ends in {SUFFIX}")
    if not only_print and not to.parent.is_dir():
        raise UsageError(f"{to.parent} is no folder", hint="pass the path of a file in one that there is")
    from forewarp.mcp_server import bundle
    from forewarp.mcp_server.server import build_server

    fixed = flags_of({name: value for name, value in given.items() if name not in bundle.FIELDS}, model)
    manifest = asyncio.run(bundle.manifest(build_server(), given, fixed))
    if only_print:
        printing.json_out(json.dumps(manifest, indent=2, ensure_ascii=False))
        return exits.OK
    data = bundle.packed(manifest)
    try:
        to.write_bytes(data)
    except OSError as e:
        raise UsageError(f"{to} cannot be written: {e.strerror}", hint="pass another path") from None
    printing.out(f"{to}: {len(data) / 1e6:.1f} MB, forewarp {manifest['version']} with {len(manifest['tools'])} tools")
    printing.out("Open it with Claude Desktop; the libraries that it needs are fetched there.")
    return exits.OK
