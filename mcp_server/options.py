"""Options that the operator sets when the server starts, and no client can change."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from forewarp.core.budget import OPEN, Budget
from forewarp.tools.parts import Place


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Options of a server.

    `workspace` is the only folder whose files clients may name. `server` caps what all clients of this archive spend in
    `window_s` seconds, `session` what one client's session spends. `models` are the language models that clients may
    name, all of them where it is None; `base_url` serves those called openai:NAME. `soft_deadline_s` is how long a call
    may wait before it becomes a handle; `keep_warm_s` how long the measuring process stays without work.
    """

    place: Place = field(default_factory=Place)
    workspace: Path = field(default_factory=Path.cwd)
    server: Budget = OPEN
    session: Budget = OPEN
    window_s: float = 86_400.0
    max_searches: int = 2
    models: tuple[str, ...] | None = None
    base_url: str | None = None
    soft_deadline_s: float = 40.0
    keep_warm_s: float = 120.0
