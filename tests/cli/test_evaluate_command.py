"""`forewarp evaluate` by its command line: what it prints, and the files that it leaves."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.judged_pool import write

from forewarp.cli.main import main
from forewarp.report import documents


@pytest.fixture
def pool(tmp_path: Path) -> str:
    return write(tmp_path / "pool.parquet")


def test_two_forecasters_side_by_side(pool: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", pool, "--forecasters", "climatology,uniform", "--resamples", "20"]) == 0
    out = capsys.readouterr().out
    assert "climatology − uniform, paired" in out
    assert "Spearman in a task, median ↑" in out
    assert "top 10 %" in out
    assert max(map(len, out.splitlines())) <= 120


def test_json_and_files(pool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "here"
    flags = ["--forecasters", "learned, uniform", "--history", "3", "--resamples", "20", "--out", str(folder)]
    assert main(["evaluate", pool, *flags, "--json"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    document = json.loads(out)
    documents.DOCUMENTS["evaluate"].model_validate(document)
    assert json.loads((folder / "evaluation.json").read_text()) == document
    assert {Path(a["path"]).name for a in document["artifacts"]} == {
        *("evaluation.md", "evaluation.json", "forecasts.parquet")
    }
    text = (folder / "evaluation.md").read_text()
    assert "## learned − uniform, paired" in text
    assert "| exact bin ↑ |" in text
    assert main(["evaluate", pool, "--recorded", str(folder / "forecasts.parquet"), "--resamples", "20"]) == 0
    assert "learned − uniform" in capsys.readouterr().out


def test_refusals_are_documents_too(pool: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", pool, "--split", "validation", "--json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["error"]["code"] == "usage"
    assert "--split" in document["error"]["hint"]
    assert main(["evaluate", pool, "--history", "-1"]) == 2
    capsys.readouterr()
    assert main(["evaluate", "--recorded", "nowhere.parquet"]) == 2
    assert "there are no recorded forecasts at nowhere.parquet" in capsys.readouterr().err
    assert main(["evaluate", "--help"]) == 0
    assert "--recorded" in capsys.readouterr().out


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An OpenAI-compatible server of two models: base always bets on the fifth bin, trained on all of them."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            named = re.findall(r"### (c\d+):", json.dumps(asked["messages"]))
            p = [0.125] * 8 if asked["model"] == "trained" else [0, 0, 0, 0, 1, 0, 0, 0]
            each = [{"candidate": c, "rationale": "", "median": 1.2, "p": p, "p_valid": 0.9} for c in named]
            call = {"name": "final_result", "arguments": json.dumps({"analysis": "", "forecasts": each})}
            said = {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "1", "type": "function", "function": call}],
            }
            reply = {"id": "1", "object": "chat.completion", "created": 0, "model": asked["model"]}
            reply["choices"] = [{"index": 0, "finish_reason": "tool_calls", "message": said}]
            body = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def test_a_trained_model_beside_its_base(pool: str, served: str, capsys: pytest.CaptureFixture[str]) -> None:
    models = ["--model", "openai:base", "--model", "openai:trained", "--base-url", served]
    assert main(["evaluate", pool, "--forecasters", "llm", *models, "--resamples", "20", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    names = [f["name"] for f in found["forecasters"]]
    assert [n.partition("@")[0] for n in names] == ["llm:openai:base", "llm:openai:trained"]
    (apart,) = found["differences"]
    assert [apart["first"], apart["second"]] == names
    assert apart["figures"]["crps"]["value"] is not None
    assert main(["evaluate", pool, "--forecasters", "cascade", *models]) == 2
    assert "one model" in capsys.readouterr().err
