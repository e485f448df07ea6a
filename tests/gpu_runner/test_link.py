"""The near end of a connection to an agent: who stops waiting for an answer is nobody else's concern."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from forewarp.gpu_runner.remote.far_end.link import Link, LinkLost

AGENT = """
import sys
from forewarp.gpu_runner.remote.far_end.wire import READY, Wire
sys.stdout.buffer.write(READY)
sys.stdout.flush()
wire = Wire(sys.stdin.buffer, sys.stdout.buffer)
heads = [wire.receive().head for _ in range(3)]
if heads[-1]["verb"] == "answer":
    for head in heads:
        wire.send({"id": head["id"], "ok": head["verb"]})
    sys.stdin.read()
"""
"""It answers three requests once it has all of them, or leaves."""


@pytest.fixture
def link() -> Iterator[Link]:
    made = Link([sys.executable, "-c", AGENT])
    yield made
    made.close()


def test_an_answer_that_nobody_waits_for_any_more_holds_up_no_other(link: Link) -> None:
    given_up, other = link.submit("one", {}), link.submit("two", {})
    given_up.cancel()
    last = link.submit("answer", {})
    assert other.result(60).head["ok"] == "two"
    assert last.result(60).head["ok"] == "answer"


def test_a_loss_is_told_to_all_that_still_wait(link: Link) -> None:
    given_up, other = link.submit("one", {}), link.submit("two", {})
    given_up.cancel()
    last = link.submit("leave", {})
    for future in (other, last):
        with pytest.raises(LinkLost, match="ended with status 0"):
            future.result(60)
