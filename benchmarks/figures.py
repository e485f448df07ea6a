"""The tables of the README, `docs/results.md` and `docs/measuring.md`, from the committed results.

python benchmarks/figures.py            # print them, each between its marks
python benchmarks/figures.py measuring  # print one
python benchmarks/figures.py --write    # fill them into the documents
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import marked

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
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
    naive = found["do_bench"].values()
    yield (
        SELF,
        f"sequential means {sum(r['beyond_margin'] for r in naive)} of {sum(r['runs'] for r in naive)}",
        _false(found["aa"]),
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


SELF = "a kernel against itself: false `faster`/`slower` at ±1 %"


def _false(pairs: dict[str, Any]) -> str:
    return f"{sum(r['false'] for r in pairs.values())} of {sum(r['measured'] for r in pairs.values())}"


def itself() -> Iterator[Row]:
    """Return how often kernels are told from themselves, with the version that allows for launch offsets."""
    pairs = load("h200/measuring_aa.json")["aa"]
    yield SELF, "", _false(pairs), "≤ 1 %"
    for name, r in pairs.items():
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(r["verdicts"].items()))
        yield f"the kernel of {r['candidate_us']:.1f} µs ({name})", "", verdicts, "`tie`"


def seedless() -> Iterator[Row]:
    """Searches without a key and without a seed kernel; those on a GPU once there are some."""
    for name, where in (("seedless_cpu.json", "CPU, small shapes"), ("seedless.json", "GPU")):
        if not (RESULTS / name).exists():
            continue
        found = load(name)["summary"]
        yield f"{where}: problems with a winner that is right", "", f"{found['right']} of {found['problems']}"
        for arm, target in (("eager", ""), ("compile", "1"), ("max_autotune", "1"), ("coordinate_descent", "1")):
            if over := found["over"].get(arm):
                label = {"eager": "eager PyTorch", "compile": "`torch.compile`"}.get(arm, arm.replace("_", " "))
                quiet = found["quiet"][arm]
                spans = [f"{o['ratio']:.2f} ({o['low']:.2f} to {o['high']:.2f})" for o in (over, quiet)]
                what = f"winner over {label}, geometric mean of {over['problems']}: all rounds; quiet ones"
                yield what, target, "; ".join(spans)
        if best := found.get("over_best"):
            what = f"winner over the fastest of these, problem by problem, geometric mean of {best['problems']}"
            yield what, "1", f"{best['ratio']:.2f} ({best['low']:.2f} to {best['high']:.2f})"
        yield (
            "seconds of a search; to its first measured candidate, median",
            "",
            f"{found['wall_s']:.0f}; {found['first_s']:.0f}",
        )


def models() -> Iterator[Row]:
    """Whole models with the kernels of their first three lines, judged by `apply` and in a plain process."""
    for device, row in ((d, r) for d in ("h100", "h200") for r in load(f"models_{d}.json")["rows"]):
        applied, plain = row["optimize"]["applied"], row["plain"].get("pairs", {})
        kept = sum(k["kept"] for k in applied["kernels"])
        arms = {a: f["ms"] for a, f in row["plain"].get("arms", {}).items() if a.startswith("model")}
        yield (
            f"{row['model']}, {device.upper()}",
            f"{kept} of {len(row['optimize']['lines'])}",
            _times(applied["over_eager"]),
            _times(applied["over_compile"]),
            _times(plain.get("patched max-autotune over model max-autotune")),
            "; ".join(f"{ms:.2f}" for ms in arms.values()) or "not timed",
        )


def _times(found: Mapping[str, float] | None) -> str:
    if not found:
        return "not timed"
    return f"{found.get('ratio', found.get('speedup', 0)):.2f}× ({found['low']:.2f} to {found['high']:.2f})"


def trust() -> Iterator[Row]:
    """Cheats, honest kernels and faults."""
    other = load("h200/elsewhere.json")["results"]
    accepted = ", ".join(f"{name} accepts {_accepted(rows)}" for name, rows in other.items())
    for name in ("trust_h200.json", "trust_cpu.json"):
        found = load(name)
        cheats, honest = found["cheats"], found["honest"]
        yield (
            f"cheats as they should be, {found.get('device', name)}",
            accepted if found["kind"] == "cuda" else "",
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
        split, _, seen = name.partition(": ")
        if split != "test":
            continue
        mean = found["mean"]
        yield seen, _interval(mean["spearman"]), _interval(mean["recovery_at_10"]), _interval(mean["bin"])


FORECASTS = (
    ("exact", "exact bin", "0.80"),
    ("within_one", "±1 bin", "0.98"),
    ("pairwise", "order of pairs over 10 % apart", "0.96"),
    ("spearman", "Spearman in a task, median", "0.95"),
    ("ece", "ECE", "0.03"),
    ("auroc_confidence", "AUROC of confidence", "0.90"),
    ("crps", "CRPS", "0.035"),
    ("coverage", "measured within the 80 % interval", "0.80"),
    ("valid_auroc", "AUROC of P(valid)", ""),
    ("recovery_10", "recovery of the top 10 %, median", "0.97"),
    ("recovery_mean_10", "recovery of the top 10 %, mean", ""),
    ("share_for_all", "to be measured so that at most 5 % of those near the best are lost", "0.15"),
)
WHO = ("learned", "learned, trials", "llm bare", "llm evidence", "llm trials", "llm full", "cascade")


def forecasting() -> Iterator[Row]:
    """Compare forecasters on the same kernels of test families: the point estimates, and the cascade's interval."""
    figures = load("llm_figures.json")["test"]["figures"]
    for name, title, target in FORECASTS:
        said = [f"{figures[who][name][0]:.2f}" if name not in _FINE else f"{figures[who][name][0]:.3f}" for who in WHO]
        low, high = figures["cascade"][name][1:]
        yield title, *said, f"{low:.2f} to {high:.2f}", target


def earned() -> Iterator[Row]:
    """Say what parts of the language model's prompt are worth, as paired differences with 95 % intervals."""
    test = load("llm_figures.json")["test"]
    for pair, found in test["differences"].items():
        yield pair, *(_signed(found[k]) for k in ("exact", "pairwise", "crps", "recovery_mean_10"))


