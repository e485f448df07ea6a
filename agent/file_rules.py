"""Rules for the files that a conversation's tools may open, and for writes that need the user's approval.

Files outside of the working folder are refused by `arguments.inside`. Files that hold secrets are refused here: by the
name that was given, by each link on the way, and by the file that is meant in the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast

from forewarp.agent.arguments import inside
from forewarp.core.errors import UsageError

SECRET_FILES = (
    *(".env*", "*.env", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.tfstate"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".netrc", "_netrc", ".npmrc", ".yarnrc*", ".pypirc", ".pgpass"),
    *(".my.cnf", ".htpasswd", ".dockercfg", ".git-credentials", "*credentials", "*credentials.*", "secrets.*"),
    *("service-account*.json", "service_account*.json", "token", "*.token", "kubeconfig", "shadow", "gshadow"),
    *(".bash_history", ".zsh_history", ".python_history"),
)
SECRET_FOLDERS = (
    *(".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", ".oci", ".password-store", "gcloud"),
    *("secrets", ".secrets"),
)
_MOST_LINKS = 40


def readable_file(folder: Path, path: str | Path) -> Path:
    """Return a path below the working folder as an absolute one.

    Raises `UsageError` for one outside of it, and for one that holds secrets by its name.
    """
    found = inside(folder, path)
    refuse_secrets(folder.resolve() / Path(path).expanduser(), str(path))
    return found


def refuse_secrets(path: Path, name: str) -> None:
    """Raise `UsageError` if an absolute path, or a file that it is a link to, is named as one that holds secrets."""
    for each in _meant(path):
        pattern = secret(each)
        if pattern:
            raise UsageError(
                f"{name} was not opened: {pattern} is the name of files with keys, tokens or passwords",
                hint="paste the lines that are needed into the prompt, or copy them to a file with another name",
            )


def secret(path: Path) -> str:
    """Return the pattern that marks a path as holding secrets, "" if none fits; case is ignored."""
    *folders, name = (part.lower() for part in path.parts)
    if path.parts[:2] == ("/", "proc"):
        return "/proc/"
    held = next((f"{part}/" for part in folders if part in SECRET_FOLDERS), "")
    return held or next((pattern for pattern in SECRET_FILES if fnmatchcase(name, pattern)), "")


def why_ask(folder: Path, path: str | Path, text: str) -> list[str]:
    """Return the reasons why writing this text to a file below the working folder needs approval; empty if none.

    Hidden files configure other programs, and executable ones are run by them: hooks, settings of editors, workflows.
    """
    target = inside(folder, path)
    reasons: list[str] = []
    hidden = _hidden(folder, path, target)
    if hidden:
        reasons.append(f"{hidden} is hidden: what is in it may be read or run by other programs")
    begins = _first_bytes(target)
    if target.exists() and target.stat().st_mode & 0o111:
        reasons.append("it is executable")
    elif text.lstrip("\ufeff").startswith("#!") or begins == b"#!":
        reasons.append("it is a script: its first line names the program that runs it")
    return reasons


def refuse_task_secrets(folder: Path, path: Path) -> None:
    """Raise `UsageError` if a task, a file or folder below the working folder, is made of files that hold secrets."""
    root = path if path.is_dir() else path.parent
    if not path.is_dir() and path.name != "task.yml":
        return
    for name in ("task.toml", "task.yml", "reference.py"):
        readable_file(folder, root / name)
    for seed in sorted((root / "seeds").glob("*")):
        readable_file(folder, seed)
    for source in _sources(root / "task.yml"):
        refuse_secrets(root / source, f"{source} of {root / 'task.yml'}")


def _sources(path: Path) -> Iterator[str]:
    """Yield the files that KernelBot's `task.yml` names; a malformed one is reported where it is loaded."""
    if not path.is_file():
        return
    try:
        import yaml
    except ImportError:
        return
    try:
        table: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return
    entries = cast("dict[str, Any]", table).get("files") if isinstance(table, dict) else None
    for entry in cast("list[Any]", entries) if isinstance(entries, list) else []:
        if isinstance(entry, dict):
            yield str(cast("dict[str, Any]", entry).get("source", ""))


def _meant(path: Path) -> Iterator[Path]:
    """Yield a path, each file that it is a link to, and the real path in the end."""
    step = path
    for _ in range(_MOST_LINKS):
        yield step
        if not step.is_symlink():
            break
        step = step.parent / step.readlink()
    yield path.resolve()


def _hidden(folder: Path, path: str | Path, target: Path) -> str:
    """Return the first part of a path, as given or with its links followed, that begins with a dot; "" if none does."""
    given = Path(path).expanduser()
    roots = (folder.absolute(), folder.resolve())
    seen = next((given.relative_to(r) for r in roots if given.is_relative_to(r)), given)
    parts = (*(() if seen.is_absolute() else seen.parts), *target.relative_to(folder.resolve()).parts)
    return next((part for part in parts if part.startswith(".") and part not in (".", "..")), "")


def _first_bytes(path: Path) -> bytes:
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(2)
