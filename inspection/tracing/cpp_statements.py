"""Boundaries of C++ statements, and the places of assignments, launches, lambdas and loops in them."""

from __future__ import annotations

from collections.abc import Sequence

from forewarp.gpu_runner.compilers.extension.tokens import Token, closing


def assignment(piece: Sequence[Token]) -> int:
    """Return where the `=` of an assignment stands; -1 for none."""
    i = 0
    while i < len(piece):
        token = piece[i]
        if token.kind == "sign" and token.text in "([{":
            i = closing(piece, i)
        elif token.text == "=" and i:
            before, after = piece[i - 1], piece[i + 1] if i + 1 < len(piece) else None
            if after is not None and after.text == "=" and after.start == token.end:
                return -1
            if not (before.text in "<>!=" and before.kind == "sign" and before.end == token.start):
                return i
            if before.text != ">":
                return -1
            return i
        i += 1
    return -1


def compound_sign(one: Token, other: Token) -> bool:
    """Return whether `one` is the sign of a compound assignment whose `=` is `other`."""
    return one.kind == "sign" and one.text in "+-*/%&|^" and one.end == other.start


def triple(found: Sequence[Token], sign: str, first: int) -> int:
    """Return where three signs in a row stand from `first` on, such as those of a launch; -1 for nowhere."""
    for i in range(first, len(found) - 2):
        three = found[i : i + 3]
        if all(t.text == sign and t.kind == "sign" for t in three) and three[2].end - three[0].start == 3:
            return i
    return -1


def is_lambda(found: Sequence[Token], place: int) -> bool:
    """Return whether a square bracket begins a lambda."""
    end = closing(found, place)
    return end + 1 < len(found) and found[end + 1].text in ("(", "{") and (not place or found[place - 1].kind != "name")


def plain_end(found: Sequence[Token], i: int) -> int:
    """Return where the `;` of the statement at `i` stands."""
    while i < len(found) and found[i].text != ";":
        i = closing(found, i) + 1 if found[i].kind == "sign" and found[i].text in "([{" else i + 1
    return i


def statement_end(found: Sequence[Token], i: int) -> int:
    """Return where the statement after the one at `i` begins."""
    if i >= len(found):
        return i
    if found[i].text == "{":
        return closing(found, i) + 1
    if found[i].text in ("if", "for", "while", "switch"):
        at = i + 2 if found[i + 1].text == "constexpr" else i + 1
        end = statement_end(found, closing(found, at) + 1)
        if found[i].text == "if" and end < len(found) and found[end].text == "else":
            return statement_end(found, end + 1)
        return end
    if found[i].text in ("do", "try"):
        end = statement_end(found, i + 1)
        return plain_end(found, end) + 1 if found[i].text == "do" else statement_end(found, closing(found, end + 1) + 1)
    return plain_end(found, i) + 1


def loop_parts(found: Sequence[Token]) -> list[list[Token]]:
    """Split what is in the brackets of a `for` at its semicolons."""
    parts: list[list[Token]] = [[]]
    for token in found:
        if token.text == ";" and token.kind == "sign":
            parts.append([])
        else:
            parts[-1].append(token)
    return parts
