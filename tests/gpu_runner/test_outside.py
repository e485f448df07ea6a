"""Names of the calls by which a task reads clocks, its process or random numbers."""

from __future__ import annotations

import pytest

from forewarp.gpu_runner.worker import outside

IMPORTS = "import os, random, time\nfrom datetime import datetime\n"


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("time.time()", ["time.time"]),
        ("time.gmtime()", ["time.gmtime"]),
        ("os.getpid()", ["os.getpid"]),
        ("datetime.now()", ["datetime.now"]),
        ("random.random()", ["random.random"]),
        ("time.perf_counter()", []),
        ("os.getcwd()", []),
        ("abs(-1)", []),
    ],
)
def test_only_what_no_kernel_is_given_is_named(line: str, names: list[str]) -> None:
    code = compile(f"{IMPORTS}\ndef ask():\n    {line}\n", "<reference>", "exec")
    scope: dict[str, object] = {}
    exec(code, scope)
    ask = scope["ask"]
    assert callable(ask)
    with outside.seen() as seen:
        ask()
    assert seen == names


def test_what_others_ask_is_not_the_tasks() -> None:
    import time

    with outside.seen() as seen:
        time.time()
    assert seen == []
