"""Record what a user reads when the provider of the language model fails, in each way of docs/terminal.md.

    python benchmarks/provider_failures.py --out benchmarks/results/conversations/provider_failures.jsonl

A provider on the loopback fails on purpose. One conversation has a turn for each way, each by
`forewarp -p … --continue` as a user would; its record is the result, and what each turn printed is shown here.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.faulty_provider import Provider, Reply, serving

GOOD = Reply("All is well again.")
SILENCE_S = 2
"""Seconds that the provider may be silent, here."""


@dataclass(frozen=True)
class Failure:
    """A way to fail: what the provider answers, one reply for each request, and further flags of the command."""

    name: str
    replies: Sequence[Reply]
    flags: Sequence[str] = ()
    base_url: str = field(default="")


def calls(*arguments: str, tool: str = "read_file") -> list[Reply]:
    """Return replies that call a tool, one with each of the arguments."""
    return [Reply(calls=[(tool, text)]) for text in arguments]


MALFORMED = ['{"path": "mine.cpp"', '{"file": 3}', "[1, 2]", '"mine.cpp"', "null"]
REFUSED = "The request was refused."
TOO_LONG = "This model's maximum context length is 8192 tokens, however you requested 9000 tokens."
FAILURES = [
    Failure("a malformed call", [*calls(MALFORMED[0]), GOOD]),
    Failure("malformed calls without end", calls(*MALFORMED, *MALFORMED)),
    Failure("an unknown tool", [*calls("{}", tool="run_python"), GOOD]),
    Failure("unknown tools without end", [r for n in range(9) for r in calls("{}", tool=f"tool_{n}")]),
    Failure("an empty answer", [Reply(), GOOD]),
    Failure("empty answers without end", [Reply()]),
    Failure("a call written as text", [Reply('<tool_call>{"name": "list_files"}</tool_call>'), GOOD]),
    Failure("one call over and over", calls("{}", tool="list_files")),
    Failure(
        "steps without end",
        calls(*(json.dumps({"pattern": f"*{n}"}) for n in range(50)), tool="list_files"),
        ["--max-steps", "7"],
    ),
    Failure(
        "tokens beyond the cap",
        calls(*(json.dumps({"pattern": f"*{n}"}) for n in range(50)), tool="list_files"),
        ["--max-tokens", "45000"],
    ),
    Failure("a stream that breaks off", [Reply("Half of an ans", breaks="middle"), GOOD]),
    Failure("a stream of garbage", [Reply("Half of an ans", breaks="garbage"), GOOD]),
    Failure("a stream without its end", [Reply("Half of an answer", finish=""), GOOD]),
    Failure("a stream that is silent", [Reply("Half of an answer", silent_s=60, pings=True), GOOD]),
    Failure("an answer that is cut off", [Reply("Half of an answer", finish="length"), GOOD]),
    Failure("answers cut off without end", [Reply("Half of an answer", finish="length")]),
    Failure("HTTP 400", [Reply(status=400, message="tools are not supported by this model")]),
    Failure("HTTP 401", [Reply(status=401, message="Incorrect API key provided")]),
    Failure("HTTP 402", [Reply(status=402, message="Insufficient balance")]),
    Failure("HTTP 403", [Reply(status=403, message="Your region is not supported")]),
    Failure("HTTP 404", [Reply(status=404, message="The model `weak` does not exist")]),
    Failure(
        "HTTP 429, soon over", [Reply(status=429, message="Rate limit reached", headers={"retry-after": "2"}), GOOD]
    ),
    Failure(
        "HTTP 429, till tomorrow", [Reply(status=429, message="Daily limit reached", headers={"retry-after": "86400"})]
    ),
    Failure("HTTP 500, once", [Reply(status=500, message="Internal error"), GOOD]),
    Failure("HTTP 529, once", [Reply(status=529, message="Overloaded"), GOOD]),
    Failure("HTTP 503 without end", [Reply(status=503, message="Service unavailable")]),
    Failure("nobody there", [GOOD], base_url="http://127.0.0.1:9/v1"),
    Failure(
        "a context that is full, once", [Reply(status=400, message=TOO_LONG, code="context_length_exceeded"), GOOD]
    ),
    Failure("a context that is always full", [Reply(status=400, message=TOO_LONG, code="context_length_exceeded")]),
    Failure("a content filter", [Reply("I will not", finish="content_filter")]),
    Failure("an unpriced model with a cap in dollars", [GOOD], ["--max-usd", "1"], "http://provider.example/v1"),
    Failure("nothing, in the end", [GOOD]),
]


def turn(failure: Failure, provider: Provider, folder: Path, *, first: bool) -> tuple[int, str, float]:
    """Do a turn by the command line; return its exit code, what it printed and the seconds that it took."""
    provider.asked.clear()
    provider.script[:] = failure.replies
    url = failure.base_url or f"{provider.url}/v1"
    command = ["forewarp", "-p", f"What about {failure.name}?", "--model", "openai:weak", "--base-url", url]
    command += ["--archive", str(folder / "archive.db"), *failure.flags, *([] if first else ["--continue"])]
    began = time.monotonic()
    variables = {"FOREWARP_MODEL_TIMEOUT_S": str(SILENCE_S), "OPENAI_API_KEY": "none", "NO_COLOR": "1"}
    ended = subprocess.run(
        command, cwd=folder, env={**os.environ, **variables}, text=True, capture_output=True, stdin=subprocess.DEVNULL
    )
    return ended.returncode, ended.stdout + ended.stderr, time.monotonic() - began


def recorded(folder: Path) -> Iterator[str]:
    """Yield the lines of the record, without the model's memory and the folder's place."""
    [record] = (p for p in (folder / "conversations").glob("*.jsonl") if p.name != "prompts.jsonl")
    for line in record.read_text().splitlines():
        if '"type": "Messages"' not in line:
            yield line.replace(str(folder), "~")


def main() -> int:
    """Do all turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="", help="part of the names of failures")
    options = parser.parse_args()
    silent: list[str] = []
    with tempfile.TemporaryDirectory() as name, serving(GOOD) as provider:
        folder = Path(name).resolve()
        for number, failure in enumerate(f for f in FAILURES if options.only in f.name):
            code, printed, took = turn(failure, provider, folder, first=number == 0)
            print(
                f"## {failure.name}: exit {code}, {len(provider.asked)} requests, {took:.1f} s\n{printed}", flush=True
            )
            if not printed.strip():
                silent.append(failure.name)
        if options.out is not None:
            options.out.write_text("\n".join(recorded(folder)) + "\n")
    print(f"{len(silent)} of {len(FAILURES)} turns ended without a word {silent or ''}")
    return bool(silent)


if __name__ == "__main__":
    sys.exit(main())
