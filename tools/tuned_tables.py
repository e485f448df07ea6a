"""Tables of tuned configurations: forewarp's own, vLLM's, Triton's and Helion's, and the one that is in use so far."""

from __future__ import annotations

import errno
import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forewarp.core.errors import UsageError
from forewarp.core.files import writing
from forewarp.core.values import Target
from forewarp.tuning import forecasts
from forewarp.tuning.jobs import Observed
from forewarp.tuning.space import Configuration
from forewarp.tuning.tuner import Tried, Tuned

VLLM_NAMES = {"BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "SPLIT_K"}
"""Meta-parameters of the kernels that vLLM and SGLang read tables for."""
_NUMBER = re.compile(r"\b\d+\b")
_FORMS = "pass a table of forewarp or vLLM, or a configuration that Helion saved"


def as_config(c: Configuration) -> dict[str, Any]:
    """Return a configuration as tables hold it: of Triton's, the arguments of a `triton.Config`."""
    more = ({"num_ctas": c.blocks} if c.blocks != 1 else {}) | ({"maxnreg": c.registers} if c.registers else {})
    options = {"num_warps": c.warps, "num_stages": c.stages} if c.warps else {}
    return {**c.values, **options, **more}


def own_table(tuned: Sequence[Tuned], target: Target, command: str) -> dict[str, Any]:
    """Return the best configurations with what they rest on: all that was measured, the baseline, and the command."""

    def measured(t: Tuned, tried: Tried) -> dict[str, Any]:
        configuration = as_config(t.observed.space.configurations[tried.place])
        speedup = None if tried.speedup is None else [tried.speedup, tried.low, tried.high]
        return {"configuration": configuration, "measured_us": tried.measured_us, "speedup": speedup}

    rows = [
        {
            "kernel": t.observed.space.kernel,
            "call": t.observed.call,
            "key": dict(t.observed.key),
            **measured(t, t.best),
            "baseline": as_config(t.observed.space.configurations[t.baseline]),
            "measured": [measured(t, one) for one in t.measured],
        }
        for t in tuned
    ]
    return {"version": 1, "device": target.name, "forecasts": forecasts.version(), "command": command, "kernels": rows}


def vllm_keys(calls: Sequence[str]) -> dict[str, int]:
    """Return the key of each call in a table of vLLM's: the one whole number that differs between them.

    Raises `UsageError` where none or several differ.
    """
    numbers = {call: [int(n) for n in _NUMBER.findall(call)] for call in calls}
    same = len({_NUMBER.sub("#", "".join(call.split())) for call in calls}) == 1
    places = zip(*numbers.values(), strict=True) if same else ()
    columns = [column for column in places if len(calls) == 1 or len(set(column)) > 1]
    if len(set(columns)) != 1 or len(set(columns[0])) != len(calls):
        raise UsageError(
            "a table of vLLM has one key, the number of tokens, and the calls do not differ in one number",
            hint="pass calls such as --call 'run(16)' --call 'run(128)', or --format forewarp",
        )
    return dict(zip(calls, columns[0], strict=True))


def check_vllm(observed: Sequence[Observed], keys: Mapping[str, int]) -> None:
    """Raise `UsageError` where the kernels in the calls are none that vLLM keeps tables for."""
    if sorted(one.call for one in observed) != sorted(keys):
        raise UsageError(
            "a table of vLLM is of one kernel, and a call launches several autotuned ones, or none of its own",
            hint="pass calls that launch one each, with other arguments, or --format forewarp",
        )
    names = {name for one in observed for name in one.space.configurations[0].values}
    if "BLOCK_SIZE_M" not in names or not names <= VLLM_NAMES:
        raise UsageError(
            f"vLLM reads configurations of {', '.join(sorted(VLLM_NAMES))}, and this kernel has {', '.join(names)}",
            hint="pass --format forewarp",
        )


def vllm_table(tuned: Sequence[Tuned], keys: Mapping[str, int]) -> dict[str, Any]:
    """Return the best configurations as vLLM keeps them, by number of tokens."""
    best = {keys[t.observed.call]: as_config(t.observed.space.configurations[t.best.place]) for t in tuned}
    return {str(key): best[key] for key in sorted(best)}


def helion_files(tuned: Sequence[Tuned]) -> dict[str, str]:
    """Return the best configurations as `helion.Config` loads them, by the names of files, one per kernel and call."""
    files: dict[str, str] = {}
    for t in tuned:
        kernel = t.observed.space.kernel
        number = sum(name.startswith(f"{kernel}.") for name in files) + 1
        name = f"{kernel}.{number}.json" if number > 1 else f"{kernel}.json"
        files[name] = json.dumps(as_config(t.observed.space.configurations[t.best.place]), indent=2)
    return files


def check_writable(path: Path, what: str = "table", *, folder: bool = False) -> None:
    """Make the folder that a file is written to, or that it is; raises `UsageError` where it cannot be written."""
    parent = path if folder else path.parent
    with writing(f"the {what} {path}", "pass the path of a file in a folder that can be written"):
        parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=parent).close()
        if path.is_dir() and not folder:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))


class TableInUse:
    """A table that a project uses so far: of forewarp's own form, of vLLM's, or a configuration of Helion's."""

    def __init__(self, path: Path, calls: Sequence[str]) -> None:
        """Raises `UsageError` where the file is no such table, or is vLLM's and the calls have no key of it."""
        try:
            data: dict[str, Any] = json.loads(path.read_text())
            self._rows: list[dict[str, Any]] = data.get("kernels", [])
            self._by_key = {int(n): dict(row) for n, row in data.items() if n.isdecimal()}
            listed = self._rows or self._by_key
            # Helion's cache has a configuration's text beside what it was found for; its files have no more than that.
            self._only: dict[str, Any] = {} if listed else json.loads(data["config"]) if "config" in data else data
        except (OSError, ValueError, TypeError, AttributeError) as e:
            raise UsageError(f"{path} is no table of configurations: {e}", hint=_FORMS) from e
        if not listed and not self._only:
            raise UsageError(f"{path} has no configurations", hint=_FORMS)
        self._keys = vllm_keys(calls) if self._by_key else {}

    def place(self, one: Observed) -> int | None:
        """Return the place of a kernel's configuration among the file's own; None where the table names none of them.

        Of vLLM's tables the nearest number of tokens counts, as it does there.
        """
        config: dict[str, Any] | None = next((r["configuration"] for r in self._rows if _is_of(r, one)), self._only)
        if one.call in self._keys:
            tokens = self._keys[one.call]
            config = self._by_key[min(self._by_key, key=lambda n: abs(n - tokens))]
        if not config:
            return None
        whole = {"num_warps": 4, "num_stages": 3, **config}
        listed = one.space.configurations[: one.listed]
        return next((i for i, c in enumerate(listed) if as_config(c) == whole), None)


def _is_of(row: Mapping[str, Any], one: Observed) -> bool:
    return row.get("kernel") == one.space.kernel and (row.get("call") == one.call or row.get("key") == dict(one.key))
