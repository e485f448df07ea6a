"""Tuning a file's kernels without a GPU."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from support.autotuned_file import ENDLESS, SOURCE

from forewarp.core.errors import CandidateError, UsageError
from forewarp.tools.requests import TuneRequest
from forewarp.tools.tune import TuneJob, TuneResult
from forewarp.tools.tune_plan import tune_file


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tuned") / "scale.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture(scope="module")
def tuned(kernel: Path) -> TuneResult:
    return tune_file(
        TuneRequest(
            file=str(kernel),
            calls=["run(1048576)", "run(n=4096)"],
            target="h200",
            compile=3,
            measure=0,
        )
    )


@pytest.mark.slow
def test_each_call_is_forecast_and_compiled(tuned: TuneResult) -> None:
    assert [(k.kernel, k.call, k.key) for k in tuned.kernels] == [
        ("scale", "run(1048576)", {"N": 1048576}),
        ("scale", "run(n=4096)", {"N": 4096}),
    ]
    for found in tuned.kernels:
        assert (found.considered, found.measured, found.chosen_by) == (4, 0, "forecast")
        assert found.compiled in (3, 4)
        assert found.best.registers
        assert all(c.forecast >= 1.0 for c in found.configurations)
    assert tuned.kernels[0].best.forecast == min(c.forecast for c in tuned.kernels[0].configurations) == 1.0


@pytest.mark.slow
def test_the_patch_leaves_the_best_configurations(tuned: TuneResult, kernel: Path, tmp_path: Path) -> None:
    copy = tmp_path / "scale.py"
    copy.write_text(SOURCE)
    subprocess.run(["git", "apply", "-"], input=tuned.patch, text=True, check=True, cwd=tmp_path)
    block, warps, stages = re.findall(r"=(\d+)", tuned.kernels[0].best.configuration)
    left = f'configs=[triton.Config({{"BLOCK": {block}}}, num_warps={warps}, num_stages={stages})'
    assert left in copy.read_text()
    compile(copy.read_text(), "scale.py", "exec")


@pytest.fixture(scope="module")
def named_as_in_vllm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vllm") / "scale.py"
    source = SOURCE.replace("BLOCK", "BLOCK_SIZE_M")
    listed = next(line for line in source.splitlines() if line.startswith("CONFIGS = "))
    path.with_name("listed").mkdir()  # no package, but importable
    path.with_name("listed").joinpath("configurations.py").write_text(f"import triton\n\n{listed}\n")
    path.with_name("beside.py").write_text("from listed.configurations import CONFIGS\n")
    path.write_text(source.replace(listed, "from beside import CONFIGS"))
    return path


def tabled(path: Path, out: Path, **more: Any) -> TuneResult:
    fields = {"calls": ["run(4096)", "run(8192)"], "target": "h200", "compile": 0, "measure": 0, "table": str(out)}
    return tune_file(TuneRequest(file=str(path), **fields | more))


def test_a_table_of_vllm_has_the_best_of_each_call_and_its_evidence_beside_it(
    named_as_in_vllm: Path, tmp_path: Path
) -> None:
    tabled(named_as_in_vllm, tmp_path / "moe.json", format="vllm")
    document = json.loads((tmp_path / "moe.json").read_text())
    assert list(document) == ["4096", "8192"]
    assert set(document["4096"]) == {"BLOCK_SIZE_M", "num_warps", "num_stages"}
    evidence = json.loads((tmp_path / "moe.evidence.json").read_text())
    assert evidence["command"].startswith("forewarp tune ")
    assert "--call 'run(8192)'" in evidence["command"]
    assert [k["key"] for k in evidence["kernels"]] == [{"N": 4096}, {"N": 8192}]


def test_what_is_no_table_of_vllm_is_refused_before_anything_is_compiled(
    named_as_in_vllm: Path, tmp_path: Path
) -> None:
    out = tmp_path / "moe.json"
    for calls in (["run(64)", "run(n=64)"], ["run(4096)", "other(8192)"], ["run"], ["run", "run(64)"], ["run(64)"] * 2):
        with pytest.raises(UsageError, match="one key"):
            tabled(named_as_in_vllm, out, format="vllm", calls=calls)
    with pytest.raises(UsageError, match="form of a table"):
        tabled(named_as_in_vllm, out, format="vllm", table=None)
    assert not out.exists()


@pytest.mark.slow
def test_configurations_that_vllm_does_not_read_are_refused_before_anything_is_compiled(
    kernel: Path, tmp_path: Path
) -> None:
    out = tmp_path / "moe.json"
    with pytest.raises(UsageError, match="reads configurations of BLOCK_SIZE_K"):
        tabled(kernel, out, format="vllm", compile=24)
    assert not out.exists()


@pytest.mark.slow
def test_speed_ups_are_over_the_table_in_use(named_as_in_vllm: Path, tmp_path: Path) -> None:
    used = tmp_path / "used.json"
    used.write_text(json.dumps({"4000": {"BLOCK_SIZE_M": 32, "num_warps": 4}, "9000": {"BLOCK_SIZE_M": 7}}))
    found = tabled(named_as_in_vllm, tmp_path / "own.json", against=str(used))
    assert [k.baseline for k in found.kernels] == [
        "BLOCK_SIZE_M=32 num_warps=4 num_stages=3",
        "BLOCK_SIZE_M=32 num_warps=1 num_stages=3",
    ]
    [problem] = found.problems
    assert problem.startswith("scale in run(8192): the table in use names none")
    document = json.loads((tmp_path / "own.json").read_text())
    assert document["kernels"][0]["baseline"] == {"BLOCK_SIZE_M": 32, "num_warps": 4, "num_stages": 3}
    assert f"--against {used}" in document["command"]
    again = tabled(named_as_in_vllm, tmp_path / "again.json", against=str(tmp_path / "own.json"))
    assert [k.baseline for k in again.kernels] == [k.best.configuration for k in found.kernels]
    used.write_text("[]")
    with pytest.raises(UsageError, match="no table of configurations"):
        tabled(named_as_in_vllm, tmp_path / "own.json", against=str(used))


@pytest.mark.slow
def test_configurations_of_helion_are_written_and_taken_for_the_table_in_use(
    named_as_in_vllm: Path, tmp_path: Path
) -> None:
    found = tabled(named_as_in_vllm, tmp_path, format="helion")
    assert {p.name for p in tmp_path.iterdir()} == {"scale.json", "scale.2.json", "forewarp.evidence.json"}
    saved = json.loads((tmp_path / "scale.json").read_text())
    assert set(saved) == {"BLOCK_SIZE_M", "num_warps", "num_stages"}
    entry = tmp_path / "entry.best_config"
    entry.write_text(json.dumps({"config": json.dumps(saved), "key": {"type": "", "fields": {}}}))
    for used in (tmp_path / "scale.json", entry):
        again = tabled(named_as_in_vllm, tmp_path / "own.json", against=str(used))
        assert {k.baseline for k in again.kernels} == {found.kernels[0].best.configuration}


def locked(path: Path, lock: Path, **more: Any) -> TuneResult:
    fields: dict[str, Any] = {"calls": ["run(4096)"], "target": "h200", "lock": str(lock)}
    return tune_file(TuneRequest(file=str(path), **fields | more))


@pytest.fixture(scope="module")
def first_lock(kernel: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[TuneResult, Path]:
    lock = tmp_path_factory.mktemp("locked") / "forewarp.lock.json"
    return locked(kernel, lock), lock


def test_a_second_run_takes_what_the_lock_says_whatever_the_forecasts(
    kernel: Path, first_lock: tuple[TuneResult, Path], tmp_path: Path
) -> None:
    first, written = first_lock
    lock = Path(shutil.copy(written, tmp_path))
    [own] = first.kernels
    assert (own.chosen_by, own.compiled, own.measured, first.problems) == ("forecast", 0, 0, [])
    assert first.lock == str(written)
    document = json.loads(lock.read_text())
    [choice] = document["choices"].values()
    assert (choice["configuration"], choice["forecasts"]) == (own.best.configuration, first.forecasts)
    choice |= {"configuration": "BLOCK=32 num_warps=1 num_stages=3", "forecasts": "1999.1"}
    lock.write_text(json.dumps(document))
    second = locked(kernel, lock)
    [own] = second.kernels
    assert (own.chosen_by, own.best.configuration) == ("lock", "BLOCK=32 num_warps=1 num_stages=3")
    assert '{"BLOCK": 32}, num_warps=1' in second.patch
    [stale] = second.problems
    assert "forecasts 1999.1" in stale
    assert json.loads(lock.read_text()) == document


@pytest.mark.slow
def test_what_is_stale_in_a_lock_is_said_and_chosen_anew(
    kernel: Path, first_lock: tuple[TuneResult, Path], tmp_path: Path
) -> None:
    lock, changed = Path(shutil.copy(first_lock[1], tmp_path)), tmp_path / "scale.py"
    best = first_lock[0].kernels[0].best
    changed.write_text(SOURCE.replace("* 2.0", "* 3.0"))
    again = locked(changed, lock)
    assert again.kernels[0].chosen_by == "forecast"
    assert again.problems == ["forewarp.lock.json has a choice for another text of scale; this one is chosen anew"]
    assert len(json.loads(lock.read_text())["choices"]) == 2
    assert best is not None
    lock.write_text(lock.read_text().replace(best.configuration, "BLOCK=7"))
    again = locked(kernel, lock)
    assert again.kernels[0].best == best
    assert "names BLOCK=7, which is no choice for scale" in again.problems[0]


@pytest.mark.slow
def test_calls_that_triton_does_not_tell_apart_share_a_choice_and_guesses_are_not_locked(
    library: Path, tmp_path: Path
) -> None:
    lock, keyless = tmp_path / "forewarp.lock.json", tmp_path / "scale.py"
    keyless.write_text(SOURCE.replace('key=["N"]', "key=[]"))
    found = locked(keyless, lock, calls=["run(4096)", "run(1048576)"])
    first, second = found.kernels
    assert first.best is not None
    assert second.best is not None
    assert (first.best.configuration, second.chosen_by) == (second.best.configuration, "lock")
    assert "does not tell it from an earlier call" in found.problems[0]
    guessed = locked(library, tmp_path / "other.json", calls=["more"])
    assert guessed.kernels[0].guessed
    assert guessed.summary.endswith("Arguments are guesses; name a call by --call.")
    assert "not locked" in guessed.problems[0]
    assert not (tmp_path / "other.json").exists()


def test_measuring_and_a_deterministic_choice_exclude_each_other(kernel: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="by forecast alone, and --measure 3"):
        locked(kernel, tmp_path / "lock.json", measure=3)
    (tmp_path / "lock.json").write_text('{"version": 1}')
    with pytest.raises(UsageError, match="its format is 1"):
        locked(kernel, tmp_path / "lock.json")


READ_IN_A_PROCESS = """
import torch
import triton
import forewarp.triton
import scale

