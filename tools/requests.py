"""Requests of the verbs. The faces make their flags, arguments and schemas of these fields.

Light: a face reads it to print its help or to list its tools, before anything of the engine is loaded.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError

from forewarp.core.budget import DEFAULT_MEASUREMENTS
from forewarp.core.errors import UsageError
from forewarp.core.values import AskedGradients, Language
from forewarp.tools.parts import Amounts, FilePath, Kernel, Part, Place, TaskOptions, TaskOrFile

AnyPart = TypeVar("AnyPart", bound=Part)

Baseline = Literal["eager", "compile"]
PROFILE_S, COMPILED_PROFILE_S = 120.0, 300.0
"""Seconds that a model's profile may take where nobody says otherwise."""
USUALLY_COMPILED = 24
"""Configurations of an autotuned kernel that are compiled where nobody says otherwise."""
LOCK_NAME = "forewarp-kernels.lock.json"
CHOICES_NAME = "forewarp.lock.json"
"""Lock file of the configurations that `tune` chooses, where nobody says otherwise."""
USUALLY_MEASURED = 8
"""Configurations of an autotuned kernel that are measured beside its first one where nobody says otherwise."""
RewardShape = Literal["correctness", "brier", "crps", "decision"]
Split = Literal["train", "validation", "test"]
ExportFormat = Literal["package", "file", "vllm-op"]

TaskName = Annotated[TaskOrFile, Field(description="Bundled task, task folder or KernelBench file.")]
OwnTask = Annotated[
    TaskOrFile | None,
    Field(
        description="Bundled task, task folder or KernelBench file; left out, the task whose folder holds the kernels."
    ),
]
TaskSize = Annotated[
    dict[str, int],
    Field(
        description="NAME=VALUE of a module constant of the task, in all of its workloads: a smaller shape to try, for "
        "example."
    ),
]
Gradients = Annotated[
    AskedGradients | None,
    Field(
        description="Ask for gradients, given upstream ones: only in place of outputs (a backward kernel), too behind "
        "them (a training step)."
    ),
]
Against = Annotated[Kernel | None, Field(description="Kernel to compare with, instead of the reference.")]
CompiledFor = Annotated[
    str, Field(description="a100, h100, h200, b200, l40s, rtx4090 or cuda; auto is this machine's GPU, else the H200.")
]
BaseUrl = Annotated[
    str | None,
    Field(description="URL of an OpenAI-compatible server (vLLM, Ollama, llama.cpp, …) for models called openai:NAME."),
]
ArchiveFile = Annotated[
    FilePath | None, Field(description="Archive file; $FOREWARP_ARCHIVE, else one in your data folder.")
]


def checked(kind: type[AnyPart], /, **fields: Any) -> AnyPart:
    """Construct a request; raises `UsageError` that names the first invalid field and says what it may be."""
    try:
        return kind(**fields)
    except ValidationError as e:
        problem, allowed = misfit(e)
        raise UsageError(problem, hint=allowed) from None


def misfit(error: ValidationError) -> tuple[str, str]:
    """Return what is wrong with the first field that does not fit, and what it may be."""
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return f"{name} is missing", "it has no default"
    allowed = re.sub(r"^(?:Input|String) should", "it should", first["msg"].removeprefix("Value error, "))
    given = repr(first["input"])
    return f"{name} is {given[:80]}{'…' * (len(given) > 80)}", allowed


Seconds = Annotated[float | None, Field(gt=0, allow_inf_nan=False)]
DeviceSeconds = Annotated[Seconds, Field(description="Most seconds for which the device is held.")]


class Caps(Part):
    """Caps on what a run may spend, by the names that users give them; the first one that is reached ends the run."""

    budget: int | None = Field(default=DEFAULT_MEASUREMENTS, ge=1, description="Most measurements.")
    max_gpu_seconds: DeviceSeconds = None
    max_usd: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="Most dollars for the language model."
    )
    max_tokens: int | None = Field(default=None, gt=0, description="Most tokens of the language model.")
    deadline: Seconds = Field(default=None, description="Most seconds of wall time.")

    def amounts(self) -> Amounts:
        return Amounts(
            measurements=self.budget,
            device_s=self.max_gpu_seconds,
            dollars=self.max_usd,
            tokens=self.max_tokens,
            wall_s=self.deadline,
        )


class TaskRequest(Part):
    """Fields of every request about the kernels of one task."""

    task: TaskName
    allow_tf32: bool = Field(
        default=False, description="Accept products in TF32 where the reference computes them in fp32."
    )
    gradients: Gradients = None
    size: TaskSize = Field(default_factory=dict[str, int])
    place: Place = Place()

    @property
    def options(self) -> TaskOptions:
        return TaskOptions(allow_tf32=self.allow_tf32, gradients=self.gradients, size=self.size)


