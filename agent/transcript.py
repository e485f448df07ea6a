"""Conversations as files: one JSON line per event, written as it happens, so that a killed terminal loses nothing.

A file lies beside the archive, in `conversations/ID.jsonl`. Its first line is the header. A line of type `Messages`
holds what the model is to remember beyond its first `kept` messages, in place of what it remembered there before. A
long text, such as that of a file, stands in the first line that holds it only: `{"same": "…"}` names it later by hash.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, cast

from forewarp.agent import events
from forewarp.agent.events import ConversationEvent, TextDelta, ThoughtDelta, UserSaid
from forewarp.core import serde
from forewarp.core.errors import UsageError
from forewarp.core.untrusted_text import escaped_json
from forewarp.tools.parts import Place
from forewarp.tools.steps import CandidateForecast

VERSION = 2
SHARED_FROM = 200
"""Characters from which a text is written once."""
FOLDER = "conversations"
_FLUSH_S = 1.0


@dataclass(frozen=True, slots=True)
class Header:
    """Entry in the list of conversations. `began` is in seconds since 1970; `title` is the user's first message."""

    id: str
    folder: str
    began: float
    version: int = VERSION
    title: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class RecordedConversation:
    """A conversation as it was recorded. `messages` is what the model remembers, as JSON-ready data."""

    header: Header
    events: tuple[ConversationEvent, ...] = ()
    messages: tuple[Any, ...] = field(default=())


class Transcript:
    """Appends to the file of one conversation; use from one thread.

    A disk that is full ends the recording, not the conversation: `problem` says so.
    """

    def __init__(self, path: Path, header: Header) -> None:
        self.header, self.path, self.problem = header, path, ""
        self._file: IO[str] | None = None
        self._text, self._since = "", 0.0
        self._kind: type[TextDelta | ThoughtDelta] = TextDelta
        self._texts: dict[str, str] = {}

    @classmethod
    def begin(cls, place: Place, folder: Path) -> Transcript:
        """Return the transcript of a new conversation; its file is made with the first event."""
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
        path = home(place) / f"{name}.jsonl"
        return cls(path, Header(name, str(folder.resolve()), time.time(), path=str(path)))

    def write(self, event: ConversationEvent) -> None:
        """Append an event; pieces of text are gathered for up to a second."""
        if isinstance(event, TextDelta | ThoughtDelta):
            if type(event) is not self._kind:
                self.flush()
            self._kind, self._since = type(event), self._since or time.monotonic()
            self._text += event.text
            if time.monotonic() - self._since >= _FLUSH_S:
                self.flush()
            return
        self.flush()
        self._line(events.to_data(event))

    def remember(self, kept: int, messages: Iterable[Any]) -> None:
        """Append what the model remembers after its first `kept` messages, as JSON-ready data."""
        self.flush()
        self._line({"type": "Messages", "kept": kept, "messages": [_with_parsed_calls(m) for m in messages]})

    def flush(self) -> None:
        if self._text:
            text, self._text, self._since = self._text, "", 0.0
            self._line(events.to_data(self._kind(text)))

    def close(self) -> None:
        self.flush()
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    def _line(self, data: dict[str, Any]) -> None:
        if self.problem:
            return
        lines = [{"at": round(time.time(), 3), **_shared(data, self._texts)}]
        try:
            if self._file is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                if not self.path.exists():
                    lines.insert(0, {"type": "Header", **serde.to_data(replace(self.header, path=""))})
                self._file = self.path.open("a", encoding="utf-8")
            for line in lines:
                self._file.write(escaped_json(json.dumps(line, ensure_ascii=False)) + "\n")
                self._file.flush()
        except OSError as e:
            self.problem = f"this conversation is no longer recorded: {self.path}: {e.strerror or e}"
            self.close()


def _with_parsed_calls(message: Any) -> Any:
    """Return a message with the arguments of its calls as data, in which texts can be shared."""
    parts = [
        p | {"args": _loaded(p["args"]) or p["args"]} if isinstance(p.get("args"), str) else p for p in message["parts"]
    ]
    return message | {"parts": parts}


