"""JSON with comments: what is read, refused, and changed in place."""

from __future__ import annotations

import pytest

from forewarp.cli import jsonc

TEXTS = [
    "{}",
    '{"a": 1}',
    '{"a": 1,}',
    '{\n  "a": 1 // one\n}',
    '{\n  "a": 1, /* one */\n  // end\n}\n',
    '{"s": {"b": "// no comment"}, "a": [1, {"c": null},]}',
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_member_is_added_changed_and_taken_away(text: str) -> None:
    held = jsonc.loads(text)
    added = jsonc.with_member(text, ("s", "new"), {"x": [1, 2]})
    assert jsonc.loads(added) == held | {"s": held.get("s", {}) | {"new": {"x": [1, 2]}}}
    changed = jsonc.with_member(added, ("s", "new", "x"), 3)
    assert jsonc.loads(changed)["s"]["new"] == {"x": 3}
    gone = jsonc.without_member(changed, ("s", "new"))
    assert jsonc.loads(gone) == {"s": {}} | held
    for mark in ("// one", "/* one */", "// end"):
        assert (mark in gone) is (mark in text)


@pytest.mark.parametrize(
    "text", ["", "{", "{'a': 1}", '{"a" 1}', '{"a": 1} x', '{"a": 1, "a": 2}', '{"a": "\n"}', "[1, 2"]
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        jsonc.loads(text)


def test_only_objects_take_members() -> None:
    with pytest.raises(ValueError, match="s is no object"):
        jsonc.with_member('{"s": 3}', ("s", "new"), 1)
