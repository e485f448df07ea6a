"""The command `forewarp`; nothing is imported before Ctrl-C ends it quietly."""

from __future__ import annotations

import sys


def run() -> None:
    try:
        from forewarp.cli.main import main

        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)  # as `exits` says, which may not be imported yet
