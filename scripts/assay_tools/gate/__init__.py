"""The regression gate: from two sets of timings to one verdict and one exit code."""
