"""Start of an agent where nothing but Python is installed: its code comes over the same pipe, once per version.

The text below is all that the far Python is told on its command line. It keeps what it gets in the cache folder by the
SHA-256 of its bytes, checks that, and becomes the agent.
"""

from __future__ import annotations

import hashlib
import io
import sys
import zipfile
from functools import lru_cache
from pathlib import Path

from forewarp.gpu_runner import child

NEED = b"forewarp-agent need\n"

_TEXT = """
import sys
import os
given = [os.path.abspath(p) for p in os.environ.pop("PYTHONPATH", "").split(os.pathsep)]  # "" is this folder
last = [p for p in sys.path if p and os.path.abspath(p) in given]
sys.path[:] = [p for p in sys.path if p and p not in last] + last
import hashlib, importlib.util, io, shutil, tempfile, zipfile
want = sys.argv[1]
if sys.version_info < (3, 11):
    sys.exit("forewarp needs Python 3.11 or newer there, and %s is %s" % (sys.executable, sys.version.split()[0]))
if importlib.util.find_spec("numpy") is None:
    sys.exit("%s has no numpy, so nothing can be measured" % sys.executable)
base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
base = os.path.join(os.environ.get("FOREWARP_CACHE") or os.path.join(base, "forewarp"), "agents")
home = os.path.join(base, want)
if not os.path.isdir(home):
    def line():
        text = b""
        while not text.endswith(b"\\n"):
            one = os.read(0, 1)
            if not one:
                sys.exit("the connection ended")
            text += one
        return int(text)
    os.write(1, b"forewarp-agent need\\n")
    size, data = line(), b""
    while len(data) < size:
        more = os.read(0, min(1 << 20, size - len(data)))
        if not more:
            sys.exit("the connection ended")
        data += more
    if hashlib.sha256(data).hexdigest() != want:
        sys.exit("the agent's code arrived broken")
    os.makedirs(base, exist_ok=True)
    scratch = tempfile.mkdtemp(dir=base)
    zipfile.ZipFile(io.BytesIO(data)).extractall(scratch)
    os.chmod(scratch, 0o755)
    try:
        os.rename(scratch, home)
    except OSError:
        shutil.rmtree(scratch, ignore_errors=True)
given = os.pathsep.join(given)
os.execv(sys.executable, [sys.executable, "-c", START, "-m", "forewarp.gpu_runner.remote.far_end", home, given])
""".replace("START", repr(child.START))


def command(python: str, package: bytes) -> list[str]:
    """Return the command line that starts an agent under `python`."""
    # In one line of plain characters, which every login shell passes on as it is.
    return [python, "-c", f"exec(bytes.fromhex('{_TEXT.encode().hex()}'))", hashlib.sha256(package).hexdigest()]


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
