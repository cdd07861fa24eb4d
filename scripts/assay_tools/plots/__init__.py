"""Figures: SVG, PNG and the numbers behind them as CSV."""
