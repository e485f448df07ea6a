"""Writing the server into clients' configurations: what is there stays, and nothing is left half written."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest

from forewarp.cli import jsonc
from forewarp.cli.main import main


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "bin").mkdir()
    # The clients' own commands are here only where a test puts them.
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")


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
    file.write_text("{ 'mine': 1 }")
    assert main(["mcp", "install", "claude-code"]) == 2
    assert "nothing was changed" in capsys.readouterr().err
    assert file.read_text() == "{ 'mine': 1 }"


def test_a_client_has_to_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "install"]) == 2
    assert "claude-code" in capsys.readouterr().err


def test_an_unknown_client_is_named_with_those_that_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "install", "emacs"]) == 2
    told = capsys.readouterr().err
    assert "'emacs'" in told
    assert "claude-desktop" in told


CODEX = '''\
# mine
model = "m"   # why
notes = """
[mcp_servers.forewarp]
command = "this is text"
"""

[mcp_servers.forewarp]   # by hand
command = "old"
args = [
    "mcp",  # first
]
startup_timeout_sec = 20
enabled = false
note = """
[other]
"""

[mcp_servers.forewarp.env]   # keys
KEY = "secret"

[mcp_servers.other]
command = "x"
'''


def codex(home: Path, text: str) -> Path:
    file = home / ".codex" / "config.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text.encode())
    return file


def test_codex_keeps_strings_comments_and_what_the_user_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = codex(tmp_path, CODEX)
    assert main(["mcp", "install", "codex", "--device", "cpu"]) == 0
    assert "secret" not in capsys.readouterr().out
    text = file.read_text()
    changed = ('command = "old"', "args = [", '    "mcp",  # first', "]")
    assert [line for line in CODEX.splitlines() if line not in text.splitlines()] == list(changed)
    before, after = tomllib.loads(CODEX), tomllib.loads(text)
    ours = after["mcp_servers"].pop("forewarp")
    theirs = before["mcp_servers"].pop("forewarp")
    assert after == before
    assert {k: v for k, v in ours.items() if k not in ("command", "args")} == {
        k: v for k, v in theirs.items() if k not in ("command", "args")
    }
    assert "--device" in ours["args"]
    assert main(["mcp", "install", "codex", "--device", "cpu"]) == 0
    assert "unchanged" in capsys.readouterr().out
    assert file.read_text() == text


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers = { other = { command = "x" } }  # inline\n[tui]\na = 1\n',
        '[mcp_servers]\nother = { command = "x" }\nforewarp = { command = "old", env = { A = "b" }, note = 1 }\n',
        'mcp_servers.forewarp.command = "old"\nmcp_servers.forewarp.env.A = "b"\nmcp_servers.other.command = "x"\n',
        '[mcp_servers."forewarp"]\ncommand = "x"\nenabled = false\n',
        '[mcp_servers.a]\ncommand = "a"\n[tui]\nx = 1\n[mcp_servers.forewarp.env]\nK = "v"\n[mcp_servers.b]\nc = 1\n',
        'model = "m"',
        'model = "m"\r\n\r\n[mcp_servers.other]\r\ncommand = "x"\r\n',
    ],
)
def test_codex_keeps_every_way_of_writing_tables(tmp_path: Path, text: str) -> None:
    file = codex(tmp_path, text)
    assert main(["mcp", "install", "codex"]) == 0
    before, after = tomllib.loads(text), tomllib.loads(file.read_bytes().decode())
    theirs, ours = before.get("mcp_servers", {}).pop("forewarp", {}), after["mcp_servers"].pop("forewarp")
    assert {"mcp_servers": {}} | after == {"mcp_servers": {}} | before
    assert ours == theirs | {"command": ours["command"], "args": ours["args"]}
    assert file.read_bytes().count(b"\r\n") == text.count("\r\n")


def test_a_value_in_place_of_the_servers_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = codex(tmp_path, "mcp_servers = 3\n")
    assert main(["mcp", "install", "codex"]) == 2
    assert "nothing was changed" in capsys.readouterr().err
    assert file.read_text() == "mcp_servers = 3\n"


@pytest.mark.parametrize("client", ["claude-code", "vscode"])
def test_reinstalling_keeps_what_the_user_set(tmp_path: Path, client: str) -> None:
    assert main(["mcp", "install", client, "--device", "cpu", "--max-usd", "3"]) == 0
    file = tmp_path / "project" / (".mcp.json" if client == "claude-code" else ".vscode/mcp.json")
    document = json.loads(file.read_text())
    (key,) = document
    mine = {"env": {"KEY": "v"}, "disabled": True, "timeout": 7, "alwaysAllow": ["describe"]}
    document[key]["forewarp"] |= mine
    file.write_text(json.dumps(document))
    assert main(["mcp", "install", client, "--device", "cuda"]) == 0
    entry = json.loads(file.read_text())[key]["forewarp"]
    assert entry | mine == entry
    assert "cuda" in entry["args"]
    assert "--max-usd" not in entry["args"]


def test_an_entry_that_reaches_a_server_by_url_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "project" / ".mcp.json"
    text = json.dumps({"mcpServers": {"forewarp": {"type": "http", "url": "http://box:8000/mcp"}}})
    file.write_text(text)
    assert main(["mcp", "install", "claude-code"]) == 2
    assert "http://box:8000/mcp" in capsys.readouterr().err
    assert file.read_text() == text


@pytest.mark.parametrize("action", [["install", "cursor"], ["bundle", "forewarp.mcpb"]])
def test_every_flag_is_installed_or_refused_by_name(
    action: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for flag, value in (("--http", "127.0.0.1:8000"), ("--host-name", "box")):
        assert main(["mcp", *action, flag, value]) == 2
        assert flag in capsys.readouterr().err
    assert list((tmp_path / "project").iterdir()) == []
    assert main(["mcp", *action, "--keep-warm", "30", "--print"]) == 0
    assert '"--keep-warm",\n' in capsys.readouterr().out


STUB = """\
#!/bin/sh
printf '%s\\n' "$@" > "$0.args"
[ ! -e "$0.fails" ] || { echo "no such scope" >&2; exit 1; }
"""


def stub(home: Path, name: str, *, fails: bool = False) -> Path:
    """Put a command in the place of a client's own; returns the file that it writes its arguments to."""
    command = home / "bin" / name
    command.write_text(STUB)
    command.chmod(0o755)
    if fails:
        (home / "bin" / f"{name}.fails").touch()
    return home / "bin" / f"{name}.args"


