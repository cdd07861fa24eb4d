"""Latency against size: a panel per family, a line per backing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assay_tools import fields
from assay_tools.benchfile import Bench, BenchFile, Sample, valid_time
from assay_tools.errors import ToolError
from assay_tools.plots import style

COLUMNS = 2
BAND_MIN = 5
LEGEND_INSIDE_MAX = 6
HEADER = (
    "file", "family", "series", "size_bytes", "n", "median_s", "p10_s", "p90_s", "status", "reason",
)  # fmt: skip


@dataclass(frozen=True)
class Name:
    """A benchmark name taken apart: `family/backing:<id>/size:<n>/...`."""

    family: str
    backing: str
    size: int | None
    rest: str

    @staticmethod
    def parse(text: str) -> Name:
        """Keys are `key:value` parts; a bare trailing number counts as the size."""
        family: list[str] = []
        rest: list[str] = []
        backing, size = "", None
        for part in text.split("/"):
            key, colon, value = part.partition(":")
            if colon and key == "backing":
                backing = value
            elif colon and key == "size" and fields.size(value) is not None:
                size = fields.size(value)
            elif part.isdecimal() and size is None and family and fields.size(part) is not None:
                size = fields.size(part)
            elif colon or part in ("real_time", "manual_time", "process_time"):
                rest.append(part)
            else:
                family.append(part)
        return Name("/".join(family) or text, backing, size or None, " ".join(rest))


@dataclass
class Point:
    """One size of one series."""

    size: int
    n: int
    median: float | None
    low: float | None
    high: float | None
    status: str
    reason: str


@dataclass
class Series:
    """Points of one backing, by size."""

    points: list[Point] = field(default_factory=list)


Panels = dict[str, dict[str, Series]]


def summarise(bench: Bench) -> Point:
    """Median and p10-p90 of the repetitions; a row that failed has no number."""
    size = Name.parse(bench.name).size or 0
    reason = next((s.error or s.skipped for s in bench.samples if s.error or s.skipped), None)
    if reason is not None:
        status = "skipped" if any(s.skipped for s in bench.samples) else "error"
        return Point(size, len(bench.samples), None, None, None, status, reason)
    values = [_time(sample, bench.clock) for sample in bench.samples]
    if not all(valid_time(value) for value in values):
        return Point(size, len(values), None, None, None, "invalid", "zero or missing time")
    array = np.array(values, dtype=float)
    low, high = (None, None)
    if len(array) >= BAND_MIN:
        low, high = (float(value) for value in np.quantile(array, [0.1, 0.9]))
    return Point(size, len(array), float(np.median(array)), low, high, "ok", "")


def _time(sample: Sample, clock: str) -> float | None:
    return sample.real_s if clock == "real_time" else sample.cpu_s


def collect(files: Sequence[BenchFile]) -> Panels:
    """Panels by family; with several files each file keeps lines of its own."""
    panels: Panels = {}
    for index, file in enumerate(files):
        origin = f" ({Path(file.path).stem}#{index + 1})" if len(files) > 1 else ""
        for bench in file.benches.values():
            name = Name.parse(bench.name)
            if name.size is None:
                continue
            label = " ".join(part for part in (name.backing or "all", name.rest) if part) + origin
            series = panels.setdefault(name.family, {}).setdefault(label, Series())
            series.points.append(summarise(bench))
    for family in panels.values():
        for series in family.values():
            series.points.sort(key=lambda point: point.size)
    return panels


def _draw_panel(axes: Axes, number: int, family: str, lines: dict[str, Series]) -> None:
    sizes = [point.size for series in lines.values() for point in series.points]
    for index, (label, series) in enumerate(lines.items()):
        look = style.series_style(index)
        x = [point.size for point in series.points]
        # NaN breaks the line: a failed size is a gap, not a bridge between its neighbours.
        y = [math.nan if point.median is None else point.median for point in series.points]
        axes.plot(x, y, label=style.plain(label), gid=f"series-{number}-{index}", **look)
        low = [math.nan if point.low is None else point.low for point in series.points]
        high = [math.nan if point.high is None else point.high for point in series.points]
        axes.fill_between(x, low, high, color=look["color"], alpha=0.2, linewidth=0)
        failed = [point.size for point in series.points if point.median is None]
        axes.plot(
            failed, [0.02 + 0.03 * index] * len(failed), transform=axes.get_xaxis_transform(),
            linestyle="none", marker="x", color=look["color"], markersize=6,
            label=f"{style.plain(label)}: no valid time" if failed else "_",
        )  # fmt: skip
    style.size_axis(axes, sizes)
    if any(point.median is not None for series in lines.values() for point in series.points):
        style.time_axis(axes, "time per iteration (log scale)")
    else:
        axes.set_yticks([])
        axes.text(0.5, 0.5, "every row failed", transform=axes.transAxes, ha="center")
    axes.set_title(style.plain(family))
    if len(lines) <= LEGEND_INSIDE_MAX:
        axes.legend(loc="best")


def _draw_legend(figure: Figure, panels: Panels) -> None:
    """One legend for all panels, below them, where so many lines would hide the data."""
    if all(len(lines) <= LEGEND_INSIDE_MAX for lines in panels.values()):
        return
    entries: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=5)


def finding(panels: Panels) -> str:
    """What the figure shows, in words: the fastest series at the largest shared size."""
    sentences = []
    for family, lines in panels.items():
        best: dict[int, list[tuple[float, str]]] = {}
        for label, series in lines.items():
            for point in series.points:
                if point.median is not None:
                    best.setdefault(point.size, []).append((point.median, label))
        if not best:
            sentences.append(f"{family}: every row failed.")
            continue
        size = max(best, key=lambda key: (len(best[key]), key))
        ranked = sorted(best[size])
        text = f"{family} at {style.byte_label(size)}: {ranked[0][1]} is fastest with "
        text += style.time_label(ranked[0][0])
        if len(ranked) > 1:
            text += f", {ranked[-1][1]} slowest with {style.time_label(ranked[-1][0])}"
        sentences.append(text + ".")
    failed = sum(p.median is None for lines in panels.values() for s in lines.values()
                 for p in s.points)  # fmt: skip
    if failed:
        sentences.append(f"{failed} rows have no valid time and are gaps.")
    return " ".join(sentences)


def _left_out(files: Sequence[BenchFile]) -> str:
    """Rows that no axis of sizes can hold, by name."""
    names = [n for file in files for n in file.benches if Name.parse(n).size is None]
    if not names:
        return ""
    shown = ", ".join(fields.shown(name) for name in names[:3]) + (", ..." if names[3:] else "")
    return f" {len(names)} rows without a size up to 2^64 bytes are left out: {shown}."


def plot_latency(files: Sequence[BenchFile], out: style.Target) -> list[style.FigureFile]:
    """Draw all files into one figure."""
    panels = collect(files)
    if not panels:
        names = ", ".join(file.path for file in files)
        raise ToolError(f"{names}: no row has a size (name it family/backing:ID/size:BYTES)")
    counts = {p.n for lines in panels.values() for s in lines.values() for p in s.points}
    n = f"n={min(counts)}" if len(counts) == 1 else f"n={min(counts)} to {max(counts)}"
    band = "band p10 to p90" if max(counts) >= BAND_MIN else f"no band below {BAND_MIN} repetitions"
    context: dict[str, Any] = files[0].context
    with matplotlib.rc_context(style.SETTINGS):
        rows = math.ceil(len(panels) / COLUMNS)
        columns = min(COLUMNS, len(panels))
        figure = style.new_figure(6.0 * columns, 4.2 * rows + 0.6)
        for index, (family, lines) in enumerate(panels.items()):
            _draw_panel(figure.add_subplot(rows, columns, index + 1), index, family, lines)
        title = "Latency against size"
        _draw_legend(figure, panels)
        figure.suptitle(f"{title}: median, {n}, {band}\n{style.provenance(context)}", fontsize=11)
        style.mark_model(figure, context)
        alt = finding(panels) + _left_out(files)
        saved = style.save(figure, out, "latency", title, alt)
    table = [
        [Path(files[0].path).name if len(files) == 1 else "", family, label, p.size, p.n,
         p.median, p.low, p.high, p.status, p.reason]
        for family, lines in panels.items() for label, series in lines.items()
        for p in series.points
    ]  # fmt: skip
    style.write_csv(out, "latency", HEADER, table)
    return [saved]
