"""Arguments of the tools, made from the fields of requests, and requests made of arguments that a client gave."""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import secrets
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_origin

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from forewarp.core.errors import CandidateError, UsageError
from forewarp.core.files import writing
from forewarp.core.languages import C_SUFFIXES, suffix_of
from forewarp.core.values import AskedGradients, Language
from forewarp.mcp_server.answers import Detail
from forewarp.mcp_server.options import ServerOptions
from forewarp.tools.parts import Kernel, Part, Place
from forewarp.tools.requests import Caps, ExportFormat, checked

Made = TypeVar("Made", bound=Part)

MAX_BYTES = 200_000
MAX_FILES = 2_000
"""Most files and folders below a folder that a client names."""
TASK_SUFFIX = "_task.py"
MADE = "# A task that forewarp made; made again, it is replaced.\n"
"""First line of the tasks that are written to the workspace."""
MAX_WAIT_S = 45.0
"""Longest wait of a call in seconds; clients give a request 60 s by default."""
_LIMITS = {"source": MAX_BYTES, "tunables": 64, "paths": 16, "seed_kernels": 16, "run_id": 100, "model": 200}
"""Most characters or items of an argument, where they are not 4,000."""
_Budget = Annotated[int | None, Field(ge=1, le=1000)]
_Positive = Annotated[float | None, Field(gt=0, allow_inf_nan=False)]
_Wait, _Handle = Field(ge=0, le=MAX_WAIT_S), Annotated[str, Field(min_length=1)]
Targets = Literal["a100", "h100", "h200", "b200", "l40s", "rtx4090"]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")

_OWN: dict[str, tuple[Any, Any, str]] = {
    "task": (str, ..., "Bundled task, or file or folder of the workspace."),
    "path": (str | None, None, "Kernel file of the workspace; or pass source."),
    "source": (str | None, None, ""),
    "tunables": (dict[str, int] | None, None, ""),
    "language": (Language | None, None, ""),
    "allow_tf32": (bool, False, ""),
    "measure_kernel.allow_tf32": (bool, False, "Accept TF32 for fp32."),
    "gradients": (AskedGradients | None, None, ""),
    "describe.gradients": (AskedGradients | None, None, "As outputs: only, or too."),
    "paths": (list[str] | None, None, "Files to rank."),
    "against": (str | None, None, "Kernel file in place of the reference."),
    "forecaster": (Literal["learned", "llm", "cascade"] | None, None, ""),
    "search.forecaster": (Literal["learned", "llm", "cascade", "none"], "learned", "none measures everything."),
    "model": (str | None, None, "anthropic:NAME or openai:NAME."),
    "target": (Targets | None, None, "GPU that need not be here."),
    "inspect_kernel.task": (str, ..., ""),
    "inspect_kernel.target": (Targets | None, None, "GPU; this machine's, else h200."),
    "search.target": (Targets | None, None, ""),
    "budget": (_Budget, None, "Most measurements."),
    "max_gpu_seconds": (_Positive, None, ""),
    "max_usd": (_Positive, None, ""),
    "max_tokens": (Annotated[int | None, Field(gt=0)], None, ""),
    "seed_kernels": (list[str] | None, None, "Files or texts to start from."),
    "seed": (int, 0, ""),
    "deadline_s": (_Positive, None, ""),
    "device": (Literal["auto", "cuda", "cpu", "replay"] | None, None, ""),
    "check": (bool, False, "Also run it on the CPU."),
    "run_id": (_Handle, ..., ""),
    "wait_s": (Annotated[float, _Wait], 0.0, ""),
    "measure_kernel.wait_s": (Annotated[float | None, _Wait], None, "40 if left out."),
    "about": (Literal["all", "device", "tasks", "budget", "recent", "format", "advice"], "all", ""),
    "describe.task": (str | None, None, "Task to show."),
    "make_task.path": (str, ..., "Python file of the workspace."),
    "function": (str, ..., "Function or module class of the file."),
    "args": (str, "", "Its arguments, or those of forward."),
    "init": (str, "", "Arguments of a module's constructor."),
    "detail": (Detail, "concise", ""),
    "verb": (Literal["profile", "optimize", "apply", "gate_lock", "gate_check", "export"], ..., ""),
    "subject": (str, ..., ""),
    "call": (str | None, None, ""),
    "compile": (bool, False, ""),
    "line": (Annotated[int | None, Field(ge=1)], None, ""),
    "top": (Annotated[int, Field(ge=1)], 3, ""),
    "kernels": (list[str] | None, None, ""),
    "format": (ExportFormat | None, None, ""),
    "run_verb.task": (str | None, None, ""),
    "python": (list[str] | None, None, ""),
    "run_verb.wait_s": (Annotated[float | None, _Wait], None, ""),
}
"""Arguments that differ from a request's field of that name, or are of no request: type, default and text."""


