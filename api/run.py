"""Results of searches as Python objects: their figures, their files, and their display in notebooks."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Self

from pydantic import PrivateAttr

from forewarp.archive.store import Archive
from forewarp.tools.run_report import BestKernel, SearchResult


class Run(SearchResult):
    """Result of a run: `summary`, `best` with its `source`, `counts`, `budget`, `candidates` and more.

    It is a copy of what the archive said: `forewarp.load(run.run_id)` reads a run anew.
    """

    _archive: Path = PrivateAttr()

    @classmethod
    def recorded(cls, result: SearchResult, archive: Path) -> Self:
        """Copy a result and remember the archive that holds the run."""
        made = cls(**dict(result))
        made._archive = archive.absolute()
        return made

    def save(self, folder: str | Path) -> dict[str, Path]:
        """Write the run's files, those that `forewarp optimize` leaves, and return them by kind.

        The kinds are kernel, module, evidence, candidates, report and result; kernel, module and evidence are missing
        while nothing worked, the module also where none can be made, which the evidence explains. Raises `UsageError`
        where the folder cannot be written.
        """
        from forewarp.report import artifacts
        from forewarp.report.documents import SearchDocument

        document = SearchDocument(command="optimize", **dict(self))
        with Archive(self._archive) as archive:
            written = artifacts.write(document, Path(folder).expanduser(), archive)
        return {a.kind: Path(a.path) for a in written.artifacts}

    def __repr__(self) -> str:
        found = self.best.speedup if self.best else "no correct kernel"
        return f"<forewarp run {self.run_id} of {self.task}, {self.status}: {found}>"

    def _repr_html_(self) -> str:
        head = f"<p><b>{escape(self.summary)}</b></p>"
        return head + (_winner(self.best) if self.best else "")


def _winner(best: BestKernel) -> str:
    rows = "".join(
        f"<tr><td>{escape(w.name)}</td><td>{escape(str(w.speedup))}</td><td>{w.verdict}</td>"
        f"<td>{w.candidate_us.median:.4g}</td><td>{w.reference_us.median:.4g}</td></tr>"
        for w in best.workloads
    )
    head = "<tr><th>shape</th><th>speed-up [95 %]</th><th>verdict</th><th>µs</th><th>reference µs</th></tr>"
    return (
        f"<table>{head}{rows}</table><details><summary>{best.kernel.language} kernel {best.kernel.short}</summary>"
        f"<pre>{escape(best.source)}</pre></details>"
    )
