"""The sets of "GPU Forecasters" (arXiv 2605.31464): evaluation set, predictions, training pool, pairs, search events.

Bins are taken from the speed-up: the published ones were made with other edges than the prompts show.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from forewarp.archive.forecasts import RecordedForecast
from forewarp.archive.rows import RecordedRow
from forewarp.core import bins
from forewarp.core.errors import UsageError
from forewarp.core.values import Task
from published_sets import made, puct_events, tables
from published_sets.made import Imported, ImportedOutcome, ImportOptions
from published_sets.tables import Record

DATASET = "codezakh/gpu-forecasters"
DEVICE = "NVIDIA A100-SXM4-80GB"
_PAIR = ("source_search", "anchor_code", "candidate_code", "hardware", "aggregated_speedup", "source_id", "pack")
# The column that tells a set, its name, and what it must have.
_SETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "surrogate_label": (
        "set of predictions",
        (
            *("comparison_id", "pack", "surrogate_label", "repeat", "bin_probabilities", "raw_probability_sum"),
            *("parse_failed", "parse_error", "input_tokens", "output_tokens", "elapsed_s"),
        ),
    ),
    "comparison_id": ("evaluation set", ("comparison_id", *_PAIR)),
    "pair_type": ("training pool", ("row_id", "pair_type", *_PAIR)),
    "pair_id": (
        "set of discovery pairs",
        (
            *("source_search", "pair_id", "problem_id", "benchmark_family", "parent_code", "child_code"),
            *("g_speedup", "hardware", "source_id"),
        ),
    ),
    "event_kind": ("log of search events", ("event_index", "event_kind", "payload", "source_search")),
    "n_evaluations": ("summary of searches", ()),
}
_FAMILIES = {
    "trimul": "triangle_multiplication",
    "cross_entropy": "softmax_loss",
    "fp8_quant": "quantisation",
    "gdn_chunk_fwd_h": "recurrence",
    "gdn_chunk_fwd_o": "recurrence",
    "gdn_recompute_w_u": "recurrence",
    "causal_conv1d": "convolution",
}
# Timed against the pack's reference, but shown beside the seed kernel, which is another program.
_OTHER_DENOMINATOR = frozenset({"trimul"})


@dataclass(slots=True)
class _Sets:
    """All rows of the files, by set."""

    sets: dict[str, list[Record]] = field(default_factory=lambda: defaultdict(list))
    left_out: Counter[str] = field(default_factory=Counter[str])
    references: dict[str, str] = field(default_factory=dict[str, str])

    def task(self, pack: str, reference: str = "") -> Task:
        """Return the task of a pack, with the reference that the row shows, else the one seen most often."""
        return made.task(pack, reference or self.references.get(pack, ""), DATASET, "gpumode")


def read(paths: Sequence[Path], options: ImportOptions) -> Imported:
    """Read any mixture of the paper's files; the same row in two files counts once."""
    found = _load(tables.files(paths, (".parquet", ".jsonl")))
    rows = [*_evaluation(found), *_training(found), *_discovery(found), *_events(found, options)]
    return Imported(list(made.with_noise(rows, options)), _forecasts(found, rows), found.left_out)


def _load(files: Sequence[Path]) -> _Sets:
    found = _Sets()
    seen: set[object] = set()
    for file in files:
        mark = _mark(file)
        name, required = _SETS[mark]
        for record in tables.records(file, required, name):
            key = _identity(mark, record)
            if mark == "n_evaluations" or key in seen:
                found.left_out["summaries of searches" if mark == "n_evaluations" else "also in another file"] += 1
                continue
            seen.add(key)
            found.sets[mark].append(record)
    seeds: dict[str, Counter[str]] = defaultdict(Counter)
    for record in (*found.sets["comparison_id"], *found.sets["pair_type"]):
        if record.get("pair_type", "seed") == "seed":
            seeds[record["pack"]][record["anchor_code"]] += 1
    found.references = {pack: counts.most_common(1)[0][0] for pack, counts in seeds.items()}
    return found


def _mark(file: Path) -> str:
    present = tables.columns(file)
    mark = next((name for name in _SETS if name in present), None)
    if mark is None:
        known = "; ".join(f"a {name} has {column}" for column, (name, _) in _SETS.items())
        raise UsageError(
            f"{file} is none of the paper's sets: its columns are {', '.join(present) or 'none'}", hint=known
        )
    return mark


def _identity(mark: str, record: Record) -> object:
    """Return the key by which copies of a row are found: the sets repeat each row in a file of all configurations."""
    names = {
        "surrogate_label": ("comparison_id", "surrogate_label", "repeat"),
        "comparison_id": ("comparison_id", "source_id"),
        "pair_type": ("row_id", "source_id", "aggregated_speedup"),
        "pair_id": ("pair_id", "source_id"),
        "event_kind": ("source_search", "event_index"),
    }
    return mark, *(record[name] for name in names.get(mark, ()))


def _evaluation(found: _Sets) -> Iterator[RecordedRow]:
    for r in found.sets["comparison_id"]:
        if (outcome := _outcome(r, "aggregated_speedup", ("candidate_code", "anchor_code"), found)) is not None:
            yield made.row(
                f"{DATASET}-eval-set",
                r["comparison_id"],
                found.task(r["pack"], r["anchor_code"]),
                made.target(r["hardware"] or DEVICE),
                r["candidate_code"],
                "python",
                outcome,
                family=_FAMILIES.get(r["pack"], ""),
                proposer=Path(r["source_search"]).stem,
                tags=_tags(r, r["pack"]),
            )


