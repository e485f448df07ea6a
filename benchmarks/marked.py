"""Tables between marks of a document, for other scripts."""

from __future__ import annotations

from collections.abc import Mapping


def filled(text: str, parts: Mapping[str, str]) -> str:
    """Return a document with the text between each pair of marks replaced."""
    for name, part in parts.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n{part}\n{end}{rest.partition(end)[2]}"
    return text
