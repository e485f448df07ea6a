"""What a run takes, from published numbers alone; the sizes are held against real models where the extra is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from forewarp.core.errors import DeviceError
from forewarp.gpu_runner import devices
from forewarp.training import config, plan
from forewarp.training.config import Config, Lora
from forewarp.training.plan import Sizes

RESULTS = Path(__file__).parents[2] / "benchmarks/results/train"
EXPERTS = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]
H200 = devices.known_targets()["h200"]


def gpt_oss() -> Sizes:
    found, where = plan.of_base("openai/gpt-oss-20b")
    assert found is not None
    assert where == "published config.json"
    return found


def run(**changes: Any) -> Config:
    return config.make({"base": "openai/gpt-oss-20b", "data": {"pools": []}} | changes)


def held(found: plan.TrainingPlan, name: str) -> float:
    return next((line.value for line in found.memory if line.name == name), 0.0)


def test_published_models_have_their_published_sizes() -> None:
    # The model card of gpt-oss: 20.9 and 116.8 billion in all, 3.6 and 5.1 of them active.
    small, (large, _) = gpt_oss(), plan.of_base("openai/gpt-oss-120b")
    assert large is not None
    assert (round(small.weights / 1e9, 1), round(small.active / 1e9, 1)) == (20.9, 3.6)
    assert (round(large.weights / 1e9, 1), round(large.active / 1e9, 1)) == (116.8, 5.1)


def test_an_adapter_counts_inputs_and_outputs_of_each_module() -> None:
    small = gpt_oss()
    each = 2880 + 4096, 2880 + 512, 2880 + 512, 4096 + 2880
    assert small.adapter(Lora(rank=32)) == (24 * 32 * sum(each), [])
    experts = 24 * 32 * 32 * (2880 + 5760 + 2880 + 2880)
    assert small.adapter(Lora(rank=32, experts=EXPERTS)) == (24 * 32 * sum(each) + experts, [])
    assert small.adapter(Lora(modules=["gate_proj"])) == (0, ["gate_proj"])


def test_what_a_plan_holds() -> None:
    found = plan.plan(run(attention="flex_attention", grpo={"at_once": 8}), gpt_oss(), H200)
    assert held(found, "weights") == pytest.approx(20.91e9 * 2 / 2**30, rel=1e-3)
    assert held(found, "adapter with its optimiser") == pytest.approx(15.925e6 * 16 / 2**30, rel=1e-3)
    assert found.fits
    assert {line.origin for line in (*found.memory, *found.time)} == {"computed"}
    learning = sum(line.value for line in found.memory if line.phase in ("always", "learning"))
    generation = sum(line.value for line in found.memory if line.phase in ("always", "generation"))
    assert found.peak_gib == max(learning, generation)


def test_all_prompts_of_a_step_at_once_are_advised_against() -> None:
    found = plan.plan(run(attention="flex_attention"), gpt_oss(), H200)
    assert found.fits is False
    assert any("grpo.at_once = 8" in a for a in found.advice)


def test_the_peak_that_was_measured_is_foreseen() -> None:
    """Of the recorded runs of a model of 28 million weights on an H200, which answered 128 prompts at once."""
    numbers = {"model_type": "llama", "hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 8}
    numbers |= {"num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 5634, "tie_word_embeddings": True}
    recorded = json.loads((RESULTS / "train_surrogate_0.json").read_text())
    found = plan.of_config(numbers)
    assert found is not None
    assert found.weights == recorded["weights"]
    grpo = {"prompts": 12, "sequences": 8, "prompt_tokens": 3072, "reply_tokens": 40}
    told = run(lora={"modules": "all-linear"}, grpo=grpo, watch={"sequences": 128})
    made = plan.plan(told, found, H200, tokens=[recorded["prompt_tokens"]["most"]])
    measured = max(r["peak_gib"] for r in recorded["runs"] if r["peak_gib"])
    assert made.peak_gib == pytest.approx(measured, rel=0.1)


def test_eager_attention_over_long_prompts_is_advised_against() -> None:
    found = plan.plan(run(), gpt_oss(), H200)
    assert found.fits is False
    assert any("flex_attention" in a for a in found.advice)
    short = plan.plan(run(grpo={"prompt_tokens": 2048, "reply_tokens": 512, "at_once": 8}), gpt_oss(), H200)
    assert short.fits
    assert not short.advice


def test_more_of_anything_takes_more() -> None:
    plain = plan.plan(run(attention="flex_attention"), gpt_oss(), H200)
    for changes in (
        {"lora": {"experts": EXPERTS}},
        {"grpo": {"group": 16}},
        {"grpo": {"reply_tokens": 16_384}},
        {"dtype": "float32"},
    ):
        more = plan.plan(run(attention="flex_attention", **changes), gpt_oss(), H200)
        assert more.peak_gib > plain.peak_gib or changes == {"lora": {"experts": EXPERTS}}
        assert sum(x.value for x in more.memory if x.unit == "GiB") > sum(
            x.value for x in plain.memory if x.unit == "GiB"
        )
    counted = plan.plan(run(attention="flex_attention"), gpt_oss(), H200, tokens=[100, 900, 400])
    assert counted.memory[0].value == 900
    assert counted.memory[0].origin == "measured"
    assert counted.peak_gib < plain.peak_gib


def test_a_large_model_needs_a_gpu_that_holds_it() -> None:
    with pytest.raises(DeviceError, match=r"20\.9 billion weights, and torch finds no CUDA GPU"):
        plan.check("openai/gpt-oss-20b", gpt_oss(), None)
    with pytest.raises(DeviceError, match="take 39 GiB, and the GPU has 24 GiB"):
        plan.check("openai/gpt-oss-20b", gpt_oss(), devices.known_targets()["rtx4090"])
    plan.check("openai/gpt-oss-20b", gpt_oss(), H200)
    plan.check("unknown", None, None)


def test_a_kind_of_model_that_is_not_known_is_not_guessed_at(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "mamba"}')
    assert plan.of_base(str(tmp_path)) == (None, "config.json")
    assert plan.of_base("nobody/knows-this") == (None, "")


def test_steps_that_were_made_are_measured(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    assert plan.measured_step(path) is None
    lines = [{"phase": "grpo", "step": i, "seconds": s} for i, s in ((1, 30.0), (2, 34.0), (3, 38.5), (4, 42.0))]
    # After a process that went on from step 2, its clock begins anew.
    lines += [{"phase": "watch", "step": 4, "seconds": 43.0}, {"phase": "grpo", "step": 3, "seconds": 9.0}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert plan.measured_step(path) == 4.0


@pytest.mark.slow
def test_sizes_are_those_of_the_models_that_transformers_makes() -> None:
    transformers = pytest.importorskip("transformers", reason="the extra train is not installed")
    import torch

    small = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4}
    small |= {"num_key_value_heads": 2, "vocab_size": 500}
    asked = [(name, small | {"tie_word_embeddings": t}) for name in ("Qwen2", "Qwen3", "Llama") for t in (True, False)]
    asked += [("Llama", small | {"attention_bias": True}), ("Mistral", small)]
    asked += [("GptOss", dict(published)) for published in plan.KNOWN.values()]
    for name, values in asked:
        values.pop("model_type", None)
        made = getattr(transformers, f"{name}Config")(**values)
        with torch.device("meta"):
            count = sum(p.numel() for p in getattr(transformers, f"{name}ForCausalLM")(made).parameters())
        found = plan.of_config(made.to_dict())
        assert found is not None
        assert found.weights == count, name
