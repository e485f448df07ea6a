"""`python -m forewarp`: the command, of the Python that is named."""

from forewarp.cli.entry import run

run()
