"""Whole models: profile, searches for the top lines that begin without a kernel, winners in, the whole judged.

    python benchmarks/models.py --device cuda --out benchmarks/results/models_h200.json --for 550
    python benchmarks/models.py --device cuda --compile --out benchmarks/results/models_compile_h200.json
    python benchmarks/models.py --device cpu --out benchmarks/results/models_cpu.json

The models are those of `model_files/`, with random weights: in bf16 at real sizes on a GPU, small in fp32 on a CPU.
Each step is the command that a user would run, with a cache and an archive of its own; `models_plain.py` then times the
model as it is, under torch.compile and under torch.compile(max-autotune), each with and without the kept kernels, in a
process without forewarp. Each model's row is written as it comes, and a later call goes on with those that have none;
`--for` begins none after so many seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from provenance import write

HERE = Path(__file__).parent
SMALL = {
    "llama": {"LENGTH": 64, "WIDTH": 128, "HEADS": 4, "KEYS": 2, "HIDDEN": 256, "LAYERS": 3},
    "dit": {"BATCH": 2, "LENGTH": 64, "WIDTH": 144, "HEADS": 4, "LAYERS": 3},
    "mamba": {"BATCH": 2, "LENGTH": 128, "WIDTH": 64, "HEAD": 16, "STATE": 16, "CHUNK": 32, "LAYERS": 2},
}
"""Sizes for the CPU device."""


def model_text(name: str, device: str) -> str:
    """Return a model's file, on a CPU with small sizes."""
    text = (HERE / "model_files" / f"{name}.py").read_text()
    if device != "cpu":
        return text
    line = next(line for line in text.splitlines() if line.startswith("BATCH,"))
    names, values = (part.split(", ") for part in line.split(" = "))
    sizes = [str(SMALL[name].get(key, value)) for key, value in zip(names, values, strict=True)]
    text = text.replace(line, f"{', '.join(names)} = {', '.join(sizes)}")
    return text.replace("DTYPE = torch.bfloat16", "DTYPE = torch.float32")


class Steps:
    """Commands on one model, in a folder of its own."""

    def __init__(self, folder: Path, device: str, limit_s: float) -> None:
        self.folder, self.device, self.until = folder, device, time.monotonic() + limit_s
        self.environment = os.environ | {"XDG_CACHE_HOME": str(folder / "cache")}
        self.seconds: dict[str, float] = {}

    def left(self) -> float:
        """Return the seconds that are left."""
        return max(1.0, self.until - time.monotonic())

    def run(self, name: str, *words: str) -> dict[str, Any]:
        """Run a verb and return its document, or one of the error."""
        common = ["--device", self.device, "--json"]
        common += ["--archive", str(self.folder / "archive.db")]
        return self.python(name, "-m", "forewarp.cli.main", *words, *common)

    def python(self, name: str, *words: str) -> dict[str, Any]:
        """Run Python and return the JSON that it prints last."""
        begun, limit_s = time.monotonic(), self.left()
        try:
            done = subprocess.run(
                [sys.executable, *words], capture_output=True, text=True, env=self.environment, timeout=limit_s
            )
            document = json.loads(done.stdout[done.stdout.index("{") :])
        except subprocess.TimeoutExpired:
            document = {"status": "error", "summary": f"{name}: not done after {limit_s:.0f} s"}
        except ValueError:
            document = {"status": "error", "summary": f"{name}: {done.stderr[-2000:]}"}
        self.seconds[name] = time.monotonic() - begun
        print(f"  {name}: {document.get('summary', '')[:160]} ({self.seconds[name]:.0f} s)", flush=True)
        return document


def one(name: str, args: argparse.Namespace, limit_s: float) -> dict[str, Any]:
    """Return a model's row."""
    with tempfile.TemporaryDirectory(prefix="forewarp-models-") as temporary:
        steps = Steps(Path(temporary), args.device, limit_s)
        model, out = steps.folder / f"{name}.py", steps.folder / "out"
        patched = out / "model_new.py"
        model.write_text(model_text(name, args.device))
        way = ["--compile"] if args.compile else []
        profile = steps.run("profile", "profile", str(model), "--deadline", "60", *way)
        row: dict[str, Any] = {"model": name, "seconds": steps.seconds, "profile": profile}
        if profile["status"] != "ok":
            return row
        words = ["optimize", str(model), "--top", str(args.top), "--budget", str(args.budget), "--out", str(out), *way]
        row["optimize"] = steps.run("optimize", *words, "--deadline", str(args.deadline))
        row["problems"] = {file.stem: file.read_text() for file in sorted(out.glob("line*.py"))}
        arms = [str(patched)] if patched.is_file() else []
        words = [str(HERE / "models_plain.py"), args.device, str(args.seconds), str(model), *arms]
        row["plain"] = steps.python("plain", *words)
        return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--for", dest="limit_s", type=float, default=1e5, help="seconds")
    parser.add_argument("--only", action="append", choices=sorted(SMALL), default=[])
    parser.add_argument("--top", type=int, default=3, help="lines of the profile")
    parser.add_argument("--budget", type=int, default=29, help="measurements in all")
    parser.add_argument("--deadline", type=float, default=130.0, help="seconds in all")
    parser.add_argument("--compile", action="store_true", help="judge under torch.compile")
    parser.add_argument("--seconds", type=float, default=4.0, help="of timing each pair in the plain process")
    args = parser.parse_args()
    until = time.monotonic() + args.limit_s
    rows = json.loads(args.out.read_text())["rows"] if args.out.exists() else []
    names = [n for n in args.only or SMALL if n not in {r["model"] for r in rows if "plain" in r}]
    for place, name in enumerate(names):
        left = until - time.monotonic()
        if left < 60:
            break
        print(name, flush=True)
        row = one(name, args, left / (len(names) - place))
        rows = [*(r for r in rows if r["model"] != name), row]
        write(args.out, {"rows": rows})


if __name__ == "__main__":
    main()
