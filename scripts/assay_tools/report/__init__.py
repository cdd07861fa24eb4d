"""The report: one HTML page from everything that was measured."""
