"""`forewarp inspect`: what kernels tell before they run, for any GPU, on a machine without one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from forewarp.cli import printing
from forewarp.cli.options import PLAIN, Output, tunables_of

if TYPE_CHECKING:
    from forewarp.core.values import Task
    from forewarp.tools.inspect_kernel import InspectResult


def inspect(
    candidates: Annotated[tuple[Path, ...], Parameter(negative="")],
    /,
    *,
    task: str | None = None,
    inputs: Path | None = None,
    target: str = "auto",
    check: Annotated[bool, Parameter(negative="")] = False,
    tunable: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    args: str = "",
    call: str = "",
    backward: bool | None = None,
    python: Path | None = None,
    output: Output = PLAIN,
) -> int:
    """Compile kernels for a GPU that need not be there, and say what their machine code and launches tell.

    Args:
        candidates: Files that hold the kernels.
        task: Bundled task, task folder or KernelBench file; left out, the task whose folder holds the kernels. Files of
            Triton kernels need none: they are called as they call themselves, else with guessed arguments.
        inputs: File of captured calls of the task, which become its shapes.
        target: a100, h100, h200, b200, l40s, rtx4090 or cuda; auto is this machine's GPU, else the H200.
        check: Also run each kernel on the CPU at small shapes and compare it with the reference.
        tunable: NAME=VALUE of a declared tunable; may be given several times.
        args: Without a task, values by parameter, such as "x=float32[4096,4096], n=4096"; others are guessed.
        call: Without a task, the function of the file to call.
        backward: Trace gradients too, or not; left out, those of outputs that a torch.autograd.Function makes.
        python: Python that has torch and Triton; the one that runs forewarp if left out.
        output: How results are shown.
    """
    from forewarp.cli import exits
    from forewarp.report import display
    from forewarp.tools.inspect_kernel import InspectRequest, inspect_kernels
    from forewarp.tools.parts import Kernel

    request = InspectRequest(
        task=_with_inputs(task or _task_of(candidates), inputs, python),
        args=args,
        call=call,
        backward=backward,
        kernels=[Kernel(path=str(c), tunables=tunables_of(tunable)) for c in candidates],
        target=target,
        check=check,
        python=str(python.expanduser().absolute()) if python else None,
    )
    console = display.stderr()
    console.quiet = output.quiet or not console.is_terminal
    with display.waiting(console, "compiling …") as tell:
        result = inspect_kernels(request, stage=lambda stage: tell(f"{stage} …"))
    if output.json:
        _print_json(result)
    else:
        from forewarp.report.inspect_tables import render

        render(result, display.stdout(), full=output.verbose)
    return exits.OK if any(k.sound for k in result.kernels) else exits.NO_KERNEL


def _with_inputs(task: str | None, inputs: Path | None, python: Path | None) -> str | Task | None:
    """Return the task with the captured calls as its shapes, if there are some; raises `UsageError` without a task."""
    if inputs is None:
        return task
    from forewarp.core.errors import UsageError
    from forewarp.tools.parts import Place
    from forewarp.tools.session import with_inputs

    if task is None:
        raise UsageError("--inputs needs a task, whose calls they are", hint="pass --task TASK, or leave --inputs out")
    return with_inputs(task, str(inputs), Place(python=str(python.expanduser().absolute()) if python else None))


def _print_json(result: InspectResult) -> None:
    from forewarp.report.documents import InspectDocument

    status = "ok" if all(k.sound for k in result.kernels) else "failed"
    printing.document(InspectDocument(command="inspect", status=status, **dict(result)))


def _task_of(candidates: tuple[Path, ...]) -> str | None:
    """Return the folder of the task that the files belong to, as `TASK/seeds/FILE` do; None for Python files of none.

    Raises `UsageError` where other files belong to none.
    """
    from forewarp.core.errors import UsageError

    folders = {str(p.expanduser().absolute().parent.parent) for p in candidates}
    if len(folders) == 1 and (Path(folder := folders.pop()) / "task.toml").is_file():
        return folder
    if all(p.suffix == ".py" for p in candidates):
        return None
    raise UsageError(
        "it is not clear which task the kernels are for", hint="pass --task TASK; `forewarp tasks` lists some"
    )
