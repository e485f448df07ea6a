"""Options that the operator sets when the server starts, and no client can change."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from forewarp.core.budget import Budget
from forewarp.tools.parts import Part, Place
from forewarp.tools.requests import BaseUrl


class ServerOptions(Part):
    """Options of a server, by the names of their flags."""

    place: Place = Place()
    max_measurements: int | None = Field(
        default=None, gt=0, description="Most measurements of all clients of this archive in `window` hours."
    )
    max_gpu_seconds: float | None = Field(
        default=None, gt=0, description="Most seconds for which all clients may hold the device in `window` hours."
    )
    max_usd: float | None = Field(
        default=None, gt=0, description="Most dollars of all clients for language models in `window` hours."
    )
    max_tokens: int | None = Field(
        default=None, gt=0, description="Most tokens of language models of all clients in `window` hours."
    )
    session_measurements: int | None = Field(
        default=None, gt=0, description="Most measurements of one client's session."
    )
    session_gpu_seconds: float | None = Field(
        default=None, gt=0, description="Most seconds for which one session may hold the device."
    )
    session_usd: float | None = Field(default=None, gt=0, description="Most dollars of one session.")
    session_tokens: int | None = Field(default=None, gt=0, description="Most tokens of one session.")
    window: float = Field(default=24.0, gt=0, description="Hours after which what was spent is forgotten.")
    max_searches: int = Field(default=2, gt=0, description="Most runs at a time.")
    workspace: Path | None = Field(
        default=None, description="The only folder whose files clients may name; the working folder if left out."
    )
    model: list[str] | None = Field(
        default=None, description="Language model that clients may name. Any on stdio, none over HTTP, if left out."
    )
    base_url: BaseUrl = None
    gate_python: list[Path] = Field(
        default_factory=list[Path], description="Python that clients may name for checks of locks; none if left out."
    )
    keep_warm: float = Field(
        default=120.0, gt=0, description="Seconds after which the measuring process ends that has nothing to do."
    )

    def budgets(self) -> dict[str, Budget]:
        """Return the caps of all clients of the archive together, the server's, and those of each session."""
        return {
            "server": Budget(self.max_measurements, self.max_gpu_seconds, self.max_usd, self.max_tokens),
            "session": Budget(
                self.session_measurements, self.session_gpu_seconds, self.session_usd, self.session_tokens
            ),
        }

    def folder(self) -> Path:
        return (self.workspace or Path.cwd()).expanduser().absolute()
