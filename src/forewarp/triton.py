"""Triton's autotuner without the wait: forecasts choose which configurations are worth timing.

import forewarp.triton

forewarp.triton.install(keep=8)              # every @triton.autotune of this process
forewarp.triton.install(deterministic=True)  # no timing at all, the same choice everywhere
@triton.autotune(configs, key, prune_configs_by={"early_config_prune": forewarp.triton.prune(keep=8)})
"""

from forewarp.tuning.autotuner import (
    Choice,
    ForecastWarning,
    Installed,
    install,
    listen,
    perf_model,
    prune,
)

__all__ = ["Choice", "ForecastWarning", "Installed", "install", "listen", "perf_model", "prune"]
