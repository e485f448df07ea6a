"""Benchmarks are scripts: they import each other by the names of their files."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