ARMS = {
    "random": "random order",
    "everything": "everything, in the pool's order",
    "tuner": "plain tuner",
    "sort_learned": "one sort by the learned forecaster",
    "sort_llm": "one sort by the model's forecasts",
    "sort_both": "one sort by both, pooled",
    "learned": "learned forecaster",
    "llm": "model's forecasts",
    "cascade": "both (cascade)",
}


def replayed() -> Iterator[Row]:
    """How many measurements each way of choosing needs, on the pools of test tasks."""
    figures = load("search_replay.json")["figures"]
    for arm, title in ARMS.items():
        row = figures[arm]
        beside = [f"fewer_than_{base}" for base in ("random", "everything", "tuner", "sort_llm")]
        yield (
            title,
            f"{row['needed_median']:g}; {row['needed_mean']:.1f}",
            f"{row['share_at_10']:.2f}",
            *(_ratio(row[name]) if name in row else "" for name in beside),
        )


def priced() -> Iterator[Row]:
    """Dollars to within 5 % of the best, by what a measurement takes."""
    figures = load("search_replay.json")["figures"]
    for arm, title in ARMS.items():
        row, cases = figures[arm], ("dollars", "dollars_10_s", "dollars_30_s")
        yield (
            title,
            "; ".join(f"{100 * row[name]:.2g} ct" for name in cases),
            *(_ratio(row[f"{name}_over_tuner"]) if f"{name}_over_tuner" in row else "" for name in cases),
        )


def paying() -> Iterator[Row]:
    """Questions, measurements and costs of a search's own cascade, by the seconds of a measurement."""
    for file, arms in (("search_replay_priced.json", PAYING), ("search_replay_priced_before.json", BEFORE)):
        found = load(file)
        for arm, (title, cost) in arms.items():
            row, compared = found["figures"][arm], arm != "tuner"
            asked = statistics.fmean(r["tiers"].get("llm", 0) for r in found["runs"] if r["arm"] == arm)
            yield (
                title,
                f"{asked:.1f}",
                f"{row['needed_median']:g}; {row['needed_mean']:.1f}",
                _ratio(row["fewer_than_tuner"]) if compared else "",
                _ratio(row[f"{cost}_over_tuner"]) if compared else "",
                _ratio(row[f"{cost}_asked_on_over_tuner"]) if compared else "",
            )


def references() -> Iterator[Row]:
    """Errors of forecasts of references' times."""
    for title, found in load("operations.json")["figures"].items():
        for how, each in found.items():
            yield (
                title,
                {"operations": "its operations", "floor": "roofline floor", "mean time": "nothing"}[how],
                f"{each['references']} of {each['groups']}",
                f"{each['error'][0]:.2f} ({each['error'][1]:.2f} to {each['error'][2]:.2f})",
                f"{each['median']:.2f}",
                f"{each['covered']:.2f}" if "covered" in each else "",
            )


def knowing() -> Iterator[Row]:
    """The learned forecaster with nothing measured, by what it knows of the reference's time."""
    found = load("reference_time.json")["figures"]
    arms = ("unknown", "forecast", "known")
    for name, target in KNOWING.items():
        title, digits = JUDGED[name]
        yield (
            title,
            *(_spanned(found[arm]["families"][name], digits) for arm in arms),
            _spanned(found["forecast - unknown"]["families"][name], digits, sign="+"),
            target,
        )


def _spanned(value: Sequence[float], digits: int, sign: str = "") -> str:
    one, low, high = (f"{v:{sign}.{digits}f}" for v in value)
    return f"{one} ({low} to {high})"


def shown() -> Iterator[Row]:
    """A model's forecasts by what it was shown, the same kernels for all."""
    found = load("llm_shown.json")
    changed = found["differences"]["evidence - alike"]
    for name, target in SHOWN.items():
        title, digits = JUDGED[name]
        yield (
            title,
            *(_inside(found["figures"][arm][name], digits) for arm in ("evidence", "reference", "alike")),
            _inside(changed[name], digits, sign="+"),
            target,
        )


def _inside(figure: Mapping[str, float], digits: int, sign: str = "") -> str:
    return _spanned([figure[k] for k in ("value", "low", "high")], digits, sign)


def families() -> Iterator[Row]:
    """CRPS of a cascade's pool by family, and how much it lies below or above its members'."""
    found = load("evaluate/pooled.json")["differences"]
    by = [d for d in found if d["second"].endswith("corrected") or d["second"] == "learned"]
    for each in zip(*(d["families"] for d in by), strict=True):
        differences = [f["difference"] for f in each]
        first = each[0]
        yield (
            first["family"].replace("_", " "),
            str(first["rows"]),
            f"{first['crps']:.3f}",
            *(f"{d['value']:+.3f} ({d['low']:+.3f} to {d['high']:+.3f})" for d in differences),
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
    "what the model sees",
    "rank correlation in a task",
    "best of its top 10 % over the best",
    "right bin",
)


