"""An executor at the far end of a pipe: `python -m forewarp.gpu_runner.agent` on the machine that has the device."""
