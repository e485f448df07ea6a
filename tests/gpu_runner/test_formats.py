from __future__ import annotations

import re
from pathlib import Path

import pytest

from forewarp.core.errors import CandidateError
from forewarp.core.values import Candidate, Signature, TensorSpec
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import plan as plans
from forewarp.gpu_runner.formats import task as tasks
from forewarp.gpu_runner.formats.expressions import evaluate

PLAN = """
inputs = ["x"]
outputs = ["y"]
[tunables]
BLOCK = [128, 256, 2048]
[let]
n = "numel(x)"
[[launch]]
kernel = "k"
args = ["x", "y", "n"]
grid = ["cdiv(n, BLOCK)"]
block = ["BLOCK"]
"""
KERNEL = 'extern "C" __global__ void k(const float* x, float* y, int n) {}\n'


def cuda(plan: str = PLAN) -> Candidate:
    return Candidate(f"/*forewarp\n{plan}*/\n{KERNEL}", "cuda")


def spec(name: str, *shape: int, dtype: str = "float32") -> TensorSpec:
    return TensorSpec(name, shape, dtype)


def signature(
    inputs: tuple[TensorSpec, ...] = (spec("0", 10, 100),),
    outputs: tuple[TensorSpec, ...] = (spec("0", 10, 100),),
    params: tuple[TensorSpec, ...] = (),
    scalars: dict[str, float] | None = None,
    init: dict[str, float] | None = None,
) -> Signature:
    return Signature("w", inputs, scalars or {}, init or {}, params, outputs, None, 0)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("cdiv(10, 4)", 3),
        ("min(3, BLOCK) + max(1, 2) * 2 - 7 // 2 % 2", 6),
        ("next_pow2(33)", 64),
        ("next_pow2(1)", 1),
        ("numel(x)", 12),
        ("x.shape[-1]", 4),
        ("rsqrt(4)", 0.5),
        ("BLOCK if 1 < 2 <= 2 and not 0 else 3", 128),
        ("x.shape[0] == 3 and BLOCK > 1", 1),
        ("-3", -3),
    ],
)
def test_expressions_compute(expression: str, value: float) -> None:
    assert evaluate(expression, {"x": (3, 4), "BLOCK": 128}, "here") == value


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os')",
        "x.__class__",
        "x.shape.__class__",
        "(1).bit_length()",
        "open(1)",
        "[1, 2]",
        "lambda: 1",
        "'text'",
        "min(a=1)",
        "(n := 3)",
        "[i for i in x.shape]",
        "1 << 3",
        "1 and (2).real",
        "x.shape[0:1]",
    ],
)
def test_expressions_reject_everything_else(expression: str) -> None:
    with pytest.raises(CandidateError, match=r"^here: "):
        evaluate(expression, {"x": (3, 4)}, "here")


@pytest.mark.parametrize(
    "expression", ["1 / 0", "1 or 1 / 0", "sqrt(-1)", "x.shape[7]", "min()", "x + 1", "1 +", "(" * 300 + "1"]
)
def test_expressions_that_fail_say_where(expression: str) -> None:
    with pytest.raises(CandidateError, match=r"^here: "):
        evaluate(expression, {"x": (3, 4)}, "here")


def test_expressions_name_what_is_known() -> None:
    with pytest.raises(CandidateError) as e:
        evaluate("rows + 1", {"cols": 1}, "let.n")
    assert "let.n: nothing is called 'rows'" in e.value.message
    assert "cols" in e.value.hint


