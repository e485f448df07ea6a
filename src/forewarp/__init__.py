"""forewarp: faster GPU kernels on fewer measurements.

The sub-packages are links to the folders at the top of the repository; `docs/architecture.md` says what each one
knows and what it must not import.
"""

__version__ = "0.1.0"