class MeasureRequest(TaskRequest):
    """Request for a measurement: the task, the kernel, what to compare it with, and the device."""

    kernel: Kernel
    against: Against = None


class MeasureManyRequest(TaskRequest):
    """Several kernels to measure, one after the other."""

    kernels: list[Kernel] = Field(
        min_length=1, description="Files that hold the kernels; one that fails stops no other."
    )
    against: Against = None


class ExportKernelRequest(Part):
    """Request to write a winner, or a measured kernel, in a form that others can use."""

    subject: str = Field(
        description="A run's id, latest, or the folder of a run's files; with `task`, the file of a measured kernel."
    )
    task: FilePath | None = Field(default=None, description="Task that the kernel was measured on.")
    format: ExportFormat = Field(
        default="package",
        description="package is an installable op of torch with tests and benchmark; file a module in the place of the "
        "reference, fast without gradients; vllm-op a file that registers the op in vLLM's way.",
    )
    backward: str | None = Field(
        default=None,
        description="For a package, winner of the same task with --gradients only: a run, or, with `task`, the file of "
        "a measured kernel. Gradients are the reference's if left out.",
    )
    name: str | None = Field(default=None, description="Name of the package and op; the task's if left out.")
    tunables: dict[str, int] = Field(
        default_factory=dict[str, int], description="NAME=VALUE of a declared tunable of the kernel."
    )
    out: FilePath | None = Field(
        default=None, description="Folder, or the .py file; for a package ./NAME if left out, else this folder."
    )
    archive: ArchiveFile = None


class ForecastRequest(TaskRequest):
    """Request for a forecast: the task, the kernels, what to compare them with, the device and the forecaster."""

    kernels: list[Kernel] = Field(min_length=1, max_length=64, description="Kernels; several are ranked.")
    against: Against = None
    target: str | None = Field(
        default=None,
        description="Forecast for a device that need not be here: a100, h100, h200, b200, l40s, rtx4090; not with "
        "`device`.",
    )
    forecaster: Literal["learned", "llm", "cascade"] | None = Field(
        default=None,
        description="learned is embedded and free; llm asks `model`; cascade asks it only where that could change "
        "what to do. Left out: cascade with `model`, else learned.",
    )
    model: str | None = Field(default=None, description="Language model, as anthropic:NAME or openai:NAME.")
    base_url: BaseUrl = None


class TuneRequest(Part):
    """Request to choose configurations of a file's kernels: the calls, the card, and how much to measure."""

    file: FilePath = Field(
        description="Python file with kernels under @triton.autotune; with `task`, a kernel or module with tunables."
    )
    task: FilePath | None = Field(
        default=None,
        description="Bundled task, task folder or KernelBench file: what a kernel with a launch plan, or a module with "
        "tunables, is called with. All its choices are forecast, none is measured.",
    )
    calls: list[str] = Field(
        default_factory=list[str],
        description="Function of the file to call, perhaps with plain values: run or 'run(4096, 4096)'; one for each "
        "shape; tensors as 'matmul(float16[4096, 4096], float16[4096, 4096])'. Left out: what the file does by itself, "
        "then its functions with guessed arguments.",
    )
    target: CompiledFor = "auto"
    compile: int | None = Field(
        default=None,
        ge=0,
        description=f"Configurations to compile, those forecast fastest first ({USUALLY_COMPILED}); 0 compiles none, "
        "as `deterministic` does. With `task`, so many choices of the tunables, drawn at random (1,000).",
    )
    measure: int | None = Field(
        default=None,
        ge=0,
        description=f"Configurations to measure beside the file's first one ({USUALLY_MEASURED}); 0 needs no GPU.",
    )
    deterministic: bool = Field(
        default=False,
        description="Choose by forecast alone, the same everywhere, and write the choices into a lock file; those that "
        "stand in it are taken as they are.",
    )
    lock: FilePath | None = Field(
        default=None,
        description=f"The lock file ({CHOICES_NAME}), which forewarp.triton.install(lock=…) reads; with it the choice "
        "is deterministic.",
    )
    budget: int | None = Field(
        default=None, ge=0, description="Most configurations to measure in all, over all kernels and calls."
    )
    deadline_s: float | None = Field(
        default=None, gt=0, description="Seconds after which nothing more is compiled or measured."
    )
    space: bool = Field(
        default=False,
        description="Look at configurations beyond the file's own, too: new combinations of what it varies, one step "
        "further. One of them is chosen only where it was measured and its results compared.",
    )
    table: FilePath | None = Field(
        default=None,
        description="File, or folder for triton and helion, to write the best configuration of each call to.",
    )
    format: Literal["forewarp", "vllm", "triton", "helion"] = Field(
        default="forewarp",
        description="Format of the table; vllm is that of the fused mixtures of experts in vLLM and SGLang, triton the "
        "cache of autotuners with cache_results=True, helion files for helion.Config.load.",
    )
    against: FilePath | None = Field(
        default=None,
        description="Table in use so far, of forewarp, vLLM or Helion: speed-ups are over its configurations, which "
        "are measured, too, instead of over the file's first one.",
    )
    python: FilePath | None = Field(default=None, description="Python that has the file's own torch and Triton.")


