from __future__ import annotations

import random

import pytest

from forewarp.core.values import Candidate
from forewarp.export.bake import bake
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import plan
from forewarp.gpu_runner.formats import task as tasks


@pytest.mark.parametrize("name", tasks.bundled())
def test_every_bundled_seed_keeps_its_chosen_tunables(name: str) -> None:
    rng = random.Random(name)
    for seed in tasks.load(name).seeds:
        parsed = plan.parse(seed)
        for tunables in rng.sample(list(parsed.combinations()), 5):
            baked = candidates.from_source(bake(Candidate(seed.source, seed.language, tunables)), seed.language)
            assert baked.tunables == tunables
            again = plan.parse(baked)
            assert {k: sorted(v) for k, v in again.tunables.items()} == {
                k: sorted(v) for k, v in parsed.tunables.items()
            }


def test_a_module_has_nothing_to_bake() -> None:
    module = Candidate("class ModelNew: ...\n", "python")
    assert bake(module) == module.source


def test_a_plan_that_cannot_be_edited_is_left_alone() -> None:
    source = '/*forewarp\ninputs=["x"]\noutputs=["y"]\n"tunables"."A B" = [1, 2]\n[[launch]]\nkernel="k"\nargs=[]\n*/\n'
    chosen = Candidate(source, "cpp", {"A B": 2})
    assert bake(chosen) in (source, source.replace("[1, 2]", "[2, 1]"))


def test_a_modules_tunables_are_its_constants_and_first_among_their_choices() -> None:
    source = '"""forewarp\n[tunables]\nBLOCK = [64, 128]\n"""\nBLOCK = 64\nclass ModelNew: ...\n'
    assert bake(Candidate(source, "python", {"BLOCK": 128})) == source.replace("[64, 128]", "[128, 64]").replace(
        "BLOCK = 64\nclass", "BLOCK = 128\nclass"
    )
