"""Arguments of launch plans against the parameters of kernels: the compiler names those that differ."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from forewarp.core.values import Candidate, Language, Signature, TensorSpec
from forewarp.gpu_runner import devices
from forewarp.gpu_runner.compilers import compile_candidate, nvrtc
from forewarp.gpu_runner.compilers.process import CompileError

SIGNATURE = Signature(
    "w", (TensorSpec("x", (4, 8), "float32"),), {}, {"0": 0.5}, (), (TensorSpec("y", (4, 8), "int64"),), None, 0
)
SOURCE = """\
/*forewarp
inputs = ["x"]
outputs = ["y"]
scratch.bytes = {{ dtype = "uint8", shape = [64] }}
[[launch]]
kernel = "k"
args = [{args}]
{grid}
*/
typedef long long i64;
{opens} {{ y[0] = 1; }}
"""
FLOATS = "const float* x, i64* y"
LANGUAGES = [
    pytest.param("cpp", marks=pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")),
    pytest.param("cuda", marks=pytest.mark.skipif(nvrtc.library() is None, reason="needs NVRTC")),
]


def compiled(
    folder: Path, language: Language, args: str, parameters: str, opens: str = 'extern "C" {v} k({p})'
) -> None:
    void = "void" if language == "cpp" else "__global__ void"
    grid = "" if language == "cpp" else "grid = [1]\nblock = [32]"
    names = ", ".join(f'"{a}"' for a in args.split())
    source = SOURCE.format(args=names, grid=grid, opens=opens.format(v=void, p=parameters))
    target = devices.choose("cpu") if language == "cpp" else devices.known_targets()["h200"]
    compile_candidate(Candidate(source, language), [SIGNATURE], target, folder)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("args", "parameters", "says"),
    [
        ("x y numel(x)", f"{FLOATS}, i64 n", "args[2] of k, 'numel(x)', is i32 (int), but parameter 3 has 64 bits"),
        ("x y numel(x)", f"{FLOATS}, float n", "parameter 3 is a float; write numel(x):f32"),
        (
            "x y numel(x)",
            f"{FLOATS}, const int* n",
            "'numel(x)', is i32 (int), but parameter 3 is a pointer",
        ),
        ("x y init0", f"{FLOATS}, double e", "args[2] of k, 'init0', is f32 (float), but parameter 3 is a double"),
        ("x y init0", f"{FLOATS}, int e", "parameter 3 is an integer"),
        ("x y init0:f64", f"{FLOATS}, float e", "parameter 3 is a float; write init0:f32"),
        ("x y", f"{FLOATS}, int n", "args of k has 2 entries, but the function takes more parameters"),
        ("x y numel(x)", FLOATS, "args of k has 3 entries, but the function takes fewer parameters"),
        (
            "x numel(x) y",
            "const float* x, int n, int y",
            "'y', is a pointer to int64, but parameter 3 is a number",
        ),
        ("x y", "const double* x, i64* y", "parameter 1 points to other elements; use float"),
        ("x y", "const float* x, float* y", "parameter 2 points to other elements; use"),
    ],
)
def test_arguments_that_do_not_fit_are_named(
    tmp_path: Path, language: Language, args: str, parameters: str, says: str
) -> None:
    with pytest.raises(CompileError) as error:
        compiled(tmp_path, language, args, parameters)
    assert says in str(error.value)
    assert all(line.startswith("args") for line in str(error.value).splitlines())


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("args", "parameters"),
    [
        ("x y numel(x)", f"{FLOATS}, unsigned n"),
        ("x y numel(x):i64 init0", "const float* __restrict__ x, i64* __restrict__ y, const i64 n, float e"),
        ("x y numel(x):i64", f"{FLOATS}, int n"),
        ("x y", "const int* x, unsigned long long* y"),
        ("bytes y", "float* bytes, i64* y"),
    ],
)
def test_arguments_that_fit_compile(tmp_path: Path, language: Language, args: str, parameters: str) -> None:
    compiled(tmp_path, language, args, parameters)


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_cannot_be_compared_compiles(tmp_path: Path, language: Language) -> None:
    compiled(tmp_path, language, "x y", FLOATS, 'namespace mine {{ extern "C" {v} k({p});\n}}\n{v} mine::k({p})')


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_compilers_own_errors_stay_as_they_are(tmp_path: Path, language: Language) -> None:
    with pytest.raises(CompileError) as error:
        compiled(tmp_path, language, "x y", FLOATS, 'int wrong = "text";\nextern "C" {v} k({p})')
    assert "int" in str(error.value)
    assert "launch-plan" not in str(error.value)


def test_a_function_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"names \['k'\], which the source does not define"):
        compiled(tmp_path, "cpp", "x y", FLOATS, 'extern "C" {v} other({p})')


def test_a_function_is_found_whose_name_ends_anothers(tmp_path: Path) -> None:
    # Linkers write such a name once, as the end of the longer one.
    compiled(tmp_path, "cpp", "x y", FLOATS, 'extern "C" {v} work({p}) {{}}\nextern "C" {v} k({p})')
