"""Compile a device-only candidate into an artefact folder: native code, facts about it, and the resolved plans.

`compile_candidate` runs in a confined child of the worker, because a Triton source is Python and a C++ source can ask
much of a compiler. It needs no device.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from forewarp.core import serde
from forewarp.core.errors import CandidateError
from forewarp.core.inspection import Code, Inspection, Launch
from forewarp.core.languages import languages_on
from forewarp.core.values import DEVICE_ONLY, Candidate, Language, Signature, Target
from forewarp.gpu_runner.compilers.facts import facts
from forewarp.gpu_runner.compilers.inspection import inspection, launches_of
from forewarp.gpu_runner.compilers.process import MANIFEST
from forewarp.gpu_runner.formats import plan
from forewarp.gpu_runner.formats.plan import ResolvedPlan

THREADS = 4
"""Specialisations of one candidate that are compiled at once."""


Backend = Callable[[str, ResolvedPlan, Target, Path, str], dict[str, Any]]
"""One language's compiler: given source, plan, target, folder and the stem of its files, return their manifest entry.

It has "files", and for a GPU "kernels" by launch, or "codes" where host code launches them; for a CPU "facts".
"""


def _backend(language: str, host_code: bool) -> Backend:
    # Imported late: each needs a toolchain that another machine may lack.
    if language == "cpp":
        from forewarp.gpu_runner.compilers.cpp import build
    elif host_code:
        from forewarp.gpu_runner.compilers.nvcc import build
    elif language == "cuda":
        from forewarp.gpu_runner.compilers.nvrtc import build
    else:
        from forewarp.gpu_runner.compilers.triton import build
    return build


def compile_candidate(
    candidate: Candidate, signatures: Sequence[Signature], target: Target, folder: Path
) -> dict[str, Any]:
    """Compile `candidate` for every workload into `folder`; raises `CompileError` or `CandidateError`."""
    wanted = [name for name in languages_on(target.kind) if name in DEVICE_ONLY]
    if candidate.language not in wanted:
        raise CandidateError(
            f"a {candidate.language} candidate does not run on {target.name}",
            hint=f"a {target.kind} device takes {' or '.join(wanted)}, or a KernelBench module",
        )
    parsed = plan.parse(candidate)
    build = _backend(candidate.language, parsed.host_code)
    distinct: dict[str, ResolvedPlan] = {}
    workloads: dict[str, Any] = {}
    for signature in signatures:
        resolved = plan.resolve(parsed, signature, candidate.tunables)
        key = _specialisation(resolved)
        distinct.setdefault(key, resolved)
        workloads[signature.workload] = {"variant": key, "plan": serde.to_data(resolved)}
    # C++ compilers work on one file of the folder; Triton and NVRTC wait for machine code in parallel.
    with ThreadPoolExecutor(1 if target.kind == "cpu" or parsed.host_code else THREADS) as pool:
        built = [
            pool.submit(build, candidate.source, resolved, target, folder, f"v{i}")
            for i, resolved in enumerate(distinct.values())
        ]
        variants = {key: future.result() for key, future in zip(distinct, built, strict=True)}
    digest = hashlib.sha256()
    for variant in variants.values():
        for name in variant["files"]:
            digest.update((folder / name).read_bytes())
    # The same code with other launches is another candidate.
    launches = [workloads[s.workload]["plan"][part] for s in signatures for part in ("launches", "maps")]
    digest.update(json.dumps(launches, sort_keys=True).encode())
    manifest = {
        "variants": variants,
        "workloads": workloads,
        "binary_sha256": digest.hexdigest(),
        # Code that runs on the host, though its language is that of device code: it may only run in a cell.
        "host_code": parsed.host_code,
    }
    if target.kind == "cuda":
        seen = _inspect(candidate.language, target, signatures, manifest)
        manifest |= {"inspection": serde.to_data(seen), "facts": facts(seen), "problems": list(seen.problems)}
    else:
        manifest |= {"facts": next(iter(variants.values()))["facts"], "problems": []}
    (folder / MANIFEST).write_text(json.dumps(manifest))
    return manifest


def _inspect(
    language: Language, target: Target, signatures: Sequence[Signature], manifest: Mapping[str, Any]
) -> Inspection:
    launches: dict[str, Sequence[Launch]] = {}
    for name, entry in manifest["workloads"].items():
        variant = manifest["variants"][entry["variant"]]
        if "codes" in variant:
            launches[name] = [Launch(serde.from_data(Code, code), None, None) for code in variant["codes"]]
        else:
            launches[name] = launches_of(serde.from_data(ResolvedPlan, entry["plan"]), variant["kernels"], target)
    how = "compiled with its host code" if manifest["host_code"] else "compiled from its launch plan"
    return inspection(target, language, how, signatures, launches)


def _specialisation(resolved: ResolvedPlan) -> str:
    """Return a key of all that a build and its facts depend on."""
    parts: list[Any] = [sorted(resolved.constants.items())]
    parts += [[(a.kind, a.dtype) for a in e.args] for e in resolved.launches]
    if resolved.language == "cuda":
        parts += [[e.kernel, e.block, e.shared] for e in resolved.launches]
    if resolved.language == "triton":
        parts += [
            [a.kind[0] == "i" and a.value % 16 == 0 for a in e.args] + [e.num_warps, e.num_stages]
            for e in resolved.launches
        ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
