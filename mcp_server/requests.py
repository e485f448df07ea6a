"""Requests of clients, checked against what the operator allows."""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Any, Literal

from forewarp.core.errors import UsageError
from forewarp.mcp_server.options import ServerOptions
from forewarp.mcp_server.workspace import MAX_BYTES, Workspace
from forewarp.tools import runs, sources
from forewarp.tools.parts import Kernel, Place

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_LANGUAGES: dict[str, Literal["cpp", "cuda"]] = {".cpp": "cpp", ".cc": "cpp", ".cu": "cuda"}


class Requests:
    """Converts arguments of clients into requests of the tools."""

    def __init__(self, options: ServerOptions) -> None:
        self._options = options
        self._files = Workspace(options.workspace)

    def task(self, given: str) -> str:
        """Return a task's name, or where its file is; raises `UsageError` for a file outside the workspace."""
        inside = self._files.root / given
        if _NAME.fullmatch(given) and not inside.exists():
            return given
        found = self._files.locate(given, "task")
        if found.is_dir() and (inputs := sources.captured_file(found)) is not None:
            self._files.locate(str(inputs), "inputs of task.toml")
        return str(found)

    def inputs(self, given: str | None) -> str | None:
        """Return where a file of captured inputs is; raises `UsageError` for one outside the workspace."""
        if given is None:
            return None
        found = self._files.locate(given, "inputs")
        if not found.is_file():
            raise UsageError(f"inputs {given!r} is no regular file", hint="pass a file that torch.save wrote")
        return str(found)

    def kernel(self, given: dict[str, Any]) -> Kernel:
        """Return the one kernel that a call names by source or by path."""
        source, path = given["source"], given["path"]
        if (source is None) == (path is None):
            raise UsageError(
                "no kernel is given" if source is None else "source and path are both given",
                hint="pass exactly one of the two: source with the kernel's text, or path of a file in the workspace",
            )
        tunables = given["tunables"] or {}
        if path is not None:
            return self.file(path, "path", given["language"], tunables)
        if len(source.encode()) > MAX_BYTES:
            raise UsageError(
                f"source has {len(source.encode())} bytes; at most {MAX_BYTES} are allowed",
                hint="pass one kernel and nothing else",
            )
        return Kernel(source=source, language=given["language"], tunables=tunables)

    def file(self, path: str, what: str, language: Any = None, tunables: dict[str, int] | None = None) -> Kernel:
        """Return a kernel by the text that its file has now, with the launch plan that may lie beside it."""
        text, _ = self._files.read(path, what)
        suffix = Path(path).suffix
        if suffix in _LANGUAGES and "/*forewarp" not in text:
            try:
                plan, _ = self._files.read(str(Path(path).with_suffix(".toml")), what)
            except UsageError:
                plan = ""
            if plan and "*/" not in plan:
                text = f"/*forewarp\n{plan.strip()}\n*/\n{text}"
        return Kernel(source=text, language=language or _LANGUAGES.get(suffix), tunables=tunables or {})

    def seed(self, path: str) -> Path:
        """Return a copy of a kernel's file, which nobody changes while a run reads it."""
        kernel = self.file(path, "seed_kernels")
        folder = runs.home(self._options.place) / "mcp-jobs" / "seeds" / secrets.token_hex(4)
        folder.mkdir(parents=True)
        copy = folder / Path(path).name
        copy.write_text(kernel.source or "")
        return copy

    def place(self, device: str | None) -> Place:
        """Return where to measure; the archive and all paths are the operator's."""
        place = self._options.place
        if device is None or device == place.device:
            return place
        if place.device == "replay" or (device == "replay" and not place.pool):
            if device == "replay":
                return Place.model_validate(place.model_dump() | {"device": "replay", "executor": "local"})
            raise UsageError(
                f"this server replays recorded measurements; it does not measure on {device}",
                hint="leave device out",
            )
        return place.model_copy(update={"device": device})

    def model(self, name: str | None) -> str | None:
        """Return a language model that the operator allows; raises `UsageError`."""
        allowed = self._options.models
        if name is None or allowed is None or name in allowed:
            return name
        said = f"allowed: {', '.join(allowed)}" if allowed else "the operator allows none here"
        raise UsageError(
            f"model {name!r} is not allowed; {said}",
            hint="leave model out, or pass an allowed one; the operator names them with --model",
        )