with forewarp.triton.install(lock="forewarp.lock.json", card="h200") as installed:
    x = torch.ones(4096)
    o = torch.empty_like(x)
    scale.scale[lambda meta: (triton.cdiv(4096, meta["BLOCK"]),)](x, o, N=4096)
assert torch.equal(o, 2 * x)
print([(choice.label, choice.locked) for choice in installed.choices])
"""


def test_a_process_takes_the_choices_of_the_lock_that_was_written_for_it(
    kernel: Path, first_lock: tuple[TuneResult, Path], tmp_path: Path
) -> None:
    lock = Path(shutil.copy(first_lock[1], tmp_path))
    best = first_lock[0].kernels[0].best
    assert best is not None
    other = "BLOCK=32 num_warps=4 num_stages=3"
    lock.write_text(lock.read_text().replace(best.configuration, other))
    environment = os.environ | {"PYTHONPATH": str(kernel.parent), "TRITON_INTERPRET": "1"}
    process = subprocess.run(
        [sys.executable, "-c", READ_IN_A_PROCESS],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.stdout == f"{[(other, True)]}\n", process.stderr


READ_BY_TRITON = """
import sys
import triton
from triton.backends.compiler import GPUTarget
import scale


class Driver:
    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)


def benchmark():
    raise SystemExit("Triton did not find the timings")


