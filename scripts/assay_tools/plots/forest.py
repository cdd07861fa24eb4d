"""Before and after: the ratio of each benchmark with its interval, worst first."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from assay_tools.errors import ToolError
from assay_tools.gate.outputs import one_line
from assay_tools.plots import style

ROWS_PER_PAGE = 40
LOOK: dict[str, tuple[str, str]] = {
    "regression": ("^", "#D55E00"),
    "improvement": ("v", "#0072B2"),
    "same": ("o", "#555555"),
    "inconclusive": ("s", "#CC79A7"),
}
HEADER = ("name", "metric", "verdict", "ratio", "ci_low", "ci_high", "n_base", "n_head", "reason")
TICKS = (0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5, 2, 3, 5, 10, 20)


def _tick_choice(low: float, high: float) -> list[float]:
    inside = [tick for tick in TICKS if low <= tick <= high]
    return inside if len(inside) <= 8 else [t for t in inside if t not in (0.95, 1.05, 0.9, 1.1)]


def _draw_page(rows: Sequence[dict[str, Any]], title: str, subtitle: str) -> Any:
    figure = style.new_figure(9.0, 1.8 + 0.3 * len(rows))
    axes = figure.add_subplot()
    lows, highs = [0.93], [1.09]
    for position, row in enumerate(rows):
        marker, colour = LOOK.get(row["verdict"], ("D", "#000000"))
        interval = row["ci95"] or [row["ratio"], row["ratio"]]
        lows.append(interval[0] * 0.98)
        highs.append(interval[1] * 1.02)
        axes.plot(interval, [position, position], color=colour, linewidth=1.5)
        axes.plot([row["ratio"]], [position], marker=marker, color=colour, markersize=7)
    axes.axvline(1.0, color="black", linewidth=1)
    axes.axvline(1.05, color="black", linewidth=1, linestyle="--")
    axes.set_xscale("log")
    axes.set_xlim(min(lows), max(highs))
    axes.xaxis.set_major_locator(FixedLocator(_tick_choice(min(lows), max(highs))))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:g}x"))
    axes.set_xlabel(
        "head / base, 95 % interval (log scale; dashed: the 5 % limit; right is slower)"
    )
    labels = [
        f"{style.plain(row['name'], 60)}  {row['verdict']} x{row['ratio']:.3f}" for row in rows
    ]
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    wrapped = "\n".join(textwrap.wrap(one_line(title), 110))
    figure.suptitle(f"{wrapped}\n{style.plain(subtitle, 120)}", fontsize=11)
    return figure


def plot_forest(
    gate: dict[str, Any], out: style.Target, name: str = "forest"
) -> list[style.FigureFile]:
    """Pages of at most forty rows; rows without a ratio stand in the CSV and in the title."""
    rows = sorted(
        (row for row in gate["rows"] if row["ratio"] is not None and row["unit"] == "s"),
        key=lambda row: (-row["ratio"], row["name"]),
    )
    if not rows:
        raise ToolError("gate.json: no row has a ratio, so there is nothing to draw")
    without = len(gate["rows"]) - len(rows)
    hosts = ", ".join(sorted(set(gate["hosts"].values())))
    pages = [rows[i : i + ROWS_PER_PAGE] for i in range(0, len(rows), ROWS_PER_PAGE)]
    figures = []
    worst = rows[0]
    alt = (
        f"{gate['headline']}. Largest ratio: {worst['name']} at x{worst['ratio']:.3f} "
        f"({worst['verdict']}). {without} rows have no ratio."
    )
    with matplotlib.rc_context(style.SETTINGS):
        for index, page in enumerate(pages):
            part = f" (page {index + 1} of {len(pages)})" if len(pages) > 1 else ""
            subtitle = f"host {hosts}, {len(rows)} rows, {without} without a ratio"
            title = f"Before and after{part}"
            figure = _draw_page(page, f"{title}: {gate['headline']}", subtitle)
            page_name = name if len(pages) == 1 else f"{name}-{index + 1}"
            figures.append(style.save(figure, out, page_name, title, alt))
    table = [
        [row["name"], row["metric"], row["verdict"], row["ratio"],
         *(row["ci95"] or [None, None]), row["base"]["n"], row["head"]["n"], row["reason"]]
        for row in rows + [row for row in gate["rows"] if row["ratio"] is None]
    ]  # fmt: skip
    style.write_csv(out, name, HEADER, table)
    return figures
