"""Executors: one per way of getting a measurement, all under `core.protocols.Executor`."""
