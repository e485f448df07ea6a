"""Frozen values that the packages exchange.

Times are in seconds, sizes in bytes, speed-ups are anchor time / candidate time. Each value is plain data:
`serde` turns any of them into JSON and back.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from forewarp.core import bins

Language = Literal["cpp", "triton", "cuda", "python"]
DeviceKind = Literal["cpu", "cuda"]
TaskFormat = Literal["kernelbench", "gpumode"]
AskedGradients = Literal["only", "too"]
"""Gradients as a task's outputs: in place of forward's outputs, or behind them."""
Mode = Literal["train", "eval"]
"""Mode of a task's modules: as they are constructed, which is training mode unless they say otherwise, or `eval()`."""
Status = Literal["ok", "compile_error", "incorrect", "runtime_error", "timeout", "crashed", "out_of_memory"]
Verdict = Literal[
    "faster", "slower", "tie", "inconclusive", "ambiguous", "incorrect", "failed", "suspicious", "impossible"
]
TimingMode = Literal["call", "native", "stream", "graph", "chain", "burst"]
Tier = Literal["T0", "T1", "T2"]
Action = Literal["measure", "skip", "reject"]
GateOutcome = Literal["pending", "passed", "malformed", "duplicate", "same_code", "compile_error"]
Constant = int | float | str | bool | list[int] | list[float] | list[str]

DEVICE_ONLY: tuple[Language, ...] = ("cpp", "triton", "cuda")
"""Languages of the device-only format; `python` is a KernelBench module with host code of its own."""


UNTRUSTED: tuple[Verdict, ...] = ("suspicious", "impossible")
"""Verdicts of a candidate that is correct by its outputs, but whose time nobody should believe."""

Z80 = 1.2815515655446004
"""Half-width of a normal's central 80 % interval, in standard deviations."""


def digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Tolerance:
    """An element passes when |candidate − oracle| ≤ atol · rms(oracle) + rtol · |oracle|, plus the reference's share.

    The share is twice the reference's own error against the same oracle, so that a task whose reference rounds
    coarsely does not ask more of a candidate than of itself. Elements beyond that pass where the errors as a whole are
    spread no wider than twice the reference's own.
    """

    rtol: float
    atol: float


DEFAULT_TOLERANCES: Final[Mapping[str, Tolerance]] = {
    "float64": Tolerance(1e-7, 1e-7),
    "float32": Tolerance(1e-4, 1e-4),
    "float16": Tolerance(1e-2, 1e-2),
    "bfloat16": Tolerance(1.6e-2, 1e-2),
    "float8_e4m3fn": Tolerance(0.13, 3e-2),
    "float8_e5m2": Tolerance(0.26, 6e-2),
}
"""Tolerances by the output's dtype, for tasks that set none.

They are KernelBench's, with the absolute part taken relative to the output's root mean square: a softmax over many
columns has outputs far below any fixed absolute tolerance. Those of fp8 allow one step: on whole numbers many quotients
lie halfway between two of its values, and which one an honest kernel takes hangs on its last bit of fp32.
"""

