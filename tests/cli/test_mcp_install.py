"""Writing the server into clients' configurations: what is there stays, and nothing is left half written."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest

from forewarp.cli.main import main


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("client", "path", "key"),
    [
        ("claude-code", "project/.mcp.json", "mcpServers"),
        ("claude-desktop", ".config/Claude/claude_desktop_config.json", "mcpServers"),
        ("cursor", "project/.cursor/mcp.json", "mcpServers"),
        ("vscode", "project/.vscode/mcp.json", "servers"),
    ],
)
def test_json_configurations_keep_what_they_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], client: str, path: str, key: str
) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({key: {"other": {"command": "x"}}, "theme": "dark"}))
    file.chmod(0o640)
    before = os.umask(0o077)
    try:
        assert main(["mcp", "install", client, "--device", "cpu", "--max-measurements", "50"]) == 0
    finally:
        os.umask(before)
    assert str(file) in capsys.readouterr().out
    held = json.loads(file.read_text())
    assert (held["theme"], held[key]["other"]) == ("dark", {"command": "x"})
    entry = held[key]["forewarp"]
    assert "mcp" in entry["args"]
    assert entry["args"][-6:] == [
        *("--device", "cpu", "--max-measurements", "50"),
        *("--workspace", str(tmp_path / "project")),
    ]
    assert file.stat().st_mode & 0o777 == 0o640
    assert [p.name for p in file.parent.iterdir() if "forewarp" in p.name or p.name.endswith("tmp")] == []
    assert main(["mcp", "install", client, "--device", "cpu", "--max-measurements", "50"]) == 0
    assert "unchanged" in capsys.readouterr().out


def test_codex_keeps_comments_and_replaces_its_own_table(tmp_path: Path) -> None:
    file = tmp_path / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text(
        '# mine\nmodel = "m"\n\n[mcp_servers.forewarp]\ncommand = "old"\n\n[mcp_servers.other]\ncommand = "x"\n'
    )
    assert main(["mcp", "install", "codex"]) == 0
    text = file.read_text()
    held = tomllib.loads(text)
    assert text.startswith("# mine\n")
    assert held["mcp_servers"]["other"] == {"command": "x"}
    assert held["mcp_servers"]["forewarp"]["command"] != "old"


def test_printing_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "install", "cursor", "--print"]) == 0
    assert "forewarp" in json.loads(capsys.readouterr().out)["mcpServers"]
    assert not (tmp_path / "project" / ".cursor").exists()


def test_a_file_that_is_no_json_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "project" / ".mcp.json"
    file.write_text("{ // mine\n}")
    assert main(["mcp", "install", "claude-code"]) == 2
    assert "nothing was changed" in capsys.readouterr().err
    assert file.read_text() == "{ // mine\n}"


def test_a_client_has_to_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "install"]) == 2
    assert "claude-code" in capsys.readouterr().err


def test_an_unknown_client_is_named_with_those_that_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "install", "emacs"]) == 2
    told = capsys.readouterr().err
    assert "'emacs'" in told
    assert "claude-desktop" in told
