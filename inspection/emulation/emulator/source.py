"""Make a translation unit for a host compiler of a CUDA candidate."""

from __future__ import annotations

import re
from pathlib import Path

from forewarp.gpu_runner.formats.plan import ResolvedPlan
from forewarp.inspection.emulation.emulator import ptx

HEADERS = Path(__file__).parent / "native" / "include"
"""Stand-ins for CUDA's headers."""
NAME = "kernel.cu"
"""What the compiler calls the candidate's source in its messages and line tables."""

_DYNAMIC = re.compile(
    r"\bextern\s+(?:volatile\s+)?__shared__\s+(?P<type>(?:(?:alignas|__align__)\s*\([^()]*\)\s*|[\w:<>,*]+\s+)+?)"
    r"(?:(?:alignas|__align__)\s*\([^()]*\)\s*)?(?P<name>\w+)\s*\[\s*\]\s*;"
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([\w./]+)[>"]', re.MULTILINE)
_ALIGNMENT = re.compile(r"(?:alignas|__align__)\s*\([^()]*\)")
_SHARED_ALIGNED = re.compile(r"__shared__\s+(alignas\s*\([^()]*\))")
_STATIC_SHARED = re.compile(r"\bstatic\s+__shared__\b")


def translate(source: str, plan: ResolvedPlan) -> tuple[str, str]:
    """Return C++ of the candidate, and a unit that includes it, as `NAME`, and has a table of the kernels launched."""
    rewritten = ptx.translate(source)
    headers = ["cuda_shim.hpp" if rewritten == source else "fw_ptx.hpp"]
    headers += [name for name in _INCLUDE.findall(source) if (HEADERS / name).is_file()]
    # Headers come first: a constant may have a name that they use.
    opening = [f'#include "{name}"' for name in headers]
    opening += [f"#define {name} {value}" for name, value in plan.constants.items()]
    source = _DYNAMIC.sub(_dynamic, rewritten)
    source = _STATIC_SHARED.sub("__shared__", _SHARED_ALIGNED.sub(r"\1 __shared__", source))
    kernels = sorted({launch.kernel for launch in plan.launches})
    table = ", ".join(f'Entry<&::{name}>::named("{name}")' for name in kernels)
    opening += [f'#include "{NAME}"', "namespace fw {", f"const Kernel kernels[] = {{{table}}};"]
    return source, "\n".join([*opening, f"const int kernel_count = {len(kernels)};", "}", ""])


def _dynamic(match: re.Match[str]) -> str:
    """Make a pointer of an array whose size the launch decides; it keeps its lines."""
    kind = " ".join(_ALIGNMENT.sub(" ", match["type"]).split())
    volatile = "volatile " if "volatile" in match[0] and "volatile" not in kind else ""
    lines = "\n" * match[0].count("\n")
    return f"{volatile}{kind}* const {match['name']} = reinterpret_cast<{volatile}{kind}*>(fw::DYNAMIC_SHARED);{lines}"
