"""The server's entry in the configuration of MCP clients: added by the client's own command, else written in place."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forewarp.cli import exits, jsonc, printing
from forewarp.core.errors import UsageError
from forewarp.core.files import write_whole, writing
from forewarp.prompts.render import render

NAME = "forewarp"
TIMEOUT_MS = 120_000
COMMAND_S = 60
SKILL_MARK = "<!-- Written by `forewarp mcp install`"


@dataclass(frozen=True)
class Client:
    """Location of a client's list of servers, its own commands for it, and its folder of skills.

    Paths are relative to the project, or to the home folder after "~/". In commands, `{json}` stands for the entry,
    `{named}` for the entry with its name, and `{command}` for the words that start the server.
    """

    path: str
    key: str
    typed: bool = False
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    skills: str = ""
    timeout: bool = False

    @property
    def place(self) -> Path:
        """Path of the configuration file, in the working folder or the home folder."""
        return _place(self.path)

    @property
    def own(self) -> str | None:
        """Return the client's command for adding servers; None where it is not here, or there is none."""
        return shutil.which(self.add[0]) if self.add else None


def _place(path: str) -> Path:
    return Path(path).expanduser() if path.startswith("~") else Path.cwd() / path


def clients() -> dict[str, Client]:
    """Return the supported clients by name."""
    desktop = "~/.config/Claude/claude_desktop_config.json"
    if sys.platform == "darwin":
        desktop = "~/Library/Application Support/Claude/claude_desktop_config.json"
    return {
        "claude-code": Client(
            ".mcp.json",
            "mcpServers",
            add=("claude", "mcp", "add-json", "--scope", "project", NAME, "{json}"),
            remove=("claude", "mcp", "remove", "--scope", "project", NAME),
            skills=".claude/skills",
            timeout=True,
        ),
        "claude-desktop": Client(desktop, "mcpServers"),
        "cursor": Client(".cursor/mcp.json", "mcpServers"),
        "vscode": Client(".vscode/mcp.json", "servers", typed=True, add=("code", "--add-mcp", "{named}")),
        "codex": Client(
            "~/.codex/config.toml",
            "mcp_servers",
            add=("codex", "mcp", "add", NAME, "--", "{command}"),
            remove=("codex", "mcp", "remove", NAME),
            skills="~/.codex/skills",
        ),
        "opencode": Client(
            "~/.config/opencode/opencode.jsonc",
            "mcp",
            add=("opencode", "mcp", "add", NAME, "--", "{command}"),
            skills="~/.config/opencode/skills",
        ),
    }


def _chosen(client: str | Path | None, verb: str) -> Client:
    known = clients()
    chosen = known.get(str(client))
    if chosen is None:
        said = "no client is named" if client is None else f"{str(client)!r} is no client that forewarp knows"
        raise UsageError(said, hint=f"pass `forewarp mcp {verb}` with one of {', '.join(known)}")
    return chosen


def install(client: str | Path | None, flags: list[str], *, only_print: bool) -> int:
    """Add the entry and the skill, or print the entry, and say what was done; raises `UsageError`.

    An entry that is there is changed in place: the clients' own commands refuse that, or drop what the user has set.
    """
    chosen = _chosen(client, "install")
    command, *first = _command()
    words = [command, *first, "mcp", *flags]
    entry: dict[str, Any] = {"command": command, "args": words[1:]}
    if client == "opencode":
        entry = {"type": "local", "command": words}
    elif chosen.typed:
        entry = {"type": "stdio"} | entry
    path = chosen.place
    before = _text(path)
    # Claude Code gives up on a call after this time; a value that is in the file already is kept.
    defaults = {"timeout": TIMEOUT_MS} if chosen.timeout else {}
    text, held = _changed(path, before, chosen.key, entry, defaults)
    if only_print:
        printing.out(text, end="")
        return exits.OK
    if NAME not in _servers(path, before, chosen.key) and (own := chosen.own) is not None:
        _run(own, _filled(chosen.add[1:], words, held), entry=held)
        printing.out(f"{' '.join(chosen.add[:3])}: {NAME} added")
        if NAME in _servers(path, after := _text(path), chosen.key):
            # OpenCode writes an argument such as 200 as a number, and then refuses its own file.
            _write(path, _changed(path, after, chosen.key, entry, defaults)[0])
    else:
        _write(path, text)
        said = "unchanged" if text == before else "written" if not before else f"{NAME} set, the rest kept"
        printing.out(f"{path}: {said}")
    printing.out(f"  {chosen.key}.{NAME} = {json.dumps(_shown(held))}")
    if chosen.skills:
        _write_skill(chosen)
    doctor = "`forewarp doctor` says what this machine can measure"
    printing.out(f"Restart {client}, or have it read its servers anew; {doctor}.")
    return exits.OK


