"""What is read beside a measurement: who else used the processors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator

import pytest

from forewarp.gpu_runner.worker import conditions

BURNT_S, TICKS_S = 0.3, 0.05
BURNS = f"""
import time
while time.process_time() < {BURNT_S}: pass
"""
READS = f"""
import time
from forewarp.gpu_runner.worker.conditions import processors
first = processors()
print("ready", flush=True)
begun = time.process_time()
while time.process_time() < begun + {BURNT_S}: pass
input()
last = processors()
print(last["others_s"] - first["others_s"], last["clock_s"] - first["clock_s"])
"""


@pytest.fixture
def one_processor() -> Generator[None]:
    """Have this thread, and what it starts, use one processor only."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    yield
    os.sched_setaffinity(0, allowed)


@pytest.mark.usefixtures("one_processor")
def test_what_others_use_counts_and_what_it_uses_itself_does_not() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", READS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
        subprocess.run([sys.executable, "-c", BURNS], check=True)
        said, _ = reader.communicate("go on\n")
    others_s, clock_s = map(float, said.split())
    # Whatever else this machine does, a processor has no more seconds than the clock.
    assert BURNT_S - TICKS_S <= others_s <= clock_s - BURNT_S + TICKS_S


def test_two_readings_make_a_number_of_processors() -> None:
    before = {"others_s": 10.0, "clock_s": 100.0}
    after = {"others_s": 13.0, "clock_s": 102.0, "round_trip_s": 1e-5}
    assert conditions.summary(before, after) == {"other_processors": 1.5, "round_trip_s": 1e-5}
    assert conditions.summary({}, after) == {"round_trip_s": 1e-5}
    assert conditions.summary(before, {"round_trip_s": 1e-5}) == {"round_trip_s": 1e-5}
