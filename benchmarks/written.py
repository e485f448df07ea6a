"""Candidates that a model writes before any is measured, and blind forecasts of them: prompts and answers.

    python benchmarks/written.py propose FOLDER     # FOLDER/prompts/TASK.DIRECTION.md: the product's own first prompts
    python benchmarks/written.py forecast FOLDER    # FOLDER/blind/TASK.N.md, about FOLDER/pool/TASK/seeds/*
    python benchmarks/written.py answers FOLDER     # FOLDER/blind/TASK.N.answer.md to FOLDER/answers.parquet
    python benchmarks/written.py keep FOLDER        # all prompts and answers word by word, FOLDER/prompts.jsonl.gz
    python benchmarks/record_pool.py --folder FOLDER/pool --device cuda --out FOLDER/rows        # where the GPU is
    python benchmarks/assemble_pool.py FOLDER/rows*.jsonl.gz --folder FOLDER/pool --target h100 --out FOLDER/measured
    python benchmarks/written_policy.py FOLDER/measured      # which the answers are copied to

What a model answered lies in FOLDER/answers/TASK/NN_DIRECTION.*: a line `#IDEA …`, then the file; FOLDER/pool has the
same without that line, names mended where they did not compile. Nothing has been measured when prompts are made but
the references (`FOLDER/references.json`), as `forewarp optimize` measures them before a search. A forecast's prompt is
what a model is sent, with the schema of the reply written out, about eight candidates at most, whose order is drawn, so
that it tells nothing of how they were written.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from forewarp.archive.forecasts import RecordedForecast, write_forecasts
from forewarp.archive.pools.parquet import read_pool
from forewarp.core.protocols import Executor, Known, Subject
from forewarp.core.values import Target, Task
from forewarp.gpu_runner.devices import known_targets
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import task as tasks
from forewarp.prompts.render import render
from forewarp.search.proposers import operators
from forewarp.search.proposers.context import prompt
from forewarp.search.proposers.operators import Directive
from forewarp.search.proposers.past import Past
from forewarp.surrogate import reference, replies
from forewarp.surrogate.alike import ExamplePool
from forewarp.surrogate.llm import BATCH
from forewarp.surrogate.questions import Shown, question, system_prompt
from forewarp.surrogate.reference import ReferenceTime

HERE = Path(__file__).parent / "winners" / "written"
NAMES = tuple(sorted(p.parent.name for p in HERE.glob("*/task.toml")))
CONDITION = "blind"
CHARS_A_TOKEN = 4
"""By which tokens of prompts and answers are counted that no provider counted."""


def propose(folder: Path, executor: Executor) -> None:
    """Write the prompts of a first round, one for each direction to start in."""
    (folder / "prompts").mkdir(exist_ok=True)
    for name in NAMES:
        task = tasks.load(str(HERE / name)).without_seeds()
        past = Past(task, executor.target, Known(signatures=executor.describe(task)))
        system = render("propose_system.j2", languages=past.languages)
        for operator in operators.FIRST:
            text = prompt(past, Directive(operator), edits=False)
            (folder / "prompts" / f"{name}.{operator.name}.md").write_text(f"{system}\n\n{text}")


def subjects_of(folder: Path, name: str, executor: Executor) -> tuple[Task, list[Subject]]:
    """Return a task with its candidates that compile, in an order that is drawn."""
    task = tasks.load(str(folder / "pool" / name)).without_seeds()
    seeds = [candidates.load(p) for p in sorted((folder / "pool" / name / "seeds").iterdir())]
    with ThreadPoolExecutor(2) as pool:
        builds = list(pool.map(lambda c: executor.compile(task, c), seeds))
    found = [Subject(c, b) for c, b in zip(seeds, builds, strict=True) if b.status == "ok"]
    random.Random(f"{name}, asked").shuffle(found)
    return task, found


def parts(subjects: list[Subject]) -> Iterator[list[Subject]]:
    """Yield the candidates of each prompt: as few prompts as there must be, of about the same length."""
    count = -(-len(subjects) // BATCH)
    for i in range(count):
        yield subjects[i * len(subjects) // count : (i + 1) * len(subjects) // count]


def ask(folder: Path, asked: Mapping[str, tuple[Task, list[Subject], Target, ReferenceTime | None]]) -> None:
    """Write the prompts that ask for forecasts of each task's candidates, and which kernels each is about."""
    (folder / "blind").mkdir(exist_ok=True)
    pool = ExamplePool(read_pool(tasks.BUNDLED_POOL))
    schema = json.dumps(replies.SpeedupForecasts.model_json_schema(), indent=1)
    kernels: dict[str, list[str]] = {}
    for name, (task, subjects, target, time) in asked.items():
        shown = Shown(references={task.sha256: time} if time else {})
        alike = pool.nearest(task, target, subjects)
        for number, part in enumerate(parts(subjects), 1):
            text = question(task, target, part, (), shown, alike).text
            whole = (
                f"{system_prompt()}\n{text}\n\nAnswer with one JSON object of this schema and nothing else:\n{schema}\n"
            )
            (folder / "blind" / f"{name}.{number}.md").write_text(whole)
            kernels[f"{name}.{number}"] = [s.candidate.sha256 for s in part]
    (folder / "asked.json").write_text(json.dumps(kernels, indent=1))