REPLAYED = (
    "which is measured",
    "measurements to within 5 % of the best: median; mean",
    "share of the best after 10 %",
    "fewer than random",
    "fewer than everything",
    "fewer than plain tuner",
    "fewer than one sort by the model",
)
PRICED = (
    "which is measured",
    "median cost: measured as recorded; in 10 s; in 30 s",
    "over plain tuner, as recorded",
    "in 10 s",
    "in 30 s",
)
PAYING = {
    "tuner": ("plain tuner", "dollars"),
    "learned": ("learned forecaster", "dollars"),
    "priced": ("cascade, measured as recorded", "dollars"),
    "priced_10_s": ("cascade, measured in 10 s", "dollars_10_s"),
    "priced_30_s": ("cascade, measured in 30 s", "dollars_30_s"),
}
"""Arms of the priced replay, with the cost that each of them reckons with."""
BEFORE = {
    "priced_10_s": ("earlier rule, measured in 10 s", "dollars_10_s"),
    "priced_30_s": ("earlier rule, measured in 30 s", "dollars_30_s"),
}
PAYS = (
    "which is measured",
    "answers bought",
    "measurements to within 5 %: median; mean",
    "fewer than plain tuner",
    "dollars over plain tuner's",
    "with all tokens of the run",
)
JUDGED = {
    "exact": ("exact bin", 2),
    "within_one": ("±1 bin", 2),
    "pairwise": ("order of pairs over 10 % apart", 2),
    "crps": ("CRPS", 3),
    "ece": ("ECE", 3),
    "error": ("\\|error\\|, octaves", 2),
    "coverage": ("measured within the 80 % interval", 2),
    "auroc_confidence": ("AUROC of confidence", 2),
}
"""Titles and digits of figures of forecasts; the tables below have their targets."""
KNOWING = {
    "exact": "0.65",
    "within_one": "",
    "pairwise": "0.90",
    "crps": "0.070",
    "ece": "",
    "error": "",
    "coverage": "0.80",
}
SHOWN = {
    "exact": "0.80",
    "within_one": "0.98",
    "pairwise": "0.96",
    "crps": "0.035",
    "ece": "0.03",
    "auroc_confidence": "0.90",
}
FOREIGN = {"exact": 0.82, "within_one": 0.97, "pairwise": 0.96, "crps": 0.033, "ece": 0.04, "auroc_confidence": 0.88}
SHOWN_COLUMNS = ("figure", "facts", "and reference's time", "and kernels of other tasks", "first − third", "target")
KNOWN = ("figure", "reference's time unknown", "forecast", "measured", "forecast − unknown", "target (measured)")
REFERENCES = (
    "references",
    "forecast from",
    "references, of so many groups",
    "mean \\|error\\|, octaves",
    "median",
    "within the 80 % interval",
)
FAMILIES = ("family", "kernels", "CRPS of the pool", "less the model's", "less the learned forecaster's")
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


EVALUATED = (
    "exact",
    "within_one",
    "pairwise",
    "spearman",
    "ece",
    "crps",
    "coverage",
    "recovery_10",
    "recovery_mean_10",
    "milliseconds",
)


def history() -> Iterator[Row]:
    """Compare the learned forecaster after 0, 8 and 16 measured kernels of a task with even odds for all bins."""
    found = [load(f"evaluate/learned_{n}.json")["forecasters"] for n in (0, 8, 16)]
    titles = {name: title for name, title, _ in FORECASTS} | {"milliseconds": "milliseconds a kernel"}
    for name in EVALUATED:
        learned = [f[0]["figures"][name] for f in found]
        even = found[0][1]["figures"][name]["value"]
        if name == "milliseconds":
            yield titles[name], f"{even:.1f}", *(f"{x['value']:.1f}" for x in learned)
        else:
            yield titles[name], f"{even:.2f}", *(_interval([x["value"], x["low"], x["high"]]) for x in learned)


def jobs() -> Iterator[Row]:
    """Return what each main job found, and where the time of its candidates went."""
    for job in load("h200/summary.json")["jobs"]:
        best, phases = job["best"], job["phases_median_s"]
        yield (
            job["job"],
            f"{best['ratio']:.3f}× ({best['low']:.3f} to {best['high']:.3f})",
            f"{job['considered']}; {job['measured']}",
            *(f"{phases[k]:.3f} s" for k in ("spawn", "compile", "setup", "check", "time")),
            f"{job['wall_s']:.0f} s",
        )


def equal() -> Iterator[Row]:
    """Compare searches with and without forecasts at an equal number of measurements."""
    for name in ("equal_budget_h200.json", "equal_budget_cpu.json"):
        found = load(name)
        for row in found["table"]:
            yield (
                found["device"],
                row["task"],
                str(row["pairs"]),
                f"{row['on']:.2f}×; {row['off']:.2f}×",
                f"{row['ratio']:.2f} ({row['low']:.2f} to {row['high']:.2f})",
            )


def kills() -> Iterator[Row]:
    """Return what became of a run that was killed twenty times, on a real and on a simulated device."""
    found = load("search_kills.json")
    run = found["runs"][0]
    lost = sum(k["lost"] != "nothing" for k in found["kills"])
    yield "kills; during a measurement", f"{len(found['kills'])}; {found['phases']['measure']}"
    yield "attempts at a measurement lost with their device seconds, which were not booked", str(lost)
    yield "measurements done; booked; made twice", f"{run['measurements']}; {run['booked']}; {run['repeated']}"
    yield "device seconds booked; wall time booked", f"{run['device_s_booked']:.0f} s; {run['wall_s_booked']:.0f} s"
    yield (
        "the same run left alone: device seconds; wall time",
        (f"{found['alone']['device_s_booked']:.0f} s; {found['alone']['wall_s_booked']:.0f} s"),
    )
    simulated = load("search_kills_simulated.json")
    same = [name for name, is_same in simulated["identical"].items() if is_same]
    yield f"simulated device, {len(simulated['kills'])} kills: equal to the run left alone", ", ".join(same)


def gate() -> Iterator[Row]:
    """Return what repeated checks of equal kernels, and of kernels with 3 % more work, said on H100s and H200s."""
    found = load("gate_gpu.json")
    for line in found["summary"]:
        if not line["joined"]:  # a machine's own rounds make its runs
            kind, said = ("3 % more work", "slower") if line["planted"] else ("equal", "same")
            counts = "; ".join(str(line[verdict]["count"]) for verdict in ("same", "slower", "faster", "too noisy"))
            yield f"{kind}: kernels; machines; rounds", f"{line['kernels']}; {line['machines']}; {line['rounds']}"
            yield f"{kind}: runs that ended `same`; `slower`; `faster`; `too noisy`", counts
            yield f"{kind}: share that is `{said}` (95 %)", _share(line[said], line["runs"])
            yield f"{kind}: rounds of a run, mean", f"{line['rounds_of_a_run']:.1f}"
            if not line["planted"]:
                yield f"{kind}: share of false alarms (95 %)", _share(line["slower"], line["runs"])
    checks = found["checks"]
    total: Counter[str] = sum((Counter(c["equal"]) for c in checks), Counter())
    slower: Counter[str] = sum((Counter(c["planted"]) for c in checks), Counter())
    for version in dict.fromkeys(m["version"] for m in found["machines"]):
        here = [c for c in checks if found["machines"][c["machine"]]["version"] == version]
        for planted in (False, True):
            ended = [c for c in here if bool(c["planted"]) == planted]
            if ended:
                seconds, rounds = (sorted(c[key] for c in ended) for key in ("seconds", "rounds"))
                beside = " beside those with 3 % more" if planted else ""
                yield (
                    f"whole checks of 20 equal kernels{beside} at {version}: number; rounds; seconds, median",
                    f"{len(ended)}; {rounds[0]} to {rounds[-1]}; {statistics.median(seconds):.0f}",
                )
    yield "whole checks: equal kernels that are `same`", f"{total['same']} of {total.total()}"
    yield "whole checks: kernels with 3 % more work that are `slower`", f"{slower['slower']} of {slower.total()}"


