"""forewarp: faster GPU kernels on fewer measurements.

    import forewarp

    result = forewarp.optimize("softmax", budget=12)
    print(result.summary)
    result.save("out/")

`docs/commands.md` explains. What is offered here is imported when it is first used, so that `import forewarp` takes no
time. The sub-packages are links to the folders at the top of the repository; `docs/architecture.md` says what each one
knows and what it must not import.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # as in `typing`, which would take longer to import than all of this

_FROM = {
    "api.arguments": ("AnyKernel", "AnyTask", "Options", "Where", "define_task"),
    "api.run": ("JointRun", "Run"),
    "api.searches": (
        *("estimate", "load", "load_together", "optimize", "optimize_together"),
        *("resume", "resume_together"),
    ),
    "api.verbs": ("forecast", "inspect", "measure", "measure_all", "suite", "validate"),
    "core.errors": (
        *("ArchiveError", "CandidateError", "DeviceError", "ForewarpError"),
        *("ModelError", "TaskError", "UsageError", "WorkerError"),
    ),
    "core.protocols": ("Attempt", "Executor", "Forecaster", "Known", "Proposal", "Proposer", "Subject", "Trial"),
    "core.values": ("Candidate", "Cost", "Forecast", "Measurement", "Target", "Task"),
    "tools.session": ("Executors",),
}
_HOMES = {name: f"forewarp.{home}" for home, names in _FROM.items() for name in names}
_MODULES = {"bins": "forewarp.core.bins", "events": "forewarp.search.events"}

if TYPE_CHECKING:
    from forewarp.api.arguments import AnyKernel, AnyTask, Options, Where, define_task
    from forewarp.api.run import JointRun, Run
    from forewarp.api.searches import (
        estimate,
        load,
        load_together,
        optimize,
        optimize_together,
        resume,
        resume_together,
    )
    from forewarp.api.verbs import forecast, inspect, measure, measure_all, suite, validate
    from forewarp.core import bins
    from forewarp.core.errors import (
        ArchiveError,
        CandidateError,
        DeviceError,
        ForewarpError,
        ModelError,
        TaskError,
        UsageError,
        WorkerError,
    )
    from forewarp.core.protocols import Attempt, Executor, Forecaster, Known, Proposal, Proposer, Subject, Trial
    from forewarp.core.values import Candidate, Cost, Forecast, Measurement, Target, Task
    from forewarp.search import events
    from forewarp.tools.session import Executors

__all__ = [
    "AnyKernel",
    "AnyTask",
    "ArchiveError",
    "Attempt",
    "Candidate",
    "CandidateError",
    "Cost",
    "DeviceError",
    "Executor",
    "Executors",
    "Forecast",
    "Forecaster",
    "ForewarpError",
    "JointRun",
    "Known",
    "Measurement",
    "ModelError",
    "Options",
    "Proposal",
    "Proposer",
    "Run",
    "Subject",
    "Target",
    "Task",
    "TaskError",
    "Trial",
    "UsageError",
    "Where",
    "WorkerError",
    "__version__",
    "bins",
    "define_task",
    "estimate",
    "events",
    "forecast",
    "inspect",
    "load",
    "load_together",
    "measure",
    "measure_all",
    "optimize",
    "optimize_together",
    "resume",
    "resume_together",
    "suite",
    "validate",
]

if not TYPE_CHECKING:  # a type checker would take any misspelt name for one that this could answer

    def __getattr__(name: str) -> object:
        """Import what is offered here when it is asked for the first time."""
        from importlib import import_module

        if name in _MODULES:
            value = import_module(_MODULES[name])
        elif name in _HOMES:
            value = getattr(import_module(_HOMES[name]), name)
        else:
            raise AttributeError(f"module 'forewarp' has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """Return what is offered, for completion."""
        return sorted({*globals(), *__all__})
