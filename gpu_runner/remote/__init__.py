"""Devices of other machines: over ssh, or of a Ray cluster, under the same protocol as the device of this one."""
