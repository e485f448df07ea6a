"""An executor at the far end of a pipe, on the machine that has the device: `python -m …remote.far_end`."""
