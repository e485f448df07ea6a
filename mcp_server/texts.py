"""Texts that a model reads before it calls anything: instructions and descriptions of the tools."""

from __future__ import annotations

INSTRUCTIONS = """\
forewarp makes GPU kernels faster on few measurements. A task is a bundled name (cross_entropy, layernorm_gelu, matmul,
rmsnorm, softmax, topk_gate) or a KernelBench file of the workspace; make_task makes one of a PyTorch function or
module. A kernel is text or a file of the workspace: a KernelBench module with class ModelNew, which needs nothing else,
or C++ (cpu), Triton or CUDA functions with a launch plan in the first comment.

Begin with describe: with task and language it gives the reference, what a kernel is passed with its C types, a kernel
to start from, and the format with an example. The loop: forecast_kernel each idea first (seconds, no device);
measure_kernel what it recommends to measure; drop the rest. inspect_kernel says what a GPU kernel compiles to, without
a GPU. For the long haul, search tries many variants under a budget by itself; search_status looks at it. Speed-ups are
over the task's reference; above 1 is faster. Believe a measured number within its interval and only where trusted is
true. A kernel that fails is an answer with a status and a log, not an error of the tool. Fields that say nothing are
left out. An error says what is wrong, what is allowed and what to call next. Handles (run_id) stay valid when the
server restarts, but those of tuned files (t-…).
"""

DESCRIBE = """\
Say what there is: device with its languages, tasks, budget left, recent work. With task: reference, shapes, what a
kernel is passed, C types, and a kernel to start from; with language too, the format of candidates and what is
known to help. about "format" with language gives the format alone.
When not: to learn how fast a kernel is.
Cost: none; seconds for the first look at a task. Side effects: none.
Example: {"task": "softmax", "language": "cpp"}"""

MAKE_TASK = """\
Make a task of a function or torch module in a Python file of the workspace. Returns the new file, to be passed as task.
When not: for a KernelBench file, which is one already.
Cost: seconds. Side effects: writes NAME_task.py beside the file, and replaces only its own.
Example: {"path": "model.py", "function": "attention", "args": "q=float32[8,64], scale=0.1"}"""

VALIDATE = """\
Check whether a task can be cheated: answers that compute nothing, or too coarsely, must be turned down. The verdict is
sound, random or degenerate; measure nothing on a degenerate task. If the status is running, call it again.
When not: for bundled tasks, which are sound.
Cost: 5 to 60 s of the device, no measurement. Side effects: none.
Example: {"task": "problem.py"}"""

INSPECT = """\
Say what a Triton, CUDA or module kernel compiles to, for a GPU that need not be here: registers, spills, occupancy,
waves, least time by the roofline, problems. check also runs it on the CPU at small shapes, and finds wrong results,
races and reads outside.
When not: for C++ kernels; for speed (forecast_kernel).
Cost: 2 to 30 s, no device, no measurement. Side effects: none.
Example: {"task": "softmax", "path": "softmax.cu", "target": "h200", "check": true}"""

FORECAST = """\
Forecast a kernel's speed-up before running it: compiles it, then gives the median with 80 % interval, p_valid,
p_faster, and a recommendation: measure, skip or accept. A launch plan that does not fit is a compile_error that names
the entry of args. paths ranks several files; target forecasts for a GPU that is not here.
When not: as proof; while trials is 0 the numbers are a broad prior.
Cost: 1 to 5 s, no measurement; with model its dollars. Side effects: none; no kernel runs.
Example: {"task": "softmax", "path": "softmax.cpp"}"""

MEASURE = """\
Check a kernel against the reference on fresh inputs and time both in turn: verdict and speed-up with 95 % interval, as
a whole and per shape. tie is within 1 %; inconclusive and ambiguous prove nothing; suspicious and impossible are not to
be believed. trusted is false where equal kernels came out far apart.
When not: before forecast_kernel recommends it; for many variants (search).
Cost: 3 to 60 s of the device and one measurement (none where it does not compile). Not done after wait_s, it has status
queued or running: call search_status with its run_id. Side effects: runs the kernel confined; keeps the result.
Example: {"task": "softmax", "path": "softmax.cpp", "tunables": {"WIDTH": 16}}"""

SEARCH = """\
Start an optimisation that goes on by itself until the budget is spent: propose variants, forecast, measure the best.
Returns a run_id within 30 s. Variants are tunables of seed_kernels, else of the task's own kernels, else of code made
from the reference; with model, it writes kernels. A file with @triton.autotune as task gives the configurations to
take, and measures nothing.
When not: to judge one kernel.
Cost: up to budget measurements (24), minutes; with model dollars: set max_usd. Side effects: runs kernels confined;
writes the run and its files.
Example: {"task": "softmax", "budget": 12}, then search_status with its run_id and wait_s 45"""

RUN_VERB = """\
profile: say where a model's time goes, what kernels could gain; with line, make that line a task. optimize: search for
its top lines within one budget, judge the whole. apply: judge it with kernels (files, or run_ids of searches).
gate_check: say which kernels of a lock got worse. export: write a run's winner. subject is the model's file (call: its
function that returns module and inputs), the lock, or the run_id.
When not: for one kernel.
Cost: 10 s to minutes of the device. Side effects: files; runs code confined.
Example: {"verb": "profile", "subject": "model.py"}"""

STATUS = """\
Say where a run (r-…, s-…, t-…) or measurement (m-…) stands; waits up to wait_s for its end. Repeat while it gives
poll_after_s. best.source, else forewarp://runs/RUN/best, is the kernel.
When not: in a tight loop with wait_s 0.
Cost: none. Side effects: none.
Example: {"run_id": "r-7f3a2c", "wait_s": 45}"""

CANCEL = """\
End a run, which keeps its best so far, or a measurement, which is thrown away; frees the device within a second.
When not: to stop waiting; just call nothing.
Cost: none. Side effects: kills that work; search_resume can take a run up again.
Example: {"run_id": "r-7f3a2c"}"""

RESUME = """\
Take up a run that was cancelled, interrupted or lost, with what is left of its budget.
When not: for a run that finished: start another search.
Cost: what is left of the run's budget. Side effects: those of search.
Example: {"run_id": "r-7f3a2c"}"""

OPTIMIZE = """\
Make this kernel faster than it is, for task {task}, kernel {kernel}.

1. describe with task {task}: read the reference, the shapes and the budget.
2. measure_kernel {kernel} once, so that forecasts rest on something.
3. Think of three to six changes, each with a reason from the device's limits (bytes moved, occupancy, reuse). Write
   each to a file of the workspace, then forecast_kernel with paths of all of them.
4. measure_kernel what is recommended to measure, the most promising first; read flags and log of what fails.
5. Repeat from 3 with what was learnt, or search with the best one as seed_kernels to try its tunables.
6. Stop when forecasts promise nothing more or the budget is spent. Report the best kernel with its interval and
   verdict, and what did not work. Claim nothing that is not trusted."""

EXPLAIN = """\
Explain the verdict of {run_id} to somebody who has to decide whether to use the kernel.

Call search_status with run_id {run_id} and detail "detailed". Say in this order: whether the kernel is correct and what
it was checked against; the speed-up with its interval and how that compares with the noise of equal kernels; what the
verdict means here (tie is within 1 %; inconclusive and ambiguous prove nothing; suspicious and impossible are not to be
believed) and which flags led to it; whether it holds per shape and on shapes that nobody tuned for; what to do next."""
