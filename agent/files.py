"""Files of the working folder: which may be opened, which writes need approval, and mentions such as `@file`.

Files outside of the working folder are refused, and so are those that hold secrets: by the name that was given, by each
link on the way, and by the file that is meant in the end.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from importlib.machinery import PathFinder
from pathlib import Path
from typing import IO

from forewarp.core.errors import UsageError
from forewarp.tools.sources import named_sources

GENERATED = frozenset(["__pycache__", "build", "dist", "node_modules", "site-packages", "target", "venv", "wandb"])
"""Names of folders with generated or installed files, which listings leave out."""

SECRET_FILES = (
    *(".env*", "*.env", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.tfstate"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".netrc", "_netrc", ".npmrc", ".yarnrc*", ".pypirc", ".pgpass"),
    *(".my.cnf", ".htpasswd", ".dockercfg", ".git-credentials", "*credentials", "*credentials.*", "secrets.*"),
    *("*.gpg", "*.asc", "*.age", "*.ovpn", "*_rsa", "*.tfvars", "*.tfvars.json", "*.env.*", ".flaskenv", "secret.*"),
    *("kaggle.json", "auth.json", ".vault-token", ".boto", ".s3cfg", ".condarc", ".terraformrc", "pip.conf"),
    *("service-account*.json", "service_account*.json", "token", "*.token", "kubeconfig", "shadow", "gshadow"),
    *(".bash_history", ".zsh_history", ".python_history", ".mysql_history", ".psql_history"),
    *("hosts.yml", "hosts.yaml", "wallet.dat", "*.wallet", "utc--*", "*.p8", "*.keytab", "krb5cc_*", "*.agekey"),
    *("rclone.conf", ".rclone.conf", ".authinfo", ".dockerconfigjson", "client_secret*.json", "token.json"),
    *("tokens.json", "stored_tokens", "*_token", "key4.db", "logins.json", "cookies.sqlite", "cookies.txt"),
    *("password*", "passwd*", "*api_key*", "*apikey*", ".secrets.*", ".modal.toml", ".databrickscfg"),
)
SECRET_FOLDERS = (
    *(".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", ".oci", ".password-store", "gcloud"),
    *("secrets", ".secrets"),
)

WRITTEN_UNASKED = frozenset(
    (*(".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".ptx", ".py"), *(".csv", ".json", ".log", ".md", ".txt"))
)
"""Suffixes of kernels, tasks, notes and results; other programs may run files of other names, or go by them."""

RUN_BY_NAME = re.compile(
    r"(conf|conftest|dodo|fabfile|hatch_build|manage|noxfile|setup|sitecustomize|tasks|usercustomize)\.py"
    r"|(requirements|constraints).*\.txt|cmakelists\.txt|(agents|claude|gemini)(\..*)?\.md"
    r"|(package|tsconfig|mcp|composer|deno)\.json",
    re.IGNORECASE,
)
PACKAGES = frozenset(["site-packages", "dist-packages", "node_modules"])
"""Names of files with these suffixes that other programs and agents run or go by, and of folders with packages."""

MOST_OF_ONE, MOST_OF_ALL = 64_000, 200_000
"""Characters of one mentioned file, and of all mentioned files of a prompt."""

MOST_GREETED, MOST_OF_GREETED = 30, 64_000
"""Python files of the working folder that are looked into for the first screen, and bytes of each."""

LISTING_S = 5.0
"""Seconds that looking through the files of a folder may take, or through the lines of a file."""

MOST_SEARCHED = 2 << 20
"""Bytes of the largest file in which lines are looked for."""

_LONGEST_LINE, _LONGEST_PATTERN = 8000, 200
_MOST_LINKS = 40
_COPY = re.compile(r"(~|\.(bak|backup|old|orig|save|sw[op]|tmp|\d+))+$")  # what editors and programs add to copies
_MENTION = re.compile(r'(?<![\w@.])@(?:"([^"\n]+)"|([^\s"@]+))')
_TEXT_SUFFIXES = (
    *(".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".ptx", ".py"),
    *(".csv", ".json", ".log", ".md", ".toml", ".txt", ".yaml", ".yml"),
)
_PUNCTUATION = ".,:;!?)]}'"


def is_problem(text: str) -> bool:
    """Return whether a file's text is a KernelBench problem, and no kernel for one."""
    return "def get_inputs" in text and "class Model" in text and "ModelNew" not in text