def _share(figure: Mapping[str, float], runs: int) -> str:
    return f"{figure['count'] / runs:.0%} ({figure['low']:.1%} to {figure['high']:.1%})"


def readme() -> Iterator[Row]:
    """Return the few results that the README shows, misses included."""
    found = {job["job"]: job["best"]["ratio"] for job in load("h200/summary.json")["jobs"]}
    yield (
        "six tasks, 20 measurements each: winner over eager PyTorch",
        f"{min(found.values()):.2f}× (`matmul`, far behind cuBLAS) to {max(found.values()):.1f}× (`topk_gate`)",
        "",
    )
    runs = load("live/live.json")
    pairs = [task["cascade_over_everything"] for task in runs["checks"]["tasks"].values()]
    yield (
        f"a model writes kernels for {len(pairs)} tasks, 20 measurements: winner with forecasts over winner without",
        "; ".join(_pair(p) for p in sorted(pairs, key=lambda p: -p["speedup"])),
        "",
    )
    equal_budgets = [load(f"equal_budget_{device}.json") for device in ("h200", "cpu")]
    yield (
        f"tunables only, {equal_budgets[0]['budget']} measurements: the same ratio, H200; CPU",
        "; ".join(_pair(e["table"][-1]) for e in equal_budgets) + ": no gain shown",
        "",
    )
    spaces, by_random = load("tune.json"), load("tune.json")["random"]["share"]
    yield (
        f"configurations of {spaces['kernels']} unseen Triton kernels: first forecast, best of 8, over the best",
        " and ".join(f"{spaces['two_stages']['share'][k]:.2f} (random {by_random[k]:.2f})" for k in ("0", "8")),
        "0.92 and 0.99",
    )
    starts = load("tune_first_call_h200.json")["first_call"]
    yield (
        "five autotuned kernels, seconds to first results: Triton; `keep=8`; `keep=1`",
        "; ".join(f"{starts[way]['seconds']:.1f}" for way in ("triton", "keep=8", "keep=1")),
        "≤ 0.2 of Triton's",
    )
    cascade = load("search_replay.json")["figures"]["cascade"]
    yield (
        "recorded pools, within 5 %: times fewer measurements than plain tuner; one sort; dollars over plain tuner's",
        "; ".join(_ratio(cascade[name]) for name in ("fewer_than_tuner", "fewer_than_sort_llm", "dollars_over_tuner")),
        "> 1; ≥ 0.9; ≤ 1",
    )
    figures = load("llm_figures.json")["test"]["figures"]["cascade"]
    yield "forecasts of unseen families: exact bin of eight", _interval(figures["exact"]), "0.80"
    ways = load("h200/compile.json")["compile"]["ways"]
    yield (
        "one Triton candidate, from loaded to result (KernelBench "
        f"{ways['KernelBench, Triton module']['running_s']:.2f} s)",
        f"{ways['forewarp, Triton device-only']['running_s']:.2f} s",
        "≤ 0.6 s",
    )
    by_device = [
        [r for r in load(f"{name}.json")["summary"] if not r["extra"]] for name in ("busy_machine", "busy_machine_h200")
    ]
    yield (
        "a kernel against itself, quiet and beside busy processes: false `faster`/`slower`, CPU; H200",
        "; ".join(f"{sum(_told(r) for r in rows)} of {sum(r['measurements'] for r in rows)}" for rows in by_device),
        "≤ 1 %",
    )
    trusted = [load(f"trust_{name}.json") for name in ("h200", "cpu")]
    for kind, title in (("cheats", "cheats as they should be"), ("honest", "honest kernels believed")):
        counts = "; ".join(_believed(t[kind]) for t in trusted)
        yield f"{title}: H200; CPU", counts, "all"


def _pair(found: dict[str, Any]) -> str:
    return f"{found['speedup' if 'speedup' in found else 'ratio']:.2f} ({found['low']:.2f} to {found['high']:.2f})"


ASKED = ("figure", *(w.replace("llm", "model") for w in WHO), "cascade, 95 %", "target")
PHASES = ("spawn", "compile", "setup", "check", "time")
STOPPING = (
    "as it ends by itself",
    "measured",
    "considered per measured",
    "share of the best",
    "false discards",
    "alarms",
)


def _marked(text: str, *, met: bool) -> str:
    """Return a figure, bold where it misses its target."""
    return text if met else f"**{text}**"


