from __future__ import annotations

from pathlib import Path

import forewarp
from forewarp.core import serde
from forewarp.core.values import Target
from forewarp.gpu_runner.worker.tracebacks import format_error


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
