"""What a kernel tells before a device runs it: launches, features, roofline, and what emulation on the CPU finds."""
