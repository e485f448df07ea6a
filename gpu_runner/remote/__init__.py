"""Devices of other machines: over ssh, under the same protocol as the device of this one."""