def modules() -> Iterator[Row]:
    """Modules against plain processes, themselves and twins with more work; misses bold."""
    found = load("modules_h200.json")
    near, same, more, short, s = (found[k] for k in ("agreement", "identical", "planted", "short", "seconds"))
    n, off = near["n"], "speed-up against plain processes, \\|ln ratio\\|"

    def row(what: str, of: str | int, value: float, target: float, *, least: bool = False, form: str = ".2g") -> Row:
        shown, met = format(value, form), value >= target if least else value <= target
        limit = format(target, form.replace(".1", ".0"))
        return what, str(of), _marked(shown, met=met), f"{'≥' if least else '≤'} {limit}"

    yield row(f"{off}, median", f"{n} of {near['operations']} operations", near["median_abs_log"], 0.01)
    yield row(f"the same, 95th percentile (largest {near['largest_abs_log']:.2g})", n, near["p95_abs_log"], 0.05)
    yield row("half-width of the 95 % interval, median", n, near["median_half_width"], 0.01)
    yield row("share that was lifted", n, near["share_lifted"], 0.9, least=True, form=".1%")
    yield row(f"{off} where it could not be lifted, median", near["unlifted_n"], near["unlifted_median_abs_log"], 0.03)
    waits, others = near["unlifted_waiting"], near["unlifted_not_waiting"]
    yield row("of these, modules that wait for the device", waits["n"], waits["median_abs_log"], 0.03)
    again = [
        abs(math.log(r["plain_again"] / r["plain"]))
        for r in found["rows"]["agreement"]
        if r["plain_how"] == "waits" and r.get("plain_again") and r["lifting"].startswith("not lifted")
    ]
    between = f"{statistics.median(again):.2g}"
    yield "a second plain process against the first, the same modules", str(len(again)), between, ""
    yield row("those that do not wait", others["n"], others["median_abs_log"], 0.03)
    count = same["n"]
    yield row("KernelBench problems against themselves: `tie`", count, same["tie_share"], 0.95, least=True, form=".1%")
    for key, what in (("incorrect", "`incorrect`"), ("out_of_memory", "`out_of_memory`"), ("told_apart", "told apart")):
        yield row(f"the same: {what}", count, same[key], 0, form="d")
    share = {"target": 0.95, "least": True, "form": ".1%"}
    yield row("twins with 3 % more work: `slower`", more["n"], more["slower"], **share)
    low, high = short["us"][0], short["us"][-1]
    yield row(f"kernels of {low:.0f} to {high:.0f} µs against themselves: `tie`", short["n"], short["tie"], **share)
    told = short["told_apart"]
    yield row("such kernels with 5 % more work: told apart", short["n"], told, 0.9, least=True, form=".1%")
    seconds = {"form": ".2f"}
    yield row("Triton module from source to result, seconds", "4", s["triton"], 1.0, **seconds)
    yield row("of that without compiling", "4", s["triton_without_compile"], 0.4, **seconds)
    yield row("Triton module, first of its task", "1", s["triton_new_task"], 1.0, **seconds)
    yield row("`load_inline` module", "2", s["load_inline"], 8.0, **seconds)
    yield row("`load_inline` modules a minute, 16 cores", "", s["load_inline_per_minute"], 40, least=True, form=".0f")


def tune() -> Iterator[Row]:
    """Configurations by forecast, kernels left out whole, beside other orders; misses bold."""
    found = load("tune.json")
    h100, gemm = found["h100_trained_without"]["two_stages"], found["gemm"]["two_stages"]
    products, attention = found["published"]["matmul"], found["published"]["attention"]
    searched = found["searches"].get("spaces", 148)
    of = "" if searched == found["spaces"] else f" ({searched} spaces)"
    once, last = found["unseen_before"], found.get("unseen")
    unseen = [
        ("11 kernels recorded later, forecasts of before, nothing compiled", once["before"]["uncompiled"]),
        ("the same, the best 24 compiled", once["before"]["two_stages"]),
        ("the same kernels, rules written before their times were seen, nothing compiled", once["after"]["uncompiled"]),
        ("the same, the best 24 compiled", once["after"]["two_stages"]),
        ("the same, the last four of eight by corrected forecasts", once["after"]["two_stages_fed_back"]),
        ("four of them, attention, before, the best 24 compiled", once["before"]["attention"]["two_stages"]),
        ("four of them, attention, after, the best 24 compiled", once["after"]["attention"]["two_stages"]),
    ]
    if last:
        unseen += [
            (
                f"{last['kernels']} kernels recorded last, forecasts of before, nothing compiled",
                once["last"]["uncompiled"],
            ),
            ("the same, the best 24 compiled", once["last"]["two_stages"]),
            ("the same kernels, what is shipped, nothing compiled", last["uncompiled"]),
            ("the same, the best 24 compiled", last["two_stages"]),
            ("the same, the last four of eight by corrected forecasts", last["two_stages_fed_back"]),
        ]
    for name, figures, targets in (
        ("forecast, nothing compiled", found["uncompiled"], (0.92, 0.99, 2)),
        ("forecast, the best 24 compiled and forecast again", found["two_stages"], (0.92, 0.99, 2)),
        ("the same, the last four of eight by corrected forecasts", found["two_stages_fed_back"], (0.92, 0.99, 2)),
        ("forecast, all compiled", found["compiled"], (0.92, 0.99, 2)),
        ("physics alone, nothing compiled", found["physics"], None),
        ("the author's order", found["listed"], None),
        ("random order, expected", found["random"], None),
        (f"Bayesian search{of}, Optuna's Gaussian process", found["searches"]["gp"], None),
        (f"Bayesian search{of}, Optuna's TPE", found["searches"]["tpe"], None),
        ("H100, fitted to the H200 alone, the best 24 compiled", h100, (0.88, 0.0, 2)),
        ("bf16 GEMM, the best 24 compiled", gemm, (0.92, 0.0, 2)),
        (f"matrix products ({products['spaces']} spaces), Triton's own model, {_kept(products)}", products, None),
        ("the same spaces, forecast, nothing compiled", products["beside"]["uncompiled"], (0.92, 0.99, 2)),
        (f"attention ({attention['spaces']} spaces), rule of Triton's tutorial, {_kept(attention)}", attention, None),
        ("the same spaces, forecast, nothing compiled", attention["beside"]["uncompiled"], (0.92, 0.99, 2)),
        *((name, figures, (0.92, 0.99, 2)) for name, figures in unseen),
    ):
        least, least_8, most = targets or (0.0, 0.0, math.inf)
        none, eight, needed = figures["share"]["0"], figures["share"]["8"], figures["needed"]
        yield (
            name,
            _marked(f"{none:.3f}", met=none >= least),
            _marked(f"{eight:.4f}", met=eight >= least_8),
            _marked(f"{needed:.1f}", met=needed <= most),
        )


def _kept(rule: dict[str, Any]) -> str:
    return f"keeps {rule['kept']:.0%}, the best of them at {rule['best_kept']:.3f}"


def first_call() -> Iterator[Row]:
    """Seconds to the first results of a process with five autotuned kernels, and how fast the chosen kernels are."""
    found = load("tune_first_call_h200.json")["first_call"]
    alone = found["triton"]
    for way, row in found.items():
        slower = max(row[kernel] / alone[kernel] for kernel in alone if kernel != "seconds")
        share = row["seconds"] / alone["seconds"]
        yield (
            "Triton alone" if way == "triton" else f"`install({way.replace('deterministic', 'deterministic=True')})`",
            f"{row['seconds']:.1f}",
            "" if way == "triton" else _marked(f"{share:.2f}", met=share <= 0.2),
            "" if way == "triton" else f"{slower:.2f}",
        )


