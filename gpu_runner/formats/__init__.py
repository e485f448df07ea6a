"""Tasks and candidates as text: the KernelBench file format and the device-only candidate format."""
