"""Texts that a model reads before it calls anything: instructions and descriptions of the tools."""

from __future__ import annotations

INSTRUCTIONS = """\
forewarp makes GPU kernels faster on few measurements. A task is a bundled name (cross_entropy, layernorm_gelu, matmul,
rmsnorm, softmax, topk_gate) or the path of a KernelBench file. A kernel is source text or a file of the workspace: C++
(cpu), Triton or CUDA with a launch plan in its first comment, or a KernelBench module with class ModelNew.

The loop: describe (device, tasks, budget; with task, its reference and a kernel to start from). Then for each idea:
forecast_kernel first (seconds, no device); measure_kernel what is promising or uncertain, that is, what it recommends
to measure; drop the rest. For the long haul, search tries many variants under a budget by itself, and search_status
looks at it. Speed-ups are over the task's reference; above 1 is faster. Trust a measured number by its interval and
only where trusted is true. A kernel that fails is an answer with a status and a log, not an error of the tool. An error
says what is wrong, what is allowed and what to call next. Handles (run_id) stay valid when the server restarts.
"""

FORECAST = """\
Forecast how fast a kernel will be over the task's reference, before running it: compiles it, then gives the median
speed-up with 80 % interval, the probabilities that it is correct and faster, and a recommendation with the reason:
measure; skip; or accept, where a measurement would hardly change the answer.
paths ranks up to 16 files in one call, the best first; against compares with a kernel file instead of the reference;
target forecasts for a GPU that is not here.
When not: as proof. While trials is 0 nothing of this task was measured on this device and the numbers are a broad
prior; measure something first.
Cost: 1 to 5 s, no device, no measurement of the budget; with model also its dollars, and the model is only asked where
its answer could change the recommendation. Side effects: none; no kernel runs.
Example: {"task": "softmax", "path": "kernels/softmax.cpp", "device": "cpu"},
or {"task": "softmax", "paths": ["a.cu", "b.py"], "target": "h200"}"""

MEASURE = """\
Check a kernel against the task's reference on fresh inputs and time both in turn: speed-up with 95 % interval and
verdict, as a whole and per shape. Verdicts: faster, slower, tie (within 1 %), inconclusive (measure again), ambiguous
(equal kernels came out unequal: measure again, claim nothing), suspicious and impossible (do not believe the time, see
flags), incorrect, failed. against times it against a kernel file instead.
When not: before forecast_kernel recommends it; for many variants of one kernel (search does that).
Cost: 3 to 60 s on the device and one measurement of the budget (none where it does not compile). Measurements queue;
one at a time per device. If it takes longer than wait_s, the answer has status queued or running with run_id: call
search_status with it. Cancelling the call, or search_cancel, frees the device within about a second.
Side effects: runs the kernel's code in a sandboxed process; the result stays in the archive and improves later
forecasts. Compile errors, crashes and wrong results come back as a status with a log.
Example: {"task": "softmax", "path": "kernels/softmax.cpp", "tunables": {"WIDTH": 16}}"""

SEARCH = """\
Start an optimisation that goes on by itself: propose variants, forecast them, measure only what is worth it, until the
budget is spent. Returns run_id within 30 s; the run outlives this server. Without model, variants come from the
declared tunables of seed_kernels or of the task's own; with model, it writes kernels. A task file of your own needs
seed_kernels or model. A file with @triton.autotune kernels as task needs neither: its configurations are forecast and
the best compiled, in about half a minute (run_id t-… until then); those to take and a patch, nothing measured.
When not: to judge one kernel (forecast_kernel, measure_kernel), or to look at a run (search_status).
Cost: up to budget measurements (24), each some seconds of the device, minutes in all; with model also dollars: set
max_usd. The seeds are measured anew and the best twice, out of the same budget. Side effects: runs generated code in
sandboxed processes, writes the run to the archive and its files to a folder beside it. Run ids stay valid for as
long as the archive.
Example: {"task": "softmax", "budget": 12, "device": "cpu"}, then search_status {"run_id": "r-7f3a2c", "wait_s": 45}"""

STATUS = """\
Say where a handle of search (r-…, s-…, t-…) or measure_kernel (m-…) stands. Waits up to wait_s (at most 45) for its
end, reporting progress, then returns status, best with interval, counts and what was spent; repeat while poll_after_s
is not null. Of a finished run, best.source or the resource forewarp://runs/RUN/best is the kernel, with its tunables as
defaults. Works for handles of earlier servers.
When not: in a tight loop with wait_s 0.
Cost: none. Side effects: none; giving up the wait does not end the work.
Example: {"run_id": "r-7f3a2c", "wait_s": 45}"""

CANCEL = """\
End the work behind a handle: a run keeps its best so far and counts as interrupted; a measurement, waiting or in
progress, and the tuning of a file (t-…) are thrown away. The device is free within about a second. What was spent
stays spent. run_id must be whole. Over HTTP, a session ends only what it started itself.
When not: to stop waiting; just call nothing. A run that is over needs no cancelling: that is said, and changes nothing.
Cost: none. Side effects: kills the processes of that work; `forewarp resume RUN` can take a run up again.
Example: {"run_id": "r-7f3a2c"}"""

DESCRIBE = """\
Say what there is, without measuring anything: the device and its languages, the tasks, what is left of the budget,
recent runs and jobs. With task: its reference, shapes, tolerance, and a kernel that works, to start from (its launch
plan alone where it is long; links has the whole). about keeps the answer to one part.
When not: to learn how fast a kernel is (forecast_kernel, measure_kernel).
Cost: none, well under a second. Side effects: none.
Example: {}, or {"task": "softmax"}, or {"about": "budget"}"""

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
