"""Lock files: chosen configurations in a file that can be committed, so that every process takes the same ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from forewarp.core.errors import UsageError
from forewarp.core.files import write_whole
from forewarp.core.values import Target
from forewarp.gpu_runner import devices
from forewarp.tuning import forecasts
from forewarp.tuning.space import ArgumentValue, Space, TensorArgument

FORMAT = 2


@dataclass(frozen=True, slots=True)
class LockKey:
    """Calls that Triton does not tell apart: of a kernel's text, on a card, by what the autotuner's `key` names."""

    kernel: str
    text: str
    call: str

    @classmethod
    def of(cls, space: Space, key: Mapping[str, ArgumentValue], target: Target) -> LockKey:
        """Return that of a call; `key` holds the arguments that the autotuner names, and all dtypes count, too."""
        card = next((n for n in devices.known_targets() if devices.is_called(target, n)), target.name)
        types = {n: v.dtype for n, v in space.arguments.items() if isinstance(v, TensorArgument)}
        call = " ".join(f"{n}={v}" for n, v in sorted({**types, **key}.items()))
        return cls(space.kernel, text_digest(space), f"{card}: {call}")

    def __str__(self) -> str:
        return f"{self.kernel} {self.text} {self.call}"


def text_digest(space: Space) -> str:
    """Return what names the text of a kernel and of the functions that it calls."""
    whole = "\n".join([space.source, *(text for _, text in sorted(space.helpers.items()))])
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


class Lock:
    """Choices in a lock file, each with the version of the forecasts that made it."""

    def __init__(self, path: Path) -> None:
        """Raises `UsageError` where the file is there but holds no choices."""
        self._path = path
        self._choices = self._read()

    def __str__(self) -> str:
        return json.dumps(self._choices)

    def find(self, key: LockKey, labels: Sequence[str]) -> tuple[str | None, str]:
        """Return the label among `labels` that is locked for a key, if one is, and what is stale about the file."""
        if str(key) not in self._choices:
            self._choices = self._read()  # another process may have chosen meanwhile
        name, version = self._path.name, forecasts.version()
        choice = self._choices.get(str(key))
        if choice is None:
            same = [k for k in self._choices if k.startswith(f"{key.kernel} ") and k.endswith(f" {key.call}")]
            changed = f"{name} has a choice for another text of {key.kernel}; this one is chosen anew"
            return None, changed if same else ""
        label = choice.get("configuration", "")
        if label not in labels:
            return None, f"{name} names {label}, which is no choice for {key.kernel}; it is chosen anew"
        if (made := choice.get("forecasts")) == version:
            return label, ""
        kept = "they are taken as they are. Delete the file to choose anew"
        return label, f"{name} has choices by forecasts {made}, and these are forecasts {version}; {kept}"

    def keep(self, key: LockKey, label: str) -> None:
        """Write a choice beside those that other processes wrote meanwhile."""
        own = {"kernel": key.kernel, "configuration": label, "forecasts": forecasts.version()}
        self._choices = self._read() | self._choices | {str(key): own}
        text = json.dumps({"version": FORMAT, "choices": dict(sorted(self._choices.items()))}, indent=1) + "\n"
        write_whole(self._path, text)

    def _read(self) -> dict[str, dict[str, str]]:
        if not self._path.exists():
            return {}
        try:
            found = json.loads(self._path.read_text())
            if (version := found.get("version")) != FORMAT:
                raise ValueError(f"its format is {version}, and this forewarp's is {FORMAT}")
            return {str(k): {str(n): str(v) for n, v in c.items()} for k, c in found["choices"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
            raise UsageError(f"{self._path} is no lock file of forewarp: {e}", hint="delete it, and run again") from e