def tuned() -> Iterator[Row]:
    """Kernels tuned on an H100, and the best of all their configurations where these were timed on such a card."""
    import pyarrow.parquet as pq

    rows = pq.read_table(ROOT / "pool" / "configurations.parquet").to_pylist()
    for found in load("tune_live_h100.json")["tuned"]:
        call = "[" + found["call"].removeprefix("run(").removesuffix(")") + "]"
        timed = [
            row["us"]
            for row in rows
            if (row["kernel"], row["call"]) == (found["kernel"], call) and "H100" in row["device"] and row["us"]
        ]
        yield (
            f"`{found['kernel']}` {call}",
            f"{found['measured']} of {found['configurations']}",
            f"{found['seconds']:.0f}",
            f"{found['best_us']:.0f} µs",
            f"{min(timed):.0f} µs" if timed else "",
            "{:.2f} ({:.2f} to {:.2f})".format(*found["speedup_over_first"]),
        )


def per_second() -> Iterator[Row]:
    """Configurations measured a second on an H200, compiled before."""
    found, names = load("tune_per_second_h200.json"), ("per_second", "held_per_second", "plain")
    for row in found["kernels"]:
        rates = (f"{row['measured'] / row['seconds'][n]:.0f}" for n in names)
        yield (f"`{row['kernel']}` {row['call'].removeprefix('run')}", f"{row['checked']} of {row['measured']}", *rates)
    yield ("all", "", *(f"{found[n]:.0f}" for n in names))


MOE = (
    "tokens",
    "by forecasts, s",
    "vLLM's way, s",
    "times less",
    "winner's time over the best's (95 %)",
    "over that of vLLM's table; default",
    "configurations timed to know the best",
)


def moe() -> Iterator[Row]:
    """Tuning of vLLM's fused mixture of experts by forecasts and as vLLM does it, by number of tokens; misses bold."""
    found = load("moe.json")
    fit = found["space"] - found["cannot_fit"]
    for tokens, row in found["moe"].items():
        estimate = f" (estimated from {n})" if (n := row["theirs_estimated_from"]) else ""
        best = row["ours_over_best"]
        yield (
            tokens,
            f"{row['ours_s']:.0f}",
            f"{row['theirs_s']:.0f}{estimate}",
            _marked(f"{row['times_less']:.0f}", met=row["times_less"] >= 50),
            _marked("{:.3f} ({:.3f} to {:.3f})".format(*best), met=best[0] <= 1.02),
            "; ".join(f"{row[name][0]:.3f}" for name in ("ours_over_table", "ours_over_default") if name in row),
            f"{row['timed_to_know_the_best']} of {fit} that can fit",
        )


def winners() -> Iterator[Row]:
    """Kernels of ours beside libraries and torch.compile, misses bold; later measurements of a case take its place."""
    later = {row["name"]: row for row in load("winners_fused_h100.json")["rows"]}
    for row in load("winners_h100.json")["rows"]:
        row = later.get(row["name"], row)
        if row["status"] != "ok":
            yield row["name"], "", row["beside"], f"**{row['status']}**", "", f"≥ {row['target']}"
        for shape in row["shapes"]:
            time = f"{shape['candidate_us']:.0f} µs"
            yield row["name"], shape["name"], row["beside"], _beside(row, shape), time, f"≥ {row['target']}"


def _beside(row: Mapping[str, Any], shape: Mapping[str, Any]) -> str:
    """Return a ratio with its interval, bold below the target; "not timed" where torch.compile was not."""
    if row["beside"] == "torch.compile" and "over_eager" not in shape:
        return "not timed"
    ratio = f"{shape['speedup']:.3f} ({shape['low']:.3f} to {shape['high']:.3f})"
    return _marked(ratio, met=shape["speedup"] >= row["target"])


def trimul() -> Iterator[Row]:
    """GPU MODE's TriMul: the reference, torch.compile with products in fp16, ours; then the geometric mean."""
    (row,) = (row for row in load("winners_fused_h100.json")["rows"] if row["name"] == "TriMul")
    for shape in row["shapes"]:
        c, eager = shape["constants"], shape.get("over_eager", shape)
        compiled = shape.get("compiled", {}).get("compiled_ms")
        yield (
            f"{c['bs']} × {c['seqlen']}², {c['dim']} channels, {c['distribution']}",
            f"{shape['candidate_us'] / 1e3 * eager['speedup']:.2f}",
            f"{compiled:.3f}" if compiled else "not timed",
            f"{shape['candidate_us'] / 1e3:.3f}",
            _beside(row, shape),
        )
    mean = statistics.geometric_mean(shape["candidate_us"] / 1e3 for shape in row["shapes"])
    yield "geometric mean", "", "", _marked(f"{mean:.3f} (target ≤ 1.10)", met=mean <= 1.1), ""


def written() -> Iterator[Row]:
    """Searches in which a model wrote on an H100: the winner over eager, then over torch.compile on an H200."""
    beside = {row["name"]: row for row in load("winners_search_h200.json")["rows"]}
    later = {row["name"]: row for row in load("winners_fused_h100.json")["rows"]}
    beside["rmsnorm_fp8"] = later["RMSNorm, residual, fp8"] | {"holdout": {"generalises": "not judged"}}
    for run in load("live_h100/live.json")["runs"]:
        best, check = run["best"], beside[run["task"]]
        ratios = [
            _marked(f"{s['name']} {s['speedup']:.2f} ({s['low']:.2f} to {s['high']:.2f})", met=s["speedup"] >= 1.2)
            for s in check["shapes"]
        ]
        unsure = "" if best["confirmed"] else ", unconfirmed"
        yield (
            run["task"],
            f"{best['speedup']:.2f}× ({best['low']:.2f} to {best['high']:.2f}){unsure}",
            "; ".join(ratios) + (", on an H100" if run["task"] == "rmsnorm_fp8" else ""),
            check["holdout"]["generalises"],
            f"{run['written']}; {run['considered']}; {run['measurements']}",
        )


