"""`forewarp validate` as a person and as a program sees it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forewarp.cli import exits
from forewarp.cli.main import main
from forewarp.report import documents

pytest.importorskip("torch")

REFERENCE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=DIM)

DIM = 1

def get_inputs():
    return [torch.randn(SHAPE)]

SHAPE = (64, 1)

def get_init_inputs():
    return []
"""


@pytest.fixture(scope="module")
def degenerate(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("task") / "single.py"
    path.write_text(REFERENCE)
    return str(path)


@pytest.mark.slow
def test_a_degenerate_task_is_said_to_be_one(degenerate: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", degenerate, "--device", "cpu"]) == exits.NO_KERNEL
    out, err = capsys.readouterr()
    assert out.startswith("Degenerate: no speed-up on single means anything.")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "default ones 0 0 let through lets it through" in lines
    assert not any("sign flipped" in line for line in lines[1:])  # it was turned down, and -v was not given
    assert err == ""


@pytest.mark.slow
def test_json_holds_one_document_that_fits_its_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.py"
    path.write_text(REFERENCE.replace("(64, 1)", "(64, 32)"))
    assert main(["validate", str(path), "--device", "cpu", "--json"]) == exits.OK
    out, _ = capsys.readouterr()
    assert out.count("\n") == 1
    found = documents.DOCUMENTS["validate"].model_validate(json.loads(out))
    assert (found.command, found.status, found.verdict, found.task) == ("validate", "sound", "sound", "rows")
    assert found.device.kind == "cpu"
    (workload,) = found.workloads
    assert not any(n.passed for n in workload.nulls)


def test_an_unknown_task_is_a_wrong_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "sofmax", "--device", "cpu", "--json"]) == exits.USAGE
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["code"] == "task"
    assert "no task is called 'sofmax'" in err
