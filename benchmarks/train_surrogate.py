"""Train a small forecaster by reinforcement with every reward, from one base model, and record what each one says.

    python benchmarks/train_surrogate.py pool --out results --base-seed 0 --seeds 0 1 2 --deadline 540

No published model is needed: a tokenizer and a transformer of tens of millions of parameters are made here, and learn
the prompts of the training split and the form of a reply, with forecasts of every width around what was measured. From
this base each arm goes the same number of steps: the four rewards with advantages that are centred only, and Brier's
with TRL's default scaling. Then the base and every arm are asked about the test families as the forecaster would ask
them, with six measured trials of each task. Several runs share the GPU as processes; results are written as they come,
and what would not end before the deadline is not begun. `train_surrogate_figures.py` makes the figures.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import warm_start
from model_forecaster import ModelForecaster, with_adapter
from provenance import provenance
from warm_start import Warm

from forewarp.archive.forecasts import read_forecasts, write_forecasts
from forewarp.archive.rows import RecordedRow
from forewarp.surrogate.evaluation import backtest
from forewarp.training import chat, config, model, rows, run
from forewarp.training.config import Config

ARMS: dict[str, dict[str, Any]] = {
    "correctness": {"shape": "correctness"},
    "brier": {"shape": "brier"},
    "crps": {"shape": "crps"},
    "decision": {"shape": "decision"},
    "brier-group": {"shape": "brier", "scale": "group"},
    "brier-slow": {"shape": "brier", "rate": 0.3},
}
HEAD = '{"analysis":"","forecasts":[{"candidate":"c1","rationale":"","median":'
PIECES = (HEAD, ',"p":[', '],"p_valid":', "}]}")
"""The parts of a reply that never change are one token each, so that a reply has some 22 tokens."""

TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
WORDS = r"(?<![\d.])\d\.\d\d|\p{N}{1,3}| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+"
SHOWN: dict[str, Any] = {"history": 6, "candidates": 1, "source": 1200, "other_source": 0, "invalid": False}


@dataclass(frozen=True)
class Job:
    """One run of one arm."""

    arm: str
    seed: int

    @property
    def name(self) -> str:
        """What its folder and its process are called."""
        return f"{self.arm}-{self.seed}"


def tokenizer(texts: Sequence[str], vocabulary: int) -> Any:
    """Return a byte-level BPE of these texts, in which each number from 0.00 to 9.99 is one token."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(WORDS), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )
    made.decoder = decoders.ByteLevel()
    roles = ["<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(PIECES),
        special_tokens=roles,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    numbers = " ".join(f"{i / 100:.2f}" for i in range(1000))
    made.train_from_iterator([*texts, *[numbers] * 3], trainer)
    made.add_tokens([AddedToken(piece, special=False, normalized=False) for piece in PIECES])
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="<|pad|>",
        eos_token="<|end|>",
        chat_template=TEMPLATE,
        truncation_side="left",
        clean_up_tokenization_spaces=False,
    )


