"""Judge what a language model said of kernels when it was shown more and more, by the answers of `llm_forecasts.py`.

    python benchmarks/llm_shown.py pool benchmarks/results/llm_shown.parquet \
        --answered "who answered, and what kept them blind" --out benchmarks/results/llm_shown.json

Figures and paired differences are those of `forewarp evaluate`, with intervals by task.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from provenance import write

MEASURES = ("exact", "within_one", "pairwise", "crps", "ece", "auroc_confidence")


def judged(pool: str, answers: Path) -> dict[str, Any]:
    """Return the document of `forewarp evaluate`."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "forewarp.cli.main", "evaluate", pool, "--recorded", str(answers)]
        done = subprocess.run([*command, "--out", folder, "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def kept(figures: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of interest."""
    return {name: figures[name] for name in MEASURES}


def condition(name: str) -> str:
    """Return the condition in a recorded forecaster's name."""
    return name.rpartition(" ")[2]


def main() -> None:
    """Judge and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool")
    parser.add_argument("answers", type=Path)
    parser.add_argument("--answered", required=True, help="who answered, and what kept them from seeing anything else")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    found = judged(args.pool, args.answers)
    write(
        args.out,
        {
            "answered": args.answered,
            "kernels": found["rows"],
            "tasks": found["task_count"],
            "figures": {condition(f["name"]): kept(f["figures"]) for f in found["forecasters"]},
            "differences": {
                f"{condition(d['first'])} - {condition(d['second'])}": kept(d["figures"]) for d in found["differences"]
            },
        },
    )


if __name__ == "__main__":
    main()
