"""The server's entry in the configuration of MCP clients: written atomically, everything else kept."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from forewarp.cli import exits, printing
from forewarp.core.errors import UsageError

if TYPE_CHECKING:
    from forewarp.cli.options import Where

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


def given_of(
    where: Where,
    limits: Mapping[str, object],
    unset: Mapping[str, object],
    workspace: Path | None,
    base_url: str | None,
    keep_warm: float | None = None,
) -> dict[str, str]:
    """Return the flags that were given, without their dashes, and their values; paths are absolute."""
    given: dict[str, Any] = {}
    if where.device != "auto":
        given["device"] = where.device
    if where.executor != "local":
        given["executor"] = where.executor
    given |= {name: getattr(where, name) for name in ("pool", "archive", "python")}
    given |= {name: value for name, value in limits.items() if value != unset[name]}
    given |= {"workspace": workspace, "base_url": base_url, "keep_warm": keep_warm}
    return {
        name.replace("_", "-"): str(value.expanduser().absolute() if isinstance(value, Path) else value)
        for name, value in given.items()
        if value is not None
    }


def flags_of(given: Mapping[str, str], model: tuple[str, ...]) -> list[str]:
    """Return the flags with which a client is to start the server."""
    flags = [part for name, value in given.items() for part in (f"--{name}", value)]
    return flags + [part for name in model for part in ("--model", name)]


def install(client: str | Path | None, flags: list[str], *, only_print: bool) -> int:
    """Write the entry, or print it, and say what was written; raises `UsageError`."""
    known = clients()
    chosen = known.get(str(client))
    if chosen is None:
        said = "no client is named" if client is None else f"{str(client)!r} is no client that forewarp knows"
        raise UsageError(said, hint=f"pass `forewarp mcp install` with one of {', '.join(known)}")
    command = _command()
    entry: dict[str, Any] = {"command": command[0], "args": [*command[1:], "mcp", *flags]}
    if chosen.typed:
        entry = {"type": "stdio"} | entry
    path = chosen.place
    before = _text(path)
    # Claude Code gives up on a call after this time; a value that is in the file already is kept.
    defaults = {"timeout": TIMEOUT_MS} if client == "claude-code" else {}
    written = _toml if path.suffix == ".toml" else _json
    text, held = written(path, before, chosen.key, entry, defaults)
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


def _merged(
    path: Path, document: Any, key: str, entry: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Merge our entry into the one in the file, whose other keys are kept; raises `UsageError`."""
    servers: Any = document.get(key, {}) if isinstance(document, dict) else None
    before: Any = servers.get(NAME, {}) if isinstance(servers, dict) else None
    if not isinstance(before, dict):
        raise UsageError(f"{path} does not hold what {key} should be", hint="nothing was changed; pass --print")
    kept = cast("dict[str, Any]", before)
    if "url" in kept:
        raise UsageError(
            f"{path} has {key}.{NAME} already, for a server that is reached at {kept['url']}",
            hint="nothing was changed; remove that entry first if the client is to start the server itself",
        )
    return {**defaults, **kept, **entry}


def _json(
    path: Path, before: str, key: str, entry: Mapping[str, Any], defaults: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    try:
        document: Any = json.loads(before) if before.strip() else {}
    except ValueError as e:
        raise UsageError(
            f"{path} is no plain JSON: {e}",
            hint=f"nothing was changed; put this into it under {key}: {json.dumps({NAME: {**defaults, **entry}})}",
        ) from None
    merged = _merged(path, document, key, entry, defaults)
    whole = document | {key: document.get(key, {}) | {NAME: merged}}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n", merged


def _toml(
    path: Path, before: str, key: str, entry: Mapping[str, Any], defaults: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return the file's text with only our keys changed, and the merged entry."""
    import tomllib

    import tomlkit
    from tomlkit.exceptions import TOMLKitError
    from tomlkit.items import InlineTable

    try:
        held = tomllib.loads(before)
    except tomllib.TOMLDecodeError as e:
        raise UsageError(f"{path} is no TOML: {e}", hint="nothing was changed; pass --print") from None
    merged = _merged(path, held, key, entry, defaults)
    try:
        document: Any = tomlkit.parse(before)
        if key not in document:
            document.add(key, tomlkit.table(is_super_table=True))
        servers = document[key]
        if NAME not in servers:
            servers[NAME] = tomlkit.inline_table() if isinstance(servers, InlineTable) else tomlkit.table()
        ours = servers[NAME]
        for name, value in merged.items():
            if name not in ours or ours[name] != value:
                ours[name] = value
        text = tomlkit.dumps(document)
        right = tomllib.loads(text) == held | {key: held.get(key, {}) | {NAME: merged}}
    except (TOMLKitError, tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError):
        text, right = "", False
    if not right:
        table = f"[{key}.{NAME}]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in entry.items())
        raise UsageError(
            f"{path} writes {key} in a way that cannot be changed in place",
            hint=f"nothing was changed; put this there instead:\n{table}",
        )
    return text, merged


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