def untrained(texts: Sequence[str], args: argparse.Namespace, folder: Path) -> int:
    """Write tokenizer and random weights, and return how many weights there are."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokens = tokenizer(texts, args.vocabulary)
    torch.manual_seed(args.base_seed)
    made = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokens),
            hidden_size=args.width,
            intermediate_size=3 * args.width,
            num_hidden_layers=args.layers,
            num_attention_heads=max(1, args.width // 64),
            num_key_value_heads=max(1, args.width // 128),
            max_position_embeddings=8192,
            tie_word_embeddings=True,
            pad_token_id=tokens.pad_token_id,
            eos_token_id=tokens.eos_token_id,
            bos_token_id=None,
        )
    )
    made.save_pretrained(folder)
    tokens.save_pretrained(folder)
    return sum(p.numel() for p in made.parameters())


def base_run(args: argparse.Namespace) -> Config:
    """Return the supervised run that makes the base model of the random weights."""
    return config.make(
        {
            "base": str(args.work / "untrained"),
            "seed": args.base_seed,
            "dtype": "float32",
            "lora": False,
            "data": {"pools": [str(args.pool)], **SHOWN},
            "reward": {"validity": 0.0},
            "grpo": {"steps": 0, "prompt_tokens": args.prompt_tokens, "reply_tokens": 40},
            "watch": {"rows": args.watch_rows, "sequences": 128},
        }
    )


def arm_run(args: argparse.Namespace, job: Job) -> Config:
    """Return the run of one arm from the base model."""
    arm = ARMS[job.arm]
    grpo = {"steps": args.steps, "prompts": args.prompts, "group": 8, "warmup": 5}
    grpo |= {"learning_rate": args.rate * arm.get("rate", 1.0)}
    grpo |= {"prompt_tokens": args.prompt_tokens, "reply_tokens": 40, "sequences": args.sequences}
    return config.make(
        {
            "base": str(args.work / "base"),
            "seed": job.seed,
            "lora": {"rank": 32, "alpha": 32, "modules": "all-linear"},
            "data": {"pools": [str(args.pool)], **SHOWN},
            "reward": {"shape": arm["shape"], "validity": 0.0},
            "grpo": grpo | {"scale": arm.get("scale", "none")},
            "watch": {"rows": args.watch_rows, "every": args.watch_every, "first": False, "sequences": 128}
            | {"save_every": 10_000},
        }
    )


def ask_test(
    built: Any, tokens: Any, args: argparse.Namespace, name: str, seed: int, samples: int = 1
) -> dict[str, Any]:
    """Ask a model about the test families; the forecasts go into a file, and what was counted is returned."""
    from transformers import set_seed

    set_seed(seed)
    answerer = model.Answerer(
        built, tokens, prompt_tokens=args.prompt_tokens, reply_tokens=40, sequences=args.ask_sequences
    )
    shown = config.Data(pools=["-"], **SHOWN).shown
    forecaster = ModelForecaster(name, answerer, shown=shown, samples=samples)
    start = time.perf_counter()
    said = backtest.as_recorded(backtest.run(forecaster, pickle.loads((args.work / "plan.pickle").read_bytes())))
    seconds = time.perf_counter() - start
    write_forecasts([replace(f, repeat=seed) for f in said], args.work / "said" / f"{name}-{seed}.parquet")
    return {"asked": len(said), "replies": forecaster.replies, "unread": forecaster.unread, "ask_s": seconds}


def untrained_model(args: argparse.Namespace, recorded: dict[str, list[RecordedRow]]) -> None:
    """Make tokenizer and random weights, and count them."""
    settings = config.Data(pools=["-"], **SHOWN)
    asked = rows.ask(recorded["train"], history=6, candidates=1, shown=settings.shown, invalid=False, seed=1000)
    texts = [f"{r.system}\n{r.user}" for r in asked]
    weights = untrained(texts, args, args.work / "untrained")
    tokens = model.tokenizer(str(args.work / "untrained"))
    lengths = sorted(map(len, tokens([chat.prompt(tokens, r.system, r.user) for r in asked])["input_ids"]))
    over = sum(n > args.prompt_tokens for n in lengths)
    told = {"median": lengths[len(lengths) // 2], "most": lengths[-1], "left_out": over, "of": len(lengths)}
    about = {"weights": weights, "vocabulary": len(tokens), "prompt_tokens": told}
    written(args.work / "about.json", json.dumps(about).encode())


def make_base(args: argparse.Namespace) -> None:
    """Train the base model of random weights."""
    recorded = read(args)
    untrained_model(args, recorded)
    settings = base_run(args)
    tokens = model.tokenizer(settings.base)
    # Seeds of their own, so that reinforcement sees prompts with other trials.
    seeds = range(args.base_seed + 1000, args.base_seed + 1000 + args.draws)
    draws = [run.fitting(settings, tokens, run.ask(settings, recorded["train"], seed)) for seed in seeds]
    warm = Warm(args.epochs, args.whole, args.warm_rate, args.warm_batch, args.base_seed)
    import_module("transformers").set_seed(args.base_seed)
    built = model.base_model(settings)
    data = warm_start.dataset(warm, draws, rows.climatology(recorded["train"]), tokens)
    warm_start.train(warm, args.work / "warm-trainer", built, tokens, data)
    model.save(built, tokens, args.work / "base")


def ask_base(args: argparse.Namespace) -> None:
    """Ask the base model, before anything was reinforced."""
    settings = base_run(args).model_copy(update={"base": str(args.work / "base"), "dtype": "bfloat16"})
    built, tokens = model.base_model(settings), model.tokenizer(settings.base)
    found: dict[str, Any] = {"arm": "base", "peak_gib": None}
    for seed in args.seeds:
        found[f"seed_{seed}"] = ask_test(built, tokens, args, "base", seed)
    if args.samples > 1:
        found["pooled"] = ask_test(built, tokens, args, f"base-mean-of-{args.samples}", args.seeds[0], args.samples)
    (args.work / "said" / "base.json").write_text(json.dumps(found))


def do(args: argparse.Namespace, job: Job) -> None:
    """Run one arm, ask it, and leave what came of it."""
    import torch

    begun = time.perf_counter()
    folder = args.work / job.name
    done = run.train(
        arm_run(args, job), folder, prompts=pickle.loads((args.work / f"rows-{job.seed}.pickle").read_bytes())
    )
    trained_s = time.perf_counter() - begun
    settings = arm_run(args, job)
    built, tokens = with_adapter(settings, done.adapter), model.tokenizer(settings.base)
    counted = ask_test(built, tokens, args, job.arm, job.seed)
    peak = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else None
    found = {
        "arm": job.arm,
        "seed": job.seed,
        "train_s": trained_s,
        "peak_gib": peak,
        "watched": done.figures,
        **counted,
    }
    (args.work / "said" / f"{job.name}.json").write_text(json.dumps(found))


def read(args: argparse.Namespace) -> dict[str, list[RecordedRow]]:
    """Return the pool's rows by split, the first of each if there is a limit."""
    found = rows.read([str(args.pool)], ("train", "validation", "test"))
    return {k: v[: args.limit] for k, v in found.items()} if args.limit else found