def files_to_begin_with(folder: Path) -> tuple[str, str]:
    """Return the names of a KernelBench problem and of a file with Triton kernels, "" for what the folder has not."""
    problem = kernels = ""
    with contextlib.suppress(UsageError, OSError):
        for name in list_files(folder, "*.py", MOST_GREETED):
            with (folder / name).open("rb") as file:
                text = file.read(MOST_OF_GREETED).decode(errors="replace")
            problem = problem or (name if is_problem(text) else "")
            kernels = kernels or (name if "@triton.jit" in text else "")
    return problem, kernels


def inside(folder: Path, path: str | Path) -> Path:
    """Return a path below the working folder as an absolute one; raises `UsageError` for one outside of it."""
    root = folder.resolve()
    try:
        found = (root / Path(path).expanduser()).resolve()
        found.is_symlink()  # a name that is too long is seen here only
    except (OSError, ValueError, RuntimeError) as e:
        why = getattr(e, "strerror", None) or e
        raise UsageError(f"{str(path)[:200]!r} cannot be opened: {why}", hint="list_files lists the files") from None
    if not found.is_relative_to(root):
        raise UsageError(
            f"{path} is outside of the working folder {root}", hint="copy it there, or start forewarp in its folder"
        )
    return found


def readable_file(folder: Path, path: str | Path) -> Path:
    """Return a path below the working folder as an absolute one.

    Raises `UsageError` for one outside of it, and for one that holds secrets by its name.
    """
    found = inside(folder, path)
    refuse_secrets(folder.resolve() / Path(path).expanduser(), str(path))
    return found


def shown(folder: Path, path: Path) -> str:
    root = folder.resolve()
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def refuse_secrets(path: Path, name: str) -> None:
    """Raise `UsageError` if an absolute path, or a file that it is a link to, is named as one that holds secrets."""
    for each in _link_targets(path):
        pattern = secret(each)
        if pattern:
            raise UsageError(
                f"{name} was not opened: {pattern} is the name of files with keys, tokens or passwords",
                hint="paste the lines that are needed into the prompt, or copy them to a file with another name",
            )


def secret(path: Path) -> str:
    """Return the pattern that marks a path as holding secrets, "" if none fits; case is ignored."""
    *folders, name = (part.lower() for part in path.parts)
    name = _COPY.sub("", name) or name
    if path.parts[:2] == ("/", "proc"):
        return "/proc/"
    if name in ("config", "config.worktree") and ".git" in folders:
        return ".git/config"  # addresses of remotes may hold a token, those of submodules too
    held = next((f"{part}/" for part in folders if part in SECRET_FOLDERS), "")
    return held or next((pattern for pattern in SECRET_FILES if fnmatchcase(name, pattern)), "")


def refuse_task_secrets(folder: Path, path: Path) -> None:
    """Raise `UsageError` if a task, a file or folder below the working folder, is made of files that hold secrets."""
    root = path if path.is_dir() else path.parent
    if not path.is_dir() and path.name != "task.yml":
        return
    for name in ("task.toml", "task.yml", "reference.py"):
        readable_file(folder, root / name)
    for seed in sorted((root / "seeds").glob("*")):
        readable_file(folder, seed)
    for source in named_sources(root / "task.yml"):
        refuse_secrets(root / source, f"{source} of {root / 'task.yml'}")


def approval_reasons(folder: Path, path: str | Path, text: str) -> list[str]:
    """Return the reasons why writing this text to a file below the working folder needs approval; empty if none.

    Hidden files configure other programs, and executable ones are run by them: hooks, settings of editors, workflows.
    Some are run for their name, or their place.
    """
    target = inside(folder, path)
    reasons: list[str] = []
    hidden = _hidden_part(folder, path, target)
    if hidden:
        reasons.append(f"{hidden} is hidden: what is in it may be read or run by other programs")
    if target.exists() and target.stat().st_mode & 0o111:
        reasons.append("it is executable")
    elif text.lstrip("\ufeff").startswith("#!") or _first_bytes(target) == b"#!":
        reasons.append("it is a script: its first line names the program that runs it")
    usual = target.name in ("task.toml", "task.yml") or target.suffix.lower() in WRITTEN_UNASKED
    if not usual or RUN_BY_NAME.fullmatch(target.name) or PACKAGES & {*target.parts}:
        reasons.append("other programs run it, or do what it says, because of its name or place")
    if shadowed := _shadowed(target):
        reasons.append(f"Python programs that start beside it import it in place of their module {shadowed}")
    return reasons


