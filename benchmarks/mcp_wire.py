"""A bare client of an MCP server on stdio: it speaks lines of JSON, and sees every line that is none."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forewarp.core import processes

LEGACY, MODERN = "2025-11-25", "2026-07-28"
"""The revisions before and after which a client greets the server; each stands for its era."""
_META = "io.modelcontextprotocol"
WAIT_S = 180.0


class Wire:
    """A server of its own process, spoken to in one revision of the protocol."""

    def __init__(
        self, flags: Sequence[str] = (), revision: str = LEGACY, environment: Mapping[str, str] | None = None
    ) -> None:
        self.revision = revision
        self.strange: list[str] = []
        self._answers: dict[int, tuple[float, dict[str, Any]]] = {}
        self._arrived = threading.Condition()
        self._last = 0
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "forewarp.cli.main", "mcp", *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | dict(environment or {}),
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def greet(self) -> None:
        """Say what a client of this revision says first, and wait for the answer."""
        if self.revision >= MODERN:
            self.ask("server/discover")
            return
        hello = {"protocolVersion": self.revision, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.ask("initialize", hello)
        self.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))

    def write(self, line: str) -> None:
        """Write one line, whatever it holds."""
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def send(self, method: str, params: Mapping[str, Any] | None = None) -> int:
        """Send a request and return its number."""
        self._last += 1
        told = dict(params or {})
        if self.revision >= MODERN:
            about = {"protocolVersion": self.revision, "clientInfo": {"name": "bench", "version": "1"}}
            told["_meta"] = {f"{_META}/{k}": v for k, v in (about | {"clientCapabilities": {}}).items()}
        request = {"jsonrpc": "2.0", "id": self._last, "method": method}
        self.write(json.dumps(request | ({"params": told} if told else {})))
        return self._last

    def wait(self, number: int) -> tuple[float, dict[str, Any]]:
        """Return when the answer to a request came, and the answer; raises `TimeoutError`."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: number in self._answers, WAIT_S):
                raise TimeoutError(f"no answer to request {number}")
            return self._answers[number]

    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer to a request."""
        return self.wait(self.send(method, params))[1]

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return what a tool answers, an error or not."""
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def told(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return what is structured of the answer of a tool that must succeed."""
        answer = self.call(tool, **arguments)
        if refused(answer):
            raise RuntimeError(f"{tool} was refused: {answer}")
        return answer["result"]["structuredContent"]

    def status(self, name: str) -> int:
        """Return a number from what Linux says of the server: VmRSS and VmHWM in KiB, Threads."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in text.splitlines() if line.startswith(f"{name}:")).split()[1])

    def cpu(self) -> float:
        """Return the CPU seconds of the server and of all that it started and is alive or was waited for."""
        seconds = 0
        for pid in (self.process.pid, *processes.below(self.process.pid)):
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                seconds += sum(int(field) for field in fields[11:15])
        return seconds / os.sysconf("SC_CLK_TCK")

    def kill(self) -> float:
        """End the server with SIGKILL and return the CPU seconds that it took."""
        self.process.kill()
        _, code, used = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(code)
        self._reader.join(5.0)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        return used.ru_utime + used.ru_stime

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            now = time.perf_counter()
            try:
                message: dict[str, Any] = json.loads(line)
            except ValueError:
                self.strange.append(line.decode(errors="replace"))
                continue
            if message.get("id") is not None and "method" not in message:
                with self._arrived:
                    self._answers[message["id"]] = now, message
                    self._arrived.notify_all()


def refused(answer: Mapping[str, Any]) -> bool:
    """Return whether an answer is an error, of the protocol or of the tool."""
    return "error" in answer or bool(answer["result"].get("isError"))


def text_of(answer: Mapping[str, Any]) -> str:
    """Return what a model would read of an answer."""
    return answer["error"]["message"] if "error" in answer else answer["result"]["content"][0]["text"]
