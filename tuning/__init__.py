"""Configurations of autotuned kernels: forecasting, measuring and choosing them."""
