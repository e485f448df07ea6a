"""The tables of how good measuring and inspecting are, from the committed results.

python benchmarks/figures.py              # measuring, on an H200
python benchmarks/figures.py inspecting   # without a GPU
python benchmarks/figures.py pool         # what the features of `forewarp-h200` alone tell of families never seen
python benchmarks/figures.py forecasting  # how good forecasts are on families never seen
python benchmarks/figures.py searching    # how few measurements a search needs: replayed, and live
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
Row = tuple[str, ...]


def load(name: str) -> dict[str, Any]:
    """Read one result file."""
    return json.loads((RESULTS / name).read_text())


def speed() -> Iterator[Row]:
    """Seconds and candidates a minute."""
    ways = load("h200/compile.json")["compile"]["ways"]

    def seconds(way: str) -> str:
        return f"{ways[way]['running_s']:.2f} s"

    rates = load("h200/measuring.json")["throughput"]
    triton = [r for name, r in rates.items() if name.endswith("triton")]
    yield (
        "Triton candidate, one shape, from loaded to result",
        f"KernelBench {seconds('KernelBench, Triton module')}",
        seconds("forewarp, Triton device-only"),
        "≤ 0.6 s",
    )
    yield (
        "Triton candidates a minute on one GPU, three shapes each",
        "",
        f"{min(r['per_minute'] for r in triton):.0f} to {max(r['per_minute'] for r in triton):.0f}",
        "≥ 60",
    )
    load_inline = seconds("KernelBench, load_inline module")
    yield "CUDA device-only, likewise", f"KernelBench {load_inline}", seconds("forewarp, CUDA device-only"), "≤ 1.5 s"
    yield (
        "CUDA `load_inline` module, likewise",
        f"KernelBench {load_inline}",
        seconds("forewarp, load_inline module"),
        "≤ 15 s",
    )


def spread() -> Iterator[Row]:
    """Coefficients of variation, false verdicts, coverage."""
    found = load("h200/measuring.json")
    cases = load("h200/cv.json")["cv"]["cases"]
    for label, short, target in (("≥ 50 µs", False, "≤ 0.3 %"), ("5 to 50 µs", True, "≤ 1 %")):
        ours = [c["forewarp"]["cv"] for c in cases if (c["candidate_us"] < 50) == short]
        ours += [r["cv"] for r in found["aa"].values() if (r["candidate_us"] < 50) == short]
        theirs = [c["do_bench mean"]["cv"] for c in cases if (c["candidate_us"] < 50) == short]
        both = zip(found["do_bench"].values(), found["aa"].values(), strict=True)
        theirs += [r["cv"] for r, a in both if (a["candidate_us"] < 50) == short]
        yield (
            f"run-to-run CV of the speed-up, kernels {label}, median",
            f"`do_bench` {100 * statistics.median(theirs):.2f} %",
            f"{100 * statistics.median(ours):.2f} %",
            target,
        )
    pairs = load("h200/measuring_aa.json")["aa"].values()
    naive = found["do_bench"].values()
    yield (
        "a kernel against itself: false `faster`/`slower` at ±1 %",
        f"sequential means {sum(r['beyond_margin'] for r in naive)} of {sum(r['runs'] for r in naive)}",
        f"{sum(r['false'] for r in pairs)} of {sum(r['measured'] for r in pairs)}",
        "≤ 1 %",
    )
    for name, r in found["planted"].items():
        yield (
            f"coverage, planted {name}; found within (timing)",
            "",
            f"{100 * r['covered']:.1f} %; {100 * r['resolved']:.0f} % in {r['time_s_median']:.2f} s",
            "93 to 97 %",
        )
    yield "share of checking in the time on the device", "", f"{100 * found['checks']['share']:.0f} %", "≤ 35 %"


def trust() -> Iterator[Row]:
    """Cheats, honest kernels and faults."""
    other = load("h200/elsewhere.json")["results"]
    accepted = ", ".join(f"{name} accepts {_accepted(rows)}" for name, rows in other.items())
    for name in ("trust_h200.json", "trust_cpu.json"):
        found = load(name)
        cheats, honest = found["cheats"], found["honest"]
        yield (
            f"cheats as they should be, {found.get('device', name)}",
            accepted if "h200" in name else "",
            f"{sum(c['right'] for c in cheats)} of {len(cheats)}",
            "all, or listed",
        )
        yield f"honest kernels believed, {found.get('device', name)}", "", _believed(honest), "all"
    faults = load("h200/faults.json")["faults"]
    yield (
        "faults survived; longest recovery",
        "",
        f"{sum(f['next'] == 'ok' and f['same'] for f in faults)} of {len(faults)};"
        f" {max(f['recovery_s'] for f in faults):.2f} s",
        "all; ≤ 1 s",
    )


def inspecting() -> Iterator[Row]:
    """Compare what is seen without a GPU with what others saw with one; checks, and seconds."""
    profiles = load("inspect_profiles.json")
    for name, count in profiles["equal"].items():
        if name != "all three":
            yield f"{name}, equal to Nsight Compute's", "", f"{count} of {profiles['kernels']}", "all"
    modules = load("inspect_modules.json")
    outcomes = modules["outcomes"]
    total = modules["modules"] - outcomes.get("no kernel of its own", 0)
    whole, part = outcomes.get("seen whole", 0), outcomes.get("seen", 0)
    yield (
        "modules by language models that launch kernels of their own: all compiled",
        "",
        f"{whole + part} of {total}",
        "435 of 436",
    )
    yield "likewise, and every launch's grid and block known", "", f"{whole} of {total}", ""
    for folder, found in load("inspect_files.json")["folders"].items():
        yield (
            f"files of {folder}: a kernel compiled; all compiled; without a task",
            "",
            f"{found['at_least_one']}; {found['all']} of {found['files']}",
            "> 85 %" if "TritonBench" in folder else "> 70 %",
        )
    truth = load("inspect_truth.json")
    for name, count in truth["equal"].items():
        yield (
            f"{name.replace('_', ' ')} in the pool, equal to the driver's",
            "",
            f"{count} of {truth['kernels']}",
            "all",
        )
    floors = load("floors.json")
    yield "measured times in the pool that lie below the floor", "", f"{len(floors['below'])} of {floors['times']}", "0"
    rows = load("check_pool.json")["rows"]
    for language in ("triton", "cuda"):
        mine = [r for r in rows if r["language"] == language]
        right = [r for r in mine if not r["mistake"]]
        wrong = [r for r in mine if r["mistake"]]
        passed = sum(r["outcome"] == "ok" for r in right)
        blamed = sum(r["outcome"] in ("incorrect", "fault", "failed") for r in right)
        found = sum(r["outcome"] in ("incorrect", "fault", "failed") for r in wrong)
        yield (
            f"`--check` of right {language} programs: passed; blamed; not judged",
            "",
            f"{passed}; {blamed}; {len(right) - passed - blamed} of {len(right)}",
            "all; 0; 0",
        )
        yield f"`--check` of {language} programs with a planted mistake: found", "", f"{found} of {len(wrong)}", ""
    looks = load("inspect_speed.json")["rows"]
    for language in ("triton", "cuda"):
        ok = [r for r in looks if r["language"] == language and r["status"] == "ok"]
        first, again = (statistics.median(r[k] for r in ok) for k in ("first_s", "again_s"))
        yield (
            f"seconds for a {language} program of two shapes, median; from the cache",
            "",
            f"{first:.2f} s; {1e3 * again:.1f} ms",
            "≤ 1 s; ≤ 50 ms",
        )


def pool() -> Iterator[Row]:
    """Compare what models predict on families that they have not seen, by what they look at; 95 % intervals by task."""
    for name, found in load("features_alone.json")["results"].items():
        mean = found["mean"]
        yield name, _interval(mean["spearman"]), _interval(mean["recovery_at_10"]), _interval(mean["bin"])


FORECASTS = (
    ("exact", "exact bin", "0.68", "0.80"),
    ("within_one", "±1 bin", "0.89", "0.98"),
    ("pairwise", "order of pairs over 10 % apart", "0.91", "0.96"),
    ("spearman", "Spearman in a task, median", "0.88", "0.95"),
    ("ece", "ECE", "0.106", "0.03"),
    ("auroc_confidence", "AUROC of confidence", "0.83", "0.90"),
    ("crps", "CRPS", "0.051", "0.035"),
    ("coverage", "measured within the 80 % interval", "", "0.80"),
    ("valid_auroc", "AUROC of P(valid)", "", ""),
    ("recovery_10", "recovery of the top 10 %, median", "0.944", "0.97"),
    ("recovery_mean_10", "recovery of the top 10 %, mean", "", ""),
    ("share_for_all", "to be measured so that at most 5 % of those near the best are lost", "", "0.15"),
)
WHO = ("learned", "learned, trials", "llm bare", "llm evidence", "llm trials", "llm full", "cascade")


def forecasting() -> Iterator[Row]:
    """Compare forecasters on the same kernels of test families: the point estimates, and the cascade's interval."""
    figures = load("llm_figures.json")["test"]["figures"]
    for name, title, anchor, target in FORECASTS:
        said = [f"{figures[who][name][0]:.2f}" if name not in _FINE else f"{figures[who][name][0]:.3f}" for who in WHO]
        low, high = figures["cascade"][name][1:]
        yield title, anchor, *said, f"{low:.2f} to {high:.2f}", target