REFERENCE: Final = "reference"
"""The anchor of every measurement that is not against another kernel."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One shape of a task: constants of a KernelBench module, or arguments of KernelBot's `generate_input`."""

    name: str
    constants: Mapping[str, Constant] = field(default_factory=dict[str, Constant])


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Name, shape and dtype (torch's name without the prefix) of one tensor."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Backward:
    """Backward pass of a task that asks for gradients, as its reference's autograd takes it.

    `upstream` are the gradients that a kernel gets behind forward's inputs, in order, each named by the position of the
    output that it belongs to. The gradients that it returns are those of forward's tensors at the positions `inputs`,
    then those of `params`, by `state_dict` key.
    """

    upstream: tuple[TensorSpec, ...]
    inputs: tuple[int, ...]
    params: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of torch that a reference calls `times` times with tensors of these sizes.

    `kind` says what its time depends on (pointwise, reduction, product, …), `dtype` is that of its first tensor. `read`
    and `written` are bytes; `kept` are those read that the reference itself has written in the same call, which may
    still lie in a cache. `flops` are of products and convolutions.
    """

    name: str
    kind: str
    dtype: str
    read: int
    kept: int
    written: int
    flops: float = 0.0
    times: int = 1


@dataclass(frozen=True, slots=True)
class Signature:
    """Signature of a task for one workload, as a kernel sees it: tensors, scalars, parameters, and the work to do.

    `inputs` holds the tensors of `get_inputs()` in order; `scalars` the numbers among them by position; `init` the
    numbers of `get_init_inputs()` by position; `params` the model's parameters and buffers by `state_dict` key. `flops`
    is None where nothing in the reference is counted (see `docs/tasks.md`); `needed_flops` are those among them that no
    kernel can do without. `written` names by position the inputs that
    the reference itself writes to: a candidate may, and must, write to those as well. `aliases` gives for an output by
    position the written input that the reference returns as that output: the two are one buffer. `state` names the
    buffers and parameters that a call of the reference changes, as `state_dict` does: they are put back before every
    call. `random` says that the reference draws random numbers in a call. `operations` are what its own call consists
    of, in the order first seen; empty where they were not counted. `backward` is None where no gradients are asked for.
    """

    workload: str
    inputs: tuple[TensorSpec, ...]
    scalars: Mapping[str, int | float]
    init: Mapping[str, int | float]
    params: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    flops: float | None
    bytes_moved: int
    written: tuple[int, ...] = ()
    aliases: Mapping[str, int] = field(default_factory=dict[str, int])
    needed_flops: float = 0.0
    state: tuple[str, ...] = ()
    random: bool = False
    operations: tuple[Operation, ...] = ()
    backward: Backward | None = None


class _Identified:
    """Cache for a value's identity: a long search asks each of its candidates for it thousands of times."""

    __slots__ = ("_sha256",)

    _sha256: str


@dataclass(frozen=True, slots=True)
class Candidate(_Identified):
    """Source text plus language and the tunables chosen for it."""

    source: str
    language: Language
    tunables: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def sha256(self) -> str:
        """Identity: language, source and tunables."""
        try:
            return self._sha256
        except AttributeError:
            made = digest(self.language, self.source, json.dumps(dict(sorted(self.tunables.items()))))
            object.__setattr__(self, "_sha256", made)
            return made

    @property
    def short(self) -> str:
        """First ten digits of the identity, for people."""
        return self.sha256[:10]


@dataclass(frozen=True, slots=True)
class Task:
    """A reference program with its workloads per device kind, its tolerance and its seed kernels.

    `format` says how `reference` is to be read, `files` holds the modules that it imports, by file name. `perturb` is
    false where scaled or negated inputs would mean nothing to the reference. `mode` is that of reference and candidate
    modules. `family` names the kind of operation by which pools are split (`pool/README.md`), "" where none is known.
    `allow_tf32` accepts products in TF32 where the reference computes them in fp32. With
    `gradients`, those are what a candidate returns, see `Backward`.
    """

    name: str
    title: str
    reference: str
    workloads: Mapping[DeviceKind, tuple[Workload, ...]]
    tolerance: Tolerance | None = None
    seeds: tuple[Candidate, ...] = ()
    format: TaskFormat = "kernelbench"
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    perturb: bool = True
    family: str = ""
    mode: Mode = "train"
    allow_tf32: bool = False
    gradients: AskedGradients | None = None

    def without_seeds(self) -> Task:
        """Return the problem alone, as jobs on it need it."""
        return replace(self, seeds=())

    @property
    def sha256(self) -> str:
        """Identity of the problem: reference, workloads, tolerance, mode, gradients, whether TF32 will do; no seeds."""
        shapes = {kind: [(w.name, dict(w.constants)) for w in ws] for kind, ws in self.workloads.items()}
        tolerance = (self.tolerance.rtol, self.tolerance.atol) if self.tolerance else None
        problem: list[object] = [shapes, tolerance]
        if self.format != "kernelbench" or self.files:
            problem += [self.format, dict(sorted(self.files.items()))]
        if self.mode != "train":
            problem.append({"mode": self.mode})
        if self.allow_tf32:
            problem.append("TF32 accepted")
        if self.gradients:
            problem.append({"gradients": self.gradients})
        return digest(self.reference, json.dumps(problem, sort_keys=True))


@dataclass(frozen=True, slots=True)
class Target:
    """A device and the peak rates that a roofline needs. Rates are data-sheet values; `source` says from where."""

    name: str
    kind: DeviceKind
    arch: str
    processors: int
    memory_bandwidth: float | None = None
    fp32_flops: float | None = None
    tensor_flops: float | None = None
    l2_bytes: int | None = None
    shared_bytes: int | None = None
    memory_bytes: int | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Static facts about a candidate, before it runs: numbers, and problems found by inspection."""

    facts: Mapping[str, float] = field(default_factory=dict[str, float])
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Build:
    """A candidate compiled into the folder `artefact`, or `pending` until it is to be measured."""

    status: Status
    seconds: float
    log: str = ""
    artefact: str = ""
    binary_sha256: str = ""
    cached: bool = False
    evidence: Evidence = field(default_factory=Evidence)
    pending: bool = False


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of an answer. `dollars` is None where the model's price is unknown."""

    seconds: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float | None = 0.0

    def __add__(self, other: Cost) -> Cost:
        unknown = self.dollars is None or other.dollars is None
        return Cost(
            self.seconds + other.seconds,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            None if unknown else (self.dollars or 0.0) + (other.dollars or 0.0),
        )


@dataclass(frozen=True, slots=True)
class Forecast:
    """A distribution over the speed-up of a valid candidate, and the probability that it is valid at all.

    Where the forecaster knows more than the bins can say, `mean_log2` and `sd_log2` give mean and spread of log2 S
    (`sd_log2` such that mean ± 1.2816 sd is the central 80 %): they tell candidates of one bin apart, and reach beyond
    the outer edges. A forecast that combines several keeps them in `tiers`, in the order asked; their costs are those
    of this answer, zero where one was remembered. `shared_sd_log2` is the part of `sd_log2` that all candidates of the
    same question share, such as doubt about the reference's time: it cancels between two of them. `uncorrected` is the
    forecast before what was measured corrected it, without its words and its cost; None where nothing corrects it.
    `informed` is False where the forecaster knew nothing of this candidate: such an answer has no weight in a pool.
    """

    probabilities: tuple[float, ...]
    p_valid: float
    forecaster: str
    rationale: str = ""
    raw_sum: float = 1.0
    cost: Cost = field(default_factory=Cost)
    mean_log2: float | None = None
    sd_log2: float | None = None
    tiers: tuple[Forecast, ...] = ()
    shared_sd_log2: float = 0.0
    uncorrected: Forecast | None = None
    informed: bool = True

    def __post_init__(self) -> None:
        if len(self.probabilities) != bins.COUNT or abs(sum(self.probabilities) - 1.0) > 1e-6:
            raise ValueError("a forecast is eight probabilities that sum to one; use bins.normalise")

    @property
    def p_faster(self) -> float:
        """Probability of being valid and faster than the anchor."""
        return self.p_valid * sum(self.probabilities[bins.FIRST_FASTER :])

    @property
    def median(self) -> float:
        """Median speed-up, given that the candidate is valid."""
        return bins.quantile(self.probabilities, 0.5) if self.mean_log2 is None else 2.0**self.mean_log2

    @property
    def interval(self) -> tuple[float, float]:
        """Central 80 % interval of the speed-up, given that the candidate is valid."""
        if self.mean_log2 is None or self.sd_log2 is None:
            return bins.quantile(self.probabilities, 0.1), bins.quantile(self.probabilities, 0.9)
        half = Z80 * self.sd_log2
        return 2.0 ** (self.mean_log2 - half), 2.0 ** (self.mean_log2 + half)

    @property
    def confidence(self) -> float:
        """Probability of the likeliest bin; derived from the distribution, never asked of a model."""
        return max(self.probabilities)


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """A short plan for a kernel that is not written yet: the change, what it should gain, and what may go wrong."""

    change: str
    effect: str
    risk: str


@dataclass(frozen=True, slots=True)
class RatedPlan:
    """A plan with the forecast of what will come of it."""

    plan: KernelPlan
    forecast: Forecast


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision whether to measure a candidate, with the numbers that it rested on."""

    action: Action
    reason: str
    score: float = 0.0
    numbers: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two arms timed in interleaved blocks, two samples each: anchor / candidate with its 95 % interval."""

    speedup: float
    low: float
    high: float
    candidate_median_s: float
    anchor_median_s: float
    candidate_s: tuple[float, ...] = ()
    anchor_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkloadTiming:
    """Candidate against anchor on one workload, with a cold L2 cache.

    `speedup` is exp of the centre of the block log-ratios, `low`/`high` its 95 % interval; `log_ratios` keeps
    every block, `candidate_s`/`anchor_s` every sample in the order taken. `verdict` rests on the wider interval
    `decisive_low`/`decisive_high`, which allows for the number of looks that were planned. `control` is the anchor
    timed against itself between the blocks: the noise floor. `warm` is the same comparison with the L2 cache left as it
    is, `cycles` the comparison in SM clock cycles instead of seconds, `launched` with the host's launch included; each
    is None where the device or the tier has no such number. `candidate_hz`/`anchor_hz` hold the SM clock seen just
    before each sample. `session_sd` is the spread (standard deviation of log-ratios) that measurements of equal kernels
    show from one session to the next: the decisive interval allows for it, `low`/`high` for as much as is usual.
    """

    workload: str
    speedup: float
    low: float
    high: float
    candidate_median_s: float
    anchor_median_s: float
    error_ratio: float
    log_ratios: tuple[float, ...] = ()
    candidate_s: tuple[float, ...] = ()
    anchor_s: tuple[float, ...] = ()
    verdict: Verdict = "inconclusive"
    decisive_low: float | None = None
    decisive_high: float | None = None
    looks: int = 1
    mode: TimingMode = "call"
    control: Comparison | None = None
    warm: Comparison | None = None
    cycles: Comparison | None = None
    launched: Comparison | None = None
    candidate_hz: tuple[float, ...] = ()
    anchor_hz: tuple[float, ...] = ()
    session_sd: float = 0.0


@dataclass(frozen=True, slots=True)
class Measurement:
    """One candidate measured against its anchor on one device.

    `speedup` is the geometric mean over the workloads with its 95 % interval (`low`, `high`); all three are None unless
    `status` is "ok". `phases` breaks the wall time down (spawn, compile, check, time; "lost" is that of attempts whose
    machine was lost, the most that they can have held a device); `device_s` is the time for which the device was held
    by the attempt that answered. `source` is "measured", or "replay" where the answer was looked up in a recorded pool.
    `anchor` is "reference" or the identity of the kernel that the ratio is against. `checks` names what the outputs had
    to pass, `flags` what speaks against the time, `conditions` the state of the device (degrees C, watts, hertz).
    `stopped_early` says that timing ended because the candidate could hardly reach what it had to beat: its interval is
    that of few blocks, and it never counts as a win. `lifting` says of a module what device program it was lifted to,
    or why it was not; "" for kernels that need no lifting.
    """

    status: Status
    verdict: Verdict
    device: str
    tier: Tier
    anchor: str = "reference"
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    workloads: tuple[WorkloadTiming, ...] = ()
    phases: Mapping[str, float] = field(default_factory=dict[str, float])
    device_s: float = 0.0
    log: str = ""
    protections: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    source: Literal["measured", "replay"] = "measured"
    checks: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    conditions: Mapping[str, float] = field(default_factory=dict[str, float])
    stopped_early: bool = False
    lifting: str = ""

    @property
    def trusted(self) -> bool:
        """True if the candidate is correct and its time believable."""
        return self.status == "ok" and self.verdict not in UNTRUSTED

    @property
    def believed(self) -> float | None:
        """The speed-up if it is to be believed, else None."""
        return self.speedup if self.trusted and self.speedup else None

    @property
    def judged(self) -> bool:
        """True if the candidate ran to its end, so that its outputs were right or wrong."""
        return self.status in ("ok", "incorrect")

    @property
    def anchor_s(self) -> float | None:
        """The anchor's seconds, geometric mean over the workloads; None where it was not timed."""
        times = [w.anchor_median_s for w in self.workloads]
        return math.exp(sum(map(math.log, times)) / len(times)) if times and min(times) > 0 else None