def _shared(data: Any, known: dict[str, str]) -> Any:
    """Return data with references in place of the long texts that are known already, and note the others."""
    match data:
        case str() if len(data) >= SHARED_FROM:
            if data in known:
                return {"same": known[data]}
            known[data] = _hash(data)
        case dict():
            return {key: _shared(value, known) for key, value in cast("dict[str, Any]", data).items()}
        case list() | tuple():
            return [_shared(value, known) for value in cast("list[Any]", data)]
        case _:
            pass
    return data


def _whole(data: Any, known: dict[str, str]) -> Any:
    """Return data with the texts that references stand for, and note the long ones."""
    match data:
        case str() if len(data) >= SHARED_FROM:
            known[_hash(data)] = data
        case {"same": str(name)} if len(cast("dict[str, Any]", data)) == 1 and name in known:
            return known[name]
        case dict():
            return {key: _whole(value, known) for key, value in cast("dict[str, Any]", data).items()}
        case list():
            return [_whole(value, known) for value in cast("list[Any]", data)]
        case _:
            pass
    return data


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def home(place: Place) -> Path:
    from forewarp.tools.runs import home as beside

    return beside(place) / FOLDER


def read(path: Path) -> RecordedConversation:
    """Read a conversation; a last line that was cut off by a kill is left out. Raises `UsageError` for another file."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as e:
        raise UsageError(f"{path} cannot be read: {e.strerror}", hint="`/resume` lists the conversations") from None
    lines = text.split("\n")  # U+2028 and the like, as earlier versions wrote them, end no line of JSON
    header, found, messages = _header(path, lines[0] if lines else ""), list[ConversationEvent](), tuple[Any, ...]()
    texts: dict[str, str] = {}
    for line in lines[1:]:
        data = _whole(_loaded(line), texts)
        if data.get("type") == "Messages":
            messages = (*messages[: int(data.get("kept", 0))], *data.get("messages", ()))
        elif (event := _event(data)) is not None:
            if isinstance(event, CandidateForecast):  # version 1 named the kernel whose text it was
                event = replace(event, source=event.source or texts.get(str(data.get("text_of")), ""))
                texts.setdefault(event.kernel, event.source)
            found.append(event)
    return RecordedConversation(_titled(header, found), tuple(found), messages)


def conversations(place: Place) -> list[Header]:
    """Return the headers of all conversations, the latest first."""
    found: list[Header] = []
    for path in home(place).glob("*.jsonl"):
        with contextlib.suppress(OSError, UsageError), path.open(encoding="utf-8", errors="replace") as file:
            header = _header(path, file.readline())
            first = _event(_loaded(file.readline()))
            found.append(_titled(header, [first] if first is not None else []))
    return sorted(found, key=lambda h: h.began, reverse=True)


def latest(folder: Path, place: Place) -> Header | None:
    return next((h for h in conversations(place) if h.folder == str(folder.resolve())), None)


def find(name: str, place: Place) -> Header:
    """Return the conversation with an id, or with a unique beginning of one; raises `UsageError`."""
    fitting = [h for h in conversations(place) if h.id.startswith(name)]
    exact = [h for h in fitting if h.id == name]
    if len(exact or fitting) == 1:
        return (exact or fitting)[0]
    many = f"{len(fitting)} conversations begin with {name}" if fitting else f"there is no conversation {name}"
    raise UsageError(many, hint="`/resume` without a name lists them")


def _header(path: Path, line: str) -> Header:
    data = _loaded(line)
    if data.get("type") != "Header":
        raise UsageError(f"{path} is no conversation of forewarp", hint="pass a file of the folder `conversations`")
    if int(data.get("version", 0)) > VERSION:
        raise UsageError(f"{path} was written by a newer forewarp", hint="upgrade with pip install -U forewarp")
    return replace(serde.from_data(Header, data), path=str(path))


def _titled(header: Header, found: Iterable[ConversationEvent]) -> Header:
    first = next((e.text for e in found if isinstance(e, UserSaid)), "")
    return replace(header, title=" ".join(first.split())[:80])


def _loaded(line: str) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _event(data: dict[str, Any]) -> ConversationEvent | None:
    with contextlib.suppress(TypeError, ValueError, AttributeError, KeyError):
        return events.from_data(data)
    return None
