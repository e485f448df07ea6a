"""Faults that small shapes hide: long rows, many programs, offsets beyond 32 bits, later passes, sizes in the code."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from support import interpreted as plans
from support import interpreted_modules as modules

from forewarp.core.checking import Check
from forewarp.core.values import Candidate
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.inspection.emulation.interpreter.check import hidden_by
from forewarp.inspection.emulation.interpreter.memory import MemoryFault, SourcePlace
from forewarp.inspection.emulation.interpreter.ownshape import (
    SizedMemory,
    corners_and_middle,
    look_at_corners,
    without_contents,
)
from forewarp.inspection.emulation.interpreter.pace import Pace

VAST = plans.model("x * 2", "torch.randn(N)", N=3_000_000_000)
VAST_ROWS = plans.model("x * 2", "torch.randn(ROWS, COLS, dtype=torch.float16)", ROWS=600_000, COLS=4096)
# Few programs on large blocks: an interpreted one takes milliseconds, whatever its size.
WIDE = plans.model("x.sum(1)", "torch.randn(ROWS, COLS)", ROWS=4, COLS=1 << 21)
GATHER = plans.model("x[rest[0]]", "torch.randn(N), torch.randint(0, N, (N,))", N=1 << 22)

LONG_ROWS = plans.model("x.sum(1)", "torch.randn(ROWS, COLS)", ROWS=4096, COLS=4096)
MANY_ROWS = plans.model("x * 2", "torch.randn(ROWS, COLS)", ROWS=4096, COLS=2048)
FLAT = plans.model("x * 2", "torch.randn(N)", N=(1 << 22) + 4096)

STORE = "tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)"
ROW = "row = tl.program_id(0){wide}\nat = row * COLS + tl.arange(0, COLS)\ntl.store(y + at, tl.load(x + at) * 2)"
LOOP = """
total = tl.zeros((WIDE,), tl.float32)
for start in range(0, cols, WIDE):
    total += tl.load(x + row * stride + start{factor} + c, mask=start + c < cols, other=0.0)
