"""`forewarp.toml`: settings of the user, and of a project, which may make them stricter but looser only when trusted.

The user's file lies in forewarp's configuration folder, a project's in the working folder. A project is somebody else's
text: where it asks for fewer questions, more budget, a shell, or a server that would get the user's key and words, that
is held back until `/config trust` says that this very text is trusted.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from forewarp.agent.files import read_whole
from forewarp.agent.settings import STEPS, Approval
from forewarp.core.budget import DEFAULT_MEASUREMENTS
from forewarp.core.errors import UsageError
from forewarp.core.files import write_whole
from forewarp.tools.requests import misfit

NAME = "forewarp.toml"
TRUSTED = "trusted-projects"
MOST_BYTES = 64_000


class BudgetTable(BaseModel):
    """Caps in a configuration file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    measurements: int | None = Field(default=None, ge=0)
    gpu_seconds: float | None = Field(default=None, gt=0)
    usd: float | None = Field(default=None, gt=0)
    tokens: int | None = Field(default=None, gt=0)
    steps: int | None = Field(default=None, gt=0)


class ConfigFile(BaseModel):
    """Contents of a configuration file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: str | None = None
    base_url: str | None = None
    context: int | None = Field(default=None, ge=4000)
    device: str | None = None
    theme: str | None = None
    approve: Approval | None = None
    shell: bool | None = None
    budget: BudgetTable = Field(default_factory=BudgetTable)

    def entries(self) -> Iterator[tuple[str, Any]]:
        """Yield what the file sets, caps as `budget.NAME`."""
        for name, value in self.model_dump(exclude_none=True, exclude={"budget"}).items():
            yield name, value
        for name, value in self.budget.model_dump(exclude_none=True).items():
            yield f"budget.{name}", value


@dataclass(frozen=True, slots=True)
class Configured:
    """Settings that the files make, each with the file it is from, and those of the project that are held back."""

    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    origins: Mapping[str, str] = field(default_factory=dict[str, str])
    held_back: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def get(self, name: str, given: Any, default: Any = None) -> Any:
        """Return what was given, else what the files say, else the default."""
        return given if given is not None else self.values.get(name, default)


def user_folder() -> Path:
    import platformdirs

    return platformdirs.user_config_path("forewarp")


def configured(folder: Path) -> Configured:
    """Return the settings of the user's file and of the project's; raises `UsageError` for a malformed one."""
    user, project = user_folder() / NAME, folder / NAME
    values = dict(_read(user).entries())
    origins = dict.fromkeys(values, "the user's file")
    held_back: dict[str, Any] = {}
    if project.is_file() and project.resolve() != user.resolve():
        trusted = is_trusted(project)
        for name, value in _read(project).entries():
            if trusted or not _loosens(name, value, values):
                values[name], origins[name] = value, "the project's file"
            else:
                held_back[name] = value
    return Configured(values, origins, held_back)


def is_trusted(project: Path) -> bool:
    """Return whether the user trusted this very text of a project's file."""
    try:
        lines = (user_folder() / TRUSTED).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return False
    return _fingerprint(project) in lines


def trust(folder: Path) -> Path:
    """Trust the project's file as it is now, and return its path; raises `UsageError` without one."""
    project = folder / NAME
    if not project.is_file():
        raise UsageError(f"there is no {NAME} in {folder}", hint="there is nothing to trust")
    _read(project)
    place = user_folder() / TRUSTED
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("a", encoding="utf-8") as file:
        file.write(f"{_fingerprint(project)}\n")
    return project


def write(folder: Path, name: str, value: str, *, project: bool) -> Path:
    """Set one value in the user's file or the project's, with its comments kept, and return its path; "none" unsets it.

    A project's file that was trusted, or was not there, is trusted with it. Raises `UsageError` for a malformed file,
    and for what it may not hold.
    """
    import tomlkit

    path = (folder if project else user_folder()) / NAME
    before = read_whole(path, MOST_BYTES) if path.exists() else ""
    _parsed(before, path)
    own = project and (not path.exists() or is_trusted(path))
    document: Any = tomlkit.parse(before)
    key = name.removeprefix("budget.")
    table: Any = document if key == name else document.setdefault("budget", tomlkit.table())
    if value == "none":
        table.pop(key, None)
    else:
        table[key] = _plain(value)
    text = tomlkit.dumps(document)
    if dict(_parsed(text, path).entries()).get(name) != (None if value == "none" else table[key]):
        raise UsageError(f"{name} cannot be set in {path}", hint="write it there by hand")
    try:
        write_whole(path, text)
        if own:
            trust(folder)
    except OSError as e:
        raise UsageError(f"{path} was not written: {e.strerror}", hint="write it by hand") from None
    return path


def _plain(value: str) -> Any:
    """Return a word as TOML means it where that is a number or a truth value, else as a string."""
    try:
        found: Any = tomllib.loads(f"value = {value}").get("value")
    except tomllib.TOMLDecodeError:
        return value
    return found if isinstance(found, bool | int | float) else value


def _fingerprint(project: Path) -> str:
    return f"{hashlib.sha256(project.read_bytes()).hexdigest()} {project.resolve()}"


def _read(path: Path) -> ConfigFile:
    return _parsed(read_whole(path, MOST_BYTES), path) if path.exists() else ConfigFile()


def _parsed(text: str, path: Path) -> ConfigFile:
    """Return what the text of a file holds; raises `UsageError` for a malformed one."""
    try:
        return ConfigFile.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as e:
        raise UsageError(f"{path} is no TOML: {e}", hint="correct it, or move it away") from None
    except ValidationError as e:
        first = e.errors()[0]
        name = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            known = [*ConfigFile.model_fields, *(f"budget.{cap}" for cap in BudgetTable.model_fields)]
            hint = f"settings are {', '.join(setting for setting in known if setting != 'budget')}"
            raise UsageError(f"{path}: there is no setting {name}", hint=hint) from None
        problem, allowed = misfit(e)
        raise UsageError(f"{path}: {problem}", hint=allowed) from None


def _loosens(name: str, value: Any, user: Mapping[str, Any]) -> bool:
    """Return whether a project's setting allows more than the user's own, or sends things elsewhere."""
    rules = get_args(Approval)
    match name:
        case "base_url":
            return True
        case "shell":
            return bool(value) and not user.get("shell", False)
        case "approve":
            return rules.index(value) > rules.index(user.get("approve", rules[0]))
        case "budget.measurements":
            return value > user.get(name, DEFAULT_MEASUREMENTS)
        case "budget.steps":
            return value > user.get(name, STEPS)
        case _ if name.startswith("budget."):
            return name in user and value > user[name]
        case _:
            return False
