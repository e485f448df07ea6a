import random

import pytest

from forewarp.core import serde
from forewarp.surrogate.drift import Drift


def alarmed(rng: random.Random, steps: int, draw: str = "uniform") -> int | None:
    state = Drift()
    for step in range(steps):
        u = rng.random()
        if draw == "low":
            u = u**3
        elif draw == "ends":
            u = rng.betavariate(0.3, 0.3)
        elif draw == "middle":
            u = rng.betavariate(4, 4)
        state.update(u, "speed" if step % 3 else "valid")
        if state.alarmed:
            break
    return state.alarmed_at


def test_false_alarms_are_rarer_than_one_in_a_hundred():
    rng = random.Random(0)
    alarms = sum(alarmed(rng, 100) is not None for _ in range(1000))
    # At a rate of 1 %, more than 18 of 1000 would be seen in fewer than one test in a hundred.
    assert alarms <= 18


@pytest.mark.parametrize(("draw", "within"), [("low", 60), ("ends", 60), ("middle", 120)])
def test_misfits_are_noticed(draw: str, within: int):
    rng = random.Random(1)
    found = [alarmed(rng, 300, draw) or 1000 for _ in range(40)]
    assert sorted(found)[20] <= within


def test_a_change_late_in_a_run_is_noticed():
    rng = random.Random(2)
    state = Drift()
    for _ in range(150):
        state.update(rng.random())
    assert not state.alarmed
    for _ in range(80):
        state.update(rng.random() ** 4)
    assert state.alarmed


def test_the_alarm_stays():
    state = Drift()
    for _ in range(60):
        state.update(0.999)
    at = state.alarmed_at
    assert at is not None
    assert state.update(0.5)
    assert (state.alarmed_at, state.count) == (at, at)


def test_by_hand():
    # One step at u = 1: the first jumper's stakes e earn 1 + e/2, so 1 on average, and so does the second's: the money
    # moves between stakes but a symmetrical purse keeps its sum.
    state = Drift()
    state.update(1.0)
    assert state.evidence == pytest.approx(1.0)
    assert state.purses[0] == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])


def test_its_state_can_be_stored():
    rng = random.Random(3)
    one = Drift()
    for _ in range(20):
        one.update(rng.random() ** 2)
    other = serde.from_data(Drift, serde.to_data(one))
    assert other == one
    one.update(0.1)
    other.update(0.1)
    assert other == one