tl.store(y + row, tl.sum(total, axis=0))
""".strip()


def messages(check: Check) -> list[str]:
    return [f.message for f in check.faults]


def flat_vast(start: str) -> Candidate:
    """Return a module for VAST whose blocks begin at `start`."""
    return modules.module(
        f"x, y, n, BLOCK: tl.constexpr\ni = {start} + tl.arange(0, BLOCK)\n{STORE}",
        "y = torch.empty_like(x)\nk[(triton.cdiv(x.numel(), 8192),)](x, y, x.numel(), BLOCK=8192)\nreturn y",
    )


@pytest.mark.slow
def test_an_offset_beyond_32_bits_is_found_at_the_tasks_own_shape(executor: LocalExecutor) -> None:
    check = executor.check(VAST, flat_vast("tl.program_id(0) * BLOCK"))
    assert check.status == "ok", check
    assert any("does not fit 32 bits" in m and "N = 3000000000" in m and "of x" in m for m in messages(check)), check
    assert all(f.where.startswith("k, line ") for f in check.faults)
    wide = executor.check(VAST, flat_vast("tl.program_id(0).to(tl.int64) * BLOCK"))
    assert wide.status == "ok", wide
    assert wide.faults == ()
    assert wide.workloads[0].message == ""


def test_launch_plans_are_looked_at_too(executor: LocalExecutor) -> None:
    launch = '[constants]\nCOLS = "x.shape[1]"\n[[launch]]\nkernel = "k"\nargs = ["x", "y"]\ngrid = ["x.shape[0]"]'

    def plan(wide: str) -> Candidate:
        lines = "\n".join(f"    {line}" for line in ROW.format(wide=wide).splitlines())
        return plans.plan(launch, f"@triton.jit\ndef k(x, y, COLS: tl.constexpr):\n{lines}\n")

    check = executor.check(VAST_ROWS, plan(""), 10.0)
    assert any("does not fit 32 bits" in m and "ROWS = 600000" in m for m in messages(check)), check
    check = executor.check(VAST_ROWS, plan(".to(tl.int64)"), 10.0)
    assert check.status == "ok", check
    assert check.faults == ()


def test_a_mask_that_fails_only_in_a_large_shape_is_found(executor: LocalExecutor) -> None:
    body = "m = n + (n > 10000000).to(tl.int32)\n" + STORE.replace("i < n)", "i < m)")
    task = plans.model("x * 2", "torch.randn(N)", N=20_000_001)
    check = executor.check(task, modules.flat(body, block=4096))
    assert any("element 20000001 of" in m for m in messages(check)), check


def test_an_offset_that_has_come_round_again_in_the_last_program_is_found(executor: LocalExecutor) -> None:
    vast = plans.model("x * 2", "torch.randn(N, dtype=torch.float16)", N=4_400_000_000)
    check = executor.check(vast, flat_vast("tl.program_id(0) * BLOCK"))
    assert any("does not fit 32 bits" in m and "of x" in m for m in messages(check)), check


@pytest.mark.slow
def test_a_block_that_is_too_short_for_the_tasks_rows_is_incorrect(executor: LocalExecutor) -> None:
    total = "v = tl.load(x + row * stride + c, mask=c < cols, other=0.0)\ntl.store(y + row, tl.sum(v, axis=0))"
    check = executor.check(LONG_ROWS, modules.rows(total, wide="1024"))
    assert check.status == "incorrect", check
    assert check.workloads[0].constants["COLS"] == 4096
    plan = plans.rows(plans.RIGHT_SUM)
    short = Candidate(plan.source.replace("next_pow2(COLS)", "1024"), "triton")
    assert executor.check(LONG_ROWS, short).status == "incorrect"
    check = executor.check(LONG_ROWS, plan)
    assert (check.status, check.faults) == ("ok", ()), check


def doubled_rows(grid: str) -> Candidate:
    """Return a module for MANY_ROWS whose programs go on to the next rows where `grid` has fewer of them."""
    return modules.module(
        "x, y, rows, cols, BLOCK: tl.constexpr\nc = tl.arange(0, BLOCK)\n"
        "for row in range(tl.program_id(0), rows, tl.num_programs(0)):\n"
        "    i = row * cols + c\n    tl.store(y + i, tl.load(x + i, mask=c < cols, other=1.0) * 2, mask=c < cols)",
        f"y = torch.empty_like(x)\nk[({grid},)](x, y, x.shape[0], x.shape[1], BLOCK=2048)\nreturn y",
    )


@pytest.mark.slow
def test_a_grid_that_is_too_small_for_the_tasks_rows_is_incorrect(executor: LocalExecutor) -> None:
    persistent = doubled_rows("132")
    check = executor.check(MANY_ROWS, persistent)
    assert (check.status, check.faults) == ("ok", ()), check
    once = persistent.source.replace("tl.num_programs(0)", "rows").replace("132", "min(1024, x.shape[0])")
    check = executor.check(MANY_ROWS, Candidate(once, "python"))
    assert check.status == "incorrect", check
    assert check.workloads[0].constants["ROWS"] == 4096


def flat_module(before: str, *, grid: str = "min(128, triton.cdiv(x.numel(), 8192))", after: str = "") -> Candidate:
    """Return a module for FLAT that makes y by `before`, and launches by default too few programs for it."""
    kernel = f"x, y, n, BLOCK: tl.constexpr\ni = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n{STORE}"
    return modules.module(kernel, f"{before}\nk[({grid},)](x, y, x.numel(), BLOCK=8192)\n{after}\nreturn y")


def test_outputs_that_programs_are_too_few_to_fill_are_named(executor: LocalExecutor) -> None:
    few = "at most 25.0% of {} is ever written: too few programs; at the task's own shape, N = 4198400"
    check = executor.check(FLAT, flat_module("y = torch.empty_like(x)"))
    assert (check.status, messages(check)) == ("ok", [few.format("output 0")]), check
    plan = plans.flat(plans.RIGHT_DOUBLE, grid="min(128, cdiv(numel(x), BLOCK))", constants={"BLOCK": 8192})
    assert messages(executor.check(FLAT, plan)) == [few.format("y")]


TAIL = "h = min(x.numel(), 1 << 20)\n"
FILLED: dict[str, Candidate] = {
    "assigned": flat_module(f"y = torch.empty_like(x)\n{TAIL}y[h:] = x[h:] * 2"),
    "given as out": flat_module(f"y = torch.empty_like(x)\n{TAIL}torch.mul(x[h:], 2, out=y[h:])"),
    "copied after": flat_module("y = torch.empty_like(x)", after=f"{TAIL}torch.ops.aten.copy_(y[h:], x[h:] * 2)"),
    "full from the start": flat_module("y = x * 2"),
    "by two launches": flat_module(
        f"y = torch.empty_like(x)\n{TAIL}r = x.numel() - h\nif r:\n"
        "    k[(triton.cdiv(r, 8192),)](x[h:], y[h:], r, BLOCK=8192)"
    ),
    "by every fourth program": modules.module(
        "x, y, n, BLOCK: tl.constexpr\np = tl.program_id(0)\nif p % 4 == 1:\n"
        f"    i = (p - 1) * BLOCK + tl.arange(0, 4 * BLOCK)\n    {STORE}",
        "y = torch.empty_like(x)\nk[(4 * triton.cdiv(x.numel(), 32768),)](x, y, x.numel(), BLOCK=8192)\nreturn y",
    ),
    "but for a rest that is not returned": flat_module(
        "n = x.numel()\ny = torch.empty(-(-n >> 20) << 20 if n > 1 << 20 else n)[:n]",
        grid="triton.cdiv(x.numel(), 8192)",
    ),
}


@pytest.mark.parametrize("how", FILLED)
def test_outputs_that_are_filled_in_other_ways_are_not_accused(executor: LocalExecutor, how: str) -> None:
    check = executor.check(FLAT, FILLED[how])
    assert (check.status, check.faults, check.workloads[0].message) == ("ok", (), ""), check


@pytest.mark.slow
def test_split_sums_with_atomics_are_not_accused(executor: LocalExecutor) -> None:
    task = plans.model("x @ rest[0]", "torch.randn(M, K), torch.randn(K, N)", M=64, K=4096, N=64)
    check = executor.check(
        task,
        modules.module(
            "a, b, c, N, K, BLOCK: tl.constexpr, STEP: tl.constexpr, SPLIT: tl.constexpr\n"
            "m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
            "n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)\n"
            "total = tl.zeros((BLOCK, BLOCK), tl.float32)\n"
            "for start in range(tl.program_id(2) * STEP, K, STEP * SPLIT):\n"
            "    k = start + tl.arange(0, STEP)\n"
            "    left = tl.load(a + m[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0)\n"
            "    right = tl.load(b + k[:, None] * N + n[None, :], mask=k[:, None] < K, other=0.0)\n"
            "    total += tl.dot(left, right, input_precision='ieee')\n"
            "tl.atomic_add(c + m[:, None] * N + n[None, :], total)",
            "c = torch.zeros(x.shape[0], rest[0].shape[1])\n"
            "grid = (x.shape[0] // 16, rest[0].shape[1] // 16, 8)\n"
            "k[grid](x, rest[0], c, c.shape[1], x.shape[1], BLOCK=16, STEP=32, SPLIT=8)\nreturn c",
        ),
    )
    assert (check.status, check.faults) == ("ok", ()), check


def test_tables_of_pointers_are_not_followed(executor: LocalExecutor) -> None:
    table = modules.module(
        "p, y, cols, BLOCK: tl.constexpr\nrow = tl.program_id(0)\nc = tl.arange(0, BLOCK)\n"
        "x = tl.load(p + row).to(tl.pointer_type(tl.float32))\ntl.store(y + row * cols + c, tl.load(x + c) * 2)",
        "y = torch.empty_like(x)\np = torch.tensor([r.data_ptr() for r in x], dtype=torch.int64)\n"
        "k[(x.shape[0],)](p, y, x.shape[1], BLOCK=64)\nreturn y",
    )
    check = executor.check(plans.model("x * 2", "torch.randn(12, 64)"), table)
    assert (check.status, check.faults) == ("unsupported", ()), check
    assert "out of a table of pointers" in check.message


@pytest.mark.parametrize(
    "address",
    ["x + tl.load(at + i, mask=i < n, other=0)", "x + tl.load(at + i, mask=i < n, other=1) - 1"],
    ids=["from zero", "from one"],
)
def test_addresses_that_follow_from_data_are_not_accused(executor: LocalExecutor, address: str) -> None:
    task = (
        GATHER
        if "- 1" not in address
        else plans.model("x[rest[0] - 1]", "torch.randn(N), torch.randint(1, N, (N,))", N=1 << 22)
    )
    candidate = modules.module(
        "x, at, y, n, BLOCK: tl.constexpr\n"
        "i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
        f"tl.store(y + i, tl.load({address}, mask=i < n), mask=i < n)",
        "y = torch.empty_like(x)\nk[(triton.cdiv(x.numel(), 4096),)](x, rest[0], y, x.numel(), BLOCK=4096)\nreturn y",
    )
    check = executor.check(task, candidate)
    assert check.status == "ok", check
    assert check.faults == ()


def test_a_loop_that_runs_several_times_does_so_when_it_is_checked(executor: LocalExecutor) -> None:
    wrong = executor.check(WIDE, modules.rows(LOOP.format(factor=" // 2"), wide="1 << 17"), 10.0)
    assert wrong.status == "incorrect", wrong
    right = executor.check(WIDE, modules.rows(LOOP.format(factor=""), wide="1 << 17"), 10.0)
    assert right.status == "ok", right
    assert right.faults == ()
    columns = right.workloads[0].constants["COLS"]
    assert isinstance(columns, int)
    assert columns >= 2 << 17


@pytest.mark.slow
def test_a_grid_of_several_programs_has_several_when_it_is_checked(executor: LocalExecutor) -> None:
    task = plans.model("x * 2", "torch.randn(ROWS, COLS)", ROWS=4, COLS=1 << 20)

    def module(factor: str) -> Candidate:
        return modules.module(
            "x, y, cols, BLOCK: tl.constexpr\n"
            f"c = tl.program_id(1) * BLOCK{factor} + tl.arange(0, BLOCK)\n"
            "i = tl.program_id(0) * cols + c\n"
            "tl.store(y + i, tl.load(x + i, mask=c < cols) * 2, mask=c < cols)",
            "y = torch.zeros_like(x)\n"
            "k[(x.shape[0], triton.cdiv(x.shape[1], 65536))](x, y, x.shape[1], BLOCK=65536)\nreturn y",
        )

    assert executor.check(task, module(" // 2"), 10.0).status == "incorrect"
    assert executor.check(task, module(""), 10.0).status == "ok"


@pytest.mark.slow
def test_what_no_small_shape_shows_is_said(executor: LocalExecutor) -> None:
    persistent = modules.module(
        "x, y, n, BLOCK: tl.constexpr\n"
        "for block in range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0)):\n"
        "    i = block * BLOCK + tl.arange(0, BLOCK)\n"
        f"    {STORE}",
        "y = torch.empty_like(x)\nk[(132,)](x, y, x.numel(), BLOCK=65536)\nreturn y",
    )
    check = executor.check(plans.model("x * 2", "torch.randn(N)", N=1 << 27), persistent, 10.0)
    assert check.status == "ok", check
    assert "not seen at this shape: 16 passes of the loop at k, line" in check.workloads[0].message


def test_what_needs_values_is_said_not_to_be_looked_at(executor: LocalExecutor) -> None:
    valued = modules.flat(STORE, block=4096)
    source = valued.source.replace(
        "y = torch.empty_like(x)", "y = torch.empty_like(x)\n        assert x.max().item() < 1e30"
    )
    check = executor.check(plans.model("x * 2", "torch.rand(N) + 1", N=1 << 24), Candidate(source, "python"))
    assert check.status == "ok", check
    assert "not looked at at the task's own shape" in check.workloads[0].message


def test_sizes_written_into_a_module_are_named(executor: LocalExecutor) -> None:
    fixed = modules.flat(STORE).source.replace("y = torch", "assert x.numel() == 16777216\n        y = torch")
    check = executor.check(plans.model("x * 2", "torch.randn(N)", N=1 << 24), Candidate(fixed, "python"))
    assert check.status == "unsupported", check
    assert "it has N = 16777216 written into its code" in check.message


def test_corners_and_middle_are_named_once_and_the_last_comes_first() -> None:
    assert corners_and_middle((3, 1, 2)) == [(2, 0, 1), (2, 0, 0), (0, 0, 1), (0, 0, 0), (1, 0, 1)]
    assert corners_and_middle((2, 1, 1)) == [(1, 0, 0), (0, 0, 0)]
    assert corners_and_middle((0, 1, 1)) == []


def room(program: Callable[[SizedMemory, int, int], None], programs: int = 8) -> float:
    """Return how many bytes of y so many programs can write; one gets the memory, the address of y and its number."""
    memory = SizedMemory(lambda kernel: SourcePlace(kernel, 1))
    y = memory.add("y", without_contents(1 << 20), 4, watched=True)
    look_at_corners(memory, lambda x, _y, _z: program(memory, y, x), (programs, 1, 1), Pace(1.0, False))
    return memory.room.get(y, 0)


def floats(base: int, *numbers: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return addresses, values and the mask of an access to some floats."""
    at = np.array([base + 4 * n for n in numbers], np.uint64)
    return at, np.zeros(len(at), np.float32), np.ones(len(at), np.bool_)


