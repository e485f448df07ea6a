"""Start of an agent where nothing but Python is installed: its code comes over the same pipe, once per version.

`start.txt` is all that the far Python is told on its command line. It keeps what it gets in the cache folder by the
SHA-256 of its bytes, checks that, and becomes the agent.
"""

from __future__ import annotations

import hashlib
import io
import sys
import zipfile
from functools import lru_cache
from pathlib import Path

from forewarp.core.files import template
from forewarp.gpu_runner import child

NEED = b"forewarp-agent need\n"


def command(python: str, package: bytes) -> list[str]:
    text = template(__file__, "start.txt").substitute(start=repr(child.START))
    # In one line of plain characters, which every login shell passes on as it is.
    return [python, "-c", f"exec(bytes.fromhex('{text.encode().hex()}'))", hashlib.sha256(package).hexdigest()]


@lru_cache(maxsize=1)
def package() -> bytes:
    """Return the code that a measuring machine needs, zipped: three rooms and the package's first file."""
    root = Path(sys.modules["forewarp"].__file__ or "").parent
    rooms = [root / "core", root / "gpu_runner", root / "inspection"]
    files = [root / "__init__.py", *(p for room in rooms for p in room.rglob("*"))]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(p for p in files if p.is_file() and "__pycache__" not in p.parts):
            # A fixed date: the same code has to be the same bytes.
            entry = zipfile.ZipInfo(f"forewarp/{path.relative_to(root).as_posix()}", (1980, 1, 1, 0, 0, 0))
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, path.read_bytes())
    return out.getvalue()
