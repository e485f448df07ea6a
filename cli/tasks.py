"""`forewarp tasks`: the bundled tasks."""

from __future__ import annotations

from forewarp.cli import printing
from forewarp.cli.options import PLAIN, Output


def tasks(*, output: Output = PLAIN) -> int:
    """List the bundled tasks. Any KernelBench file is a task, too: pass its path."""
    from forewarp.cli import exits
    from forewarp.gpu_runner.formats import task as formats
    from forewarp.report import display
    from forewarp.report.documents import TaskLine, TasksDocument

    loaded = [formats.load(name) for name in formats.bundled()]
    lines = [
        TaskLine(
            name=t.name,
            title=t.title,
            languages=sorted({s.language for s in t.seeds}),
            workloads={kind: [w.name for w in workloads] for kind, workloads in t.workloads.items()},
        )
        for t in loaded
    ]
    summary = f"{len(lines)} bundled tasks; any KernelBench file is a task, too."
    if output.json:
        printing.document(TasksDocument(command="tasks", status="ok", summary=summary, tasks=lines))
        return exits.OK
    from rich.table import Table

    table = Table("task", "what it is", "seed kernels", "shapes on cpu", "shapes on cuda", box=None)
    for line in lines:
        shapes = [", ".join(line.workloads.get(kind, [])) for kind in ("cpu", "cuda")]
        table.add_row(line.name, line.title, ", ".join(line.languages), *shapes)
    console = display.stdout()
    console.print(table)
    console.print(summary, style="dim")
    return exits.OK