def test_a_number_beyond_what_a_float_holds_is_named() -> None:
    with pytest.raises(CandidateError, match=r"let\.a: 'b \* b' is not a finite number"):
        evaluate("b * b", {"b": 10**200}, "let.a")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('inputs = ["x"]\n', "", "needs inputs"),
        ('inputs = ["x"]', 'inputs = "x"', "needs inputs"),
        ('outputs = ["y"]', 'outputs = ["y"]\nformat = 2', "format 2 is unknown"),
        ('outputs = ["y"]', 'outputs = ["y"]\ntunable = 1', r"unknown keys \['tunable'\]"),
        ('n = "numel(x)"', "n = numel(x)", "not valid TOML"),
        ('n = "numel(x)"', "n = [1]", "let.n must be a number or a string"),
        ("[128, 256, 2048]", "128", "tunables.BLOCK must be a list of integers"),
        ("[128, 256, 2048]", "[]", "tunables.BLOCK must be a list of integers"),
        ("[128, 256, 2048]", "[1.5]", "tunables.BLOCK must be a list of integers"),
        ("[128, 256, 2048]", "[true]", "tunables.BLOCK must be a list of integers"),
        ('kernel = "k"\n', "", "needs kernel"),
        ('args = ["x", "y", "n"]', 'args = ["x", 3]', "needs args"),
        ('block = ["BLOCK"]\n', "", r"needs \['block'\] for a cuda kernel"),
        ('block = ["BLOCK"]', 'block = "BLOCK"', "block must be a list"),
        ('block = ["BLOCK"]', 'block = ["BLOCK"]\nthreads = 3', r"launch\[0\] has unknown keys \['threads'\]"),
        ("[let]", '[scratch]\ns = "float32"\n[let]', "scratch.s must be"),
    ],
)
def test_parse_errors_name_what_to_change(old: str, new: str, message: str) -> None:
    assert old in PLAN
    with pytest.raises(CandidateError, match=message):
        plans.parse(cuda(PLAN.replace(old, new)))


def test_a_source_without_plan_is_told_how_to_open() -> None:
    with pytest.raises(CandidateError, match="no launch plan") as e:
        plans.parse(Candidate(KERNEL, "cuda"))
    assert "/*forewarp" in e.value.hint
    with pytest.raises(CandidateError) as e:
        plans.parse(Candidate("import triton", "triton"))
    assert '"""forewarp' in e.value.hint
    with pytest.raises(CandidateError, match="has no end"):
        plans.parse(Candidate(f"/*forewarp\n{PLAN}{KERNEL}", "cuda"))


def test_a_plan_without_launch_is_rejected() -> None:
    with pytest.raises(CandidateError, match=r"\[\[launch\]\]"):
        plans.parse(cuda('inputs = ["x"]\noutputs = ["y"]\n'))


def test_constraints_bound_the_space_and_move_the_default() -> None:
    plan = plans.parse(cuda(PLAN.replace('outputs = ["y"]', 'outputs = ["y"]\nconstraints = ["128 < BLOCK <= 1024"]')))
    assert list(plan.combinations()) == [{"BLOCK": 256}]
    assert plan.defaults() == {"BLOCK": 256}
    assert not plan.allows({"BLOCK": 2048})


def test_resolve_leaves_no_expression() -> None:
    resolved = plans.resolve(plans.parse(cuda()), signature(), {"BLOCK": 256})
    (launch,) = resolved.launches
    assert (launch.grid, launch.block) == ((4, 1, 1), (256, 1, 1))
    assert [(a.kind, a.name, a.value) for a in launch.args] == [("ptr", "x", 0), ("ptr", "y", 0), ("i32", "n", 1000)]
    assert resolved.constants == {"BLOCK": 256}


def test_resolve_binds_scalars_init_params_scratch_and_constants() -> None:
    text = """
inputs = ["x", "alpha"]
outputs = ["y"]
[params]
w = "norm.weight"
[let]
rows = "x.shape[0]"
[constants]
COLS = "x.shape[1] + w.shape[0]"
[scratch]
partial = { dtype = "int32", shape = ["rows", "COLS // 2"] }
[[launch]]
kernel = "k"
args = ["x", "w", "y", "partial", "alpha", "init1:f32", "COLS", "rows:i64", "rows / 4:f64"]
grid = ["rows", 2]
block = [32]
shared = "4 * COLS"
"""
    task = signature(
        inputs=(spec("0", 6, 8),), params=(spec("norm.weight", 8),), scalars={"1": 0.5}, init={"0": 8, "1": 1}
    )
    resolved = plans.resolve(plans.parse(cuda(text)), task, {})
    launch = resolved.launches[0]
    assert resolved.constants == {"COLS": 16}
    assert resolved.scratch == (spec("partial", 6, 8, dtype="int32"),)
    assert (launch.grid, launch.shared) == ((6, 2, 1), 64)
    assert [(a.kind, a.dtype or a.value) for a in launch.args] == [
        ("ptr", "float32"),
        ("ptr", "float32"),
        ("ptr", "float32"),
        ("ptr", "int32"),
        ("f32", 0.5),
        ("f32", 1.0),
        ("i32", 16),
        ("i64", 6),
        ("f64", 1.5),
    ]