@pytest.mark.parametrize(
    ("client", "name", "begins"),
    [
        ("claude-code", "claude", ["mcp", "add-json", "--scope", "project", "forewarp"]),
        ("codex", "codex", ["mcp", "add", "forewarp", "--"]),
        ("vscode", "code", ["--add-mcp"]),
        ("opencode", "opencode", ["mcp", "add", "forewarp", "--"]),
    ],
)
def test_a_new_entry_is_added_by_the_clients_own_command(
    tmp_path: Path, client: str, name: str, begins: list[str]
) -> None:
    written = stub(tmp_path, name)
    assert main(["mcp", "install", client, "--device", "cpu"]) == 0
    words = written.read_text().splitlines()
    assert words[: len(begins)] == begins
    rest = words[len(begins) :]
    args = rest[1:] if len(rest) > 1 else json.loads(rest[0])["args"]
    assert args[-4:] == ["--device", "cpu", "--workspace", str(tmp_path / "project")]
    kept = (".mcp.json", ".vscode/mcp.json", "../.codex/config.toml", "../.config/opencode/opencode.jsonc")
    assert not [path for path in kept if (tmp_path / "project" / path).exists()]


def test_an_entry_that_is_there_is_changed_in_place(tmp_path: Path) -> None:
    written = stub(tmp_path, "codex")
    file = codex(tmp_path, CODEX)
    assert main(["mcp", "install", "codex"]) == 0
    assert not written.exists()
    assert 'KEY = "secret"' in file.read_text()


