"""The command line in a process that sends itself signals at a chosen place: `python THIS TABLE COUNT SIGNALS …`.

The rest are the arguments. SIGNALS, names with commas between (`SIGINT,SIGINT`), are sent once TABLE of the archive
has COUNT rows, before the thread that has written the last of them goes on. A test that watches from outside may come
too late.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import time
from functools import partial
from typing import Any

from forewarp.cli.main import main


class Watched(sqlite3.Connection):
    """A connection that looks after each transaction whether it is time."""

    table = ""
    count = 0
    signals: tuple[signal.Signals, ...] = ()

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        done = super().execute(sql, parameters)
        if sql == "COMMIT" and Watched.signals:
            (rows,) = super().execute(f"SELECT count(*) FROM {self.table}").fetchone()
            if rows >= self.count:
                signals, Watched.signals = Watched.signals, ()
                for number in signals:
                    os.kill(os.getpid(), number)
                    # The main thread may be another one, and handles the signal when it has its turn.
                    time.sleep(0.5)
        return done


if __name__ == "__main__":
    table, count, names, *arguments = sys.argv[1:]
    Watched.table, Watched.count = table, int(count)
    Watched.signals = tuple(signal.Signals[name] for name in names.split(","))
    sqlite3.connect = partial(sqlite3.connect, factory=Watched)
    sys.exit(main(arguments))
