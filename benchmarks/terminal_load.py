"""The terminal agent with a long conversation: how soon it opens, answers keys, resizes and changes colours.

    python benchmarks/terminal_load.py

A conversation of 500 turns and 2,000 candidates is generated, and `forewarp --resume` opened on it in a pseudo-terminal
of 120 × 36 that nothing draws. Times are those of the bytes that come out: a key is echoed when it stands in them. The
model's part, and the terminal's own drawing, are not in them.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import random
import re
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from provenance import write

from forewarp.agent.events import Answered, ConversationEvent, Spent, TextDelta, ToolCalled, ToolReturned, UserSaid
from forewarp.agent.transcript import Header, Transcript
from forewarp.tools.parts import Interval
from forewarp.tools.steps import CandidateForecast, CandidateMeasured, surprise

TURNS, CANDIDATES = 500, 2000
KEYS, ALPHABET = 100, "αβγδεζηθικλμνξοπρτυφ"
QUIET_S, PATIENCE_S = 0.35, 60.0
TARGETS = {"ready_s": 2.0, "rss_mb": 300.0, "echo_ms": 50.0} | {
    f"{answer}_shown_s": 1.0 for answer in ("program", "prose", "paragraph")
}
NAME = "20261122-000000-abcdef"
F5 = "\x1b[15~"
SCREEN = 4000
"""Bytes that a screen which is drawn anew takes at least."""

LAST = f"turn {TURNS - 1} is over"

LINES = "".join(f"    float value_{n} = input[row * columns + {n}] * scale;\n" for n in range(1700))
SENTENCE = "The **row-wise** version reads each row twice; `float4` loads halve the number of transactions. "
SECTION = f"## Step {{}}\n\n{4 * SENTENCE}\n\n- {SENTENCE}\n- {SENTENCE}\n\n{3 * SENTENCE}\n\n"
PROSE = "".join(SECTION.format(n) for n in range(105))


@dataclass(frozen=True, slots=True)
class Answer:
    """A long answer: in pieces of so many characters, so many seconds apart."""

    text: str
    begins: str
    piece: int = 20
    piece_s: float = 0.0025


ANSWERS = {
    "program": Answer(f"```cuda\n{LINES}```\n\n", "value_"),
    "prose": Answer(PROSE, "row-wise"),
    "paragraph": Answer(f"{1030 * SENTENCE}\n\n", "row-wise"),
    "flood": Answer(PROSE, "row-wise", piece=4, piece_s=0.0),
}
"""Streamed answers of 100 kB each: pieces of 20 characters every 2.5 ms, which are 2,000 tokens a second; the flood has
25,000 events of one token each, as fast as they are read."""

_KERNEL = Path(__file__).parent.parent / "tasks" / "softmax" / "seeds" / "softmax.cu"
_ESCAPES = re.compile(rb"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-9;?<=>]*[ -/]*[@-~]|\x1b[^\[\]]")


Took = tuple[float, float]
"""Seconds by the clock, and of the processor."""


@dataclass(frozen=True, slots=True)
class Opened:
    """One run of the terminal.

    `shown_s` is until the last turn is in sight, `ready_s` until a key that was typed at the first frame is echoed,
    `cpu_s` the processor time until all was quiet.
    """

    frame_s: float
    shown_s: float
    ready_s: float
    cpu_s: float
    rss_mb: float
    echo_ms: list[float]
    resize: list[Took]
    theme: list[Took]
    pane: Took


class Terminal:
    """A process on a pseudo-terminal."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.master, slave = pty.openpty()
        self.size(120, 36, tell=False)
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
        )
        os.close(slave)

    def size(self, columns: int, rows: int, *, tell: bool = True) -> None:
        """Give the terminal another size."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if tell:
            self.process.send_signal(signal.SIGWINCH)

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self.master, keys.encode())

    def until(self, *texts: str) -> list[float]:
        """Return when each text has come, in seconds since the start; whatever stands between is left out."""
        seen, when = b"", dict[str, float]()
        ends = time.perf_counter() + PATIENCE_S
        while len(when) < len(texts) and time.perf_counter() < ends:
            if not select.select([self.master], [], [], 1.0)[0]:
                continue
            seen += os.read(self.master, 1 << 16)
            plain = _ESCAPES.sub(b"", seen)
            when |= {t: time.perf_counter() - self.began for t in texts if t not in when and t.encode() in plain}
        if len(when) < len(texts):
            raise SystemExit(f"{set(texts) - set(when)} never came; what did: {seen.decode(errors='replace')[-4000:]}")
        return [when[t] for t in texts]

    def cpu_s(self) -> float:
        """Return the processor time that the process took so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def settle(self, least: int = 0) -> float:
        """Wait for so many bytes, and then until little comes; return when the last of the rest came, since the start.

        A cursor that blinks is no work: what is below 400 bytes does not count.
        """
        last, total = time.perf_counter(), 0
        while (now := time.perf_counter()) < last + (QUIET_S if total >= least else PATIENCE_S):
            if not select.select([self.master], [], [], max(0.0, min(0.1, last + QUIET_S - now)))[0]:
                continue
            came = len(os.read(self.master, 1 << 16))
            if came > 400:
                last, total = time.perf_counter(), total + came
        return last - self.began

    def peak_mb(self) -> float:
        """Return the most memory that the process has held."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        os.close(self.master)


def conversation() -> Iterator[ConversationEvent]:
    """Yield a conversation of many turns, with text, code, tool calls and candidates."""
    chance = random.Random(1)
    source = _KERNEL.read_text()
    answer = "\n\n".join(
        [
            "The **row-wise** version reads each row twice; `float4` loads halve the number of transactions.",
            "- one pass for the maximum\n- one for the sum, with `__expf`\n- the last one writes",
            "```cuda\n" + "\n".join(source.splitlines()[:20]) + "\n```",
            "| kernel | speed-up |\n|---|---|\n| naive | 1.0× |\n| tiled | 1.9× |",
        ]
    )
    number = 0
    for turn in range(TURNS):
        yield UserSaid(f"Turn {turn}: make softmax faster still, without more shared memory.")
        yield ToolCalled(f"c{turn}", "search", {"task": "softmax", "budget": {"measurements": 4}})
        for _ in range(CANDIDATES // TURNS):
            number += 1
            yield (said := _forecast(number, source, chance))
            yield _measured(number, said, chance)
        yield ToolReturned(f"c{turn}", "search", "4 measured, best 1.9×", {"status": "finished", "measured": 4}, 12.0)
        yield TextDelta(f"{answer}\n\nThis turn {turn} is over.")
        yield Spent(number, number * 2.0, turn * 4000, turn * 600, turn * 0.02, 60_000)
        yield Answered("", 4000, 600, 0.02, 21.0)


def _forecast(number: int, source: str, chance: random.Random) -> CandidateForecast:
    median = 2 ** chance.gauss(0.3, 0.6)
    return CandidateForecast(
        kernel=f"{chance.getrandbits(256):064x}",
        task="softmax",
        device="NVIDIA H200",
        language="cuda",
        tunables={"BLOCK": 64 << number % 4},
        source=f"// candidate {number}\n{source}",
        origin="r-7f3a2c",
        forecaster="learned",
        median=median,
        low=median / 1.4,
        high=median * 1.4,
        p_valid=chance.uniform(0.5, 1),
        p_faster=chance.random(),
        p_better=chance.random(),
        confidence=chance.uniform(0.2, 0.8),
        advice="measure",
        reason="its expected improvement pays for a measurement",
    )


def _measured(number: int, said: CandidateForecast, chance: random.Random) -> CandidateMeasured:
    assert said.median is not None
    ratio = said.median * 2 ** chance.gauss(0, 0.4)
    interval = Interval(ratio=ratio, low=ratio * 0.98, high=ratio * 1.02)
    return CandidateMeasured(
        kernel=said.kernel,
        task=said.task,
        status="ok",
        verdict="faster" if ratio > 1 else "slower",
        speedup=ratio,
        low=interval.low,
        high=interval.high,
        trusted=True,
        provenance="measured",
        measurement=number,
        device_s=2.0,
        surprise=surprise(said, interval),
    )


def record(folder: Path) -> int:
    """Write the conversation beside an archive in `folder`; return its size in bytes."""
    path = folder / "conversations" / f"{NAME}.jsonl"
    transcript = Transcript(path, Header(NAME, str(folder), 1.79e9, path=str(path)))
    for event in conversation():
        transcript.write(event)
    transcript.close()
    return path.stat().st_size


def opened(folder: Path) -> Opened:
    """Open the conversation once, and use it."""
    environment = os.environ | {
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "FOREWARP_ARCHIVE": f"{folder}/a.db",
    }
    command = [sys.executable, "-m", "forewarp.cli.main", "--resume", NAME]
    terminal = Terminal(command, environment)
    try:
        (frame,) = terminal.until("Candidates")
        terminal.type(ALPHABET[0])
        shown, ready = terminal.until(LAST, ALPHABET[0])
        terminal.settle()
        cpu = terminal.cpu_s()
        terminal.type("\x7f")
        terminal.settle()
        echo = list(_echoes(terminal))
        resize = [_timed(terminal, lambda w=w, h=h: terminal.size(w, h)) for w, h in ((80, 24), (200, 60), (120, 36))]
        theme = [_theme(terminal, name) for name in ("light", "dark", "light")]
        pane = _timed(terminal, lambda: terminal.type(F5))
        return Opened(frame, shown, ready, cpu, terminal.peak_mb(), echo, resize, theme, pane)
    finally:
        terminal.close()


class _Server(ThreadingHTTPServer):
    """A server of a model: `sent` characters so far, `ended` is when the last byte was sent."""

    answer: Answer
    sent, ended = 0, 0.0


class _Model(BaseHTTPRequestHandler):
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        answer, due = self.server.answer, time.perf_counter()
        text = answer.text + LAST
        for start in range(0, len(text), answer.piece):
            self._send({"content": text[start : start + answer.piece]}, None)
            self.server.sent = start
            due += answer.piece_s
            time.sleep(max(0.0, due - time.perf_counter()))
        self._send({}, "stop")
        self.wfile.write(b"data: [DONE]\n\n")
        self.server.ended = time.perf_counter()

    def _send(self, delta: dict[str, str], finish: str | None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
        self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")


@dataclass(frozen=True, slots=True)
class Streamed:
    """One long answer: seconds of sending it, from its last byte until its end was in sight, and of the processor."""

    sent_s: float
    shown_s: float
    cpu_s: float
    echo_ms: list[float]


def streamed(folder: Path, answer: Answer) -> Streamed:
    """Have an answer streamed, and type meanwhile."""
    server = _Server(("127.0.0.1", 0), _Model)
    server.answer = answer
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = os.environ | {"TERM": "xterm-256color", "FOREWARP_ARCHIVE": f"{folder}/stream.db"}
    command = [sys.executable, "-m", "forewarp.cli.main", "--model", "openai:m"]
    terminal = Terminal([*command, "--base-url", f"http://127.0.0.1:{server.server_port}/v1"], environment)
    try:
        terminal.until("Candidates")
        terminal.settle()
        terminal.type("go\r")
        terminal.until(answer.begins)
        start, cpu, echo = time.perf_counter(), terminal.cpu_s(), list[float]()
        while server.sent < 0.97 * len(answer.text):
            pressed = time.perf_counter()
            terminal.type(key := ALPHABET[len(echo) % len(ALPHABET)])
            echo.append((terminal.until(key)[0] + terminal.began - pressed) * 1000)
            time.sleep(0.1)
            terminal.type("\x7f")
        (shown,) = terminal.until(LAST)
        shown_s = shown + terminal.began - server.ended
        return Streamed(server.ended - start, shown_s, terminal.cpu_s() - cpu, echo)
    finally:
        terminal.close()
        server.shutdown()
        server.server_close()


def _echoes(terminal: Terminal) -> Iterator[float]:
    """Yield milliseconds from a key to its echo; every key is one that is not in sight yet."""
    for _ in range(KEYS // len(ALPHABET)):
        for key in ALPHABET:
            start = time.perf_counter()
            terminal.type(key)
            yield (terminal.until(key)[0] + terminal.began - start) * 1000
            time.sleep(0.03)
        terminal.type("\x7f" * len(ALPHABET))
        terminal.settle()


def _theme(terminal: Terminal, name: str) -> Took:
    terminal.type(f"/theme {name}")
    return _timed(terminal, lambda: terminal.type("\r"))


def _timed(terminal: Terminal, act: Callable[[], None]) -> Took:
    """Return the seconds from an act that draws the screen anew until it is drawn, and those of the processor."""
    terminal.settle()
    start, cpu = time.perf_counter(), terminal.cpu_s()
    act()
    return terminal.settle(SCREEN) + terminal.began - start, terminal.cpu_s() - cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "terminal_load.json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        size = record(Path(name))
        runs = [opened(Path(name)) for _ in range(args.times)]
        streams = {a: [streamed(Path(name), ANSWERS[a]) for _ in range(args.times)] for a in ANSWERS}
    echo = sorted(ms for run in runs for ms in run.echo_ms)
    median = statistics.median
    found = {
        "first_frame_s": median(r.frame_s for r in runs),
        "ready_s": median(r.ready_s for r in runs),
        "shown_s": median(r.shown_s for r in runs),
        "cpu_s": median(r.cpu_s for r in runs),
        "rss_mb": max(r.rss_mb for r in runs),
        "echo_ms": median(echo),
        "echo_p95_ms": echo[int(0.95 * len(echo))],
        "resize_s": median(s for r in runs for s, _ in r.resize),
        "resize_cpu_s": median(cpu for r in runs for _, cpu in r.resize),
        "theme_s": median(s for r in runs for s, _ in r.theme),
        "theme_cpu_s": median(cpu for r in runs for _, cpu in r.theme),
        "plots_s": median(r.pane[0] for r in runs),
    }
    for answer, times in streams.items():
        found |= {
            f"{answer}_sent_s": median(s.sent_s for s in times),
            f"{answer}_shown_s": median(s.shown_s for s in times),
            f"{answer}_cpu_s": median(s.cpu_s for s in times),
            f"{answer}_echo_ms": median(ms for s in times for ms in s.echo_ms),
            f"{answer}_echo_worst_ms": max(ms for s in times for ms in s.echo_ms),
        }
    missed = [name for name, most in TARGETS.items() if found[name] > most]
    for name, value in found.items():
        print(f"{name:24} {value:8.3f}" + (f"  target {TARGETS[name]:g}" if name in TARGETS else ""))
    print(f"missed: {', '.join(missed) or 'none'}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    write(
        args.out,
        {
            "turns": TURNS,
            "candidates": CANDIDATES,
            "transcript_mb": size / 1e6,
            "answers_kb": {name: len(answer.text) / 1e3 for name, answer in ANSWERS.items()},
            "terminal": "120x36",
            "times": args.times,
            "load": list(os.getloadavg()),
            "cores": os.cpu_count(),
            "targets": TARGETS,
            "missed": missed,
            "found": found,
            "runs": [
                {"ready_s": r.ready_s, "cpu_s": r.cpu_s, "rss_mb": r.rss_mb, "echo_ms": median(r.echo_ms)} for r in runs
            ],
        },
    )


if __name__ == "__main__":
    main()
