"""C++ candidates checked with the compiler's sanitizers, and what is read from their reports."""

from __future__ import annotations

import pytest
from support import emulated as samples

from forewarp.core.checking import Check
from forewarp.core.values import Candidate
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.inspection.emulation.emulator.sanitized import read_report

PLAN = """/*forewarp
inputs = ["x"]
outputs = ["y"]
[[launch]]
kernel = "k"
args = ["x", "y", "numel(x)"]
*/
#include <vector>
extern "C" void k(const float* x, float* y, int n) {
"""


def checked(checks: LocalExecutor, body: str) -> Check:
    return checks.check(samples.DOUBLE, Candidate(f"{PLAN}{body}}}\n", "cpp"), 30.0)


def test_a_right_kernel_passes_at_the_tasks_own_shape(checks: LocalExecutor) -> None:
    check = checked(checks, "#pragma omp parallel for\nfor (int i = 0; i < n; i++) y[i] = x[i] * 2.0f;\n")
    assert (check.how, check.status, check.findings) == ("CPU-sanitized", "ok", ())


def test_a_read_beyond_an_input_is_found_though_the_output_is_right(checks: LocalExecutor) -> None:
    check = checked(checks, "float next = 0;\nfor (int i = 0; i < n; i++) { y[i] = x[i] * 2.0f; next += x[i + 1]; }\n"
                            "volatile float kept = next;\n(void)kept;\n")  # fmt: skip
    (finding,) = check.findings
    assert (check.status, finding.kind, finding.where) == ("failed", "out of bounds", "k, line 11")
    assert finding.message == "reads 4 bytes, 0 bytes after x, which has 4000"


@pytest.mark.slow
def test_a_write_into_the_slack_of_an_allocation_is_found(checks: LocalExecutor) -> None:
    check = checked(checks, "std::vector<float> own(3);\nown.data()[3] = x[0];\n")
    assert [f.message for f in check.findings] == [
        "writes 4 bytes, 0 bytes after memory that the kernel allocated, which has 12"
    ]


def test_undefined_arithmetic_is_told_with_its_line() -> None:
    run = read_report("buffer 0x10 x\n/tmp/b0/kernel.cpp:12:5: runtime error: signed integer overflow: 3 * 9\n")
    assert (run.ending, run.message) == ("failed", "line 12: signed integer overflow: 3 * 9")


def test_a_program_that_says_nothing_has_failed() -> None:
    assert read_report("buffer 0x10 x\n").ending == "failed"
    assert read_report("").message == "the program ended without a word"
    assert read_report("buffer 0x10 x\nend 2\n").blocks == 2
    assert read_report("buffer 0x10 x\nend\ttimeout\t0\t0\tlate\n").ending == "timeout"
