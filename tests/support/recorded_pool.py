"""A recorded pool of the synthetic device, as files: a KernelBench task, its seed kernel and the pool itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from support import synthetic_executor as synthetic

from forewarp.archive.pools.parquet import write_rows
from forewarp.archive.rows import RecordedRow
from forewarp.core.values import Candidate
from forewarp.gpu_runner.formats import plan
from forewarp.gpu_runner.formats import task as tasks


@dataclass(frozen=True)
class Recorded:
    """Paths of what a command needs to replay."""

    task: str
    pool: str
    seed: str
    broken: str

    @property
    def flags(self) -> list[str]:
        return ["--device", "replay", "--pool", self.pool]


def record(folder: Path, every: int = 7) -> Recorded:
    """Measure every `every`-th choice of tunables, the defaults, and a kernel that does not compile."""
    task_file, seed_file, broken_file = folder / "toy.py", folder / "toy.cpp", folder / "broken.cpp"
    task_file.write_text(synthetic.REFERENCE)
    seed_file.write_text(synthetic.SOURCE)
    broken_file.write_text(synthetic.SOURCE + "#error\n")
    task, executor = tasks.load(str(task_file)), synthetic.SyntheticExecutor()
    seed = synthetic.seed()
    combinations = list(plan.parse(seed).combinations())
    kernels = [seed, synthetic.seed(synthetic.SOURCE + "#error\n")]
    kernels += [Candidate(seed.source, seed.language, t) for t in combinations[::every] if t != seed.tunables]
    rows: list[RecordedRow] = []
    for kernel in kernels:
        build = executor.compile(task, kernel)
        measurement = executor.measure(task, kernel, build)
        signatures = executor.describe(task)
        rows.append(
            RecordedRow(task, executor.target, signatures, kernel, build, measurement, None, "2026-11-20T00:00:00", "0")
        )
    pool = folder / "pool.parquet"
    write_rows(rows, pool)
    return Recorded(str(task_file), str(pool), str(seed_file), str(broken_file))
