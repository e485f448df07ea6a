"""Run every known cheat and every honest kernel, and make the page that says what came of them.

    python benchmarks/trust.py --device cpu --out benchmarks/results/trust_cpu.json
    python benchmarks/trust.py --device cuda --out benchmarks/results/trust_h200.json
    python benchmarks/trust.py --table        # docs/trust.md from the committed results

Cheats and honest kernels are those of `tests/cheats` and `tests/honest`. On CUDA those are left out that differ little
from another one, or for which the CPU will do; `--all` takes them, too, and what takes a minute to build.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests"), str(HERE.parent / "src")]

import protections  # noqa: E402
from cheats import naive, zoo  # noqa: E402
from cheats.zoo import Cheat, Row  # noqa: E402
from honest import roster  # noqa: E402
from provenance import write  # noqa: E402
from support.shared_executors import limited  # noqa: E402

from forewarp.gpu_runner.devices import choose  # noqa: E402
from forewarp.gpu_runner.executors.local import LocalExecutor  # noqa: E402
from forewarp.tools.measured import MeasureResult, noise_of  # noqa: E402

PAGE = HERE.parent / "docs" / "trust.md"
RESULTS = HERE / "results"
LOG = 300


class Run:
    """What came of each, written to a file as it comes; a run that is ended by its time can be resumed."""

    def __init__(self, out: Path | None, seconds: float, *, resume: bool) -> None:
        self.out, self.until, self._written = out, time.monotonic() + seconds, 0.0
        self.result: dict[str, Any] = {"seconds": 0.0, "cheats": [], "honest": []}
        if resume and out is not None and out.exists():
            self.result = {k: v for k, v in json.loads(out.read_text()).items() if k != "provenance"}
        self._before = self.result["seconds"] - time.perf_counter()

    def each(self, part: str, name: str, act: Callable[[], dict[str, Any]]) -> None:
        """Add what came of one, unless it is there or time is up."""
        if all(found["id"] != name for found in self.result[part]) and time.monotonic() < self.until:
            self.result[part].append({"id": name} | act())
            self.save()

    def save(self, *, every_s: float = 10) -> None:
        """Write the file, if that was not done lately."""
        self.result["seconds"] = round(self._before + time.perf_counter(), 1)
        if self.out is not None and time.monotonic() > self._written + every_s:
            write(self.out, self.result)
            self._written = time.monotonic()


def run(device: str, everything: bool, run: Run) -> None:
    """Run everything that can run on the device."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        os.environ["FOREWARP_ZOO_PORT"] = str(server.getsockname()[1])
        # The first call of a process on a GPU starts CUDA and its libraries.
        tight = zoo.LIMITS if device == "cpu" else replace(zoo.LIMITS, call_s=6.0, memory=8 << 30)
        executor = LocalExecutor(choose(device), limits=tight)
        run.result |= {"device": executor.target.name, "kind": executor.target.kind}
        try:
            for row, cheat in _cheats(executor, everything):
                with limited(executor, cheat.limits(tight)):
                    run.each("cheats", f"{row.number} {cheat.id}", partial(_cheat, executor, row, cheat))
        finally:
            executor.close()
        executor = LocalExecutor(
            choose(device), limits=replace(zoo.LIMITS, compile_s=110, call_s=60, measure_s=110, memory=8 << 30)
        )
        try:
            for kernel in _kernels(executor, everything):
                run.each("honest", f"{kernel.task} {kernel.id}", partial(_honest, executor, kernel))
            if time.monotonic() < run.until:
                run.result["ordinary_harness"] = _fooled(executor)
        finally:
            executor.close()
    run.save(every_s=0)


def _cheats(executor: LocalExecutor, everything: bool) -> Iterable[tuple[Row, Cheat]]:
    kind = executor.target.kind
    for row in zoo.rows():
        for cheat in row.cheats:
            wanted = everything or kind == "cpu" or (cheat.quick and cheat.everywhere)
            if wanted and kind in cheat.devices and cheat.runs_here:
                yield row, cheat


def _kernels(executor: LocalExecutor, everything: bool) -> list[roster.Kernel]:
    kind = executor.target.kind
    there = [k for k in roster.kernels() if k.runs_on(kind)]
    return [k for k in there if everything or (not k.builds and (k.quick or kind == "cpu"))]