triton.runtime.driver.set_active(Driver())
tuner = scale.scale
key = (4096, "torch.float32", "torch.float32")
assert tuner.check_disk_cache(key, tuner.configs, benchmark)
print(tuner.cache[key])
"""


@pytest.mark.slow
def test_triton_finds_the_timings_in_the_cache_that_was_written_for_it(kernel: Path, tmp_path: Path) -> None:
    found = tabled(kernel, tmp_path / "cache", format="triton", calls=["run(4096)"])
    assert not found.problems
    (tmp_path / "read.py").write_text(READ_BY_TRITON)
    environment = os.environ | {"TRITON_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(kernel.parent)}
    done = subprocess.run(
        [sys.executable, str(tmp_path / "read.py")], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(found.kernels[0].best.configuration.split("=")[0])
    assert json.loads((tmp_path / "cache" / "forewarp.evidence.json").read_text())["kernels"]


HOOKED = SOURCE.replace("num_warps=w)", "num_warps=w, pre_hook=clear)").replace(
    "CONFIGS =", "def clear(arguments):\n    arguments['o'].zero_()\n\n\nCONFIGS ="
)


@pytest.mark.slow
def test_hooks_of_configurations_are_not_patched_away(tmp_path: Path) -> None:
    path = tmp_path / "hooked.py"
    path.write_text(HOOKED)
    found = tabled(path, tmp_path / "cache", format="triton", calls=["run(4096)"])
    assert not found.patch
    assert "hooks of its configurations" in found.problems[0]
    assert "keeps no timings of configurations with hooks" in found.problems[1]


RULES = SOURCE.replace("BLOCK: tl.constexpr", "BLOCK: tl.constexpr, EVEN: tl.constexpr").replace(
    "@triton.jit", '@triton.heuristics({"EVEN": lambda a: a["N"] % a["BLOCK"] == 0})\n@triton.jit'
)


@pytest.mark.slow
def test_what_heuristics_derive_stands_in_no_table_and_no_patch(tmp_path: Path) -> None:
    path = tmp_path / "rules.py"
    path.write_text(RULES)
    found = tabled(path, tmp_path / "own.json", calls=["run(4096)"])
    assert "EVEN" not in found.kernels[0].best.configuration
    assert "EVEN" not in (tmp_path / "own.json").read_text()
    assert "EVEN" not in "".join(line for line in found.patch.splitlines(keepends=True) if line.startswith("+"))


def test_a_tuning_is_stopped_from_another_thread(tmp_path: Path) -> None:
    path = tmp_path / "endless.py"
    path.write_text(ENDLESS)
    called = threading.Event()
    job = TuneJob(TuneRequest(file=str(path), target="h200", measure=0), stage=lambda _: called.set())
    errors: list[BaseException] = []

    def run() -> None:
        try:
            job.run()
        except CandidateError as e:
            errors.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    called.wait()
    job.stop()
    thread.join(60)
    assert not thread.is_alive()
    assert "was stopped" in str(errors[0])
    assert (job.measured, job.device_s) == (0, 0.0)


BASE = """
import triton
import triton.language as tl