def uninstall(client: str | Path | None) -> int:
    """Remove the entry and the skill, and say what was done; raises `UsageError`."""
    chosen = _chosen(client, "uninstall")
    path = chosen.place
    before = _text(path)
    there = NAME in _servers(path, before, chosen.key)
    own = shutil.which(chosen.remove[0]) if chosen.remove else None
    if there and own is not None:
        _run(own, chosen.remove[1:], entry=None)
        printing.out(f"{' '.join(chosen.remove[:3])}: {NAME} removed")
    elif there:
        _write(path, _removed(path, before, chosen.key))
        printing.out(f"{path}: {NAME} removed, the rest kept")
    else:
        elsewhere = "; what `code --add-mcp` added is removed in VS Code, by MCP: List Servers" if chosen.typed else ""
        printing.out(f"{path}: {NAME} is not there{elsewhere}")
    if chosen.skills and (skill := _skill(chosen)).exists() and SKILL_MARK in _text(skill):
        shutil.rmtree(skill.parent)
        printing.out(f"{skill}: removed")
    return exits.OK


def _filled(words: Sequence[str], command: list[str], entry: Mapping[str, Any]) -> list[str]:
    """Return the words of a client's command with the entry in them."""
    texts = {"{json}": json.dumps(entry), "{named}": json.dumps({"name": NAME} | dict(entry))}
    return [part for word in words for part in (command if word == "{command}" else [texts.get(word, word)])]