def _cheat(executor: LocalExecutor, row: Row, cheat: Cheat) -> dict[str, Any]:
    def act() -> dict[str, Any]:
        result = zoo.attempt(executor, cheat)
        more = {"outcome": result.outcome, "right": result.is_right(cheat), "problems": list(result.problems)}
        return _numbers(result.result) | more

    found = _guarded(act) | {"row": row.number, "cheat": cheat.id}
    mark = "" if found["right"] else "  <-- expected " + " or ".join(cheat.expect)
    print(f"{row.number:3} {cheat.id:45.45} {found['outcome']:14} {_interval(found):24}{mark}", flush=True)
    return found


def _honest(executor: LocalExecutor, kernel: roster.Kernel) -> dict[str, Any]:
    def act() -> dict[str, Any]:
        result = roster.measure(executor, kernel)
        return _numbers(result) | {"outcome": zoo.verdict_of(result), "right": roster.is_believed(result)}

    found = _guarded(act) | {"task": kernel.task, "kernel": kernel.id}
    mark = "" if found["right"] else "  <-- not believed"
    print(f"    {kernel.task:15.15} {kernel.id:34.34} {found['outcome']:14} {_interval(found):24}{mark}", flush=True)
    return found


def _guarded(act: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Let one that fails for another reason than its own not end the run."""
    start = time.perf_counter()
    try:
        found = act()
    except Exception as e:
        found = {"outcome": "error", "right": False, "log": f"{type(e).__name__}: {e}"[:LOG]}
    return found | {"seconds": round(time.perf_counter() - start, 2)}


def _numbers(result: MeasureResult | None) -> dict[str, Any]:
    if result is None:
        return {}
    numbers = {"noise_percent": noise_of(result.workloads)}
    if (found := result.speedup) is not None:
        numbers |= {"speedup": found.ratio, "low": found.low, "high": found.high}
    return {
        "tier": result.tier,
        "verdict": result.verdict,
        "flags": result.flags,
        "log": result.log[-LOG:],
        **{k: round(v, 4) for k, v in numbers.items() if v is not None},
    }


def _fooled(executor: LocalExecutor) -> list[dict[str, Any]]:
    """Have an ordinary harness judge the Python cheats that must fool it; on CUDA those that run nowhere else."""
    kind = executor.target.kind
    cheats = [c for _, c in _cheats(executor, everything=True) if c.fools is not None and c.file.endswith(".py")]
    cheats = [c for c in cheats if kind == "cpu" or "cpu" not in c.devices]
    requests = [
        naive.request(
            kind,
            zoo.task_of(c.task).reference,
            [dict(w.constants) for w in zoo.task_of(c.task).workloads[kind]],
            source=c.candidate().source,
            sets=c.sets,
            runs=c.runs,
            attempts=3,
            fooled_at=c.fools,
        )
        for c in cheats
    ]
    answers = naive.judge(requests)
    for cheat in cheats:
        zoo.clear(cheat)
    return [{"cheat": c.id, "accepted": False} | (_answer(a) or {}) for c, a in zip(cheats, answers, strict=True)]


def _answer(answer: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if answer is None:
        return None
    return {"accepted": bool(answer["correct"]), "speedup": round(float(answer["speedup"]), 2)}


def _interval(found: Mapping[str, Any]) -> str:
    return f"{found['speedup']:.2f} [{found['low']:.2f}, {found['high']:.2f}]" if "speedup" in found else ""


INTRODUCTION = """# Trust

With this page you can tell who is trusted with what, what protects your machine while strangers' code runs, and which
ways to cheat a benchmark of kernels are caught or get through.

```bash
forewarp doctor                        # the protections that hold on this machine
forewarp validate path/to/problem.py   # can this task be answered without computing anything?
```

`benchmarks/trust.py` makes this page from `trust_cpu.json`, `trust_h200.json` and `protections.json` in
`benchmarks/results/`. The candidates are in `tests/cheats` and `tests/honest`; `pytest` runs them too.

- The last column of the table says how many of a row's cheats in Python an *ordinary harness* accepts, and the largest
  speed-up that it reports for them. It is `tests/cheats/naive.py`: one process, one seed, `allclose` at 1e-2, a clock
  around each call.
- **H** needs host code, which device-only GPU candidates (tier T0) do not have; **D** works from device code, too;
  **P** is a flaw of the problem.
- `no gain`: measured, but the interval does not lie above that of the honest version. On a GPU that will do for what
  must be caught elsewhere, where a module was lifted: a device program that is right holds nothing of its host code.
- `degenerate`: `forewarp validate` refuses the task. A `suspicious`, `impossible` or `ambiguous` time never counts as a
  win, nor does one that users are told not to trust, since equal kernels came out over 50 % apart (`not trusted`).
"""


THREATS = """## Threat model

Strangers' code is that of **every** task and **every** candidate, whoever wrote it: a reference is no more trusted than a
kernel. It may try to read or change your files, send data away, disturb your other processes, use up the machine, or be
paid for work that it does not do. You, your account, the installed packages, the drivers and the Linux kernel are trusted.

| in | trusted with | not trusted | tested by |
|---|---|---|---|
| terminal agent | you: what you type and allow. The model: to propose, within the budget | the model's tool calls: no file with secrets; hidden files, programs and shell commands only once you allow them | `tests/agent` |
| MCP server | whoever starts it: workspace, budget, `--unprotected` | clients: only files of the workspace, only the budget; no argument of theirs insists, all are known | `tests/mcp_server`, `test_insisting.py` |
| command line | you: flags, files that you name, `--unprotected` | the code in these files: confined | `test_task_confinement.py`, `test_least.py` |
| suites | you: which folder | each task and kernel in it, as above; a task decides what is right and nothing else | `test_task_confinement.py` |
| searches | you: caps | text of a model: data, then a candidate as any other; logs: data without control characters | `tests/search`, row 45 |
| machines over ssh | the far machine and its account: with tasks, kernels and what it reports | what runs there: confined by that machine, which refuses by itself; only its own environment insists | `tests/gpu_runner/remote`, `test_least.py` |
| measuring, in all of them | the judge's clock and the controller's statistics | the candidate: no clock, no expected value, no verdict; the task: no time | `tests/cheats`, table below |
| protections | the kernel's word, tried on the spot | a setting that was made and not tried | `test_protections.py` |

Not defended against: flaws of the kernel or of a GPU driver, side channels between processes, other users of the machine.
On CUDA, what is missing of the least is not refused yet, and sockets are not filtered: services that you reach through a
path (a desktop's bus, Docker's socket) are within reach.

### The least

Strangers' code is run only where these are in force, each tried in the process itself before its first line: **read-only
files, no private files, no network, no signals to other processes, no memory of other processes, time and file limits**
(`LEAST` in `gpu_runner/worker/least.py`). Elsewhere measuring, compiling, describing and validating are refused with the
names of what is missing; `forewarp doctor` says which, and what to change. To run it all the same, pass `--unprotected`,
or set `FOREWARP_UNPROTECTED=1` where the code runs: in the environment of an MCP server or of a machine over ssh.
Every protection that can be had is taken then, too. The result says that you insisted, and what was missing.
"""  # noqa: E501


CONFINEMENT = """## Confinement

Code that comes with a task or a kernel runs in processes that cannot read your files, reach the network or outlive the
run. This holds for every verb: a forecast, which runs no kernel, still runs the task's reference for its shapes.

| code | runs in | confined as |
|---|---|---|
| a candidate: module, C++, host code | a cell of its own | candidate |
| a task: `reference.py`, `get_inputs`, `forward`, GPU MODE's `task.py` and helpers, in `describe`, `validate`, `--check` | a child of its own | task |
| the same, while a candidate is measured | the judge, from before its first line; and the reference's cell | task; candidate |
| the same, while a device-only GPU candidate is measured | the launcher, which serves one task only, in the gate the locked tasks of a round | task |
| a module that is traced, with its reference | a child of its own | compiler |
| compilers (C++, NVRTC, nvcc, Triton, `load_inline`), and what they run of the source | a child of its own | compiler |

| protection | candidate | task | compiler | how it is tried once it is in force |
|---|---|---|---|---|
| no network | yes | yes | yes | a datagram socket cannot be made, or not connected to this machine |
| no signals to other processes | yes | yes | yes | the parent cannot be sent one |
| no memory of other processes | yes | yes | yes | the parent's cannot be read |
| no local sockets, such as Docker's | yes, not on CUDA | yes, not on CUDA | yes | a Unix socket cannot be made |
| read-only files, but for a folder of its own | yes | yes | yes | no file can be made beside that folder, nor in /tmp or /dev/shm |
| no private files: only Python, its packages, compilers, CUDA and the system's libraries can be read | yes | yes | yes | /etc/passwd, /etc/shadow and the variables of its parent cannot be opened |
| other files do not exist: their names, sizes and dates are hidden, too | yes, not on CUDA | yes, not on CUDA | yes | /etc/passwd and /etc/shadow cannot be found |
| private temporary files, in memory | yes | yes | – | the folder is a file system of its own |
| own process namespace, own view of processes | yes, not on CUDA | yes, not on CUDA | yes | /proc shows the process alone |
| user nobody | yes, not on CUDA | yes, not on CUDA | – | its three user ids |
| no capabilities | yes | yes | yes | the kernel shows none |
| no new privileges; system calls filtered | yes | yes | yes | the flag is set; `unshare` is refused |
| no secrets in the environment | yes | yes | yes | only known variables are left |
| time and file limits | yes | yes | yes | the limits are as set |
| memory limit | yes, watched on CUDA | yes, not on CUDA | yes | more memory than the limit is refused |
| dies with its parent | yes | yes | yes | the kernel shows the signal |

A result lists what held when it was tried on the spot, which takes a millisecond, and no more: `protections` for the
candidate, with an entry that begins with "task's code confined" for the task. `tests/gpu_runner/test_task_confinement.py`
lets an attacker's task file loose in each verb, and private files be included by each compiler.

- Where Landlock is missing (Linux before 5.13, gVisor), files are not protected from reading, and from writing only by
  their permissions; neither protection is listed then, and strangers' code is refused.
- Where Python lies in a folder that only the superuser may enter, a confined process keeps the right to read files, and
  "no capabilities" is not listed. Landlock bounds what it reads all the same.
- Where nothing can be mounted, as in Docker by default, in a user's account without user namespaces, and around modules
  on CUDA, strangers' code can find out whether a file exists (`stat`, `__has_include`), its size and its date, but
  neither read it nor list a folder.
- Without root there is no user nobody and no process namespace. Names and arguments of your other
  processes can then be seen, but neither their memory nor their variables. That they cannot be sent signals needs Linux
  6.12 then.
- Without a process namespace a candidate can choose the processors of your other processes, as any program of yours
  can; their limits and priorities it cannot change.
- A file of `tune` may read what lies beside it, hidden files left out; in a home or a shared
  folder such as `/tmp`, itself alone.
- Where no network namespace is to be had, as in a container, the filter refuses every socket that reaches further than
  this machine.
- On CUDA, the driver decides: where it does not start under the filter, without capabilities or without your files,
  these three are left out and not listed; without your files being hidden, code is refused. A process with them is tried
  first, once.
- A task decides what is right. It can lie about that, and about nothing else.
"""  # noqa: E501


PLACES = """## Where it runs

What was in force, by `benchmarks/protections.py`, with Docker 20.10 and gVisor (`runsc` 20221219) of Debian 12.
*Imitated* means that a filter refused the system calls that the place does not have.
"""


def page(results: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of docs/trust.md."""
    places = protections.table(json.loads((RESULTS / "protections.json").read_text()))
    parts = [
        INTRODUCTION,
        _runs(results),
        THREATS,
        CONFINEMENT,
        PLACES,
        places,
        "## Cheats\n",
        _table(results),
        _open(results),
    ]
    parts.append(_honest_part(results))
    return "\n".join(parts)


def _runs(results: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "| results | device | date | cheats as they should be | honest kernels believed |",
        "|---|---|---|---|---|",
    ]
    for result in results:
        date = result["provenance"]["date"][:10]
        counts = [f"{sum(x['right'] for x in result[k])} of {len(result[k])}" for k in ("cheats", "honest")]
        lines.append(f"| {result['kind']} | {result['device']} | {date} | {counts[0]} | {counts[1]} |")
    return "\n".join(lines) + "\n"


def _table(results: Sequence[Mapping[str, Any]]) -> str:
    kinds = [str(r["kind"]) for r in results]
    head = ["#", "cheat", "where", "must be", "by", *(f"on {k}" for k in kinds), "ordinary harness"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in zoo.rows():
        cells = [str(row.number), f"**{row.title}.** {row.how}", row.tier, row.outcome, row.by]
        cells += [_outcomes(r, row.number) for r in results]
        lines.append("| " + " | ".join([*cells, _believed(results, row)]) + " |")
    return "\n".join(lines) + "\n"


def _outcomes(result: Mapping[str, Any], number: int) -> str:
    """Count the outcomes of a row's cheats, the wrong ones in bold."""
    counts: dict[str, int] = {}
    for found in result["cheats"]:
        if found["row"] == number:
            name = found["outcome"].replace("_", " ")
            name = name if found["right"] else f"**{name}**"
            counts[name] = counts.get(name, 0) + 1
    return ", ".join(f"{count} × {name}" if count > 1 else name for name, count in counts.items()) or "–"


def _believed(results: Sequence[Mapping[str, Any]], row: Row) -> str:
    names = {c.id for c in row.cheats}
    answers = [a for r in results for a in r["ordinary_harness"] if a["cheat"] in names]
    accepted = [a["speedup"] for a in answers if a["accepted"]]
    if not accepted:
        return "–"
    gain = f", up to {_round(max(accepted))}×" if max(accepted) > 1.2 else ""
    return f"accepts {len(accepted)} of {len(answers)}{gain}"


def _round(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}" if value < 10_000 else f"{value:.0e}".replace("e+0", "e")


def _open(results: Sequence[Mapping[str, Any]]) -> str:
    lines = ["## Open\n"]
    lines += [f"- Row {r.number}, {r.title.lower()}: {r.by}." for r in zoo.rows() if r.outcome == "open"]
    for result in results:
        for found in result["cheats"]:
            if not found["right"]:
                why = "; ".join([*found.get("problems", []), *found.get("flags", [])]) or _interval(found)
                why = why or found.get("log", "").split("\n")[0]
                lines.append(
                    f"- Row {found['row']}, `{found['cheat']}` on {result['kind']}: {found['outcome']} ({why})."
                )
    if len(lines) == 1:
        lines.append("Nothing that the zoo tries.")
    if not any(r["kind"] == "cuda" for r in results):
        lines.append("- No GPU results are in this repository yet: cheats that need one have not been run.")
    return "\n".join(lines) + "\n"


def _honest_part(results: Sequence[Mapping[str, Any]]) -> str:
    """Count the honest kernels, and name those that were not believed."""
    lines = ["## Honest kernels\n"]
    for result in results:
        found = result["honest"]
        tasks = len({h["task"] for h in found})
        lines.append(
            f"- {result['kind']}: {sum(h['right'] for h in found)} of {len(found)} believed, of {tasks} tasks."
        )
        lines += [
            f"  Not believed: `{h['kernel']}` of {h['task']}, {h['outcome']} {_interval(h)}."
            for h in found
            if not h["right"]
        ]
        lines += [f"  {result['note']}"] if "note" in result else []
    return "\n".join(lines) + "\n"


def committed() -> list[dict[str, Any]]:
    """Read the results of all devices, the CPU's first."""
    return [json.loads(p.read_text()) for p in sorted(RESULTS.glob("trust_*.json"))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--all", action="store_true", dest="everything")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin nothing more after this time")
    parser.add_argument("--resume", action="store_true", help="go on with what is in the file")
    parser.add_argument("--table", action="store_true", help="write docs/trust.md from the committed results")
    asked = parser.parse_args()
    if asked.table:
        PAGE.write_text(page(committed()))
        print(f"wrote {PAGE}", file=sys.stderr)
        return
    rows = Run(asked.out, asked.seconds, resume=asked.resume)
    run(asked.device, asked.everything, rows)
    for kind in ("cheats", "honest"):
        found = rows.result[kind]
        print(f"{kind}: {sum(x['right'] for x in found)} of {len(found)} as they should be")
    print(f"{rows.result['seconds']} s")


if __name__ == "__main__":
    main()
