"""Threads of a cell and their processors."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

SPREADS = """
import json, os, threading
from forewarp.gpu_runner.worker import cores

def affinity(thread):
    return sorted(os.sched_getaffinity(thread))

def start():
    thread = threading.Thread(target=done.wait)
    thread.start()
    return thread.native_id

done, told = threading.Event(), []
spread = cores.spreading()
spread()
told.append([affinity(0)])
threads = [start() for _ in range(THREADS)]
spread()
told.append([affinity(0), *map(affinity, threads)])
later, own = start(), start()
os.sched_setaffinity(own, {max(cores_of_all)})
spread()
told.append([affinity(later), affinity(own)])
done.set()
print(json.dumps(told))
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_each_thread_gets_a_processor_and_one_that_is_alone_stays_free() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    first, others = allowed[0], allowed[1:]
    count = len(others) + 1
    script = SPREADS.replace("THREADS", str(count)).replace("cores_of_all", str(allowed))
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    alone, together, late = json.loads(said)
    assert alone == [allowed]
    assert together == [[first], *([cpu] for cpu in [*others, others[0]])]
    # A thread that was started since is placed, too; one that has its own place keeps it.
    assert late == [[others[count % len(others)]], [allowed[-1]]]


REPLACED = """
import json, os, threading
from forewarp.gpu_runner.worker import cores

def start():
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    return thread, done

listed, listdir = [], os.listdir
os.listdir = lambda path: listed.append(path) or listdir(path)
spread, counts = cores.spreading(), []
first, done = start()
for _ in range(3):
    spread()
    counts.append(len(listed))
done.set()
first.join()
second, done = start()
spread()
counts.append(len(listed))
print(json.dumps([counts, sorted(os.sched_getaffinity(second.native_id))]))
done.set()
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_threads_are_listed_only_where_they_are_others_since() -> None:
    said = subprocess.run([sys.executable, "-c", REPLACED], capture_output=True, text=True, check=True).stdout
    counts, place = json.loads(said)
    assert counts == [1, 1, 1, 2]
    assert place == [sorted(os.sched_getaffinity(0))[1]]
