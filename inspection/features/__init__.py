"""A candidate as numbers that forecasters learn from: its sizes, its compiled facts, its accesses to memory."""
