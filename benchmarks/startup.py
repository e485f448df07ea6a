"""Start-up: `forewarp --help`, and an MCP server's first `tools/list`, as ratios to a bare interpreter.

python benchmarks/startup.py
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from provenance import write

# A client of protocol 2025-06-18 says these two things before it asks for the tools.
GREETING = [
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "startup benchmark", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
]


def wall(command: list[str]) -> float:
    """Return the seconds that a command takes."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def tools_list() -> float:
    """Return the seconds from process start to the answer to `tools/list`."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "forewarp.cli.main", "mcp"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write("".join(json.dumps(m) + "\n" for m in GREETING).encode())
        server.stdin.flush()
        while json.loads(server.stdout.readline()).get("id") != 2:
            pass
        elapsed = time.perf_counter() - start
        server.kill()
    return elapsed


def main() -> None:
    """Interleave the three, so that a slow moment of the machine hits all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "startup.json")
    args = parser.parse_args()
    forewarp = str(Path(sys.executable).parent / "forewarp")
    samples: dict[str, list[float]] = {"python -c pass": [], "forewarp --help": [], "tools/list over stdio": []}
    for _ in range(args.repeats):
        samples["python -c pass"].append(wall([sys.executable, "-c", "pass"]))
        samples["forewarp --help"].append(wall([forewarp, "--help"]))
        samples["tools/list over stdio"].append(tools_list())
    bare = statistics.median(samples["python -c pass"])
    print("| what | median s | worst s | ratio to a bare interpreter |\n|---|---|---|---|")
    for name, taken in samples.items():
        median = statistics.median(taken)
        print(f"| {name} | {median:.3f} | {max(taken):.3f} | {median / bare:.1f} |")
    write(args.out, {"samples_s": samples})


if __name__ == "__main__":
    main()