class OwnTuner(triton.runtime.Autotuner):
    def run(self, *args, **kwargs):
        raise RuntimeError("this library runs its kernels in a way of its own")


def own(configs, key):
    return lambda fn: OwnTuner(fn, fn.arg_names, configs, key, None, None)


SIZES = [triton.Config({"BLOCK": b}) for b in (32, 64, 1024)]
"""
MANY = """
import torch
import triton
import triton.language as tl
from .base import SIZES, own


def few(configs, arguments, **_):
    return [c for c in configs if c.kwargs["BLOCK"] != 1024]


@triton.autotune(SIZES, ["N"], prune_configs_by={"early_config_prune": few})
@triton.jit
def at_import(x, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < N) * 2.0, mask=i < N)


@own(SIZES, ["N"])
@triton.jit
def guessed(x, o, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < N) + 1.0, mask=i < N)


@triton.autotune(SIZES, ["N"])
@triton.jit
def refused(x, label, N, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), label)


at_import[lambda meta: (triton.cdiv(4096, meta["BLOCK"]),)](torch.ones(4096, device="cuda"), 4096)


def more(x: torch.Tensor):
    o = torch.empty_like(x)
    assert x.sum() > -1e9  # no value without values
    guessed[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, o, x.numel())
    return o


def broken(label: str):
    refused[(1,)](torch.ones(64, device="cuda"), label, 64)


def large(n):
    x = torch.ones(n, 1 << 20, device="cuda")
    return more.__globals__["at_import"][(1,)](x, x.numel())
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library") / "kernels" / "inner"
    folder.mkdir(parents=True)
    for path, text in (("../__init__.py", ""), ("__init__.py", ""), ("base.py", BASE), ("many.py", MANY)):
        (folder / path).write_text(text)
    return folder / "many.py"


