from __future__ import annotations

import signal
from pathlib import Path

import forewarp
from forewarp.core import serde
from forewarp.core.values import Target
from forewarp.gpu_runner.worker.tracebacks import ended, format_error


def failing() -> Exception:
    try:
        serde.from_data(Target, {})
    except Exception as e:
        return e
    raise AssertionError


def test_own_files_are_named_without_the_folder_that_holds_forewarp() -> None:
    text = format_error(failing(), 6)
    assert str(Path(forewarp.__file__).parent) not in text
    assert 'File "forewarp/core/serde.py"' in text
    assert f'File "{__file__}"' in text


def test_only_the_last_calls_are_told() -> None:
    assert "test_tracebacks.py" not in format_error(failing(), 1)


def test_an_ending_is_told_also_by_a_signal_without_a_name() -> None:
    told = {status: ended(status) for status in (3, -int(signal.SIGSEGV), -int(signal.SIGRTMIN) - 6, None)}
    nameless = f"ended by signal {int(signal.SIGRTMIN) + 6}"
    assert list(told.values()) == [
        "left with exit status 3",
        "ended by SIGSEGV",
        nameless,
        "ended in a way that is not known",
    ]


def test_hooks_that_watch_operations_are_left_out() -> None:
    class Watching:
        def __torch_dispatch__(self) -> None:
            raise ValueError("too small")

    try:
        Watching().__torch_dispatch__()
    except ValueError as e:
        text = format_error(e, 6)
    assert "in __torch_dispatch__" not in text
    assert "in test_hooks_that_watch" in text
    assert text.endswith("ValueError: too small\n")