@pytest.mark.parametrize(
    ("plan", "task", "message"),
    [
        (PLAN, signature(inputs=(spec("0", 1), spec("1", 1))), r"get_inputs\(\) of the task returns 2"),
        (PLAN, signature(outputs=(spec("0", 1), spec("1", 1))), "forward returns 2"),
        (PLAN.replace("[let]", '[params]\nw = "w"\n[let]'), signature(), "no parameter or buffer 'w'"),
        (PLAN.replace('"n"]', '"n:u8"]'), signature(), "type 'u8' of 'n' is not one of"),
        (PLAN.replace('"n"]', '"n * n * n"]'), signature(inputs=(spec("0", 2000),)), "does not fit i32"),
        (PLAN.replace("cdiv(n, BLOCK)", "n - 1000"), signature(), "must be at least 1"),
        (PLAN.replace("cdiv(n, BLOCK)", "rows"), signature(), "nothing is called 'rows'"),
    ],
)
def test_resolve_errors_name_what_to_change(plan: str, task: Signature, message: str) -> None:
    with pytest.raises(CandidateError, match=message):
        plans.resolve(plans.parse(cuda(plan)), task, {})


MAPPED = """
inputs = ["x"]
outputs = ["y"]
[tensor_maps]
tiles = { of = "x", box = [64, 32], swizzle = 128 }
[[launch]]
kernel = "copy"
when = "x.shape[1] % 4 == 0"
cooperative = true
args = ["tiles", "y"]
grid = [1]
block = [32]
[[launch]]
kernel = "slow"
when = "x.shape[1] % 4 != 0"
args = ["x", "y"]
grid = [1]
block = [32]
"""


def mapped(cols: int, change: tuple[str, str] = ("", "")) -> plans.ResolvedPlan:
    return plans.resolve(plans.parse(cuda(MAPPED.replace(*change))), signature(inputs=(spec("0", 100, cols),)), {})


def test_shapes_have_launches_of_their_own_and_maps_only_where_they_are_used() -> None:
    plan = mapped(64)
    assert [(e.kernel, e.cooperative, e.args[0].kind) for e in plan.launches] == [("copy", True, "map")]
    assert plan.maps == {"tiles": plans.TensorMap("x", "float32", (100, 64), (64, 32), 128)}
    other = mapped(65)
    assert ([e.kernel for e in other.launches], other.maps) == (["slow"], {})
    with pytest.raises(CandidateError, match="every `when` is false"):
        mapped(64, ("x.shape[1] % 4 == 0", "0"))


@pytest.mark.parametrize(
    ("cols", "change", "message"),
    [
        (65, ('"x.shape[1] % 4 == 0"', "1"), "rows of 260 bytes and rows of a box of 128 must be multiples of 16"),
        (64, ("box = [64, 32]", "box = [64, 64]"), "a row of the box has 256 bytes; 128 is the most"),
        (64, ("box = [64, 32]", "box = [512, 32]"), "an extent above 256"),
        (64, ("box = [64, 32]", "box = [32]"), "the same number of extents"),
        (64, ("box = [64, 32]", "shape = [200, 64], box = [64, 32]"), "more elements than x"),
        (64, ("swizzle = 128", "swizzle = 100"), "it is 0, 32, 64 or 128"),
        (64, ('of = "x"', 'of = "z"'), "'z' is no buffer"),
        (64, ("cooperative = true", "cooperative = 1"), "must be true or false"),
    ],
)
def test_maps_that_the_driver_would_refuse_say_why(cols: int, change: tuple[str, str], message: str) -> None:
    with pytest.raises(CandidateError, match=message):
        mapped(cols, change)


def test_resolve_knows_the_limits_of_a_block_of_a_grid_and_of_warps() -> None:
    with pytest.raises(CandidateError, match="at most 1024"):
        plans.resolve(plans.parse(cuda()), signature(), {"BLOCK": 2048})
    tall = cuda(PLAN.replace('grid = ["cdiv(n, BLOCK)"]', "grid = [1, 65536]"))
    with pytest.raises(CandidateError, match="the second and the third extent may be 65535 at most"):
        plans.resolve(plans.parse(tall), signature(), {})
    text = PLAN.replace('block = ["BLOCK"]', "num_warps = 3")
    with pytest.raises(CandidateError, match="power of two"):
        plans.resolve(plans.parse(Candidate(f'"""forewarp\n{text}"""\n', "triton")), signature(), {})