@pytest.mark.slow
def test_kernels_of_a_library_are_found_at_import_and_by_guessed_calls(library: Path) -> None:
    tuned = tune_file(TuneRequest(file=str(library), target="h200", compile=1, measure=0))
    first, third, second = sorted(tuned.kernels, key=lambda k: ("at_import", "refused", "guessed").index(k.kernel))
    assert (first.kernel, first.call, first.considered, first.guessed) == ("at_import", "import", 2, False)
    assert (second.kernel, second.considered, second.guessed) == ("guessed", 3, True)
    assert second.call.startswith("more(x=float32[")
    [problem] = tuned.problems
    assert problem.startswith("refused in broken(label='')")
    assert "no configuration compiles" in problem
    assert third.compiled == 0
    assert first.best.registers
    assert second.best.registers


@pytest.mark.slow
def test_tensors_of_a_call_are_named_and_take_no_memory(library: Path) -> None:
    calls = ["more(float16[512, 512])", "large(1048576)"]
    tuned = tune_file(TuneRequest(file=str(library), calls=calls, target="h200", compile=0, measure=0))
    assert [(k.kernel, k.key, k.guessed) for k in tuned.kernels] == [
        ("guessed", {"N": 512 * 512}, False),
        ("at_import", {"N": 1 << 40}, False),
    ]


@pytest.mark.slow
def test_a_function_of_autograd_is_applied(kernel: Path, tmp_path: Path) -> None:
    path = tmp_path / "function.py"
    more = """

class Applied(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return run(x.numel())
"""
    path.write_text(kernel.read_text() + more)
    request = TuneRequest(
        file=str(path), calls=["Applied.apply(float32[64, 128])"], target="h200", compile=0, measure=0
    )
    assert [k.call for k in tune_file(request).kernels] == ["Applied.apply(float32[64, 128])"]


@pytest.mark.slow
def test_a_kernel_that_is_not_launched_again_keeps_its_forecasts_and_does_not_end_the_others(tmp_path: Path) -> None:
    path = tmp_path / "scale.py"
    path.write_text(
        f"{SOURCE}\nDONE = []\n\ndef second(n):\n    DONE.append(n)\n    return run(n) if DONE[1:] else None\n"
    )
    request = TuneRequest(
        file=str(path), calls=["second(1)", "second(4096)", "run"], target="h200", compile=1, measure=0
    )
    tuned = tune_file(request)
    assert [(k.call, k.chosen_by, bool(k.compiled)) for k in tuned.kernels] == [
        ("second(4096)", "forecast", False),
    ]
    assert any("second(4096) does not launch scale" in problem for problem in tuned.problems)


def test_an_error_that_prints_a_tensor_is_shortened(tmp_path: Path) -> None:
    path = tmp_path / "scale.py"
    path.write_text(f"{SOURCE}\ndef broken(n):\n    raise ValueError(str(list(range(n))))\n")
    with pytest.raises(CandidateError, match=r"broken\(900\): ValueError") as refused:
        tune_file(TuneRequest(file=str(path), calls=["broken(900)"], target="h200", measure=0))
    assert max(map(len, str(refused.value).splitlines())) < 500


def test_what_a_file_cannot_import_is_to_be_installed(tmp_path: Path) -> None:
    path = tmp_path / "scale.py"
    path.write_text(SOURCE.replace("    x = torch", "    import not_installed_here\n    x = torch"))
    with pytest.raises(CandidateError, match="ModuleNotFoundError") as refused:
        tune_file(TuneRequest(file=str(path), target="h200", measure=0))
    assert "install what the file imports" in str(refused.value.hint)


def test_code_that_inductor_wrote_is_called(tmp_path: Path) -> None:
    path = tmp_path / "scale.py"
    made = "empty_strided_cuda((n,), (1,), torch.float32)"
    named = "empty_strided_cuda = torch._C._dynamo.guards._empty_strided_cuda"
    path.write_text(SOURCE.replace("torch.empty_like(x)", made).replace("CONFIGS =", f"{named}\nCONFIGS =", 1))
    tuned = tune_file(TuneRequest(file=str(path), calls=["run(4096)"], target="h200", compile=0, measure=0))
    assert tuned.kernels[0].key == {"N": 4096}