def written(path: Path, data: bytes) -> None:
    """Write a file that is there whole or not at all."""
    part = path.with_suffix(".part")
    part.write_bytes(data)
    part.replace(path)


def collect(args: argparse.Namespace, info: dict[str, Any]) -> None:
    """Write everything that there is so far: forecasts, counts, and progress."""
    said, name = args.work / "said", f"train_surrogate_{args.base_seed}"
    rows_ = [f for path in sorted(said.glob("*.parquet")) for f in read_forecasts(path)]
    if rows_:
        write_forecasts(rows_, args.out / f"{name}.parquet")
    runs = [json.loads(p.read_text()) for p in sorted(said.glob("*.json"))]
    (args.out / f"{name}.json").write_text(json.dumps(info | {"runs": runs}, indent=1) + "\n")
    with gzip.open(args.out / f"{name}.progress.jsonl.gz", "wt") as file:
        for path in sorted(args.work.glob("*/progress.jsonl")):
            for line in path.read_text().splitlines():
                file.write(json.dumps({"run": path.parent.name, **json.loads(line)}) + "\n")
    with (args.out / f"{name}.log").open("w") as file:
        for path in sorted(args.work.glob("*.log")):
            file.write(f"==== {path.name}\n{path.read_text(errors='replace')[-6000:]}\n")


@dataclass
class Child:
    """A process that does one thing, with its output in a file."""

    name: str
    process: subprocess.Popen[bytes]
    since: float
    gpu: int


def start(args: argparse.Namespace, name: str, since: float, beside: Sequence[Child] = ()) -> Child:
    """Start this script again for one thing, on the GPU with the fewest of the children that run `beside` it."""
    command = [sys.executable, __file__, *sys.argv[1:], "--do", name]
    gpu = min(range(args.gpus), key=lambda g: sum(c.gpu == g for c in beside))
    seen = {} if args.gpus == 1 else {"CUDA_VISIBLE_DEVICES": str(gpu)}
    with (args.work / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=os.environ | seen)
    return Child(name, process, since, gpu)