def _training(found: _Sets) -> Iterator[RecordedRow]:
    for r in found.sets["pair_type"]:
        if (outcome := _outcome(r, "aggregated_speedup", ("candidate_code", "anchor_code"), found)) is None:
            continue
        seed = r["pair_type"] == "seed"
        anchor = None if seed else made.candidate(r["anchor_code"], "python")
        yield made.row(
            f"{DATASET}-rl-training-pool",
            r["row_id"],
            found.task(r["pack"], r["anchor_code"] if seed else ""),
            made.target(r["hardware"] or DEVICE),
            r["candidate_code"],
            "python",
            outcome,
            against=anchor,
            family=_FAMILIES.get(r["pack"], ""),
            parent=anchor.sha256 if anchor and r["pair_type"] == "parent_edit" else "",
            proposer=Path(r["source_search"]).stem,
            tags=(*_tags(r, r["pack"] if seed else ""), f"pair:{r['pair_type']}"),
        )


def _discovery(found: _Sets) -> Iterator[RecordedRow]:
    for r in found.sets["pair_id"]:
        if (outcome := _outcome(r, "g_speedup", ("child_code", "parent_code"), found)) is None:
            continue
        parent = made.candidate(r["parent_code"], "python")
        yield made.row(
            f"{DATASET}-discovery-pairs",
            r["pair_id"],
            found.task(r["problem_id"]),
            made.target(r["hardware"] or DEVICE),
            r["child_code"],
            "python",
            outcome,
            against=parent,
            family=_FAMILIES.get(r["problem_id"], ""),
            parent=parent.sha256,
            proposer=Path(r["source_search"]).stem,
            tags=(r["benchmark_family"], "pair:parent_edit"),
        )


def _events(found: _Sets, options: ImportOptions) -> Iterator[RecordedRow]:
    searches: dict[str, list[Record]] = defaultdict(list)
    for record in found.sets["event_kind"]:
        searches[record["source_search"]].append(record)
    for search, events in searches.items():
        pack = Path(search).stem.split("__")[0]
        for e in puct_events.evaluations(sorted(events, key=lambda r: r["event_index"]), found.left_out):
            yield made.row(
                f"{DATASET}-puct-search-events",
                f"{search}#{e.index}",
                found.task(pack, "" if pack in found.references else e.seed),
                made.target(options.device or DEVICE),
                e.code,
                "python",
                e.outcome,
                family=_FAMILIES.get(pack, ""),
                parent=made.candidate(e.parent, "python").sha256 if e.parent else "",
                proposer=Path(search).stem,
                tags=_tags({}, pack),
                date=e.date,
            )


def _forecasts(found: _Sets, rows: Sequence[RecordedRow]) -> list[RecordedForecast]:
    outcomes = {r.origin.source_id: r for r in rows if r.origin.source_dataset == f"{DATASET}-eval-set"}
    made_of: list[RecordedForecast] = []
    for r in found.sets["surrogate_label"]:
        outcome = outcomes.get(r["comparison_id"])
        anchor, _, kernel = r["comparison_id"].rpartition("/")[2].partition("__")
        probabilities = None if r["parse_failed"] else _probabilities(r["bin_probabilities"])
        made_of.append(
            RecordedForecast(
                source_dataset=f"{DATASET}-eval-set-predictions",
                comparison=r["comparison_id"],
                task=r["pack"],
                kernel=outcome.candidate.sha256 if outcome else kernel,
                anchor=outcome.measurement.anchor if outcome else anchor,
                forecaster=r["surrogate_label"],
                repeat=r["repeat"],
                probabilities=probabilities,
                raw_sum=tables.number(r["raw_probability_sum"]),
                parse_failed=probabilities is None,
                parse_error=r["parse_error"] or "",
                input_tokens=r["input_tokens"],
                output_tokens=r["output_tokens"],
                seconds=tables.number(r["elapsed_s"]),
                speedup=outcome.measurement.speedup if outcome else None,
            )
        )
    return made_of


def _probabilities(pairs: object) -> tuple[float, ...] | None:
    """Return eight probabilities from (bin 1..8, p); None where there is no mass at all."""
    weights = [0.0] * bins.COUNT
    for pair in map(tables.mapping, tables.sequence(pairs)):
        place, p = pair.get("bin"), tables.positive(pair.get("p"))
        if isinstance(place, int) and 1 <= place <= bins.COUNT and p is not None:
            weights[place - 1] += p
    return bins.normalise(weights) if any(weights) else None


def _outcome(record: Record, speedup: str, texts: Sequence[str], found: _Sets) -> ImportedOutcome | None:
    ratio = tables.positive(record[speedup])
    if ratio is None or not all(record[name] for name in texts):
        found.left_out["rows without a text" if ratio else "no positive speed-up"] += 1
        return None
    return ImportedOutcome("ok", ratio)


def _tags(record: Record, pack: str) -> list[str]:
    """Return warning tags of a row: made to land in a bin, or timed against another program than shown."""
    tags = ["binfiller"] if str(record.get("source_id", "")).startswith("binfiller/") else []
    return [*tags, "other-denominator"] if pack in _OTHER_DENOMINATOR else tags
