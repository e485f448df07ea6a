"""Tables of tuned kernels in a terminal."""

from __future__ import annotations

import io

from rich.console import Console

from forewarp.report.tune_tables import render
from forewarp.tools.parts import Device
from forewarp.tools.tune import TriedConfiguration, TunedKernel, TuneResult

FIVE = "BLOCK_SIZE_M={} BLOCK_SIZE_N=256 BLOCK_SIZE_K=64 GROUP_SIZE_M=16 SPLIT_K=4 num_warps=8 num_stages=4"


def tried(configuration: str) -> TriedConfiguration:
    return TriedConfiguration(
        configuration=configuration,
        forecast=1.07,
        registers=255,
        spills=0,
        shared_bytes=200 << 10,
        measured_us=1288.4,
        speedup=2.77,
        low=2.48,
        high=3.1,
        proposed=False,
        checked=True,
        problem="",
    )


def printed(labels: list[str], width: int, best: int = 0) -> list[str]:
    rows = [tried(label) for label in labels]
    kernel = TunedKernel(
        kernel="moe",
        call="run(16)",
        key={},
        guessed=False,
        considered=1920,
        proposed=0,
        compiled=24,
        measured=9,
        best=rows[best],
        baseline=labels[-1],
        chosen_by="measurement",
        configurations=rows,
        protections=[],
    )
    device = Device(name="NVIDIA H100", kind="cuda", arch="sm_90")
    result = TuneResult(
        summary="", target=device, forecasts="1", kernels=[kernel], problems=[], device_s=1.0, table="", patch=""
    )
    out = io.StringIO()
    render(result, Console(file=out, width=width))
    return out.getvalue().splitlines()


def test_configurations_of_five_keys_take_a_line_each_at_100_columns() -> None:
    lines = printed([FIVE.format(128), FIVE.format(64)], 100)
    rows = [line for line in lines if "checked" in line]
    assert [row.split()[:7] for row in rows] == [
        ["128", "256", "64", "16", "4", "8", "4"],
        ["64", "256", "64", "16", "4", "8", "4"],
    ]
    assert all("2.77× [2.48, 3.10]" in row and "1288.4 µs" in row for row in rows)
    assert "configuration: BLOCK_SIZE_M BLOCK_SIZE_N" in "\n".join(lines)


def test_short_configurations_keep_their_names() -> None:
    lines = printed(["ROWS=1 BLOCK=64", "ROWS=16 BLOCK=64"], 100)
    assert [line.split()[:2] for line in lines if "checked" in line] == [
        ["ROWS=1", "BLOCK=64"],
        ["ROWS=16", "BLOCK=64"],
    ]


def test_the_chosen_one_is_named_where_another_stands_first() -> None:
    lines = printed(["BLOCK=64", "BLOCK=128"], 100, best=1)
    assert "chosen: BLOCK=128" in lines
    assert not [line for line in printed(["BLOCK=64", "BLOCK=128"], 100) if "chosen" in line]