def signature(tool: str, arguments: str, request: type[Part] | None) -> inspect.Signature:
    """Return what a tool takes and returns: types, defaults and texts are those of the request's fields."""
    fields = {**Kernel.model_fields, **Caps.model_fields, **(request.model_fields if request else {})}
    parameters = [inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Context)]
    for name in arguments.split():
        found = _OWN.get(f"{tool}.{name}") or _OWN.get(name)
        if found is None:
            field = fields[name]
            kind: Any = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
            default = field.get_default(call_default_factory=True)
            if default in ([], {}):  # a client may say null for what it leaves out
                kind, default = kind | None, None
            found = kind, default, field.description or ""
        kind, default, text = found
        if "str" in str(kind) and get_origin(kind) is not Literal:
            kind = Annotated[kind, Field(max_length=_LIMITS.get(name, 4_000))]
        annotation = Annotated[kind, Field(description=text)] if text else kind
        default = inspect.Parameter.empty if default is ... else default
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        )
    return inspect.Signature(parameters, return_annotation=CallToolResult)


class Requests:
    """Converts arguments of clients into requests of the tools."""

    def __init__(self, options: ServerOptions) -> None:
        self._options = options
        self.files = Workspace(options.folder())

    def make(self, kind: type[Made], given: Mapping[str, Any], **more: Any) -> Made:
        """Return the request that arguments make, with `more` fields; raises `UsageError`."""
        fields: dict[str, Any] = {n: v for n, v in given.items() if n in kind.model_fields} | {
            "task": self.task(given["task"])
        }
        if "place" in kind.model_fields:
            fields["place"] = self.place(given["device"])
        if given.get("against"):
            fields["against"] = self.file(given["against"], "against")
        if "model" in given:
            fields["model"] = self.model(given["model"])
            fields["base_url"] = self._options.base_url if fields["model"] else None
        return checked(kind, **fields | more)

    def task(self, given: str) -> str:
        """Return a task's name, or where its file is; raises `UsageError` for a file outside the workspace."""
        inside = self.files.root / given
        if _NAME.fullmatch(given) and not inside.exists():
            return given
        return str(self.files.locate(given, "task"))

    def kernel(self, given: Mapping[str, Any]) -> Kernel:
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
        return Kernel(source=_bounded(source, "source"), language=given["language"], tunables=tunables)

    def file(self, path: str, what: str, language: Any = None, tunables: dict[str, int] | None = None) -> Kernel:
        """Return a kernel by the text that its file has now, with the launch plan that may lie beside it."""
        text, _ = self.files.read(path, what)
        suffix = Path(path).suffix
        if suffix in C_SUFFIXES and "/*forewarp" not in text:
            try:
                plan, _ = self.files.read(str(Path(path).with_suffix(".toml")), what)
            except UsageError:
                plan = ""
            if plan and "*/" not in plan:
                text = f"/*forewarp\n{plan.strip()}\n*/\n{text}"
        return Kernel(source=text, language=language or C_SUFFIXES.get(suffix), tunables=tunables or {}, name=path)

    def seed(self, given: str) -> Path:
        """Return a copy of a kernel's file, or of its text, which nobody changes while a run reads it."""
        from forewarp.tools import runs
        from forewarp.tools import session as sessions

        text = _bounded(given, "seed_kernels") if "\n" in given else self.file(given, "seed_kernels").source or ""
        folder = runs.home(self._options.place) / "mcp-jobs" / "seeds" / secrets.token_hex(4)
        name = "the text" if text == given else given
        try:
            file = Path(given).name
            if text == given:
                file = f"seed{suffix_of(sessions.choose_candidate(Kernel(source=text)).language)}"
            folder.mkdir(parents=True)
            (folder / file).write_text(text)
            sessions.read_candidate(folder / file)
        except CandidateError as e:
            e.message = f"seed_kernels: {name}: {e.message}"
            raise
        return folder / file

    def pythons(self, given: Sequence[str]) -> list[str]:
        """Return the Pythons that are named, which the operator has to allow; raises `UsageError`."""
        allowed = [str(path.expanduser().absolute()) for path in self._options.gate_python]
        for name in given:
            if name not in allowed:
                raise UsageError(
                    f"python {name!r} is not allowed; the operator allows {', '.join(allowed) or 'none'}",
                    hint="leave python out, or have the server started with `forewarp mcp --gate-python PATH`",
                )
        return list(given)

    def written_task(self, path: str, name: str, text: str) -> str:
        """Write a task beside a file, and return its path in the workspace; raises `UsageError`.

        A file that forewarp did not make is not replaced.
        """
        path = os.path.relpath(path, self.files.root) if os.path.isabs(path) else path
        return self.files.write_beside(path, f"{name}{TASK_SUFFIX}", MADE + text, MADE)

    def place(self, device: str | None) -> Place:
        """Return where to measure; the archive and all paths are the operator's."""
        place = self._options.place
        if device is None or device == place.device:
            return place
        if place.device == "replay" or (device == "replay" and not place.pool):
            if device == "replay":
                return Place.model_validate(place.model_dump() | {"device": "replay", "executor": "local"})
            raise UsageError(
                f"this server replays recorded measurements; it does not measure on {device}", hint="leave device out"
            )
        return place.model_copy(update={"device": device})

    def model(self, name: str | None) -> str | None:
        """Return a language model that the operator allows; raises `UsageError`."""
        allowed = self._options.model
        if name is None or allowed is None or name in allowed:
            return name
        said = f"allowed: {', '.join(allowed)}" if allowed else "the operator allows none here"
        raise UsageError(
            f"model {name!r} is not allowed; {said}",
            hint="leave model out, or pass an allowed one; the operator names them when the server starts",
        )


