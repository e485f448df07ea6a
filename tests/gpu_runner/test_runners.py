"""A module's result: what is part of its call, and where it is put."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support.small_tasks import cpp, small_task

from forewarp.core.values import Signature, TensorSpec
from forewarp.gpu_runner.executors.artifacts import manifest_of
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.gpu_runner.worker.arena import ALIGN, Layout
from forewarp.gpu_runner.worker.runners import (
    LAST,
    Buffers,
    ModuleRunner,
    NativeRunner,
    find_plan,
    follows,
    make_wait,
)

VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "transposed": lambda x: x.t(),
    "expanded": lambda x: x[:1].expand(4, -1),
    "negative": lambda x: x.to(torch.complex64).conj().imag,
    "conjugate": lambda x: x.to(torch.complex64).conj(),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_view_becomes_a_tensor_of_its_own_within_the_call(view: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.randn(4, 4)
    expected = view(x).clone()
    seen: list[torch.Tensor] = []

    def wait() -> None:
        """Look at the result when the clock stops."""
        seen.extend(runner._results[0])  # pyright: ignore[reportPrivateUsage]

    runner = ModuleRunner(view, [[x]], [[torch.empty_like(expected)]], wait)
    runner.run(0)
    (result,) = seen
    assert result.is_contiguous()
    assert not result.is_neg()
    assert not result.is_conj()
    assert torch.equal(result, expected)


def test_a_native_call_ends_when_the_device_has_done_what_it_launched(cpu_executor: LocalExecutor) -> None:
    task = small_task()
    build = cpu_executor.compile(task, cpp())
    assert build.status == "ok", build.log
    x, weight, y = torch.randn(64, 256), torch.randn(256), torch.zeros(64, 256)
    manifest = manifest_of(build)
    buffers = Buffers(find_plan(manifest, "even"), [[x]], {"weight": weight}, [y])
    seen: list[torch.Tensor] = []
    runner = NativeRunner(Path(build.artefact), manifest, "even", buffers, lambda: seen.append(y.clone()))
    assert not seen
    runner.run(0)
    (after,) = seen
    torch.testing.assert_close(after, torch.softmax(x * weight + 0.5, dim=-1))


def test_a_result_goes_where_the_offset_says() -> None:
    room = torch.full((8,), torch.nan)
    places = [[room[start : start + 4]] for start in range(5)]
    runner = ModuleRunner(torch.neg, [[torch.ones(4)]], places, make_wait("cpu"))
    runner.run(0)
    runner.offset = 3
    runner.deliver(LAST)
    assert room.nan_to_num(7.0).tolist() == [7, 7, 7, -1, -1, -1, -1, 7]


def test_a_result_in_the_judges_memory_is_copied_to_the_offset() -> None:
    room = torch.zeros(6)
    places = [[room[start : start + 4]] for start in range(3)]

    def write_in_advance(x: torch.Tensor) -> torch.Tensor:
        return torch.neg(x, out=room[:4])

    runner = ModuleRunner(write_in_advance, [[torch.arange(4.0)]], places, make_wait("cpu"))
    runner.run(0)
    runner.offset = 1
    runner.deliver(0)
    assert room[1:5].tolist() == [0, -1, -2, -3]


def test_a_layout_has_room_for_every_offset() -> None:
    x, y, z = (TensorSpec(name, (3,), "float32") for name in "xyz")
    signature = Signature("w", inputs=(x,), scalars={}, init={}, params=(), outputs=(y, z), flops=None, bytes_moved=0)
    layout = Layout.of(signature, 1, offsets=64)
    first, second = layout.outputs
    assert first + 63 * ALIGN + 12 <= layout.gaps[-2][0] < second
    assert second + 63 * ALIGN + 12 == layout.gaps[-1][0]


class TestReplaysFollowTheirInputs:
    USUAL, OTHERS = torch.tensor([1.0, 2.0]), torch.tensor([3.0, -1.0])

    def test_as_calls_do(self) -> None:
        assert follows([self.OTHERS], [self.OTHERS + 1e-4], [self.USUAL])

    def test_not_where_they_stay_as_they_were(self) -> None:
        assert not follows([self.OTHERS], [self.USUAL], [self.USUAL])

    def test_not_where_one_of_several_stays_as_it_was(self) -> None:
        both = [self.OTHERS, self.OTHERS]
        assert not follows(both, [self.OTHERS, self.USUAL], [self.USUAL, self.USUAL])

    def test_not_where_nothing_shows_it(self) -> None:
        assert not follows([self.USUAL], [self.USUAL], [self.USUAL])

    def test_not_where_they_are_no_numbers(self) -> None:
        assert not follows([self.OTHERS], [self.OTHERS * torch.nan], [self.USUAL])
