"""Names of the jobs of this room, by which the worker finds them (`gpu_runner.worker.server.entry`).

They stand apart because the controller, which asks for them, does without torch.
"""

DESCRIBE = "forewarp.inspection.describing:run"
TRACE = "forewarp.inspection.tracing.job:run"
INTERPRET = "forewarp.inspection.emulation.jobs:interpret"
EMULATE = "forewarp.inspection.emulation.jobs:emulate"
