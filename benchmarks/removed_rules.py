"""Remove each rule that makes a number trustworthy, one at a time, and check that its tests fail.

    python benchmarks/removed_rules.py --out benchmarks/results/removed_rules.json
    python benchmarks/removed_rules.py --only "BAAB" --out /tmp/one.json

Each rule is taken out of a copy of this checkout by replacing one text, and the tests that should notice are run there.
"noticed" says that they failed; they are run on the untouched copy first, and must pass there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provenance import write

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 600


@dataclass(frozen=True)
class Rule:
    """A rule as a text in a file, what stands there without it, and arguments of pytest for the tests of it."""

    name: str
    file: str
    text: str
    without: str
    tests: str


RULES = (
    Rule(
        "flags make a verdict suspicious",
        "gpu_runner/executors/verdicts.py",
        "elif judged.flags:",
        "elif False:",
        "tests/gpu_runner/test_verdicts.py",
    ),
    Rule(
        "a time below the roofline's is impossible",
        "gpu_runner/executors/verdicts.py",
        "    if any(floors):",
        "    if False:",
        "tests/gpu_runner/test_verdicts.py",
    ),
    Rule(
        "outputs of timed calls are compared at random",
        "gpu_runner/worker/timing.py",
        "verified = [first or self.chance.random() < share, last or self.chance.random() < share]",
        "verified = [first, last]",
        "tests/gpu_runner/test_schedule.py",
    ),
    Rule(
        "a call of host code ends when the device has done what it launched",
        "gpu_runner/worker/runners.py",
        "            function(*arguments)\n        self.wait()\n",
        "            function(*arguments)\n",
        "tests/gpu_runner/test_runners.py",
    ),
    Rule(
        "blocks are ABBA or BAAB at random",
        "gpu_runner/worker/timing.py",
        "self.chance.choice([(first, second, second, first), (second, first, first, second)])",
        "(first, second, second, first)",
        "tests/gpu_runner/test_schedule.py",
    ),
    Rule(
        "controls stand between the blocks",
        "gpu_runner/worker/timing.py",
        "if controls < self.controls:",
        "if False:",
        "tests/gpu_runner/test_schedule.py",
    ),
    Rule(
        "both arms are prepared alike",
        "gpu_runner/worker/timing.py",
        'for other in ("anchor", "candidate") if arm == "candidate" else ("candidate", "anchor"):',
        "for other in (arm,):",
        "tests/gpu_runner/test_schedule.py",
    ),
    Rule(
        "inputs are looked at after timing",
        "gpu_runner/worker/timing.py",
        "        self.stage.check_inputs()\n",
        "",
        "tests/gpu_runner/test_schedule.py",
    ),
    Rule(
        "bytes beside buffers are looked at after timing",
        "gpu_runner/worker/timing.py",
        "        self.stage.check_guards()\n",
        "",
        "tests/gpu_runner/test_schedule.py",
    ),
    Rule(
        "the early stop's errors sum to one share",
        "gpu_runner/executors/verdicts.py",
        "STOPPING_ERROR / (k * (k + 1))",
        "STOPPING_ERROR",
        "tests/gpu_runner/test_looks.py",
    ),
    Rule(
        "a verdict allows for the spread between sessions",
        "gpu_runner/statistics.py",
        "time, grain = pairs.log_ratios(), pairs.grain() + timed.session_sd**2",
        "time, grain = pairs.log_ratios(), pairs.grain()",
        "tests/gpu_runner/test_statistics.py tests/gpu_runner/test_looks.py",
    ),
    Rule(
        "outputs are poisoned before a call",
        "gpu_runner/worker/stage.py",
        "_poison(own.rooms or own.outputs)",
        "pass",
        "tests/gpu_runner/test_stage.py",
    ),
    Rule(
        "inputs go bad before the result is fetched",
        "gpu_runner/worker/judge.py",
        "        stage.spoil_inputs(slot)\n",
        "",
        "tests/gpu_runner/test_judge.py",
    ),
    Rule(
        "fresh inputs are compared after timing",
        "gpu_runner/worker/judge.py",
        'self._timed("check", lambda: self._fresh(bench, stage))',
        "0.0",
        "tests/gpu_runner/test_judge.py",
    ),
    Rule(
        "an incorrect anchor is no anchor",
        "gpu_runner/worker/judge.py",
        "        if bench.anchor_outputs is not None:\n",
        "        if False:\n",
        "tests/gpu_runner/test_judge.py",
    ),
    Rule(
        "a reference that fails is to blame",
        "gpu_runner/executors/verdicts.py",
        "    if activity.in_reference:",
        "    if False:",
        "tests/gpu_runner/test_blame.py",
    ),
    Rule(
        "low memory is blamed on who took it",
        "gpu_runner/worker/watch.py",
        "if taken > MOST * gone:",
        "if True:",
        "tests/gpu_runner/test_host_watch.py",
    ),
    Rule(
        "without the least nothing is run",
        "gpu_runner/worker/least.py",
        'if lacks and os.environ.get(INSIST) != "1":',
        "if False:",
        "tests/gpu_runner/test_least.py",
    ),
    Rule(
        "validate sees clocks",
        "gpu_runner/worker/outside.py",
        'if home == "time" or kind.__module__ in ("random", "_random"):',
        "if False:",
        "tests/gpu_runner/test_outside.py",
    ),
    Rule(
        "the interpreter notes accesses out of bounds",
        "inspection/emulation/interpreter/memory.py",
        '            self.ledger.note("out of bounds", self._place(), message, int((~inside).sum()))\n',
        "",
        "tests/inspection/emulation/interpreter/test_interpreter_modules.py",
    ),
    Rule(
        "made-up values accuse nobody by themselves",
        "inspection/emulation/interpreter/ownshape.py",
        "if again is not None and again.message == seen.message:",
        "if True:",
        "tests/inspection/emulation/interpreter/test_own_shape.py",
    ),
    Rule(
        "PUCT counts the root's expansions",
        "search/puct.py",
        "math.sqrt(1 + self._total + made)",
        "1.0",
        "tests/search/test_puct.py",
    ),
    Rule(
        "outcomes of one task weigh less than their number",
        "surrogate/calibration.py",
        "(counts[o.task] - 1) * correlation",
        "counts[o.task] * correlation",
        "tests/surrogate/test_calibration.py",
    ),
    Rule(
        "compiled code is remembered on resuming",
        "search/gate.py",
        'if outcome == "passed" and code:',
        "if False:",
        "tests/search/test_gate.py tests/search/test_search_resume.py",
    ),
    Rule(
        "a program that fails on near shapes gives way to one that does not",
        "search/finals.py",
        'if found["generalises"] != "no":',
        "if True:",
        "tests/search/test_stopping.py",
    ),
    Rule(
        "a measurement is kept back for confirming",
        "search/budget.py",
        "kept = int(confirm)",
        "kept = 0",
        "tests/search/test_budget.py tests/search/test_kept_back.py tests/search/test_search_loop.py",
    ),
    Rule(
        "inputs are taken away before a module's result is fetched",
        "gpu_runner/worker/bench_cells.py",
        "            if self._spoils:",
        "            if False:",
        "tests/cheats/test_cheats.py",
    ),
    Rule(
        "changed inputs come from all over the old ones",
        "gpu_runner/worker/stage.py",
        "        if (count := piece.numel() // run) > 1:",
        "        if (count := piece.numel() // run) > piece.numel():",
        "tests/gpu_runner/test_stage.py",
    ),
    Rule(
        "two calls of one line are told apart in reports on barriers",
        "inspection/emulation/emulator/build.py",
        "            statement += 1",
        "            statement += 0",
        "tests/inspection/emulation/emulator/test_build.py",
    ),
    Rule(
        "work before a call is told by processor time, beside busy neighbours too",
        "gpu_runner/worker/call_overhead.py",
        '(("processor_s", 0.25), ("wall_s", 0.75))',
        '(("wall_s", 0.75),)',
        "tests/gpu_runner/test_call_overhead.py",
    ),
)


def tested(folder: Path, arguments: str) -> tuple[int, str, float]:
    """Run tests in a copy; return pytest's exit status, its last line, and the seconds."""
    paths = os.pathsep.join([str(folder / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "-p", "no:cacheprovider", *arguments.split()]
    began = time.monotonic()
    # Bytecode is told from its source by time and size, which a rule that is put back may have both of.
    extra = {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=os.environ | extra, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return -1, "took too long", LIMIT_S
    last = next((line for line in reversed(done.stdout.splitlines()) if line.startswith("FAILED")), "")
    return done.returncode, last.partition(" - ")[0].removeprefix("FAILED "), time.monotonic() - began


def removed(folder: Path, rule: Rule, known: dict[str, int]) -> dict[str, Any]:
    """Return what tests say of a rule with it and without it."""
    path = folder / rule.file
    before = path.read_text()
    if before.count(rule.text) != 1:
        raise SystemExit(f"{rule.name}: its text stands {before.count(rule.text)} times in {rule.file}")
    if rule.tests not in known:
        known[rule.tests] = tested(folder, rule.tests)[0]
    path.write_text(before.replace(rule.text, rule.without))
    try:
        status, first, seconds = tested(folder, rule.tests)
    finally:
        path.write_text(before)
    passes = known[rule.tests] == 0
    return {
        "rule": rule.name,
        "file": rule.file,
        "tests": rule.tests,
        "pass_with_it": passes,
        "noticed": passes and status == 1,
        "first_failure": first,
        "seconds": round(seconds, 1),
    }


def main() -> None:
    """Remove each rule in turn, write the file, and print what was not noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rules with this in their name")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    known: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "copy"
        left_out = shutil.ignore_patterns(".git", "__pycache__", "results")
        shutil.copytree(ROOT, folder, symlinks=True, ignore=left_out)
        for rule in (r for r in RULES if args.only in r.name):
            rows.append(removed(folder, rule, known))
            print(rows[-1], flush=True)
            noticed = sum(r["noticed"] for r in rows)
            write(args.out, {"rules": len(rows), "noticed": noticed, "rows": rows})
    print(f"{sum(r['noticed'] for r in rows)} of {len(rows)} noticed")


if __name__ == "__main__":
    main()
