"""The instruction counts must be a disassembler's."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from forewarp.gpu_runner.compilers import cubin, nvrtc, sass

SOURCE = (Path(__file__).parents[1] / "support" / "instructions.cu").read_text()
ARCHITECTURES = ("sm_80", "sm_89", "sm_90", "sm_100", "sm_120")
_LINE = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9_.]+)")

# Mnemonics of the classes that problems and features rest on.
TOLD = {
    "tensor": {"HMMA", "IMMA", "DMMA", "QMMA", "HGMMA", "UTCHMMA"},
    "special": {"MUFU"},
    "global_load": {"LDG", "LD"},
    "global_store": {"STG", "ST"},
    "shared_load": {"LDS"},
    "shared_store": {"STS"},
    "local_load": {"LDL"},
    "local_store": {"STL"},
    "async_copy": {"LDGSTS"},
    "bulk_copy": {"UTMALDG", "UTMASTG", "UTMAREDG", "UBLKCP"},
    "atomic": {"ATOM", "ATOMG", "ATOMS", "RED", "REDG"},
    "fp64": {"DADD", "DMUL", "DFMA", "DSETP"},
    "fp32": {"FADD", "FMUL", "FFMA", "FSETP", "FMNMX", "FSEL", "FCHK", "FFMA2", "FADD2", "FMNMX3"},
}


def cubin_of(source: str, arch: str) -> bytes:
    options = [f"--gpu-architecture={nvrtc.exact_architecture(arch)}", "--std=c++17"]
    return nvrtc.compile_source(source, [*options, "--device-as-default-execution-space", *nvrtc.includes()])


def disassembler() -> str | None:
    """Triton brings one."""
    triton = pytest.importorskip("triton")
    path = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
    return str(path) if path.exists() else None


@pytest.fixture(scope="module", params=ARCHITECTURES)
def image(request: pytest.FixtureRequest) -> tuple[str, bytes]:
    if nvrtc.library() is None:
        pytest.skip("NVRTC is not installed")
    return request.param, cubin_of(SOURCE, request.param)


@pytest.mark.slow
def test_classes_and_widths_are_the_disassemblers(image: tuple[str, bytes], tmp_path: Path) -> None:
    arch, code = image
    tool = disassembler()
    if tool is None:
        pytest.skip("there is no nvdisasm")
    (tmp_path / "a.cubin").write_bytes(code)
    text = subprocess.run([tool, "-c", str(tmp_path / "a.cubin")], capture_output=True, text=True, check=True).stdout
    mnemonics = [m.split(".") for m in _LINE.findall(text)]
    bases = Counter(m[0] for m in mnemonics)
    found = cubin.codes(code, arch).values()
    for name, members in TOLD.items():
        assert sum(c.mix.get(name, 0) for c in found) == sum(bases[m] for m in members), name
    for name in ("global_load", "global_store", "shared_load", "shared_store", "async_copy"):
        for bits in (8, 16, 32, 64, 128):
            ours = sum(c.widths.get(f"{name}.{bits}", 0) for c in found)
            assert ours == sum(m[0] in TOLD[name] and _bits(m) == bits for m in mnemonics), (name, bits)
    for name, own in (("tensor", "HGMMA"), ("bulk_copy", "UTMALDG"), ("bulk_copy", "UTMASTG")):
        assert sum(c.widths.get(f"{name}.{own}", 0) for c in found) == (bases[own] if arch == "sm_90" else 0)
    unknown = sum(c.mix.get("other", 0) for c in found)
    assert unknown <= 0.02 * sum(sum(c.mix.values()) for c in found)


def _bits(mnemonic: list[str]) -> int:
    for part in mnemonic[1:]:
        if (match := re.fullmatch(r"[US]?(8|16|64|128|256)", part)) is not None:
            return int(match.group(1))
    return 32


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_instructions_of_a_loop_are_told_apart(arch: str) -> None:
    if nvrtc.library() is None:
        pytest.skip("NVRTC is not installed")
    source = """extern "C" __global__ void f(float* x, int n) {
      float total = rsqrtf(x[0]);
      #pragma unroll 1
      for (int i = 0; i < n; i++) total += __expf(x[i]);
      x[threadIdx.x] = total;
    }"""
    code = cubin.codes(cubin_of(source, arch), arch)["f"]
    assert code.mix["special"] == 2
    assert code.loops["special"] == 1
    assert code.loops["global_load"] == 1
    assert "global_store" not in code.loops
    assert code.widths == {"global_load.32": 2, "global_store.32": 1}


def test_a_loop_is_between_the_target_of_a_branch_and_the_branch() -> None:
    fma, back = 0x223, 0x147 | (-3 * 4 & (1 << 48) - 1) << 34
    words = [fma, fma, back, 0x147 | (-4 & (1 << 48) - 1) << 34, 0x118]
    code = b"".join(w.to_bytes(16, "little") for w in words)
    found = sass.count(code, "sm_80")
    assert found.mix == {"fp32": 2, "branch": 2}  # padding is left out
    assert found.loops == {"fp32": 2, "branch": 1}  # a branch to itself is no loop