class Workspace:
    """The one folder from which clients may name files."""

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser().resolve()

    def read(self, path: str, what: str = "path") -> tuple[str, Path]:
        """Return a file's text, at most `MAX_BYTES` of it, and where it is.

        No component is followed if it is a link, also not one that is put there meanwhile. Raises `UsageError`.
        """
        parts = self._parts(path, what)
        descriptor = self._opened(path, what, parts, folder=False)
        try:
            seen = os.fstat(descriptor)
            if not stat.S_ISREG(seen.st_mode):
                raise UsageError(f"{what} {path!r} is no regular file", hint="pass the path of one kernel file")
            if seen.st_size > MAX_BYTES:
                raise UsageError(
                    f"{what} {path!r} has {seen.st_size} bytes; at most {MAX_BYTES} are allowed",
                    hint="pass a file that holds one kernel and nothing else",
                )
            with os.fdopen(os.dup(descriptor), "rb") as handle:
                raw = handle.read(MAX_BYTES + 1)
        finally:
            os.close(descriptor)
        try:
            return raw.decode("utf-8-sig"), self.root.joinpath(*parts)
        except UnicodeDecodeError:
            raise UsageError(f"{what} {path!r} is not UTF-8 text", hint="save the source code as UTF-8") from None

    def _opened(self, path: str, what: str, parts: Sequence[str], *, folder: bool) -> int:
        """Return a descriptor of a file or folder, to be closed by the caller; raises `UsageError`."""
        descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        for number, part in enumerate(parts):
            file = not folder and number == len(parts) - 1
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | (0 if file else os.O_DIRECTORY)
            try:
                found = os.open(part, flags, dir_fd=descriptor)
            except OSError as e:
                raise self._unreadable(path, what, parts[: number + 1], e) from None
            finally:
                os.close(descriptor)
            descriptor = found
        return descriptor

    def write_beside(self, path: str, name: str, text: str, mark: str) -> str:
        """Write a file into the folder of another and return its path; replaces only what begins with `mark`.

        Raises `UsageError`.
        """
        beside = str(Path(path).with_name(name))
        parts = self._parts(beside, "path")
        descriptor = self._opened(path, "path", parts[:-1], folder=True)
        draft = f".{name}.{secrets.token_hex(4)}"
        try:
            with writing(beside, "pass a file in another folder"):
                with contextlib.suppress(FileNotFoundError):
                    os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                    if not self.read(beside)[0].startswith(mark):
                        hint = "rename it, or the file"
                        raise UsageError(f"{beside} is there already, and forewarp did not make it", hint=hint)
                handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=descriptor)
                with os.fdopen(handle, "w", encoding="utf-8") as stream:
                    stream.write(text)
                os.replace(draft, name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
        finally:
            os.close(descriptor)
        return beside

    def locate(self, path: str, what: str = "path", *, new: bool = False) -> Path:
        """Return where a file or folder of the workspace is; neither it nor what it holds may be a link.

        If `new`, it need not be there, but its folder.
        """
        parts = self._parts(path, what)
        place = self.root
        for number, part in enumerate(parts):
            place = place / part
            if place.is_symlink():
                raise self._unreadable(path, what, parts[: number + 1], None)
        if new and not place.exists() and place.parent.is_dir():
            return place
        if not place.exists():
            raise self._unreadable(path, what, parts, FileNotFoundError(2, "no such file"))
        for number, found in enumerate(place.rglob("*") if place.is_dir() else (place,)):
            if number == MAX_FILES:
                raise UsageError(
                    f"{what} {path!r} holds more than {MAX_FILES} files", hint="pass the folder of one task"
                )
            mode = found.lstat().st_mode
            if stat.S_ISLNK(mode):
                raise UsageError(f"{what} {path!r} holds symbolic links", hint="pass a folder without links")
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise UsageError(
                    f"{what} {path!r}: {found.name} is no regular file", hint="pass files, no devices or pipes"
                )
        return place

    def _parts(self, path: str, what: str) -> tuple[str, ...]:
        if "\n" in path:
            hint = "pass it as source" if what == "path" else f"write it to a file of the workspace {self.root}"
            raise UsageError(f"{what} takes the path of a file, and this is a text of several lines", hint=hint)
        given = Path(path)
        if ".." in given.parts or "\0" in path or not path.strip():
            problem = "'..'" if ".." in given.parts else "a zero byte" if "\0" in path else "an empty path"
            raise UsageError(
                f"{what} {path!r} is refused: {problem} is not allowed",
                hint=f"pass a path inside the workspace {self.root}, relative to it or absolute",
            )
        if given.is_absolute():
            if not given.is_relative_to(self.root):
                raise UsageError(
                    f"{what} {path!r} is outside the workspace {self.root}",
                    hint=f"pass a file inside it{_or_text(what)}; the operator chooses the workspace",
                )
            given = given.relative_to(self.root)
        if not given.parts:
            raise UsageError(f"{what} {path!r} is the workspace itself", hint="pass a file inside it")
        return given.parts

    def _unreadable(self, path: str, what: str, parts: Sequence[str], error: OSError | None) -> UsageError:
        at = self.root.joinpath(*parts)
        if at.is_symlink():
            return UsageError(
                f"{what} {path!r} goes through the symbolic link {at}; links are refused",
                hint=f"pass the real file inside the workspace{_or_text(what)}",
            )
        why = error.strerror if error else "it is refused"
        return UsageError(
            f"{what} {path!r} cannot be read: {why}",
            hint=f"paths are relative to the workspace {self.root}{_or_text(what)}",
        )


def _or_text(argument: str) -> str:
    return {"path": ", or pass the text as source", "seed_kernels": ", or pass the text"}.get(argument, "")


def _bounded(text: str, what: str) -> str:
    """Return a text that a client sent; raises `UsageError` for one that is too long."""
    if (size := len(text.encode())) > MAX_BYTES:
        hint = "pass one kernel and nothing else"
        raise UsageError(f"{what} has {size} bytes; at most {MAX_BYTES} are allowed", hint=hint)
    return text
