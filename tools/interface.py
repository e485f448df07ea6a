"""The inputs and outputs that a task has for a kernel, and a kernel to begin with in each language."""

from __future__ import annotations

from pydantic import Field

from forewarp.core.errors import DeviceError, WorkerError
from forewarp.core.protocols import Executor
from forewarp.core.values import AskedGradients, Language, Signature, Target, Task, TensorSpec
from forewarp.gpu_runner import devices
from forewarp.gpu_runner.formats import c_types
from forewarp.gpu_runner.formats.skeleton import PlanNames, skeleton
from forewarp.prompts.render import render
from forewarp.search.proposers.advice import cards_for
from forewarp.tools import describe
from forewarp.tools import session as sessions
from forewarp.tools.describe import TaskFacts
from forewarp.tools.parts import Part, Place
from forewarp.tools.session import Executors
from forewarp.tools.suite_modules import identical

C_LANGUAGES: tuple[Language, ...] = ("cpp", "cuda")
BARE = (
    "The kernel in start fits the task, but computes nothing yet; with language python there is a module that is right."
)
_ADVICE_CHARS = 2_000
SAME = "The module in start is the reference under the name that a candidate has: right, and as fast."


class KernelInterface(Part):
    """Inputs and outputs of a kernel on the task's first shape."""

    inputs: list[str] = Field(description="Tensors and numbers of get_inputs() in order: name: dtype[shape].")
    parameters: list[str] = Field(description="Parameters and buffers of the model: state_dict key: dtype[shape].")
    numbers: dict[str, int | float] = Field(description="Numbers of get_init_inputs(), as plans call them.")
    outputs: list[str]
    c_types: dict[str, str] = Field(description="Types of pointers' elements and of numbers in C++ and CUDA.")


class Start(Part):
    """A kernel to begin with."""

    language: Language
    source: str
    note: str = Field(description="What is yet to be done; empty for a tuned kernel of a bundled task.")


class TaskInterface(Part):
    """A task as the author of a kernel sees it."""

    facts: TaskFacts
    language: Language
    interface: KernelInterface | None = Field(description="Null where the reference cannot run here.")
    start: Start | None = Field(description="Null where there is none that was written, and none can be made here.")
    advice: str = Field(default="", description="Cards that proposers are given for this task, language and GPU.")
    problem: str = ""


def task_interface(
    name: str,
    place: Place,
    language: Language | None,
    executors: Executors,
    gradients: AskedGradients | None = None,
    *,
    own: bool = True,
) -> TaskInterface:
    """Return what a task passes to a kernel, and a kernel to begin with; its reference runs, confined.

    Without a language, the task's shortest own kernel decides, else the device. Without `own`, the kernel to begin with
    is one that is made, which is shorter. Raises `TaskError`.
    """
    task = sessions.load_task(name, place, gradients=gradients)
    facts = describe.task_of(task, place)
    written = [seed for seed in task.seeds if own and seed.language in facts.seeds]
    shortest = min(written, key=lambda seed: len(seed.source), default=None)
    chosen: Language = language or (shortest.language if shortest else describe.languages_at(place)[0])
    try:
        signature = signature_of(task, place, executors)
    except (DeviceError, WorkerError) as e:
        seed = facts.seeds.get(chosen) if own else None
        start = Start(language=chosen, source=seed, note="") if seed else None
        return TaskInterface(facts=facts, language=chosen, interface=None, start=start, problem=e.message)
    return TaskInterface(
        facts=facts.model_copy(update={"tolerance": describe.tolerance(task.tolerance, signature.outputs)}),
        language=chosen,
        interface=interface_of(task, signature, chosen),
        start=start_of(task, signature, chosen, own=own),
        advice=_advice(task, signature, _executor(task, place, executors).target, chosen),
    )


def signature_of(task: Task, place: Place, executors: Executors) -> Signature:
    """Return the signature of a task's first shape; its reference runs, confined. Raises `TaskError`."""
    return _executor(task, place, executors).describe(task)[0]


def _executor(task: Task, place: Place, executors: Executors) -> Executor:
    """Return what can run the reference; replayed measurements are of an H200, without having it."""
    if place.device == "replay":
        return executors.compiler(place, devices.known_targets()["h200"])
    return executors.get(place, task)


def interface_of(task: Task, signature: Signature, language: Language) -> KernelInterface:
    """Return what a task passes to a kernel in a language."""
    names, tensors = PlanNames.of(task, signature), iter(signature.inputs)
    inputs = [
        f"{name}: {signature.scalars[str(i)]}" if str(i) in signature.scalars else _shown(name, next(tensors))
        for i, name in enumerate(names.inputs)
    ]
    held = [t.dtype for t in (*signature.inputs, *signature.params, *signature.outputs)]
    types: dict[str, str] = {}
    if language in C_LANGUAGES:
        types = {dtype: c_types.element(dtype, language) for dtype in dict.fromkeys(held)}
        types["numbers"] = ", ".join(f":{kind} {c_types.number(kind, language)}" for kind in c_types.KINDS)
    return KernelInterface(
        inputs=inputs,
        parameters=[_shown(p.name, p) for p in signature.params],
        numbers={f"init{i}": value for i, value in signature.init.items()},
        outputs=[_shown(name, spec) for name, spec in zip(names.outputs, signature.outputs, strict=True)],
        c_types={dtype: name for dtype, name in types.items() if name},
    )


def _shown(name: str, spec: TensorSpec) -> str:
    return f"{name}: {spec.dtype}[{', '.join(map(str, spec.shape))}]"


def start_of(task: Task, signature: Signature, language: Language, *, own: bool) -> Start:
    """Return the task's `own` kernel in a language, else one that is made for it."""
    if written := [s.source for s in task.seeds if own and s.language == language]:
        return Start(language=language, source=written[0], note="")
    if language == "python":
        return Start(language=language, source=identical(task).source, note=SAME)
    return Start(language=language, source=skeleton(task, signature, language), note=BARE)


def _advice(task: Task, signature: Signature, target: Target, language: Language) -> str:
    found = cards_for(task, target, [language], [signature], {}) if target.kind == "cuda" else []
    texts = [f"### {card.title}\n\n{card.text}" for card in found]
    return "\n\n".join(text for i, text in enumerate(texts) if not i or sum(map(len, texts[: i + 1])) <= _ADVICE_CHARS)


def rules_of(language: Language) -> str:
    """Return the rules of candidates in a language that are needed most."""
    return render("_module.j2") if language == "python" else render("_format_short.j2", language=language)


def format_of(language: Language) -> str:
    """Return all rules of candidates in a language, with a complete example."""
    return example_of(
        language, rules_of(language) if language == "python" else render("_format.j2", languages=[language])
    )


def example_of(language: Language, rules: str) -> str:
    """Return rules of candidates in a language with a complete example behind them."""
    return f"{rules}\nA complete example (y = x * sigmoid(x)):\n\n{render(f'_example_{language}.j2')}"
