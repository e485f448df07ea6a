"""A search in a process of its own, which outlives the server that asked for it.

`python -m forewarp.mcp_server.searcher HOME JOB` reads the request from the job's folder, writes the run's id there as
`run`, and files of the run below HOME. What keeps it from beginning is in the job's `result.json`.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
from pathlib import Path

from forewarp.core.errors import ForewarpError
from forewarp.mcp_server.spool import Spool, error_of
from forewarp.report import artifacts
from forewarp.tools.search import SearchRequest, open_search
from forewarp.tools.signals import stopping


def main(home: Path, job_id: str) -> int:
    """Do the search of one job; return 1 where it ended before its time."""
    spool, error = Spool(home), None
    try:
        with open_search(SearchRequest.model_validate(spool.job(job_id).request)) as search:
            spool.write(job_id, "run", search.run_id)
            try:
                with stopping(search, logging.getLogger(__name__).warning, (signal.SIGTERM,)):
                    for _ in search.events():
                        pass
            except Exception as e:
                error = e
            artifacts.leave(search, "optimize", error, home / "forewarp-runs" / search.run_id)
    except ForewarpError as e:
        spool.write(job_id, "result.json", json.dumps({"error": error_of(e)}))
        return 1
    return int(error is not None)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
