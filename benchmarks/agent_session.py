"""Sum up recorded conversations of the terminal agent: what was asked, measured and reached.

    python benchmarks/agent_session.py results/agent_session_cpu.jsonl results/agent_session_h200.jsonl

The files are transcripts as the agent writes them; `--keep FILE` copies one there first, with the paths of the machine
taken out. `forewarp --replay FILE` plays one again, without a model or a device.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forewarp.agent.candidates import Candidates, ListedCandidate
from forewarp.agent.events import Answered, Failed, Interrupted, Spent, ToolCalled, UserSaid
from forewarp.agent.transcript import read

RESULTS = Path(__file__).parent / "results"


def kept(source: Path, target: Path, hidden: list[str]) -> None:
    """Copy a transcript, each candidate's text once, with the folders of the machine that recorded it left out."""
    texts, lines = dict[str, str](), list[str]()
    for line in source.read_text(encoding="utf-8").splitlines():
        data: dict[str, Any] = json.loads(line)
        if data["type"] == "CandidateForecast":
            known = texts.get(data["source"])
            texts.setdefault(data["source"], data["kernel"])
            data |= {"source": "", "text_of": known} if data["source"] and known is not None else {}
        lines.append(json.dumps(data, ensure_ascii=False))
    text = "\n".join(lines) + "\n"
    for folder in hidden:
        text = text.replace(folder.rstrip("/"), "~")
    target.write_text(re.sub(r'"folder": "[^"]*"', '"folder": "~"', text, count=1), encoding="utf-8")


def summed_up(path: Path) -> dict[str, Any]:
    """Return the figures of one transcript."""
    past = read(path)
    board, spent = Candidates(), Spent()
    for event in past.events:
        board.apply(event)
        spent = event if isinstance(event, Spent) else spent
    calls = Counter(e.tool for e in past.events if isinstance(e, ToolCalled))
    rows = [r for r in board.measured() if r.measured is not None]
    ends = [e for e in past.events if isinstance(e, Answered | Failed | Interrupted)]
    prompts = [e.text for e in past.events if isinstance(e, UserSaid)]
    return {
        "transcript": path.name,
        "device": rows[0].forecast.device if rows else "",
        "task": rows[0].forecast.task if rows else "",
        "prompts": prompts,
        "ended": [type(e).__name__ for e in ends],
        "tool_calls": dict(calls.most_common()),
        "candidates": len(board),
        "measurements": spent.measurements,
        "device_s": round(spent.device_s, 1),
        "tokens_in": spent.input_tokens,
        "tokens_out": spent.output_tokens,
        "measured": [line(r) for r in rows],
    }


def line(row: ListedCandidate) -> dict[str, Any]:
    """Return one measured candidate."""
    f, m = row.expected, row.measured
    assert m is not None
    return {
        "number": row.number,
        "kernel": row.forecast.kernel[:10],
        "origin": row.forecast.origin if row.forecast.origin in ("agent", "user") else "search",
        "tunables": row.forecast.tunables,
        "forecast": [f.median, f.low, f.high],
        "measured": [m.speedup, m.low, m.high],
        "verdict": m.verdict,
        "surprise": m.surprise,
    }


def table(found: list[dict[str, Any]]) -> str:
    """Return the figures as Markdown."""
    head = "| | " + " | ".join(f["device"] for f in found) + " |\n|---|" + "---|" * len(found)
    rows: dict[str, Callable[[dict[str, Any]], str]] = {
        "task": lambda f: f"`{f['task']}`",
        "calls of tools": lambda f: ", ".join(f"{n} {tool}" for tool, n in f["tool_calls"].items()),
        "candidates; measured": lambda f: f"{f['candidates']}; {f['measurements']}",
        "device": lambda f: f"{f['device_s']:.0f} s",
        "tokens in, out (characters / 4)": lambda f: f"{f['tokens_in']:,}; {f['tokens_out']:,}",
        "the user's kernel over eager": lambda f: speedup(f["measured"][0]["measured"]),
        "the fastest measured over eager": lambda f: speedup(fastest(f)),
    }
    return "\n".join([head, *(f"| {name} | {' | '.join(told(f) for f in found)} |" for name, told in rows.items())])


def fastest(found: dict[str, Any]) -> list[float | None]:
    """Return the highest speed-up that was measured."""
    return max((m["measured"] for m in found["measured"]), key=lambda interval: interval[0] or 0.0)


def speedup(interval: list[float | None]) -> str:
    """Return a speed-up with its interval."""
    ratio, low, high = interval
    return "–" if ratio is None else f"{ratio:.3g}× [{low:.3g}, {high:.3g}]"


def main() -> None:
    """Sum up the transcripts that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("transcripts", type=Path, nargs="+")
    parser.add_argument("--keep", type=Path, help="copy the one transcript there, and sum up the copy")
    parser.add_argument("--hide", action="append", default=[], metavar="FOLDER", help="folder to leave out in the copy")
    args = parser.parse_args()
    paths: list[Path] = args.transcripts
    if args.keep is not None:
        kept(paths[0], args.keep, args.hide)
        paths = [args.keep]
    found = [summed_up(path) for path in paths]
    (RESULTS / "agent_sessions.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    print(table(found))


if __name__ == "__main__":
    main()
