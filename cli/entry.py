"""The command `forewarp`; nothing is imported before Ctrl-C ends it quietly."""

from __future__ import annotations

import os
import sys


def run() -> None:
    try:
        from forewarp.cli.main import main

        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)  # as `exits` says, which may not be imported yet
    except Exception as error:  # `main` raises none: this one came while it was imported
        last = error.__traceback__
        while last is not None and last.tb_next is not None:
            last = last.tb_next
        file = last.tb_frame.f_code.co_filename if last else ""
        folders = [os.path.abspath(f) + os.sep for f in os.environ.get("PYTHONPATH", "").split(os.pathsep) if f]
        if not file.startswith(tuple(folders)) or f"{os.sep}forewarp{os.sep}" in file:
            raise
        sys.exit(f"forewarp: {file!r}, which PYTHONPATH puts before what forewarp needs, raised {error!r}")
