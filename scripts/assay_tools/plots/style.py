"""What every figure shares: colours that survive grey print, byte and time axes, stable files."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FixedLocator, FuncFormatter, NullLocator

from assay_tools.files import write_atomic
from assay_tools.gate.outputs import one_line
from assay_tools.strict_json import dumps

# Okabe-Ito without yellow, which is too pale on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
LINES = ("-", "--", "-.", ":")
DPI = 150
SETTINGS: Any = {
    "svg.fonttype": "none",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "axes.grid": True,
    "grid.color": "#d0d0d0",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "axes.formatter.use_locale": False,
    "figure.facecolor": "white",
    "text.parse_math": False,
}
MANIFEST = "figures.json"


@dataclass(frozen=True)
class FigureFile:
    """A finished figure: its base name, its title and the finding in words."""

    name: str
    title: str
    alt: str


def series_style(index: int) -> dict[str, Any]:
    """Colour, marker and line differ together, so that each alone tells the series apart."""
    return {
        "color": COLOURS[index % len(COLOURS)],
        "marker": MARKERS[index % len(MARKERS)],
        "linestyle": LINES[index % len(LINES)],
        "markersize": 5,
        "linewidth": 1.5,
    }


LABEL_MAX = 80


def plain(text: str, limit: int = LABEL_MAX) -> str:
    """A name as a figure can hold it: nothing that breaks lines or turns them round, not endless.

    A leading underscore would hide a line from the legend.
    """
    text = one_line(text)
    text = text if len(text) <= limit else text[: limit - 3] + "..."
    return "\\" + text if text.startswith("_") else text


def byte_label(value: float, _position: int | None = None) -> str:
    """`4 KiB`, never 4.1e+03."""
    if value == 0:
        return "0 B"
    for exponent, suffix in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "B")):
        if abs(value) >= 2**exponent:
            return f"{value / 2**exponent:.4g} {suffix}"
    return f"{value:.3g} B"


def time_label(seconds: float) -> str:
    """`12.3 ns`."""
    return str(EngFormatter(unit="s", places=None)(float(f"{seconds:.3g}"))).replace("µ", "u")


def size_axis(axes: Axes, sizes: Sequence[float]) -> None:
    """Base-2 axis; steps of eight put ticks on 4 KiB, 2 MiB and 1 GiB."""
    low, high = math.floor(math.log2(min(sizes))), math.ceil(math.log2(max(sizes)))
    step = 3 if high - low > 6 else 1
    first = low - low % step
    ticks = [2.0**power for power in range(first, high + step, step)]
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(byte_label))
    axes.set_xlim(min(sizes) / 1.4, max(sizes) * 1.4)
    axes.set_xlabel("size (log2 scale)")
    for label in axes.get_xticklabels():
        label.set_rotation(30)
        label.set_horizontalalignment("right")


def byte_ticks(largest: float, count: int = 6) -> list[float]:
    """Even ticks from zero at whole powers of two: 512 MiB, not 476.8 MiB."""
    step = 2.0 ** math.ceil(math.log2(max(largest, 1) / count))
    return [step * index for index in range(math.ceil(largest / step) + 1)]


def time_axis(axes: Axes, label: str) -> None:
    """Base-10 time axis with SI prefixes."""
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(EngFormatter(unit="s"))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, position: ""))
    axes.set_ylabel(label)


def provenance(context: Mapping[str, Any]) -> str:
    """Host, device and commit for a title line."""
    cpu = context.get("cpu_model") or f"{context.get('num_cpus', '?')} CPUs"
    parts = [str(context.get("host_name", "")), str(cpu)]
    driver = str(context.get("driver", ""))
    if driver and driver != "none":
        parts.append(f"driver {driver}")
    parts.append(f"commit {str(context.get('commit', 'unknown'))[:12]}")
    return ", ".join(plain(part) for part in parts if part)


def mark_model(figure: Figure, context: Mapping[str, Any]) -> None:
    """Simulated results say so in large letters."""
    if str(context.get("driver", "")).lower().startswith("model"):
        figure.text(
            0.5, 0.5, "MODEL", fontsize=80, color="#999999", alpha=0.3,
            ha="center", va="center", rotation=20,
        )  # fmt: skip


def new_figure(width: float, height: float) -> Figure:
    """A figure of inches, laid out without overlaps."""
    return Figure(figsize=(width, height), layout="constrained")


@dataclass(frozen=True)
class Target:
    """Where figures go, and in which formats."""

    directory: Path
    formats: tuple[str, ...] = ("svg", "png")


def save(figure: Figure, target: Target, name: str, title: str, alt: str) -> FigureFile:
    """SVG and PNG with title and description inside; equal data give equal bytes."""
    title, alt = one_line(title), one_line(alt)
    metadata: dict[str, dict[str, str | None]] = {
        "svg": {"Title": title, "Description": alt, "Date": None, "Creator": "assay plot"},
        "png": {"Title": title, "Description": alt, "Software": "assay plot"},
    }
    with matplotlib.rc_context({"svg.hashsalt": f"assay-{name}"}):
        for kind in target.formats:
            buffer = io.BytesIO()
            figure.savefig(buffer, format=kind, dpi=DPI, metadata=metadata[kind])
            write_atomic(target.directory / f"{name}.{kind}", buffer.getvalue())
    return FigureFile(name, title, alt)


def write_csv(
    target: Target, name: str, header: Sequence[str], rows: Sequence[Sequence[Any]]
) -> None:
    """The numbers of a figure."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([["" if cell is None else cell for cell in row] for row in rows])
    write_atomic(target.directory / f"{name}.csv", buffer.getvalue())


def write_manifest(target: Target, figures: Sequence[FigureFile]) -> None:
    """What a report needs to show the figures."""
    value = [{"name": f.name, "title": f.title, "alt": f.alt} for f in figures]
    write_atomic(
        target.directory / MANIFEST, dumps({"schema": "assay.figures/1", "figures": value})
    )