def read_lines(path: Path, name: str, first: int, most: int) -> tuple[list[str], bool]:
    """Return lines of a text file from line `first` on, and whether more follow: as many as fit into `most` characters.

    Lines that are far too long are cut; what comes after these is not read. Raises `UsageError` for what is no text.
    """
    kept: list[str] = []
    size, number, until = 0, 0, time.monotonic() + LISTING_S
    with open_regular(path, name) as file:
        for number, line in enumerate(iter(lambda: file.readline(MOST_SEARCHED), b""), 1):
            if number < first:
                if time.monotonic() > until:
                    raise UsageError(f"looking for line {first} of {name} takes too long", hint="name an earlier line")
                continue
            text = _decoded(line, name)
            text = text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]} … {len(text)} characters\n"
            if size + len(text) > most and kept:
                return kept, True
            kept.append(text)
            size += len(text)
    return kept, False


def read_whole(path: Path, most: int) -> str:
    """Return a text file with its line ends; raises `UsageError` for what is none, or has more than `most` bytes."""
    with open_regular(path, path.name) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise UsageError(f"{path.name} has more than {most:,} bytes", hint="change it by hand")
    return _decoded(content, path.name)


def open_regular(path: Path, name: str) -> IO[bytes]:
    """Open a file to read; raises `UsageError` for a pipe, a device or a folder, without waiting for it."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as e:
        raise UsageError(f"{name} cannot be read: {e.strerror}", hint="list_files lists the files") from None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise UsageError(f"{name} is no file", hint="list_files lists the files of a folder")
    return os.fdopen(number, "rb")


def _decoded(content: bytes, name: str) -> str:
    if b"\0" in content[:MOST_SEARCHED]:
        raise UsageError(f"{name} is no text", hint="read a text file")
    return content.decode("utf-8", errors="replace")


def lines_with(folder: Path, words: Sequence[str], pattern: str, most: int) -> list[str]:
    """Return at most `most` lines that contain one of the words, in lower case, as `path:line: text`."""
    found, until = list[str](), time.monotonic() + 2 * LISTING_S
    for name in list_files(folder, pattern, 10_000):
        if time.monotonic() > until:
            break
        path = folder / name
        try:
            text = read_whole(path, MOST_SEARCHED)
        except UsageError:  # no text, or too large
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if any(word in line.lower() for word in words):
                found.append(f"{name}:{number}: {line.strip()[:200]}")
                if len(found) >= most:
                    return found
    return found


def list_files(folder: Path, pattern: str, most: int) -> list[str]:
    """Return at most `most` files that fit a glob pattern, as seen from the folder.

    Hidden and generated folders, files with secrets, and links to any of these or out of the folder are left out. Ends
    early in a folder of too many files.
    """
    if ".." in Path(pattern).parts or Path(pattern).is_absolute():
        raise UsageError(f"{pattern} leaves the working folder", hint="name what is below it")
    pattern = re.sub(r"(\*\*/)+", "**/", pattern)
    if "\0" in pattern or not pattern.strip() or len(pattern) > _LONGEST_PATTERN or pattern.count("**") > 1:
        # With two of them, the time grows with the square of the number of folders, and nothing can stop it.
        raise UsageError("there is no such pattern", hint="such as *.py or **/*.cu, with ** once")
    root, found, until = folder.resolve(), list[str](), time.monotonic() + LISTING_S
    try:
        for path in root.glob(pattern):
            if time.monotonic() > until or len(found) >= most:
                break
            name = _listed(root, path)
            found += [name] if name else []
    except (OSError, ValueError) as e:
        raise UsageError(f"{pattern!r} is no pattern: {e}", hint="such as *.py or **/*.cu") from None
    return sorted(found)


def _listed(root: Path, path: Path) -> str:
    """Return a file of a listing as seen from the folder, "" for one that is left out."""
    parts = path.relative_to(root).parts
    if any(p.startswith(".") or p in GENERATED for p in parts) or not path.is_file():
        return ""
    try:
        target = readable_file(root, path).relative_to(root)
    except UsageError:
        return ""
    return "" if any(part.startswith(".") for part in target.parts) else str(Path(*parts))


def with_mentioned_files(text: str, folder: Path) -> str:
    """Append the content of each file that the text names as `@path`; a path with blanks goes into quotes.

    What cannot be a path, such as `@triton.jit`, is left alone. Raises `UsageError` for a file that is missing, too
    large, no text, outside of the folder, or named as one that holds secrets.
    """
    contents: dict[Path, str] = {}
    for quoted, bare in _MENTION.findall(text):
        path = _existing(quoted, folder) if quoted else _mentioned(bare, folder)
        if path is not None and path not in contents:
            contents[path] = _content(path, shown(folder, path))
            if sum(map(len, contents.values())) > MOST_OF_ALL:
                raise UsageError(
                    f"the files named hold more than {MOST_OF_ALL:,} characters", hint="name fewer, or parts of them"
                )
    files = [f'<file path="{shown(folder, p)}">\n{content.rstrip()}\n</file>' for p, content in contents.items()]
    return "\n\n".join([text, *files])


def _mentioned(bare: str, folder: Path) -> Path | None:
    """Return the file that a mention without quotes names; None where it names none."""
    name = bare.rstrip(_PUNCTUATION)
    for each in (bare, name):
        if each and (folder / Path(each).expanduser()).is_file():
            return readable_file(folder, each)
    is_path = Path(name).suffix.lower() in _TEXT_SUFFIXES or "/" in name.strip("/")
    return _existing(name, folder) if is_path else None


def _existing(name: str, folder: Path) -> Path:
    path = readable_file(folder, name)
    if not path.is_file():
        problem = "is not there" if not path.exists() else "is a folder" if path.is_dir() else "is no regular file"
        raise UsageError(f"@{name}: {path} {problem}", hint="name a file below the working folder, or leave the @ out")
    return path


def _content(path: Path, name: str) -> str:
    with open_regular(path, f"@{name}") as file:
        read = file.read(4 * MOST_OF_ONE + 1)
    try:
        content = read.decode("utf-8") if len(read) <= 4 * MOST_OF_ONE else None
    except UnicodeDecodeError:
        raise UsageError(f"@{name} is no text", hint="name a text file") from None
    if content is None or len(content) > MOST_OF_ONE:
        raise UsageError(
            f"@{name} has more than {MOST_OF_ONE:,} characters",
            hint="leave the @ out: the model reads such a file in parts with read_file",
        )
    return content


def _link_targets(path: Path) -> Iterator[Path]:
    """Yield a path, each file that it is a link to, and the real path in the end."""
    step = path
    for _ in range(_MOST_LINKS):
        yield step
        if not step.is_symlink():
            break
        step = step.parent / step.readlink()
    yield path.resolve()


def _hidden_part(folder: Path, path: str | Path, target: Path) -> str:
    """Return the first part of a path, as given or with its links followed, that begins with a dot; "" if none does."""
    given = Path(path).expanduser()
    roots = (folder.absolute(), folder.resolve())
    seen = next((given.relative_to(r) for r in roots if given.is_relative_to(r)), given)
    parts = (*(() if seen.is_absolute() else seen.parts), *target.relative_to(folder.resolve()).parts)
    return next((part for part in parts if part.startswith(".") and part not in (".", "..")), "")


def _shadowed(path: Path) -> str:
    """Return the name of the module, of Python or installed, that a file hides from programs beside it."""
    name = path.parent.name if path.name == "__init__.py" else path.stem
    if path.suffix != ".py":
        return ""
    return name if name in sys.stdlib_module_names or PathFinder.find_spec(name) is not None else ""


def _first_bytes(path: Path) -> bytes:
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(2)