def test_unknown_tunables_are_rejected() -> None:
    with pytest.raises(CandidateError, match="is not declared"):
        plans.resolve(plans.parse(cuda()), signature(), {"WARPS": 4})
    with pytest.raises(CandidateError, match="is not declared"):
        candidates.from_source(cuda().source, "cuda", {"WARPS": 4})


def test_from_source_fills_in_defaults() -> None:
    assert candidates.from_source(cuda().source, "cuda").tunables == {"BLOCK": 128}
    with pytest.raises(CandidateError, match="'fortran' is unknown"):
        candidates.from_source("", "fortran")


@pytest.mark.parametrize(
    ("source", "suffix", "language"),
    [
        ("", ".cpp", "cpp"),
        ("", ".cu", "cuda"),
        ("class ModelNew(nn.Module): ...", ".py", "python"),
        ("import triton\n@triton.jit\ndef k(): ...", ".py", "triton"),
        ("import triton\n@triton.jit\ndef k(): ...\nclass ModelNew(nn.Module): ...", ".py", "python"),
        ('extern "C" __global__ void k() {}', "", "cuda"),
        ('extern "C" void k() {}', "", "cpp"),
    ],
)
def test_language_is_told_by_suffix_then_text(source: str, suffix: str, language: str) -> None:
    assert candidates.language_of(source, suffix) == language


def test_a_text_of_no_language_is_rejected() -> None:
    with pytest.raises(CandidateError, match="cannot be told"):
        candidates.language_of("print('hello')", ".py")


def test_load_rejects_what_is_not_source(tmp_path: Path) -> None:
    with pytest.raises(CandidateError, match="cannot be read"):
        candidates.load(tmp_path / "missing.cu")
    binary = tmp_path / "a.cu"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CandidateError, match="not UTF-8"):
        candidates.load(binary)
    binary.write_bytes(b"x" * (candidates.MAX_SOURCE_BYTES + 1))
    with pytest.raises(CandidateError, match="at most"):
        candidates.load(binary)


@pytest.mark.parametrize(
    ("language", "one", "other", "same"),
    [
        ("cuda", "int a; // note\n/* more */ int b;", "int a;   int b;\n", True),
        ("cuda", 'char* s = "// kept";', 'char* s = "";', False),
        ("cuda", "int a;", "int b;", False),
        ("triton", "def f(x):\n    # note\n    return x\n", 'def f(x):\n\n    "doc"\n    return x', True),
        ("triton", "if a:\n    b\nc\n", "if a:\n    b\n    c\n", False),
        ("triton", "x = 'a # b'\n", "x = 'a'\n", False),
        ("python", "def f(:", "def  f(:", True),
    ],
)
def test_normalise_sees_programs_not_layout(language: str, one: str, other: str, same: bool) -> None:
    first, second = (candidates.normalise(Candidate(s, language)) for s in (one, other))  # type: ignore[arg-type]
    assert (first == second) is same


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", ['"\\', "'\\", "/*", '\\"', "\"'/*"])
def test_what_is_never_closed_takes_no_time_to_normalise(text: str) -> None:
    assert candidates.normalise(Candidate(f"int x; {text * 60_000}", "cuda")).startswith("int x;")


SIGNATURES = {
    "softmax": signature((spec("0", 7, 33),), (spec("0", 7, 33),)),
    "rmsnorm": signature((spec("0", 7, 33),), (spec("0", 7, 33),), (spec("weight", 33),), init={"0": 33, "1": 1e-6}),
    "layernorm_gelu": signature(
        (spec("0", 7, 32),), (spec("0", 7, 32),), (spec("norm.weight", 32), spec("norm.bias", 32)), init={"0": 32}
    ),
    "cross_entropy": signature((spec("0", 7, 33), spec("1", 7, dtype="int64")), (spec("0", 7),)),
    "matmul": signature((spec("0", 7, 33), spec("1", 33, 9)), (spec("0", 7, 9),)),
    "topk_gate": signature((spec("0", 7, 20),), (spec("0", 7, 3), spec("1", 7, 3, dtype="int64")), init={"0": 3}),
}


@pytest.mark.parametrize("name", tasks.bundled())
def test_every_choice_of_every_seed_resolves(name: str) -> None:
    for seed in tasks.load(name).seeds:
        plan = plans.parse(seed)
        for tunable, choices in plan.tunables.items():
            for combination in (c for v in choices for c in [plan.defaults() | {tunable: v}] if plan.allows(c)):
                resolved = plans.resolve(plan, SIGNATURES[name], combination)
                assert combination.items() <= resolved.constants.items()
                for launch in resolved.launches:
                    assert re.search(rf"\b{launch.kernel}\(", seed.source)
                written = {a.name for e in resolved.launches for a in e.args if a.kind == "ptr"}
                assert set(plan.outputs) <= written


BAD_PLANS = {
    "not finite": ('grid = ["rows"]', 'grid = ["1e999"]', "not a finite number"),
    "fraction": ('grid = ["rows"]', 'grid = ["rows / 3"]', "not a whole number"),
    "no extent": ('grid = ["rows"]', 'grid = ["rows - rows"]', "at least 1"),
    "four extents": ('grid = ["rows"]', "grid = [1, 1, 1, 1]", "three is the most"),
    "negative shared memory": ('grid = ["rows"]', 'grid = ["rows"]\nshared = -1', "negative"),
    "a name twice": ('outputs = ["y"]', 'outputs = ["x"]', "two things"),
    "no name": ("[tunables]", '[let]\n"a b" = 1\n[tunables]', "is not a name"),
    "too large for i64": ('"rows"]\n*/', '"rows * 10000000000000000000 : i64"]\n*/', "does not fit i64"),
    "scratch of no dtype": ("[tunables]", '[scratch]\nt = {dtype = "flaot", shape = [1]}\n[tunables]', "flaot"),
}

