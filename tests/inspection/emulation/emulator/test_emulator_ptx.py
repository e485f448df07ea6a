"""Inline PTX becomes calls; what is not known is refused by name."""

from __future__ import annotations

import pytest

from forewarp.inspection.emulation.emulator import ptx


@pytest.mark.parametrize(
    ("statement", "call"),
    [
        ('asm("tanh.approx.f32 %0, %1;" : "=f"(t) : "f"(a + b));', "fw::ptx::tanh_<float>((t), (a + b));"),
        ('asm volatile("cp.async.commit_group;" ::: "memory");', "fw::ptx::commit_group();"),
        ('asm volatile("cp.async.wait_group %0;" ::"n"(N));', "fw::ptx::wait_group((N));"),
        (
            'asm("ld.global.nc.L1::no_allocate.v2.f32 {%0,%1}, [%2+8];" : "=f"(x), "=f"(y) : "l"(p));',
            "fw::ptx::load<float, 2>((x), (y), fw::ptx::at((p))+8);",
        ),
        (
            'asm("cvt.rn.f16x2.f32 %[d], %[hi], %[lo];" : [d] "=r"(d) : [hi] "f"(h), [lo] "f"(l));',
            "fw::ptx::to_f16x2((d), (h), (l));",
        ),
        ('__asm__ __volatile__("bar.sync %0, 128;" :: "r"(id));', "fw::ptx::barrier((id), 128);"),
        ('asm("mov.u32 %0, %%laneid;" : "=r"(lane));', "fw::ptx::mov((lane), fw::fw_lane());"),
    ],
)
def test_a_statement_becomes_a_call(statement: str, call: str) -> None:
    assert ptx.translate(f"a;\n{statement}\nb;") == f"a;\ndo {{ {call} }} while (0);\nb;"


def test_registers_predicates_and_lines_are_kept() -> None:
    source = (
        'asm volatile("{ .reg .pred p;\\n"\n'
        '             "  setp.ne.b32 p, %0, 0;\\n"\n'
        '             "  @p st.shared.b32 [%1], %2; }\\n" :: "r"(c), "r"(a), "r"(v));'
    )
    translated = ptx.translate(source)
    assert translated.count("\n") == source.count("\n")
    assert "bool fw_r_p = 0; fw::ptx::setp_ne<uint32_t>(fw_r_p, (c), 0);" in translated
    assert "if (fw_r_p) fw::ptx::store<uint32_t, 1>(fw::ptx::at((a))+0, (v));" in translated


def test_comments_and_other_words_are_left_alone() -> None:
    source = '// asm("wgmma");\n/* asm("x"); */ int plasma(int asm_count);'
    assert ptx.translate(source) == source


@pytest.mark.parametrize(
    "opcode", ["wgmma.fence.sync.aligned", "mbarrier.init.shared.b64", "cp.async.bulk.commit_group"]
)
def test_what_is_not_emulated_is_named(opcode: str) -> None:
    with pytest.raises(ptx.UnsupportedPtx, match=opcode):
        ptx.translate(f'asm volatile("{opcode} [%0], 1;" :: "r"(x));')


def test_pasted_templates_are_refused() -> None:
    with pytest.raises(ptx.UnsupportedPtx, match="macros"):
        ptx.translate('asm("ld.global." TYPE " %0, [%1];" : "=f"(x) : "l"(p));')
