from __future__ import annotations

from forewarp.tools.parts import Device
from forewarp.tools.suite_results import SuiteResult, SuiteRow, view
from forewarp.tools.suite_tables import as_markdown


def result(**fields: str) -> SuiteResult:
    row = SuiteRow.model_validate({"problem": "p", "kernel": "k", "status": "incorrect"} | fields)
    scores = view([[row]], ["eager"])
    return SuiteResult(
        summary="s",
        status="finished",
        device=Device(name="d", kind="cpu", arch="x"),
        versions={},
        baselines=["eager"],
        problems=1,
        kernels=1,
        best=scores,
        per_sample=scores,
        statuses={},
        verdicts={},
        rows=[row],
        compiled=[],
        unmatched=[],
        output="out",
        seconds=0.0,
    )


def test_markdown_shows_text_as_it_is() -> None:
    shown = as_markdown(result(kernel="a|b <img src=x> [l](u) `c`\x1b[2J\nd @user ~~e~~ &amp;"))
    assert "a\\|b &lt;img src=x&gt; \\[l](u) \\`c\\`\\[2J d @<!-- -->user \\~\\~e\\~\\~ &amp;amp;" in shown