class InspectRequest(Part):
    """Request for an inspection: the kernels, their task, and the device."""

    task: OwnTask = None
    kernels: list[Kernel] = Field(min_length=1, description="Files that hold the kernels.")
    gradients: Gradients = None
    size: TaskSize = Field(default_factory=dict[str, int])
    target: CompiledFor = "auto"
    check: bool = Field(
        default=False, description="Also run each kernel on the CPU at small shapes and compare it with the reference."
    )
    python: FilePath | None = Field(
        default=None, description="Python that has torch and Triton; the one that runs forewarp if left out."
    )


class TaskCall(Part):
    """Call of a function, or of a module class, of which a task is made."""

    function: str = Field(description="Function or module class of the file.")
    args: str = Field(default="", description='Arguments, or those of forward: "x=float32[4096,4096], n=3".')
    init: str = Field(default="", description="Arguments of a module's constructor.")


ModelFile = Annotated[
    FilePath,
    Field(description="Python file with Model, get_inputs() and get_init_inputs(), or with the function of `call`."),
]
ModelCall = Annotated[str, Field(description="Function of the file that returns a module and its inputs.")]


class ProfileRequest(Part):
    """Request for a model's profile: the model, the device, and the line to write as a task."""

    model: ModelFile
    call: ModelCall = ""
    deadline: Seconds = Field(default=None, description="Most seconds of wall time; 120, with `compile` 300.")
    graphs: bool = Field(default=False, description="Time the kernels in replays of a CUDA graph.")
    compile: bool = Field(
        default=False, description="Time the model under torch.compile, and each line as that compiles it alone."
    )
    task: int | None = Field(default=None, ge=1, description="Line of the last profile to write as a task, with `out`.")
    out: FilePath | None = Field(default=None, description="File to write the task to.")
    place: Place = Place()


class ApplyRequest(Part):
    """Request to put kernels into a model: the model, the kernels' modules, and the device."""

    model: ModelFile
    winners: list[str] = Field(
        min_length=1,
        description="Module that `forewarp optimize` exported for a line of the model's profile, FILE or FILE:LINE.",
    )
    call: ModelCall = ""
    compile: bool = Field(default=False, description="Judge the model as torch.compile compiles it, with and without.")
    deadline: Seconds = Field(default=None, description="Most seconds of wall time; none if left out.")
    write: FilePath | None = Field(default=None, description="File to write the model with what helps it to.")
    place: Place = Place()


class ValidateRequest(TaskRequest):
    """Request for a validation, on the shapes of the place's device."""


class SearchRequest(TaskRequest):
    """Request for a search: the task, the device, the budget and the policy."""

    budget: Amounts = Amounts(measurements=DEFAULT_MEASUREMENTS)
    seed: int = Field(default=0, description="Two runs with the same seed make the same choices.")
    forecaster: Literal["learned", "llm", "cascade", "none"] = Field(
        default="learned",
        description="learned is embedded and free; llm asks `model`; cascade asks it only where that could change "
        "what is measured; none measures everything.",
    )
    model: str | list[str] | None = Field(
        default=None,
        description="Language model that writes kernels, as anthropic:NAME or openai:NAME; several share the work by "
        "what each gains for its cost.",
    )
    base_url: BaseUrl = None
    forecast_model: str | None = Field(
        default=None, description="Language model that forecasts, for llm and cascade; the first `model` if left out."
    )
    seed_kernels: list[FilePath] = Field(
        default_factory=list[str], description="Kernel file to start from, instead of the bundled ones."
    )
    language: Language | None = Field(
        default=None, description="Keep to one language; all languages of the device if left out."
    )
    confirm: bool = Field(default=True, description="Keep one measurement back and measure the winner a second time.")
    holdout: bool = Field(default=True, description="Try the best programs on shapes that nobody tuned for.")
    audit: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Share of the discards, 0 to 1, that is measured all the same; bounds how many were wrong. "
        "[default: 0.05]",
    )
    explore: int | None = Field(
        default=None, ge=0, description="Measurements spread over the space before forecasts decide. [default: 3]"
    )
    proposals: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="New candidates per round. [default: 8, or 12 where a model writes them]",
    )
    measure_per_round: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="Measurements per round, audits not counted. [default: 1, or 3 where a model writes]",
    )
    patience: int | None = Field(
        default=None,
        ge=0,
        description="Rounds in a row without a promising candidate after which the run ends; 0 is never. [default: 6]",
    )
    plans: int = Field(
        default=0,
        ge=0,
        le=16,
        description="Short plans that the model gives before each program; a forecaster chooses those that are "
        "written. 0 is none.",
    )