def test_arguments_that_a_client_wrote_as_numbers_are_mended(tmp_path: Path) -> None:
    file = tmp_path / ".config" / "opencode" / "opencode.jsonc"
    file.parent.mkdir(parents=True)
    stub(tmp_path, "opencode")
    entry = {"type": "local", "command": ["forewarp", "mcp", "--max-measurements", 200]}
    written = json.dumps({"theme": "dark", "mcp": {"forewarp": entry}})
    (tmp_path / "bin" / "opencode").write_text(f"#!/bin/sh\necho '{written}' > '{file}'\n")
    assert main(["mcp", "install", "opencode", "--max-measurements", "200"]) == 0
    found = json.loads(file.read_text())
    assert (found["theme"], "200" in found["mcp"]["forewarp"]["command"]) == ("dark", True)


def test_a_command_that_fails_leaves_what_to_paste(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stub(tmp_path, "claude", fails=True)
    assert main(["mcp", "install", "claude-code"]) == 2
    told = capsys.readouterr().err
    assert "no such scope" in told
    assert "paste this" in told
    assert not (tmp_path / "project" / ".mcp.json").exists()


def test_uninstalling_takes_the_clients_own_command_or_the_entry_alone(tmp_path: Path) -> None:
    for client, path in (
        ("claude-code", ".mcp.json"),
        ("vscode", ".vscode/mcp.json"),
        ("codex", "../.codex/config.toml"),
    ):
        file = tmp_path / "project" / path
        file.parent.mkdir(exist_ok=True)
        file.write_text("# mine\n[mcp_servers.other]\ncommand = 'x'\n" if client == "codex" else "{ // mine\n}\n")
        before = file.read_text()
        assert main(["mcp", "install", client]) == 0
        assert "mine" in file.read_text()
        assert main(["mcp", "uninstall", client]) == 0
        assert "forewarp" not in file.read_text()
        assert all(line in file.read_text() for line in before.split("\n"))
        assert main(["mcp", "uninstall", client]) == 0
    assert main(["mcp", "install", "claude-code"]) == 0
    written = stub(tmp_path, "claude")
    assert main(["mcp", "uninstall", "claude-code"]) == 0
    assert written.read_text().splitlines() == ["mcp", "remove", "--scope", "project", "forewarp"]


def test_a_skill_comes_and_goes_with_the_entry(tmp_path: Path) -> None:
    skill = tmp_path / "project" / ".claude" / "skills" / "forewarp" / "SKILL.md"
    assert main(["mcp", "install", "claude-code"]) == 0
    assert skill.read_text().startswith("---\nname: forewarp\ndescription: ")
    assert main(["mcp", "uninstall", "claude-code"]) == 0
    assert not skill.exists()
    skill.parent.mkdir(parents=True)
    skill.write_text("mine")
    assert main(["mcp", "install", "claude-code"]) == 0
    assert main(["mcp", "uninstall", "claude-code"]) == 0
    assert skill.read_text() == "mine"


COMMENTED = """\
{
  // mine
  "theme": "dark",  /* why */
  "servers": {
    "other": { "command": "x", }, // last
  },
}
"""


def test_comments_order_and_trailing_commas_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "project" / ".vscode" / "mcp.json"
    file.parent.mkdir()
    file.write_text(COMMENTED)
    assert main(["mcp", "install", "vscode", "--device", "cpu"]) == 0
    text = file.read_text()
    assert all(line in text for line in COMMENTED.splitlines())
    held = jsonc.loads(text)
    assert list(held) == ["theme", "servers"]
    assert list(held["servers"]) == ["other", "forewarp"]
    assert main(["mcp", "uninstall", "vscode"]) == 0
    assert jsonc.loads(file.read_text()) == jsonc.loads(COMMENTED)
    assert file.read_text().count("//") == 2