SMALL = """/*forewarp
inputs = ["x"]
outputs = ["y"]
[tunables]
BLOCK = [128, 256]
[[launch]]
kernel = "k"
grid = ["rows"]
block = ["BLOCK"]
args = ["x", "y", "rows"]
*/
"""


@pytest.mark.parametrize("name", BAD_PLANS)
def test_bad_plans_say_what_is_wrong(name: str) -> None:
    old, new, words = BAD_PLANS[name]
    source = SMALL.replace("[tunables]", '[let]\nrows = "x.shape[0]"\n[tunables]') if "[let]" not in new else SMALL
    source = source.replace(old, new)
    assert new in source
    spec = TensorSpec("0", (7, 5), "float32")
    shape = Signature("w", (spec,), {}, {}, (), (spec,), None, 0)
    bare = Candidate(source, "cuda")
    with pytest.raises(CandidateError, match=words):
        plans.resolve(plans.parse(bare), shape, {})


@pytest.mark.parametrize("tunables", [{"BLOCK": 7}, {"WARPS": 1}])
def test_tunables_are_those_declared(tunables: dict[str, int]) -> None:
    with pytest.raises(CandidateError, match=r"not one of|is not declared"):
        candidates.from_source(SMALL, "cuda", tunables)


def test_a_file_as_an_editor_of_windows_saves_it(tmp_path: Path) -> None:
    text = f"/*forewarp\n{PLAN}*/\n{KERNEL}"
    plain, file = tmp_path / "plain.cu", tmp_path / "mine.cu"
    plain.write_text(text)
    file.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert candidates.load(file).sha256 == candidates.load(plain).sha256
    file.write_bytes(text.replace("\n", "\r\n").encode())
    assert candidates.load(file).tunables == {"BLOCK": 128}


@pytest.mark.parametrize(
    ("name", "content", "message", "hint"),
    [
        ("mine.cu", b" \n", "is empty", "path of a kernel file"),
        ("mine.cu", "/* ü */".encode("utf-16"), "is not UTF-8 text", "save the source code as UTF-8"),
        ("mine.py", b"def ModelNew(:", "the file is no Python: invalid syntax", "mend it"),
        ("mine.py", b"print()", "cannot be told from its text", "ModelNew"),
        ("other.cu", b"", "mien.cu cannot be read: No such file", "pass the path"),
        ("mine.cu", b"", "mien.cu cannot be read: No such file", "did you mean mine.cu?"),
    ],
)
def test_a_file_that_is_no_kernel(name: str, content: bytes, message: str, hint: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CandidateError, match=message) as e:
        candidates.load(tmp_path / ("mien.cu" if "mien" in message else name))
    assert hint in e.value.hint
