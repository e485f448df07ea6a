"""When, where and how a benchmark ran."""

from __future__ import annotations

import datetime
import hashlib
import json
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any


def provenance() -> dict[str, Any]:
    """Return date, machine, versions, sources of forewarp and command."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        # Where the files lay is nobody's business; their names are.
        "command": " ".join(["python", *(Path(a).name if a.startswith("/") else a for a in sys.argv)]),
        "sources": sources(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": {n: metadata.version(n) for n in ("torch", "triton", "numpy", "optuna") if _installed(n)},
        "gpu": _gpu(),
    }


def sources() -> str:
    """Return twelve digits that stand for forewarp's own code and prompts; the same in every copy, git or not."""
    root = Path(__file__).parents[1] / "src" / "forewarp"
    files = [f for room in root.iterdir() for f in ([room] if room.is_file() else room.rglob("*"))]
    files = [f for f in files if f.suffix in {".py", ".md", ".j2", ".json", ".npz"}]
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(f"{file.relative_to(root)}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def write(path: Path, data: dict[str, Any]) -> None:
    """Write a result file with its provenance first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"provenance": provenance()} | data, indent=1) + "\n")
    print(f"wrote {path}", file=sys.stderr)


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _gpu() -> str:
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""
