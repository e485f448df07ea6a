"""Evidence about a kernel before it runs: occupancy, waves, the roofline floor, problems, and all as numbers."""