class OptimizeModelRequest(Part):
    """Request to search for kernels of a model's most promising lines, and to put those that help into it.

    `search` is what the search of each line gets; its task is the model's file, and its budget is that of the whole.
    """

    search: SearchRequest
    top: int = Field(ge=1, le=100, description="Most promising lines of the model's profile to search for.")
    call: ModelCall = ""
    compile: bool = Field(default=False, description="Judge the model as torch.compile compiles it, with and without.")


class ResumeRequest(Part):
    """Request to take up a run. The model and the pool are taken from here; keys and paths are not in the archive."""

    run_id: str = Field(
        description="The run's id or a unique beginning of it, latest, or the folder of a model's search; see "
        "`forewarp runs`."
    )
    place: Place = Place()
    model: str | list[str] | None = Field(
        default=None, description="Language models to go on with, in place of those that the run began with."
    )
    base_url: BaseUrl = None


class SuiteRequest(Part):
    """Request for a suite: the problems, the kernels, the device, and the baselines to compare with."""

    problems: FilePath = Field(
        description="Folder, file or quoted glob of KernelBench problems, or of GPU MODE task folders."
    )
    kernels: FilePath | None = Field(
        default=None,
        description="Folder of kernels; each belongs to the problem that its name, or its folder's name, tells.",
    )
    identical: bool = Field(
        default=False,
        description="Measure each reference against itself, renamed to ModelNew, instead of kernels: a check of the "
        "harness, in which every verdict should be tie.",
    )
    only: str | None = Field(default=None, description="Quoted glob for the names of problems.")
    limit: int | None = Field(default=None, ge=1, description="Most problems.")
    baselines: list[Baseline] = Field(
        default=["eager", "compile"],
        min_length=1,
        description="What to compare with: eager, or both, eager,compile, if left out; torch.compile is measured once "
        "for each problem.",
    )
    output: FilePath | None = Field(
        default=None,
        description="Folder of the record, in which the same request goes on where it was; forewarp-suites/NAME if "
        "left out.",
    )
    retry_failed: bool = Field(default=False, description="Measure again what is recorded and did not work.")
    place: Place = Place()


class GateLockRequest(Part):
    """Request to lock kernels: their files, what they are for, and where they are compiled and measured."""

    kernels: list[Kernel] = Field(min_length=1, description="Files that hold the kernels.")
    task: OwnTask = None
    against: Against = None
    targets: list[str] = Field(
        default_factory=list[str],
        description="Card to compile for, which need not be here, such as h100; this machine's, else the H200, if "
        "left out.",
    )
    measure: bool = Field(default=True, description="Measure kernels that the device runs.")
    out: FilePath = Field(default=LOCK_NAME, description="File of the lock; what it holds of other kernels stays.")
    place: Place = Place()


class GateCheckRequest(Part):
    """Request to check locked kernels: against the lock, or in a new environment against an old one."""

    lock: FilePath = Field(default=LOCK_NAME, description="File of the lock.")
    python: list[FilePath] = Field(
        default_factory=list[str],
        max_length=2,
        description="Python that has torch. One is checked against the lock; of two, the second against the first, "
        "both timed on one device in turns.",
    )
    threshold: str = Field(
        default="2%", pattern=r"^(\d+(\.\d+)?%|0?\.\d+)$", description="How much slower is too slow, as 2% or 0.02."
    )
    check: bool = Field(
        default=True, description="Where there is no device for it, run a GPU kernel on the CPU and compare outputs."
    )
    budget: int | None = Field(default=None, ge=1, description="Most measurements; the same command goes on later.")
    max_gpu_seconds: DeviceSeconds = None
    device: str = Field(
        default="auto",
        description="Device to time on: auto (cuda, else cpu), cuda, cuda:N or cpu; none compiles and checks only.",
    )
    archive: ArchiveFile = None

    @property
    def margin(self) -> float:
        text = self.threshold
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)


