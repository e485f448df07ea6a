import ast

import pytest

from forewarp.core.untrusted_text import clip
from forewarp.core.values import Candidate, Language
from forewarp.surrogate.listing import listing

TRITON = '''"""forewarp
inputs = ["x # no comment"]   # target 3x
outputs = ["y"]
"""
"""Expected speed-up: 4x."""
import triton  # fast


@triton.jit
def kernel(x, y):
    """Runs at 2.5x."""
    # 10x faster
    name = "# kept"
    é = 1; """also gone: 7x"""
    return name
'''

CUDA = """/*forewarp
inputs = ["x"]
*/
// 4x faster
__global__ void k(float* x) { /* 5x
faster */ x[0] = 1.0f; const char* s = "// kept"; const char c = '"'; } // 6x
"""

LOAD_INLINE = '''import torch
"""Target speed-up 0.354x."""
SOURCE = r"""
#include <cuda.h>
// claims 9x
__global__ void k() { printf("// kept"); }
"""
class ModelNew:
    """8x."""
'''


@pytest.mark.parametrize(
    ("language", "text"), [("triton", TRITON), ("cuda", CUDA), ("cpp", CUDA), ("python", LOAD_INLINE)]
)
def test_no_claim_survives(language: Language, text: str):
    shown = listing(Candidate(text, language))
    for claim in ("3x", "4x", "2.5x", "10x", "7x", "5x", "6x", "9x", "8x", "0.354x", "faster", "fast"):
        assert claim not in shown.code
        assert claim not in shown.plan
    assert "kept" in shown.code


PLAIN: dict[Language, str] = {
    "triton": '"""forewarp\nkernel = "softmax"\n"""\n@triton.jit\n'
    "def softmax(x, best):\n    return tl.math.fast_expf(x) + best\n",
    "cuda": "__global__ void softmax(float* x) { float best = __expf(x[0]); x[0] = best; }\n",
    "cpp": "static void softmax(float* x) { x[0] = 1; }\n",
    "python": "class ModelNew:\n    def row_max(self, x):\n        return self.row_max(x) + softmax(x)\n"
    "def softmax(x): ...\n",
}


@pytest.mark.parametrize("language", PLAIN)
@pytest.mark.parametrize(
    "claim",
    ["fast_softmax", "softmax_optimized_v2", "SlowSoftmax", "softmax_best", "softmax_candidate_17", "softmaxFaster"],
)
def test_a_planted_claim_changes_nothing_that_is_shown(language: Language, claim: str):
    plain = Candidate(PLAIN[language], language)
    comment = "#" if language in ("triton", "python") else "//"
    planted = Candidate(f"{PLAIN[language].replace('softmax', claim)}{comment} ten times faster\n", language)
    shown = listing(planted)
    assert shown.code.replace("Softmax", "softmax") == listing(plain).code
    assert shown.plan.replace("Softmax", "softmax") == listing(plain).plan


def test_sentences_that_claim_are_left_out_and_others_stay():
    code = listing(
        Candidate('print("ten times faster")\nraise ValueError("x must be 2D")\nf = "--use_fast_math"', "python")
    ).code
    assert code == 'print("...")\nraise ValueError("x must be 2D")\nf = "--use_fast_math"'


def test_names_stay_apart_and_tunables_keep_theirs():
    text = "void sum_fast() {} void sum_slow() {} void sum() {} int f = FAST_PATH;"
    code = listing(Candidate(text, "cpp", {"FAST_PATH": 1})).code
    assert code == "void sum2() {} void sum3() {} void sum() {} int f = FAST_PATH;"
    assert listing(Candidate("void fast() {}", "cpp")).code == "void name() {}"


def test_plan_is_apart_and_keeps_its_strings():
    shown = listing(Candidate(TRITON, "triton"))
    assert shown.plan == 'inputs = ["x # no comment"]\noutputs = ["y"]'
    assert "inputs" not in shown.code


def test_python_stays_python_and_keeps_its_layout():
    code = listing(Candidate(TRITON, "triton")).code
    ast.parse(code)
    assert "\n@triton.jit\ndef kernel(x, y):\n" in code


def test_a_body_that_was_a_docstring_stays_a_body():
    ast.parse(listing(Candidate('def f():\n    """5x."""\n', "python")).code)


@pytest.mark.parametrize("text", ["def f(:\n  # 4x\n  'unclosed", '"""never closed\n# 4x', "x = (\n# 4x"])
def test_what_does_not_parse_loses_its_comments_all_the_same(text: str):
    assert "4x" not in listing(Candidate(text, "python")).code


def test_clip_keeps_head_and_tail():
    clipped = clip("a" * 500 + "b" * 500, 100)
    assert clipped.startswith("a" * 50)
    assert clipped.endswith("b" * 50)
    assert "900 characters" in clipped
    assert clip("short", 100) == "short"