def ablation() -> Iterator[Row]:
    """The same searches with and without cards and diagnoses, by models that saw the prompts alone."""
    beside = {(r["name"], r["origin"].split(", ")[1]): r for r in load("winners_ablation_h200.json")["rows"]}
    for run in load("live_h200/live.json")["runs"]:
        best, check = run["best"], beside[run["task"], run["arm"]]
        yield (
            run["task"],
            "without" if run["arm"] == "unaided" else "with",
            "; ".join(f"{best_so_far:.2f}" for best_so_far in run["curve"][::3]),
            f"{best['speedup']:.2f}× ({best['low']:.2f} to {best['high']:.2f})",
            "; ".join(
                f"{s['name']} {s['speedup']:.2f} ({s['low']:.2f} to {s['high']:.2f}), {s['candidate_us']:.0f} µs"
                for s in check["shapes"]
            ),
            check["holdout"]["generalises"],
            f"{run['written']}; {run['measured']}",
        )


POLICIES = {
    "all": "all twelve",
    "tuner_of_first": "tuner of the first programs",
    "sort_learned": "one sort by the learned forecaster",
    "sort_model": "one sort by the model's forecasts",
    "sort_both": "one sort by both, pooled",
    "learned": "learned forecaster",
    "model": "model's forecasts",
    "cascade": "both (cascade)",
}


def policies() -> Iterator[Row]:
    """Kernels found by measuring a part of what a model wrote, over those found by measuring what came first."""
    found = load("written_policy.json")
    share = found["share_of_best"]["first"]
    yield "first written; plain tuner", *("" for _ in share), f"{share['4']:.3f}"
    for arm, name in POLICIES.items():
        ratios = (_inside_ratio(found["equal_number"][arm][count]) for count in share)
        yield name, *ratios, f"{found['share_of_best'][arm]['4']:.3f}"


def policies_by_task() -> Iterator[Row]:
    """The speed-up that each policy reaches with four measurements, task by task, and winners timed together."""
    found = load("written_policy.json")
    for task, reached in found["by_task"].items():
        together = "; ".join(f"{r:.2f}" for r in found["winners"]["by_task"][task])
        yield task, *(f"{reached[arm]:.2f}" for arm in ("all", "first", *list(POLICIES)[1:])), together
    yield "geometric mean", *("" for _ in POLICIES), "", _inside_ratio(found["winners"]["all"])


def policies_forecast() -> Iterator[Row]:
    """Yield the scores of the forecasts that were made of these candidates before any was measured."""
    judged = {f["name"]: f["figures"] for f in load("evaluate/written.json")["forecasters"]}
    shown = [judged[name] for name in ("pooled", "llm blind", "learned")]
    for key, target in SHOWN.items():
        name, digits = JUDGED[key]
        yield name, *(_inside(f[key], digits) for f in shown), target


def plans() -> Iterator[Row]:
    """Kernels written from the quarter of plans that was forecast best, beside a quarter taken in order."""
    found = load("written_plans.json")
    shown = found["all"]
    yield "share of them in the best quarter", f"{shown['in_best_quarter']['value']:.2f}", "0.25", ""
    yield "the one over the other", _inside(shown["over_as_it_comes"], 2), "1", "≥ 1.5"
    yield "best of them, over the best of as many", _inside(shown["best_at_equal_number"], 2), "1", ""
    paid = _inside(shown["best_at_equal_cost"], 2)
    yield "best of them, over the best of what the same money writes", paid, "1", ""
    yield "pairs over 10 % apart, in order", _inside(shown["order"], 2), "0.5", ""
    for task, draws in found["tasks"].items():
        best = "; ".join(f"{d['best_written']:.2f}" for d in draws)
        first = draws[0]
        beside = f"{first['best_as_it_comes']:.2f}; {first['best_for_the_same']:.2f}; {first['best_of_all']:.2f}"
        yield f"`{task}`: best speed-up, two draws", best, f"{beside} (as many; as much; all 12)", ""


def foreign() -> Iterator[Row]:
    """Yield the scores of forecasts of modules that others wrote, the model's and the pool's bold where they miss."""
    found = load("foreign.json")["figures"]
    names = ("model", "pooled", "learned", "as fast as the reference", "uniform")
    for key, target in FOREIGN.items():
        name, digits = JUDGED[key]
        shown = [found[n]["families"][key] for n in names]
        lower = key in ("crps", "ece")
        told = [_spanned(f, digits, "") for f in shown]
        met = [f[0] <= target if lower else f[0] >= target for f in shown[:2]]
        yield name, *(_marked(t, met=m) for t, m in zip(told, met, strict=False)), *told[2:], f"{target:g}"


def policies_paid() -> Iterator[Row]:
    """Four measurements and the answers, over as many measurements of what came first as the same dollars buy."""
    found = load("written_policy.json")
    for arm in list(POLICIES)[2:]:
        yield POLICIES[arm], *(_inside_ratio(found["equal_cost"][f"{s}_s"][arm]) for s in (1, 10, 30))
    bought = (f"{found['equal_cost'][f'{s}_s']['answers_in_measurements']:.1f}" for s in (1, 10, 30))
    yield "answers to all twelve cost as much as so many measurements", *bought


def _inside_ratio(figure: Mapping[str, float]) -> str:
    return _spanned([figure[k] for k in ("ratio", "low", "high")], 2)


def published() -> Iterator[Row]:
    """Kernels of ours beside KernelAgent's published winners, misses bold."""
    for device in ("h100", "h200"):
        for row in load(f"published_{device}.json")["rows"]:
            t, compiled = row["theirs"], row["compiled"]["compiled_ms"]
            ratio = f"{t['ratio']:.3f} ({t['low']:.3f} to {t['high']:.3f})"
            yield (
                row["problem"].split("_square")[0].replace("_", " "),
                device.upper(),
                f"{row['published_ms']:.3f}",
                f"{t['other_ms']:.3f}",
                f"{compiled:.3f}",
                f"{t['ours_ms']:.3f}",
                _marked(ratio, met=t["verdict"] == "faster"),
            )


ABLATION = (
    "task",
    "cards and diagnoses",
    "best after 1; 4; 7 measured",
    "winner over eager (95 %)",
    "over torch.compile, by shape (95 %)",
    "right on near shapes",
    "written; measured",
)
WRITTEN = (
    *("task", "winner over eager, H100 (95 %)", "over torch.compile, H200, by shape (95 %)", "right on near shapes"),
    "written; considered; measured",
)
TRIMUL = ("shape", "reference, ms", "torch.compile, ms", "ours, ms", "torch.compile over ours (95 %)")
PUBLISHED = ("problem", "GPU", "published, ms", "theirs here", "torch.compile here", "ours", "theirs over ours (95 %)")
BUSY = (
    *("machine", "n each", "told from itself", "interval covers 1", "half-width"),
    *("spread from run to run (by the mean of both calls)", "5 % more work: `slower`; `faster`"),
)


