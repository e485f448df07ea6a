"""Splitting CUDA sources, by their text alone."""

from __future__ import annotations

import pytest

from forewarp.gpu_runner.compilers.extension import split
from forewarp.gpu_runner.compilers.extension.split import NotUnderstood, items, tokens

KERNEL = "__global__ void k(float* y) { y[threadIdx.x] = 1.0f; }\n"
HOST = "torch::Tensor run(torch::Tensor x) { k<<<1, 32>>>(x.data_ptr<float>()); return x; }\n"


def flat(text: str) -> str:
    return " ".join(text.split())


class TestTokens:
    def test_comments_strings_and_directives(self) -> None:
        source = '// {\n#define A(x) \\\n  x {\n/* } */ auto s = R"q(})" {)q"; char c = \'{\';\n'
        found = tokens(source)
        assert [t.kind for t in found][:2] == ["directive", "name"]
        assert not any(t.text in "{}" for t in found)

    def test_items_of_each_kind(self) -> None:
        source = (
            "#include <a.h>\nusing T = int;\nstruct __align__(16) S { int a; };\n"
            "template <int N = (3 > 2)> void f() {}\nint a[] = {1};\nnamespace n { void g(); }\n"
            'extern "C" { void h(); }\nextern "C" void i() {}\nstruct S j() {}\n'
        )
        found = tokens(source)
        assert [i.kind for i in items(found, 0, len(found))] == [
            *("directive", "declaration", "class", "function", "declaration", "scope", "scope", "function", "function")
        ]

    def test_unbalanced_brackets_are_not_understood(self) -> None:
        found = tokens("void f() { (")
        with pytest.raises(NotUnderstood):
            list(items(found, 0, len(found)))


class TestSplit:
    def test_each_half_gets_its_own(self) -> None:
        halves = split.split("#include <torch/extension.h>\n#include <vector>\n" + KERNEL + HOST)
        assert "torch" not in halves.device
        assert "y[threadIdx.x]" in halves.device
        assert "y[threadIdx.x]" not in halves.host
        assert "__global__ void k(float* y);" in flat(halves.host)
        assert all("#include <vector>" in half for half in (halves.device, halves.host))
        assert (halves.kernels, halves.templates) == ({"k"}, frozenset())

    def test_a_launch_becomes_a_call_behind_its_configuration(self) -> None:
        call = "ns::k<(1 >> 0), A<float>>"
        kernel = "template <int N, typename T> __global__ void k(T* y) {}\n"
        launch = f"{call}<<<dim3(4, f(2)), (n + 31) >> 5, s>>>(x.p<T>(), 3);"
        host = flat(split.split(kernel + "void run(torch::Tensor x) { " + launch + " }").host)
        expected = f"(__cudaPushCallConfiguration(dim3(4, f(2)), (n + 31) >> 5, s) ? (void)0 : {call}(x.p<T>(), 3));"
        assert expected in host

    def test_static_kernels_and_anonymous_namespaces_can_be_linked_to(self) -> None:
        halves = split.split("namespace {\nstatic " + KERNEL + "}\n" + HOST)
        for half in (halves.device, halves.host):
            assert "inline namespace forewarp_anonymous {" in half
            assert "static __global__" not in half

    def test_device_bodies_do_not_reach_the_host(self) -> None:
        source = "struct F { __device__ int f() const { return __popc(3); } int a; };\n__device__ int g() {}\n"
        halves = split.split(source + KERNEL + HOST)
        assert "__popc" in halves.device
        assert "__popc" not in halves.host
        assert "int g()" not in halves.host

    @pytest.mark.parametrize(
        "source",
        [
            HOST,
            "__constant__ float c[4];\n" + KERNEL + HOST.replace("return", "cudaMemcpyToSymbol(c, 0, 0); return"),
            KERNEL + HOST.replace("1, 32", "1, 32").replace("return", "auto f = [] __device__ () {}; return"),
            "#define LAUNCH k<<<1, 1>>>\n" + KERNEL + HOST,
            "__global__ void k(at::Half* y) {}\n" + HOST,
            "#ifdef __CUDACC__\n#endif\n" + KERNEL + HOST,
        ],
    )
    def test_what_is_not_understood_is_refused(self, source: str) -> None:
        with pytest.raises(NotUnderstood):
            split.split(source)

    def test_instances_come_from_undefined_symbols(self) -> None:
        undefined = ["void k<float, 4>(float*)", "void k<c10::Half, 4>(c10::Half*)", "void other<int>(int)", "free"]
        text = split.with_instances("DEVICE", undefined, frozenset({"k"}))
        assert "template __global__ void k<float, 4>(float*);" in text
        assert "other" not in text
        assert text.index("c10/util/Half.h") < text.index("DEVICE")

    def test_loose_ends_are_found(self) -> None:
        kernels = frozenset({"k"})
        assert split.unresolved(["k(float*)", "PyList_New", "at::empty(int)"], kernels) == ["k(float*)"]


@pytest.mark.parametrize("name", ["at", "py", "torch"])
def test_a_variable_may_have_the_name_of_a_namespace(name: str) -> None:
    kernel = f"__global__ void k(float* x) {{ int {name} = threadIdx.x; x[{name}] = {name} ? 1.f : 0.f; }}"
    assert (
        "threadIdx" in split.split(f"{kernel}\nvoid f(torch::Tensor x) {{ k<<<1, 1>>>(x.data_ptr<float>()); }}").device
    )
    with pytest.raises(NotUnderstood):
        split.split(kernel.replace("float* x", f"{name}::Thing x"))


class TestHostFlags:
    def test_nvcc_flags_for_the_cpp_compiler(self) -> None:
        flags = ["-DA=1", "-isystem", "/x", "-gencode=arch=compute_90,code=sm_90", "--compiler-options", "'-fPIC'"]
        more = ["-O3", "--use_fast_math", "-std=c++17", "-Xcompiler=-Wall,-g", "-lineinfo", "-Xptxas", "-v"]
        expected = ["-DA=1", "-isystem", "/x", "-fPIC", "-O3", "-std=c++17", "-Wall", "-g"]
        assert split.host_flags([*flags, *more]) == expected

    def test_the_host_compiler_that_torch_names_to_nvcc_is_left_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CC", "/opt/gcc")
        assert split.host_flags(["-ccbin", "/opt/gcc", "-O3"]) == ["-O3"]
        with pytest.raises(NotUnderstood, match="clang"):
            split.host_flags(["-ccbin", "clang"])

    @pytest.mark.parametrize("flag", ["-rdc=true", "-ccbin", "--something-new"])
    def test_an_unknown_flag_is_not_understood(self, flag: str) -> None:
        with pytest.raises(NotUnderstood):
            split.host_flags([flag])


def test_a_comment_over_several_lines_leaves_nothing_behind() -> None:
    source = "/**\n * Adds.\n * @param x what\n */\n__global__ void add(float* x) { x[0] += 1; }\n"
    assert "*/" not in split.split(source).device
