"""Tests of the Python side; run with `python -m pytest scripts/assay_tools`."""