class EvaluateRequest(Part):
    """Request for an evaluation: the forecasters, and the measured candidates to judge them by."""

    what: Literal["kernels", "plans"] = Field(
        default="kernels",
        description="Forecasts of kernels; or those that an archive's runs made of plans, by the kernels written from "
        "them.",
    )
    pools: list[FilePath] = Field(
        default_factory=list[str], description="Parquet files of measured candidates, or folders of them."
    )
    forecasters: list[str] = Field(
        default_factory=list[str],
        description="Forecasters to ask: learned, llm, cascade, and what looks at no candidate: climatology, uniform; "
        "pooled puts the learned one's answers and `recorded` ones together, as a cascade does. "
        "Left out: learned, where there are pools and nothing is `recorded`.",
    )
    recorded: list[FilePath] = Field(
        default_factory=list[str], description="File of recorded forecasts to score again."
    )
    split: Literal["train", "validation", "test", "all"] = Field(
        default="test", description="Only this split of the pools; all takes every row."
    )
    tasks: list[str] = Field(default_factory=list[str], description="Only this task, by name.")
    train: FilePath | None = Field(
        default=None,
        description="Pool whose frequencies climatology forecasts; the train split of the pools if left out.",
    )
    history: int = Field(
        default=0, ge=0, description="Rows of each task, drawn by `seed`, that are shown as measured and not scored."
    )
    anchors: bool = Field(
        default=False, description="Tell forecasters how long each task's reference takes on that device."
    )
    seed: int = Field(default=0, description="Draws the rows that are shown, and the resamples.")
    resamples: int = Field(default=1000, ge=2, description="Draws of the tasks that the intervals rest on.")
    margin: float = Field(
        default=0.05, gt=0, description="Distance from the best at which a kernel should not have been missed."
    )
    model: list[str] = Field(
        default_factory=list[str],
        description="Language model of llm and cascade, as anthropic:NAME or openai:NAME. Of several, llm is each of "
        "them in turn, and all are compared with the first.",
    )
    base_url: BaseUrl = None
    archive: ArchiveFile = None
    keep: FilePath | None = Field(default=None, description="Parquet file to write the forecasts to.")


class TrainRequest(Part):
    """Request for a training run: its TOML file, and settings that override it."""

    data: list[FilePath] = Field(
        default_factory=list[str], description="Parquet file of measured candidates, or a folder of them."
    )
    base: str | None = Field(
        default=None, description="Model to start from: a folder, or a hub name, in the format of transformers."
    )
    reward: RewardShape | None = Field(
        default=None,
        description="What a reply is rewarded for; the last three add their score to correctness. [default: brier]",
    )
    out: FilePath | None = Field(
        default=None, description="Folder for the adapter, the run's file, its journal and its checkpoints."
    )
    config: FilePath | None = Field(default=None, description="TOML file of the run; flags go before it.")
    steps: int | None = Field(default=None, ge=0, description="Steps of reinforcement. [default: 20]")
    seed: int | None = Field(
        default=None, description="Two runs with the same seed and file draw the same prompts. [default: 0]"
    )
    resume: bool = Field(default=False, description="Go on with the run in `out` from its last checkpoint.")


class ExportRequest(Part):
    """Measurements to write as a pool: from the named pools, else from the archive."""

    out: FilePath = Field(description="Parquet file to write.")
    overwrite: bool = Field(default=False, description="Replace the file if it is there already.")
    splits: FilePath | None = Field(
        default=None,
        description="File of families with their splits; forewarp's own, as in pool/splits.toml, if left out.",
    )
    families: dict[str, str] = Field(
        default_factory=dict[str, str], description="TASK=FAMILY; goes before the one in the task's file."
    )
    tasks: FilePath | None = Field(default=None, description="Folder of task folders, whose task.toml names a family.")
    pools: list[FilePath] = Field(
        default_factory=list[str], description="Pools to take the rows from; the archive if none is named."
    )
    archive: ArchiveFile = None
    task: str | None = Field(default=None, description="Only this task, by name.")
    target: str | None = Field(default=None, description="Only this device, by name.")
    run: str | None = Field(default=None, description="Only this run of the archive.")
    split: Split | None = Field(default=None, description="Only this split.")
    samples: bool = Field(
        default=False, description="Keep every raw sample, which makes the file some ten times as large."
    )
    pairs: bool = Field(default=False, description="Also what was measured against another kernel than the reference.")
    features: bool = Field(
        default=False, description="Fill in the vector of features that forecasters learn from, with its version."
    )