def earned() -> Iterator[Row]:
    """Say what parts of the language model's prompt are worth, as paired differences with 95 % intervals."""
    test = load("llm_figures.json")["test"]
    for pair, found in test["differences"].items():
        yield pair, *(_signed(found[k]) for k in ("exact", "pairwise", "crps", "recovery_mean_10"))


ARMS = {
    "everything": "everything, as written",
    "random": "random order",
    "learned": "learned forecaster",
    "llm": "model's forecasts",
    "cascade": "both (cascade)",
}


def replayed() -> Iterator[Row]:
    """How many measurements each way of choosing needs, on the pools of test tasks."""
    figures = load("search_replay.json")["figures"]
    for arm, title in ARMS.items():
        row = figures[arm]
        beside = (
            "fewer_than_everything",
            "faster_than_everything_at_10",
            "fewer_than_random",
            "faster_than_random_at_10",
        )
        yield (
            title,
            f"{row['needed_median']:.0f}; {row['needed_mean']:.1f}",
            f"{row['share_at_10']:.2f}",
            *(_ratio(row[name]) if name in row else "" for name in beside),
        )


def stopping() -> Iterator[Row]:
    """What a search does that is given eight candidates a round and ends by its own rules."""
    figures = load("search_replay.json")["figures"]
    for arm in ("learned", "llm", "cascade"):
        row = figures[arm]["stopping"]
        yield (
            ARMS[arm],
            f"{row['measured']:.1f}",
            f"{row['considered_per_measured']:.1f}",
            f"{row['share']:.3f}",
            f"{row['false']} of {row['audited']}",
            f"{row['alarms']:.2f}",
        )


