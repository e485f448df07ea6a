"""Everything that a release measures, in order, from `release.toml`.

python benchmarks/release.py                              # what was measured when, and whether from these sources
python benchmarks/release.py --write                      # fill the list into README.md; a test compares
python benchmarks/release.py --run cpu --out results      # run what needs no GPU, one after the other
python benchmarks/release.py --run gpu --out results --for 1700 --given kernelbench=KernelBench

What is in `--out` already, made from the same sources, is not made again. Each run may take twice its minutes. What
needs a path that was not given is named and left out.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from marked import filled
from provenance import sources

HERE = Path(__file__).parent
RESULTS = HERE / "results"


@dataclass(frozen=True)
class Run:
    """One call of a script: what it asks, the result in `results/`, its arguments and what it needs."""

    script: str
    result: str
    on: str
    asks: str = ""
    arguments: str = ""
    out: str = "--out"
    minutes: int = 0
    note: str = ""

    def command(self, out: Path, given: dict[str, str]) -> list[str]:
        """Return the command that writes the result into a folder; a KeyError names a path that is not given."""
        words = shlex.split(self.arguments.format_map(given))
        place = [self.out, str(out / self.result)] if self.out else []
        return [sys.executable, str(HERE / self.script), *words, *place]


def runs() -> list[Run]:
    """Return all runs in their order."""
    table = tomllib.loads((HERE / "release.toml").read_text())["run"]
    return [Run(**{("arguments" if k == "with" else k): v for k, v in run.items()}) for run in table]


def origin(result: Path) -> dict[str, str]:
    """Return what a result says of where it comes from: date, GPU, sources, as far as it does."""
    try:
        data = json.loads(result.read_text())
    except (OSError, ValueError):
        return {}
    said = (data.get("provenance") or data.get("environment") or data) if isinstance(data, dict) else {}
    return {k: str(said[k]) for k in ("date", "gpu", "sources") if said.get(k)}


def listing() -> Iterator[str]:
    """Yield the lines of the table in README.md."""
    yield "| script | question | result | on; minutes | measured |"
    yield "|---|---|---|---|---|"
    for run in runs():
        note = f": {run.note}" if run.note else ""
        needs = f"{run.on}; {run.minutes}" if run.minutes else run.on
        measured = origin(RESULTS / run.result).get("date", "")[:10]
        yield f"| `{run.script}` | {run.asks} | `{run.result}`{note} | {needs} | {measured} |"


def make(on: str, out: Path, given: dict[str, str], limit_s: float, only: tuple[str, ...] = ("",)) -> int:
    """Run what a kind of machine can, in order, and return how many runs failed or ran out of time."""
    end, failed, now = time.monotonic() + limit_s, 0, sources()
    for run in runs():
        left = end - time.monotonic()
        wanted = run.on == on and run.result.startswith(only)
        if not wanted or origin(out / run.result).get("sources") == now or left < 30:
            continue
        try:
            command = run.command(out, given)
        except KeyError as missing:
            print(f"left out: {run.result} wants --given {missing.args[0]}=PATH", flush=True)
            continue
        (out / run.result).parent.mkdir(parents=True, exist_ok=True)
        print(f"{run.result}: about {run.minutes} min", flush=True)
        with (out / run.result).with_suffix(".log").open("w") as log:
            try:
                code = subprocess.run(command, stdout=log, stderr=log, timeout=min(left, run.minutes * 120)).returncode
            except subprocess.TimeoutExpired:
                code = -1
        failed += code != 0
        print(f"{run.result}: {'made' if code == 0 else 'not made, see its .log'}", flush=True)
    return failed


def main() -> None:
    """Print, fill in or run the list."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--run", choices=["cpu", "quiet", "gpu"])
    parser.add_argument("--out", type=Path, default=Path("results"), help="the folder for results of --run")
    parser.add_argument("--for", dest="limit_s", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--only", nargs="+", default=[""], help="how the results to make begin")
    parser.add_argument("--given", nargs="*", default=[], metavar="WORD=PATH")
    args = parser.parse_args()
    if args.run:
        given = dict(g.split("=", 1) for g in args.given)
        sys.exit(make(args.run, args.out, given, args.limit_s, tuple(args.only)) > 0)
    if args.write:
        readme = HERE / "README.md"
        readme.write_text(filled(readme.read_text(), {"release": "\n".join(listing())}))
        return
    now = sources()
    for run in runs():
        said = origin(RESULTS / run.result)
        same = "these sources" if said.get("sources") == now else "other sources"
        gpu = said.get("gpu", "").partition("\n")[0]
        print(f"{run.result:34}{run.on:7}{run.minutes:4} min  {said.get('date', 'no date')[:16]:18}{same}  {gpu}")


if __name__ == "__main__":
    main()
