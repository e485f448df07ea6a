"""Flags that several verbs share, as dataclasses that are flattened into each verb's own flags."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from forewarp.core.budget import DEFAULT_MEASUREMENTS

if TYPE_CHECKING:
    from forewarp.tools.parts import Place

Language = Literal["cpp", "triton", "cuda", "python"]


def positive(_: object, value: float | None) -> None:
    """Raise `ValueError` for a value that is not positive and finite."""
    if value is not None and not 0 < value < math.inf:
        raise ValueError("It must be above 0 and finite.")


@Parameter(name="*")
@dataclass(frozen=True)
class Where:
    """Device and archive.

    Attributes:
        device: auto (cuda, else cpu), cuda, cuda:N, cuda:all (several kernels at once), cpu; replay looks up a pool.
        executor: Machines to measure on: local, ssh:HOST, ray, or ray:ADDRESS of a Ray cluster's head.
        pool: Parquet file or folder of recorded measurements, for --device replay; left out, those of forewarp.
        archive: Archive file; $FOREWARP_ARCHIVE, else one in your data folder.
        python: Python that has the torch to measure with; the one that runs forewarp if left out, python3 over ssh.
        unprotected: Run the code of tasks and kernels on this machine even where it cannot be confined.
    """

    device: str = "auto"
    executor: str = "local"
    pool: Path | None = None
    archive: Path | None = None
    python: Path | None = None
    unprotected: Annotated[bool, Parameter(negative="", show_default=False)] = False

    def place(self) -> Place:
        """Convert the flags into a `Place`; paths on this machine become absolute.

        Processes that are started from here on learn from a variable that the user insists. Raises `UsageError`.
        """
        from forewarp.gpu_runner.worker.least import INSIST
        from forewarp.tools.parts import Place

        if self.unprotected and self.executor != "local":
            raise _only_here(self.executor, INSIST)
        if self.unprotected:
            os.environ[INSIST] = "1"
        return Place(
            device=self.device,
            executor=self.executor,
            pool=_absolute(self.pool),
            archive=_absolute(self.archive),
            # A virtual environment's python is a link that must not be resolved.
            python=_interpreter(self.python, self.executor),
        )


@Parameter(name="*")
@dataclass(frozen=True)
class Output:
    """Flags that choose how results are shown.

    Attributes:
        json: Print exactly one JSON document on stdout, also on failure.
        quiet: Show no progress.
        verbose: Show tracebacks and logs in full.
    """

    json: Annotated[bool, Parameter(negative="", show_default=False)] = False
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], negative="", show_default=False)] = False
    verbose: Annotated[bool, Parameter(name=["--verbose", "-v"], negative="", show_default=False)] = False


@Parameter(name="*")
@dataclass(frozen=True)
class Model:
    """The language model, if any.

    Attributes:
        model: Language model, as anthropic:NAME or openai:NAME; its key is read from the environment.
        base_url: URL of an OpenAI-compatible server (vLLM, Ollama, llama.cpp, …) that serves the model.
    """

    model: str | None = None
    base_url: str | None = None


@Parameter(name="*")
@dataclass(frozen=True)
class Models:
    """The language models of a run, if any.

    Attributes:
        model: Language model that writes kernels, as anthropic:NAME or openai:NAME; its key is read from the
            environment. Given several times, they share the work by what each gains for its cost.
        base_url: URL of an OpenAI-compatible server (vLLM, Ollama, llama.cpp, …) that serves the model; of several,
            those called openai:NAME.
    """

    model: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = ()
    base_url: str | None = None


def _something(_: object, value: int) -> None:
    if value < 1:
        raise ValueError("Nothing would be measured; to see what a run would take, pass --dry-run.")


@Parameter(name="*")
@dataclass(frozen=True)
class Caps:
    """Caps on what a run may spend; the first one that is reached ends it.

    Attributes:
        budget: Most measurements.
        max_gpu_seconds: Most seconds for which the device is held.
        max_usd: Most dollars for the language model.
        max_tokens: Most tokens of the language model.
        deadline: Most seconds of wall time.
    """

    budget: Annotated[int, Parameter(validator=_something)] = DEFAULT_MEASUREMENTS
    max_gpu_seconds: Annotated[float | None, Parameter(validator=positive)] = None
    max_usd: Annotated[float | None, Parameter(validator=positive)] = None
    max_tokens: Annotated[int | None, Parameter(validator=positive)] = None
    deadline: Annotated[float | None, Parameter(validator=positive)] = None


@Parameter(name="*", group="Policy")
@dataclass(frozen=True)
class Policy:
    """Flags that decide which of the proposed candidates are measured.

    Attributes:
        confirm: Keep one measurement back and measure the winner a second time.
        holdout: Try the confirmed winner on shapes that nobody tuned for.
        audit: Share of the discards, 0 to 1, that is measured all the same; bounds how many were wrong. [default: 0.05]
        explore: Measurements spread over the space before forecasts decide. [default: 3]
        proposals: New candidates per round. [default: 8, or 12 where a model writes them]
        measure_per_round: Measurements per round, audits not counted. [default: 1, or 3 where a model writes]
        patience: Rounds in a row without a promising candidate after which the run ends; 0 is never. [default: 6]
        learn_across_runs: Begin with the best kernels of earlier runs of this task on this device, and learn from them.
    """

    confirm: Annotated[bool, Parameter(negative="--no-confirm", show_default=False)] = True
    holdout: Annotated[bool, Parameter(negative="--no-holdout", show_default=False)] = True
    audit: Annotated[float | None, Parameter(validator=Number(gte=0, lte=1))] = None
    explore: Annotated[int | None, Parameter(validator=Number(gte=0))] = None
    proposals: Annotated[int | None, Parameter(validator=Number(gte=1, lte=1000))] = None
    measure_per_round: Annotated[int | None, Parameter(validator=Number(gte=1, lte=1000))] = None
    patience: Annotated[int | None, Parameter(validator=Number(gte=0))] = None
    learn_across_runs: Annotated[bool, Parameter(negative="", show_default=False)] = False


HERE, PLAIN, NO_MODEL, NO_MODELS, DEFAULT_CAPS, DEFAULT_POLICY = Where(), Output(), Model(), Models(), Caps(), Policy()


def tunables_of(pairs: tuple[str, ...]) -> dict[str, int]:
    """Read NAME=VALUE pairs; raises `UsageError`."""
    from forewarp.core.errors import UsageError

    chosen: dict[str, int] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not value.lstrip("-").isdigit():
            raise UsageError(f"{pair!r} is no tunable", hint="write it as NAME=INTEGER")
        chosen[name] = int(value)
    return chosen


def _only_here(executor: str, variable: str) -> Exception:
    from forewarp.core.errors import UsageError

    return UsageError(
        f"--unprotected is about this machine, and --executor {executor} measures elsewhere",
        hint=f"leave it out, and set {variable}=1 on the machines that measure",
    )


def _interpreter(path: Path | None, executor: str) -> str | None:
    """Return the path of a Python: absolute on this machine, unchanged for other machines."""
    if path is None or executor != "local":
        return str(path) if path else None
    return str(path.expanduser().absolute())


def _absolute(path: Path | None) -> str | None:
    return str(path.expanduser().absolute()) if path else None