def _run(command: str, words: Sequence[str], *, entry: Mapping[str, Any] | None) -> None:
    """Run a client's own command; raises `UsageError` with what it said, and the entry to paste."""
    try:
        done = subprocess.run(
            [command, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=COMMAND_S, check=False
        )
        said, failed = (done.stderr.strip() or done.stdout.strip())[-500:], done.returncode != 0
    except (OSError, subprocess.TimeoutExpired) as e:
        said, failed = str(e), True
    if failed:
        hint = "" if entry is None else f"nothing was changed; paste this into its configuration: {json.dumps(entry)}"
        raise UsageError(f"{Path(command).name} {' '.join(words[:2])} failed: {said}", hint=hint)


def _skill(client: Client) -> Path:
    return _place(client.skills) / NAME / "SKILL.md"


def _write_skill(client: Client) -> None:
    """Write the skill that teaches the loop, unless there is one of somebody else's under its name."""
    path = _skill(client)
    before = _text(path)
    if before and SKILL_MARK not in before:
        printing.out(f"{path}: kept, forewarp did not write it")
        return
    _write(path, render("mcp_skill.j2"))
    printing.out(f"{path}: the skill that teaches the loop")


def _command() -> list[str]:
    """Return the command that starts forewarp, and imports nothing of the folder that it starts in."""
    script = Path(sys.executable).parent / "forewarp"
    if script.exists():
        return [str(script)]
    found = shutil.which("forewarp")
    return [found] if found else [sys.executable, "-P", "-m", "forewarp.cli.main"]


def _shown(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry without the values of its environment and headers: they are often keys."""
    secret = ("env", "environment", "headers", "http_headers")
    return {k: dict.fromkeys(v, "…") if k in secret and isinstance(v, Mapping) else v for k, v in entry.items()}


def _text(path: Path) -> str:
    try:
        # Line ends stay as they are.
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"{path} cannot be read: {e}", hint="pass --print, and put the entry there yourself") from None


def _document(path: Path, text: str) -> Any:
    """Return what a configuration file holds; raises `ValueError`."""
    if path.suffix == ".toml":
        return tomllib.loads(text)
    return jsonc.loads(text) if text.strip() else {}


def _servers(path: Path, text: str, key: str) -> Mapping[str, Any]:
    """Return a file's servers by name; none where they cannot be read."""
    try:
        document = _document(path, text)
    except ValueError:
        return {}
    found = document.get(key) if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}


def _changed(
    path: Path, before: str, key: str, entry: Mapping[str, Any], defaults: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return the file's text with our entry in it, and that entry, whose other keys are kept; raises `UsageError`."""
    toml = path.suffix == ".toml"
    by_hand = f"nothing was changed; put this into it under {key}: {json.dumps({NAME: {**defaults, **entry}})}"
    try:
        document: Any = _document(path, before)
    except ValueError as e:
        raise UsageError(f"{path} is no {'TOML' if toml else 'JSON'}: {e}", hint=by_hand) from None
    servers: Any = document.get(key, {}) if isinstance(document, dict) else None
    ours: Any = servers.get(NAME, {}) if isinstance(servers, dict) else None
    if not isinstance(ours, dict):
        raise UsageError(f"{path} does not hold what {key} should be", hint="nothing was changed; pass --print")
    if "url" in ours:
        raise UsageError(
            f"{path} has {key}.{NAME} already, for a server that is reached at {ours['url']}",
            hint="nothing was changed; remove that entry first if the client is to start the server itself",
        )
    merged: dict[str, Any] = {**defaults, **ours, **entry}
    whole = document | {key: servers | {NAME: merged}}
    text = _edited(before, key, merged) if toml else _with_entry(before, key, ours, merged)
    if text is None or _document(path, text) != whole:
        table = f"[{key}.{NAME}]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in entry.items())
        raise UsageError(
            f"{path} writes {key} in a way that cannot be changed in place",
            hint=f"nothing was changed; put this there instead:\n{table}" if toml else by_hand,
        )
    return text, merged


def _with_entry(before: str, key: str, ours: Mapping[str, Any], merged: Mapping[str, Any]) -> str | None:
    """Return a JSON text in which only what differs of our entry is changed; None where that cannot be done."""
    text = before if before.strip() else "{}\n"
    try:
        if not ours:
            return jsonc.with_member(text, (key, NAME), merged)
        for name, value in merged.items():
            if ours.get(name) != value:
                text = jsonc.with_member(text, (key, NAME, name), value)
    except ValueError:
        return None
    return text


def _removed(path: Path, before: str, key: str) -> str:
    """Return the file's text without our entry; raises `UsageError`."""
    if path.suffix == ".toml":
        import tomlkit

        parsed: Any = tomlkit.parse(before)
        parsed[key].pop(NAME)
        text = tomlkit.dumps(parsed)
    else:
        text = jsonc.without_member(before, (key, NAME))
    document = _document(path, before)
    rest = {name: value for name, value in document[key].items() if name != NAME}
    after = _document(path, text)
    if {key: {}} | after != document | {key: rest}:
        raise UsageError(f"{path} cannot be changed in place", hint=f"nothing was changed; delete {key}.{NAME} there")
    return text


def _edited(before: str, key: str, merged: Mapping[str, Any]) -> str | None:
    """Return a TOML text in which only our keys are changed; None where it is written in a way that defies this."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError
    from tomlkit.items import InlineTable

    try:
        document: Any = tomlkit.parse(before)
        if key not in document:
            document.add(key, tomlkit.table(is_super_table=True))
        servers = document[key]
        if NAME not in servers:
            servers[NAME] = tomlkit.inline_table() if isinstance(servers, InlineTable) else tomlkit.table()
        for name, value in merged.items():
            if name not in servers[NAME] or servers[NAME][name] != value:
                servers[NAME][name] = value
        text = tomlkit.dumps(document)
        tomllib.loads(text)
    except (TOMLKitError, tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError):
        return None
    return text


def _write(path: Path, text: str) -> None:
    """Replace the file atomically and keep its permissions; of a symbolic link, the target is replaced."""
    path = path.resolve()
    with writing(path, "pass --print"):
        # A new file is private, because such files may hold API keys.
        write_whole(path, text, path.stat().st_mode & 0o777 if path.exists() else 0o600)
