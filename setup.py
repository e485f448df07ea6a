"""Refuses to build a checkout without symbolic links; everything else about the package is in pyproject.toml."""

import sys
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent
PACKAGE = ROOT / "src" / "forewarp"


def missing_links() -> list[str]:
    """Return the folders that `src/forewarp` does not lead to; in an sdist they lie in it themselves."""
    rooms = {p.parent.name for p in ROOT.glob("*/__init__.py")}
    # Git writes a link that it may not make as a file with the link's target in it.
    rooms |= {p.name for p in PACKAGE.iterdir() if p.is_file() and p.suffix == "" and p.stat().st_size < 100}
    return sorted(r for r in rooms if not (PACKAGE / r / "__init__.py").is_file())


if missing := missing_links():
    sys.exit(
        "forewarp cannot be built: src/forewarp should hold symbolic links to "
        f"{', '.join(missing)}, and this checkout has none.\n"
        "Run `git config core.symlinks true && git checkout -- src/forewarp` (on Windows in developer mode or in WSL), "
        "or clone again where links can be made."
    )

setup()