def forecast(folder: Path, executor: Executor) -> None:
    """Write the prompts about the candidates that compile."""
    known = json.loads((folder / "references.json").read_text())
    asked: dict[str, tuple[Task, list[Subject], Target, ReferenceTime | None]] = {}
    for name in NAMES:
        task, subjects = subjects_of(folder, name, executor)
        operations = reference.count(executor.describe(task))
        time = ReferenceTime(known["tasks"][name]["seconds"], operations=operations, versions=known["versions"])
        asked[name] = task, subjects, executor.target, time
    ask(folder, asked)


def answers(folder: Path) -> None:
    """Read what was answered, as recorded forecasts; tokens are counted by characters, input shared by candidates."""
    found: list[RecordedForecast] = []
    for key, kernels in json.loads((folder / "asked.json").read_text()).items():
        sent = (folder / "blind" / f"{key}.md").read_text()
        said = (folder / "blind" / f"{key}.answer.md").read_text()
        reply = replies.read(said, len(kernels))
        for place, kernel in enumerate(kernels):
            made = replies.pooled(replies.about(reply, place)[:1] if reply else [], "llm", "it cannot be read")
            found.append(
                RecordedForecast(
                    source_dataset=folder.name,
                    comparison=CONDITION,
                    task=key.rpartition(".")[0],
                    kernel=kernel,
                    anchor="reference",
                    forecaster="llm",
                    repeat=0,
                    probabilities=made.probabilities if made.raw_sum else None,
                    raw_sum=made.raw_sum,
                    parse_failed=not made.raw_sum,
                    parse_error="" if made.raw_sum else made.rationale,
                    input_tokens=len(sent) // CHARS_A_TOKEN // len(kernels),
                    seconds=None,
                    speedup=None,
                    output_tokens=len(said) // CHARS_A_TOKEN // len(kernels),
                    p_valid=made.p_valid,
                    mean_log2=made.mean_log2,
                    sd_log2=made.sd_log2,
                    rationale=made.rationale,
                    prompt_sha256=hashlib.sha256(sent.encode()).hexdigest(),
                )
            )
    print(f"{write_forecasts(found, folder / 'answers.parquet')} forecasts")


def keep(folder: Path) -> None:
    """Write every prompt with its answers, as they were."""
    with gzip.open(folder / "prompts.jsonl.gz", "wt") as file:
        for sent in sorted((folder / "prompts").iterdir()):
            name, direction, _ = sent.name.split(".")
            paths = sorted((folder / "answers" / name).glob(f"*_{direction}.*"))
            said = {p.name: p.read_text() for p in paths}
            file.write(json.dumps({"asked": sent.stem, "prompt": sent.read_text(), "answers": said}) + "\n")
        for key, kernels in json.loads((folder / "asked.json").read_text()).items():
            prompt, answer = ((folder / "blind" / f"{key}{end}.md").read_text() for end in ("", ".answer"))
            file.write(json.dumps({"asked": key, "kernels": kernels, "prompt": prompt, "answer": answer}) + "\n")


def main() -> None:
    """Write or read what the step needs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("propose", "forecast", "answers", "keep"))
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.step in ("answers", "keep"):
        (answers if args.step == "answers" else keep)(args.folder)
        return
    executor = LocalExecutor(known_targets()["h100"])
    try:
        (propose if args.step == "propose" else forecast)(args.folder, executor)
    finally:
        executor.close()


if __name__ == "__main__":
    main()
