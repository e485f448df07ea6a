"""Measured candidates of an archive as training examples, one JSON line each.

    python -m forewarp.training.examples archive.db > examples.jsonl

The prompt is the one that the language-model forecaster renders, with the trials that were known when the candidate was
measured and none after it. The outcome is the measured speed-up and its bin; a candidate that failed has neither, and
teaches `p_valid` only.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

from forewarp.archive.store import Archive
from forewarp.core import bins
from forewarp.surrogate.learned import is_valid
from forewarp.surrogate.questions import question, system_prompt


class Example(TypedDict):
    """One training example. `bin` and `speedup` are null for a candidate that turned out invalid."""

    task: str
    kernel: str
    device: str
    source: str
    system: str
    prompt: str
    valid: bool
    speedup: float | None
    low: float | None
    high: float | None
    bin: int | None


def examples(archive: Archive) -> Iterator[Example]:
    """Yield an example per measured candidate, run by run, in the order measured.

    A confirmation is left out: its prompt would show the candidate's own first measurement.
    """
    system = system_prompt()
    for run in reversed(archive.runs(limit=1_000_000)):
        trials = archive.trials(run.task.sha256, run.target.name, run.id)
        seen: set[str] = set()
        for index, trial in enumerate(trials):
            measured, kernel = trial.measurement, trial.subject.candidate.sha256
            if kernel in seen:
                continue
            seen.add(kernel)
            valid = is_valid(measured) and measured.speedup is not None
            yield Example(
                task=run.task.name,
                kernel=kernel,
                device=measured.device,
                source=measured.source,
                system=system,
                prompt=question(run.task, run.target, [trial.subject], trials[:index]).text,
                valid=valid,
                speedup=measured.speedup if valid else None,
                low=measured.low if valid else None,
                high=measured.high if valid else None,
                bin=bins.bin_of(measured.speedup) if valid and measured.speedup is not None else None,
            )


def main() -> None:
    """Print the examples of one archive."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path)
    with Archive(parser.parse_args().archive) as archive:
        for example in examples(archive):
            sys.stdout.write(json.dumps(example) + "\n")


if __name__ == "__main__":
    main()