def busy() -> Iterator[Row]:
    """Yield false verdicts, coverage and slow-downs found by the number of busy processes; misses bold."""
    for name, device in (("busy_machine", "CPU"), ("busy_machine_h200", "H200")):
        found = load(f"{name}.json")["summary"]
        by_kind = {(r["extra"] > 0, r["busy"]): r for r in found}
        for beside in sorted({r["busy"] for r in found}):
            same, more = by_kind[False, beside], by_kind.get((True, beside))
            n, covered = same["measurements"], same["covered"]["count"] / same["measurements"]
            slower = more["slower"]["count"] / more["measurements"] if more else 0.0
            wrong = _told(same) / n
            yield (
                f"{device}, quiet"
                if not beside
                else f"beside {beside} busy {'process' if beside == 1 else 'processes'}",
                str(n),
                _marked(f"{wrong:.1%}", met=wrong <= 0.01),
                _marked(f"{covered:.1%}", met=0.93 <= covered <= 0.97),
                f"{same['half_width']:.2%}",
                f"{same['sd']:.2%}" + (f" ({same['sd_by_means']:.2%})" if device == "CPU" else ""),
                f"{_marked(f'{slower:.1%}', met=slower >= (0.6 if beside else 0.9))}; {more['faster']['count']}"
                if more
                else "",
            )


def _told(same: dict[str, Any]) -> int:
    return same["faster"]["count"] + same["slower"]["count"]


TABLES: dict[str, tuple[Row, tuple[Callable[[], Iterator[Row]], ...]]] = {
    "readme": (("what was measured", "result (95 % interval)", "target"), (readme,)),
    "jobs": (("job", "winner (95 %)", "considered; measured", *PHASES, "whole run"), (jobs,)),
    "live": (LIVE, (live,)),
    "equal": (("device", "task", "pairs of runs", "with forecasts; without", "ratio (95 %)"), (equal,)),
    "winners": (("kernel", "shape", "beside", "its time over ours (95 %)", "ours", "target"), (winners,)),
    "trimul": (TRIMUL, (trimul,)),
    "written": (WRITTEN, (written,)),
    "ablation": (ABLATION, (ablation,)),
    "published": (PUBLISHED, (published,)),
    "policies": (("which is measured", *(f"{k} measured" for k in (1, 2, 3, 4, 6)), "share of best, 4"), (policies,)),
    "policies by task": (
        ("task", "all twelve", "first four", *list(POLICIES.values())[1:], "cascade's winner over first four's"),
        (policies_by_task,),
    ),
    "policies forecast": (("figure", "pooled", "model", "learned", "target of the model"), (policies_forecast,)),
    "policies paid": (("which is measured", "at 1 s a measurement", "at 10 s", "at 30 s"), (policies_paid,)),
    "plans": (("of 12 plans a task, 3 are written", "those forecast best (95 %)", "as they come", "target"), (plans,)),
    "replayed": (REPLAYED, (replayed,)),
    "priced": (PRICED, (priced,)),
    "paying": (PAYS, (paying,)),
    "references": (REFERENCES, (references,)),
    "knowing": (KNOWN, (knowing,)),
    "shown": (SHOWN_COLUMNS, (shown,)),
    "families": (FAMILIES, (families,)),
    "foreign": (
        ("figure", "model", "pooled", "learned", "as fast as the reference", "uniform", "target"),
        (foreign,),
    ),
    "stopping": (STOPPING, (stopping,)),
    "forecasting": (ASKED, (forecasting,)),
    "earned": (("first − second", "exact", "pairs", "CRPS", "recovery"), (earned,)),
    "history": (("figure", "even odds", "0 trials", "8 trials", "16 trials"), (history,)),
    "pool": (LEARNED, (pool,)),
    "measuring": (MEASURED, (speed, spread, trust)),
    "itself": (MEASURED, (itself,)),
    "kills": (("figure", "found"), (kills,)),
    "gate": (("figure", "found"), (gate,)),
    "modules": (("figure", "n", "found", "target"), (modules,)),
    "busy": (BUSY, (busy,)),
    "tune": (("order", "share of the best, nothing measured", "after 8 measured", "needed, median"), (tune,)),
    "tuned": (("kernel", "measured", "seconds", "chosen", "best recorded", "speed-up over the file's first"), (tuned,)),
    "first call": (("way", "seconds", "of Triton's own", "slowest kernel's time over Triton's choice"), (first_call,)),
    "per second": (("kernel", "compared", "a second", "with the process's start", "plain script"), (per_second,)),
    "moe": (MOE, (moe,)),
    "inspecting": (MEASURED, (inspecting,)),
    "models": (
        (
            "model",
            "lines with a kernel that helps",
            "over eager",
            "both compiled",
            "both max-autotuned",
            "without kernels, ms: eager; compiled; max-autotuned",
        ),
        (models,),
    ),
    "seedless": (("what was measured", "beside it", "result (95 % interval)"), (seedless,)),
}


def table(name: str) -> str:
    """Return one table as Markdown."""
    heads, parts = TABLES[name]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    lines += [f"| {' | '.join(row)} |" for part in parts for row in part()]
    return "\n".join(lines)


def filled(text: str) -> str:
    """Return a document with each table that it has marks for made anew."""
    return marked.filled(text, {name: table(name) for name in TABLES if f"<!-- {name} -->" in text})


DOCUMENTS = (
    ROOT / "README.md",
    ROOT / "docs" / "commands.md",
    ROOT / "docs" / "results.md",
    ROOT / "docs" / "measuring.md",
    ROOT / "docs" / "tuning.md",
)


def main() -> None:
    """Print tables, or write them into the documents."""
    if sys.argv[1:] == ["--write"]:
        for path in DOCUMENTS:
            path.write_text(filled(path.read_text()))
        return
    for name in sys.argv[1:] or TABLES:
        print(f"<!-- {name} -->\n{table(name)}\n<!-- end of {name} -->\n")


if __name__ == "__main__":
    main()