def live() -> Iterator[Row]:
    """Both arms of each live search."""
    found = load("live/live.json")
    for run in sorted(found["runs"], key=lambda r: (r["task"], r["arm"])):
        best = run["best"]
        compiled = (found["compiled"].get("tasks", {}).get(run["task"]) or {}).get("speedup")
        pair = (found["checks"].get("tasks", {}).get(run["task"]) or {}).get("cascade_over_everything")
        yield (
            run["task"],
            run["arm"],
            f"{best['speedup']:.2f}× ({best['low']:.2f} to {best['high']:.2f})",
            f"{best['speedup'] / compiled:.2f}×" if compiled else "",
            f"{pair['speedup']:.3f} ({pair['low']:.3f} to {pair['high']:.3f})"
            if pair and run["arm"] == "cascade"
            else "",
            f"{run['written']}; {run['considered']}; {run['measurements']}",
            f"{run['device_s']:.0f} s",
            f"{run['tokens'] / 1000:.0f} k",
        )


def _ratio(found: list[float]) -> str:
    return f"{found[0]:.2f} ({found[1]:.2f} to {found[2]:.2f})"


def _signed(found: list[float]) -> str:
    middle, low, high = found
    return f"{middle:+.3f} ({low:+.3f} to {high:+.3f})"


_FINE = ("ece", "crps")


def _interval(found: list[float]) -> str:
    middle, low, high = found
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def _accepted(rows: dict[str, dict[str, Any]]) -> str:
    cheats = [r for name, r in rows.items() if not name.startswith("honest")]
    return f"{sum(r['accepted'] for r in cheats)} of {len(cheats)}"


def _believed(honest: list[dict[str, Any]]) -> str:
    return f"{sum(h['right'] for h in honest)} of {len(honest)}"


MEASURED = ("figure", "beside it", "forewarp", "target")
LEARNED = (
    "split: what the model sees",
    "rank correlation in a task",
    "best of its top 10 % over the best",
    "right bin",
)


REPLAYED = (
    "which is measured",
    "measurements to within 5 % of the best: median; mean",
    "share of the best after 10 %",
    "fewer than everything",
    "faster after 10 % than everything",
    "fewer than random",
    "faster after 10 % than random",
)
LIVE = (
    "task",
    "arm",
    "winner over eager (95 %)",
    "over `torch.compile`",
    "cascade's winner over the other's",
    "written; considered; measured",
    "GPU",
    "tokens",
)


def main() -> None:
    """Print a table."""
    which = sys.argv[1] if len(sys.argv) > 1 else ""
    asked = ("figure", "anchor", *(w.replace("llm", "model") for w in WHO), "cascade, 95 %", "target")
    tables = {
        "inspecting": [(MEASURED, (inspecting,))],
        "pool": [(LEARNED, (pool,))],
        "forecasting": [(asked, (forecasting,)), (("first − second", "exact", "pairs", "CRPS", "recovery"), (earned,))],
        "searching": [
            (REPLAYED, (replayed,)),
            (
                (
                    "as it ends by itself",
                    "measured",
                    "considered per measured",
                    "share of the best",
                    "false discards",
                    "alarms",
                ),
                (stopping,),
            ),
            (LIVE, (live,)),
        ],
    }
    for heads, parts in tables.get(which, [(MEASURED, (speed, spread, trust))]):
        print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
        for part in parts:
            for row in part():
                print(f"| {' | '.join(row)} |")
        print()


if __name__ == "__main__":
    main()
