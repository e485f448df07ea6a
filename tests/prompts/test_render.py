from pathlib import Path

import jinja2
import pytest

from forewarp import prompts
from forewarp.core.values import Language, Signature, TensorSpec
from forewarp.gpu_runner.formats import candidate, plan
from forewarp.prompts.render import fenced, number, render, si


def test_missing_names_are_errors():
    with pytest.raises(jinja2.UndefinedError):
        render("forecast_user.j2")


def test_text_is_not_escaped(monkeypatch: pytest.MonkeyPatch):
    text = render("forecast_system.j2", bins=[{"label": "<a>", "range": "S < 1 & more", "place": "1"}])
    assert "| 1 | S < 1 & more | <a> |" in text


def test_fence_is_longer_than_any_inside():
    assert fenced("a", "cpp") == "```cpp\na\n```"
    assert fenced("x ```` y").startswith("`````\n")


@pytest.mark.parametrize(
    ("value", "text"), [(3.35e12, "3.35 TB/s"), (2e11, "200 GB/s"), (1.5e6, "1.5 MB/s"), (12.0, "12 B/s")]
)
def test_si(value: float, text: str):
    assert si(value, "B/s") == text


def test_number():
    assert (number(96.0), number(0.33333), number(1234567.0)) == ("96", "0.3333", "1234567")


@pytest.mark.parametrize("language", ["cpp", "cuda", "triton"])
def test_examples_in_prompts_are_well_formed(language: Language):
    example = candidate.from_source(render(f"_example_{language}.j2"), language)
    x = TensorSpec("x", (1000, 33), "float32")
    signature = Signature("w", (x,), {}, {}, (), (TensorSpec("y", x.shape, "float32"),), None, 0)
    resolved = plan.resolve(plan.parse(example), signature, example.tunables)
    assert len(resolved.launches) == 1
    assert example.tunables


def test_every_template_parses():
    folder = Path(prompts.__file__).parent
    names = [p.name for p in folder.glob("*.j2")]
    assert len(names) >= 8
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(folder))
    environment.filters.update(dict.fromkeys(("fenced", "si", "number"), str))
    for name in names:
        environment.get_template(name)
