"""The server's entry in the configuration of MCP clients: written atomically, everything else kept."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forewarp.cli import exits, printing
from forewarp.core.errors import UsageError

NAME = "forewarp"
TIMEOUT_MS = 120_000


@dataclass(frozen=True)
class Client:
    """Location of a client's list of servers; `path` is relative to the project, or to the home folder after "~/"."""

    path: str
    key: str
    typed: bool = False

    @property
    def place(self) -> Path:
        """Path of the configuration file, in the working folder or the home folder."""
        return Path(self.path).expanduser() if self.path.startswith("~") else Path.cwd() / self.path


def clients() -> dict[str, Client]:
    """Return the supported clients by name."""
    desktop = "~/.config/Claude/claude_desktop_config.json"
    if sys.platform == "darwin":
        desktop = "~/Library/Application Support/Claude/claude_desktop_config.json"
    return {
        "claude-code": Client(".mcp.json", "mcpServers"),
        "claude-desktop": Client(desktop, "mcpServers"),
        "cursor": Client(".cursor/mcp.json", "mcpServers"),
        "vscode": Client(".vscode/mcp.json", "servers", typed=True),
        "codex": Client("~/.codex/config.toml", "mcp_servers"),
    }


def install(client: str | Path | None, flags: list[str], *, only_print: bool) -> int:
    """Write the entry, or print it, and say what was written; raises `UsageError`."""
    known = clients()
    chosen = known.get(str(client))
    if chosen is None:
        said = "no client is named" if client is None else f"{str(client)!r} is no client that forewarp knows"
        raise UsageError(said, hint=f"pass `forewarp mcp install` with one of {', '.join(known)}")
    command, *first = _command()
    entry: dict[str, Any] = {"command": command, "args": [*first, "mcp", *flags]}
    if chosen.typed:
        entry = {"type": "stdio"} | entry
    path = chosen.place
    before = _text(path)
    # Claude Code gives up on a call after this time; a value that is in the file already is kept.
    defaults = {"timeout": TIMEOUT_MS} if client == "claude-code" else {}
    text, held = _changed(path, before, chosen.key, entry, defaults)
    if only_print:
        printing.out(text, end="")
        return exits.OK
    _write(path, text)
    said = "unchanged" if text == before else "written" if not before else f"{NAME} set, the rest kept"
    printing.out(f"{path}: {said}")
    printing.out(f"  {chosen.key}.{NAME} = {json.dumps(_shown(held))}")
    doctor = "`forewarp doctor` says what this machine can measure"
    printing.out(f"Restart {client}, or have it read its servers anew; {doctor}.")
    return exits.OK


def _command() -> list[str]:
    """Return the command that starts forewarp from any folder: its script, or this Python with `-m`."""
    script = Path(sys.executable).parent / "forewarp"
    if script.exists():
        return [str(script)]
    found = shutil.which("forewarp")
    return [found] if found else [sys.executable, "-m", "forewarp.cli.main"]


def _shown(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry without the values of its environment and headers: they are often keys."""
    secret = ("env", "headers", "http_headers")
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


def _changed(
    path: Path, before: str, key: str, entry: Mapping[str, Any], defaults: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return the file's text with our entry in it, and that entry, whose other keys are kept; raises `UsageError`."""
    toml = path.suffix == ".toml"
    by_hand = f"nothing was changed; put this into it under {key}: {json.dumps({NAME: {**defaults, **entry}})}"
    try:
        document: Any = tomllib.loads(before) if toml else json.loads(before) if before.strip() else {}
    except ValueError as e:
        raise UsageError(f"{path} is no {'TOML' if toml else 'plain JSON'}: {e}", hint=by_hand) from None
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
    if not toml:
        return json.dumps(whole, indent=2, ensure_ascii=False) + "\n", merged
    text = _edited(before, key, merged)
    if text is None or tomllib.loads(text) != whole:
        table = f"[{key}.{NAME}]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in entry.items())
        raise UsageError(
            f"{path} writes {key} in a way that cannot be changed in place",
            hint=f"nothing was changed; put this there instead:\n{table}",
        )
    return text, merged


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
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A new file is private, because such files may hold API keys.
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
        with os.fdopen(
            os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8", newline=""
        ) as handle:
            os.fchmod(handle.fileno(), mode)  # os.open applied the umask
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        draft.replace(path)
    except OSError as e:
        draft.unlink(missing_ok=True)
        raise UsageError(f"{path} cannot be written: {e.strerror}", hint="pass --print") from None
