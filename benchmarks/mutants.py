"""Change small things in the modules that numbers rest on, one at a time, and check that their tests fail.

    pip install cosmic-ray
    python benchmarks/mutants.py --each 40 --out benchmarks/results/mutants.json

Mutants are cosmic-ray's: a comparison, an arithmetic or boolean operator or a number replaced by another, `not`
removed. From each module so many are drawn with a fixed seed, and each is tried in a copy of this checkout. "survived"
lists those that no test noticed. Operators that no author would confuse, such as a shift for a sum, are left out. With
`--only`, what `--out` says of other modules stays.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import random
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from provenance import write
from removed_rules import ROOT, tested

MODULES = {
    "gpu_runner/statistics.py": "tests/gpu_runner/test_statistics.py tests/gpu_runner/test_looks.py",
    "gpu_runner/executors/verdicts.py": (
        "tests/gpu_runner/test_verdicts.py tests/gpu_runner/test_looks.py tests/gpu_runner/test_blame.py"
    ),
    "gpu_runner/worker/timing.py": (
        "tests/gpu_runner/test_schedule.py tests/gpu_runner/test_judge.py tests/gpu_runner/test_looks.py"
    ),
    "search/policy.py": "tests/search/test_policy.py",
    "search/budget.py": "tests/search/test_budget.py tests/search/test_price.py",
    "search/puct.py": "tests/search/test_puct.py",
    "surrogate/calibration.py": "tests/surrogate/test_calibration.py",
}
ABSURD = re.compile(r"_(RShift|LShift|BitOr|BitAnd|BitXor|FloorDiv|Mod|Pow)(_|$)|UnaryOperator_.*Invert|_Is|Decorator")


def mutants(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the module's text with each change in turn, behind the name of the operator that made it."""
    from cosmic_ray import plugins
    from cosmic_ray.ast import ast_nodes, get_ast_from_path
    from cosmic_ray.mutating import mutate_code

    text, tree = path.read_text(), get_ast_from_path(path)
    for name in plugins.operator_names():
        kind = plugins.get_operator(name)
        if ABSURD.search(name) or kind.arguments():
            continue
        count = sum(1 for node in ast_nodes(tree) for _ in kind().mutation_positions(node))
        for occurrence in range(count):
            changed = mutate_code(text, kind(), occurrence)
            if changed is None or changed == text:
                continue
            # The star before keyword arguments is taken for an operator, too: what comes of it often is no Python.
            with contextlib.suppress(SyntaxError):
                if "BinaryOperator" in name and operators(changed) == operators(text):
                    continue
                yield name.removeprefix("core/"), changed


def operators(text: str) -> list[type[ast.operator]]:
    """Return the binary operators of a module in order."""
    return [type(node.op) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.BinOp | ast.AugAssign)]


def difference(old: str, new: str) -> tuple[int, str, str]:
    """Return the first line that differs: its number, and how it stood and stands."""
    pairs = zip(old.splitlines(), new.splitlines(), strict=False)
    number, (before, after) = next((i, pair) for i, pair in enumerate(pairs, 1) if pair[0] != pair[1])
    return number, before.strip(), after.strip()


def tried(folder: Path, module: str, each: int) -> dict[str, Any]:
    """Try mutants of one module and say how many its tests noticed."""
    path, tests = folder / module, MODULES[module]
    text = path.read_text()
    found = list(mutants(path))
    drawn = random.Random(module).sample(found, min(each, len(found)))
    status, log, _ = tested(folder, tests)
    if status:
        raise SystemExit(f"{tests} fails without any change:\n{log}")
    survived: list[dict[str, Any]] = []
    for operator, changed in drawn:
        path.write_text(changed)
        try:
            status, _, _ = tested(folder, tests)
        finally:
            path.write_text(text)
        if status == 0:
            line, before, after = difference(text, changed)
            survived.append({"operator": operator, "line": line, "before": before, "after": after})
            print(f"{module}:{line}: {before}  ->  {after}", flush=True)
    return {
        "module": module,
        "tests": tests,
        "mutants": len(found),
        "tried": len(drawn),
        "noticed": len(drawn) - len(survived),
        "survived": survived,
    }


def main() -> None:
    """Try mutants of each module and write the file after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=40, help="mutants of each module")
    parser.add_argument("--only", default="", help="modules with this in their path")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    earlier = json.loads(args.out.read_text())["modules"] if args.out.exists() else []
    rows: dict[str, dict[str, Any]] = {row["module"]: row for row in earlier}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "copy"
        shutil.copytree(ROOT, folder, symlinks=True, ignore=shutil.ignore_patterns(".git", "__pycache__", "results"))
        for module in (m for m in MODULES if args.only in m):
            rows[module] = row = tried(folder, module, args.each)
            print(f"{module}: {row['noticed']} of {row['tried']} noticed", flush=True)
            kept = [rows[m] for m in MODULES if m in rows]
            noticed, count = (sum(r[key] for r in kept) for key in ("noticed", "tried"))
            write(args.out, {"tried": count, "noticed": noticed, "modules": kept})


if __name__ == "__main__":
    main()