def prepare(args: argparse.Namespace, base: Child) -> dict[str, Any]:
    """Write what the arms need, as soon as the tokenizer is there, and return what is known of the base."""
    plan = backtest.plan(read(args)["test"], history=SHOWN["history"], seed=0)
    written(args.work / "plan.pickle", pickle.dumps(plan.groups))
    while not (args.work / "about.json").is_file() and base.process.poll() is None:
        time.sleep(0.2)
    if not (args.work / "about.json").is_file():
        raise SystemExit((args.work / "base.log").read_text()[-3000:])
    recorded = read(args)
    tokens = model.tokenizer(str(args.work / "untrained"))
    for seed in args.seeds:
        found = run.training_prompts(arm_run(args, Job(args.arms[0], seed)), tokens, recorded)
        written(args.work / f"rows-{seed}.pickle", pickle.dumps(found))
    return json.loads((args.work / "about.json").read_text())


def main() -> None:
    """Make the base, run the arms, some at a time, and write what comes."""
    args = parsed()
    if args.do:
        job = args.do.rpartition("-")
        special = {"base": make_base, "ask-base": ask_base}
        special[args.do](args) if args.do in special else do(args, Job(job[0], int(job[2])))
        return
    begun = time.monotonic()
    args.out.mkdir(parents=True, exist_ok=True)
    (args.work / "said").mkdir(parents=True, exist_ok=True)

    def elapsed() -> float:
        return time.monotonic() - begun

    base = start(args, "base", 0.0)
    about = prepare(args, base)
    told = {k: v for k, v in vars(args).items() if k not in ("work", "out", "pool", "do")}
    seconds: dict[str, float] = {"prepared": elapsed()}
    info: dict[str, Any] = {"provenance": provenance(), "settings": told | {"shown": SHOWN, "arms": ARMS}, **about}
    info["provenance"]["versions"] |= {n: metadata.version(n) for n in ("trl", "transformers", "peft")}
    info["seconds"] = seconds
    print(f"{about}, prepared after {elapsed():.0f} s", flush=True)
    if base.process.wait():
        collect(args, info)
        raise SystemExit((args.work / "base.log").read_text()[-3000:])
    seconds["base"] = elapsed()
    collect(args, info)
    print(f"base after {elapsed():.0f} s", flush=True)
    waiting = [Job(arm, seed) for seed in args.seeds for arm in args.arms]
    running = [start(args, "ask-base", elapsed())]
    longest = args.expected
    while running or waiting:
        while waiting and len(running) < args.jobs and elapsed() + longest < args.deadline:
            running.append(start(args, waiting.pop(0).name, elapsed(), running))
        if not running:
            break
        for child in [c for c in running if c.process.poll() is not None]:
            running.remove(child)
            took = elapsed() - child.since
            longest = longest if child.name == "ask-base" else max(longest, took)
            print(f"{child.name}: {took:.0f} s, exit {child.process.returncode}, at {elapsed():.0f} s", flush=True)
            seconds[child.name] = took
            collect(args, info)
        if elapsed() > args.deadline + args.grace:
            for child in running:
                child.process.kill()
                print(f"{child.name} was ended at {elapsed():.0f} s", flush=True)
            info["ended"] = [child.name for child in running]
            break
        time.sleep(0.2)
    info["not_begun"] = [job.name for job in waiting]
    seconds["all"] = elapsed()
    collect(args, info)
    print(f"done after {elapsed():.0f} s; not begun: {len(waiting)}", flush=True)


def parsed() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="what is kept")
    parser.add_argument("--work", type=Path, required=True, help="models and single results")
    parser.add_argument("--base-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=[a for a in ARMS if a != "brier-slow"])
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--sequences", type=int, default=8)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--whole", type=int, default=2)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--warm-rate", type=float, default=1e-3)
    parser.add_argument("--warm-batch", type=int, default=16)
    parser.add_argument("--prompt-tokens", type=int, default=3072)
    parser.add_argument("--watch-rows", type=int, default=128)
    parser.add_argument("--watch-every", type=int, default=20)
    parser.add_argument("--ask-sequences", type=int, default=128)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--gpus", type=int, default=1, help="the processes are spread over so many")
    parser.add_argument(
        "--deadline", type=float, default=math.inf, help="what would not end by then, in seconds, is not begun"
    )
    parser.add_argument("--grace", type=float, default=20.0)
    parser.add_argument("--expected", type=float, default=60.0, help="seconds of a run, before one was seen")
    parser.add_argument("--do", default="", help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=int, default=0, help="first rows of each split, to try the script")
    return parser.parse_args()


if __name__ == "__main__":
    main()
