"""Make the twins that do a known share of their work twice, and compute the same.

    python benchmarks/modules/plant.py MODULE

A module with a twin has one line `EXTRA = 0.0  # planted: …`. The twin differs in this line only. The work done twice
lies in the grid (`planted/`: rows from the first on once more) or in a loop (`short/`: blocks of columns once more).
Both are numbers of the launch, not of the compiled code, so that the machine code of a module and its twin is the same.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
MARK = re.compile(r"^EXTRA = 0\.0(?=  # planted: )", re.MULTILINE)
SHARES = {"planted": 0.03, "short": 0.05}
"""By folder: the share of its work that a twin does twice."""


def plant(text: str, share: float) -> str:
    """Return a module with `share` of its work done twice; raises ValueError unless it has exactly one marked line."""
    changed, count = MARK.subn(f"EXTRA = {share}", text)
    if count != 1:
        raise ValueError(f"{count} lines of the module begin with 'EXTRA = 0.0  # planted: '; there must be one")
    return changed


def pairs(folder: str) -> list[tuple[Path, Path, str]]:
    """Return the problem, the module and the twin's text of each pair in `folder`, one of `SHARES`, by name."""
    modules = sorted((FOLDER / folder).glob("*.py"))
    return [(p.parent / "problems" / p.name, p, plant(p.read_text(), SHARES[folder])) for p in modules]


def main() -> None:
    """Print a module's twin."""
    module = Path(sys.argv[1]).resolve()
    print(plant(module.read_text(), SHARES[module.parent.name]), end="")


if __name__ == "__main__":
    main()