@pytest.mark.slow
def test_configurations_beyond_the_files_own_are_told_and_not_chosen_unmeasured(kernel: Path) -> None:
    request = TuneRequest(file=str(kernel), calls=["run(1048576)"], target="h200", compile=4, measure=0, space=True)
    [found] = tune_file(request).kernels
    assert found.considered == 4 + found.proposed
    assert found.proposed > 10
    assert any(c.proposed and c.registers for c in found.configurations)
    assert not found.best.proposed
    assert found.best.registers


@pytest.mark.slow
def test_after_the_deadline_nothing_is_compiled(kernel: Path) -> None:
    tuned = tune_file(TuneRequest(file=str(kernel), target="h200", measure=0, deadline_s=0.001))
    assert tuned.kernels[0].compiled == 0
    assert "0.001 s were over" in tuned.problems[0]


def test_without_a_gpu_nothing_can_be_measured(kernel: Path) -> None:
    with pytest.raises(UsageError, match="to measure on"):
        tune_file(TuneRequest(file=str(kernel), target="b200", measure=4))


def test_a_kernel_in_another_language_needs_a_task(tmp_path: Path) -> None:
    (tmp_path / "kernel.cu").write_text("/*forewarp\nformat = 1\n*/")
    with pytest.raises(UsageError, match=r"kernel\.cu does not say what") as caught:
        tune_file(TuneRequest(file=str(tmp_path / "kernel.cu"), measure=0))
    assert "--task" in caught.value.hint


@pytest.mark.slow
def test_a_call_that_is_not_there_is_told(kernel: Path) -> None:
    with pytest.raises(CandidateError, match="no function walk"):
        tune_file(TuneRequest(file=str(kernel), calls=["walk"], target="h200", measure=0))


@pytest.mark.slow
def test_a_file_without_autotuned_kernels_is_told(tmp_path: Path) -> None:
    plain = tmp_path / "plain.py"
    plain.write_text("def run():\n    return 1\n")
    with pytest.raises(CandidateError, match=r"has no kernel under @triton\.autotune"):
        tune_file(TuneRequest(file=str(plain), target="h200", measure=0))


@pytest.mark.slow
def test_a_kernel_with_one_configuration_has_nothing_to_choose(tmp_path: Path) -> None:
    single = tmp_path / "single.py"
    single.write_text(SOURCE.replace("for b in (32, 1024) for w in (1, 4)", "for b in (32,) for w in (1,)"))
    with pytest.raises(CandidateError, match="nothing to choose for scale") as caught:
        tune_file(TuneRequest(file=str(single), target="h200", measure=0))
    assert "list several" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "content", "says", "hint"),
    [
        ("scael.py", None, "No such file", "did you mean scale.py?"),
        ("broken.py", "def f(:", "is no Python: invalid syntax", "autotuned kernels"),
        ("empty.py", "\n", "is empty", "kernel file"),
        (".", None, "Is a directory", "kernel file"),
    ],
)
def test_a_file_that_cannot_be_read_is_told(
    tmp_path: Path, name: str, content: str | None, says: str, hint: str
) -> None:
    (tmp_path / "scale.py").write_text(SOURCE)
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(CandidateError, match=says) as caught:
        tune_file(TuneRequest(file=str(tmp_path / name), target="h200", measure=0))
    assert hint in caught.value.hint


def test_a_table_that_cannot_be_written_is_told_before_anything_is_compiled(kernel: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place, says in ((tmp_path, "Is a directory"), (tmp_path / "file" / "table.json", "cannot be written")):
        with pytest.raises(UsageError, match=says):
            TuneJob(TuneRequest(file=str(kernel), target="h200", measure=0, table=str(place)))
    TuneJob(TuneRequest(file=str(kernel), target="h200", measure=0, table=str(tmp_path / "new" / "table.json")))
    assert (tmp_path / "new").is_dir()


def test_the_files_own_code_is_confined(kernel: Path) -> None:
    with pytest.raises(CandidateError, match="is launched by spy"):
        tune_file(TuneRequest(file=str(kernel), calls=["spy"], target="h200", measure=0))
    assert not Path("/etc/hostname.forewarp").exists()