def test_room_is_what_the_programs_looked_at_can_write_times_their_number() -> None:
    assert room(lambda m, y, x: m.store(*floats(y, x, x + 8, x))) == 8 * 2 * 4
    assert room(lambda m, y, x: m.store(*floats(y, *range(3 if x == 4 else 1)))) == 8 * 3 * 4
    assert room(lambda m, y, x: None) == 0


def test_room_is_unknown_where_it_follows_from_data_atomics_or_faults() -> None:
    def by_data(memory: SizedMemory, y: int, x: int) -> None:
        at, values, mask = floats(y, x)
        memory.store(at + 4 * memory.load(at, mask, values).astype(np.uint64), values, mask)

    def by_atomics(memory: SizedMemory, y: int, x: int) -> None:
        at, values, mask = floats(y, x)
        memory.change(at, mask, values, np.add, (False, False))

    def by_faults(memory: SizedMemory, y: int, x: int) -> None:
        raise MemoryFault

    assert [room(p) for p in (by_data, by_atomics, by_faults)] == [math.inf] * 3


def test_hidden_is_what_there_are_several_of_elsewhere() -> None:
    own = {"loops": 4, "programs": 2, "more": 9, "one": 1}
    assert hidden_by(own, {"programs": 1, "more": 2}) == ["4 loops, here 0", "2 programs, here 1"]
