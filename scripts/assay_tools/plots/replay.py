"""A replayed trace: bytes over its events, peaks per subject, and the latency of each operation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, FixedLocator, FuncFormatter

from assay_tools.plots import style

PEAKS = ("requested_bytes", "granted_bytes", "reserved_bytes", "resident_bytes")
PERCENTILES = (("p50_ns", "p50"), ("p99_ns", "p99"), ("p999_ns", "p99.9"))
OVER_TIME = ("live_bytes", "granted_bytes", "reserved_bytes")
HATCHES = ("", "//", "..", "xx")


def _subject_label(run: dict[str, Any]) -> str:
    if run["status"] == "ok":
        return style.plain(run["subject"])
    return f"{style.plain(run['subject'])} ({str(run['status']).replace('_', ' ')})"


def _draw_timeline(axes: Axes, timeline: Sequence[dict[str, Any]]) -> None:
    for index, key in enumerate(OVER_TIME):
        points = [(e["event"], e[key]) for e in timeline if e.get(key) is not None]
        if points:
            look = style.series_style(index) | {"marker": ""}
            label = key.removesuffix("_bytes")
            x, y = zip(*points, strict=True)
            axes.plot(x, y, drawstyle="steps-post", label=label, **look)
    if not timeline:
        axes.text(0.5, 0.5, "the result has no timeline", transform=axes.transAxes, ha="center")
    else:
        axes.legend(loc="best")
    largest = max((e.get(key) or 0 for e in timeline for key in OVER_TIME), default=0)
    axes.yaxis.set_major_locator(FixedLocator(style.byte_ticks(largest)))
    axes.yaxis.set_major_formatter(FuncFormatter(style.byte_label))
    axes.set_ylim(0, max(largest * 1.08, 1))
    axes.set_xlabel("event of the trace")
    axes.set_ylabel("bytes")
    axes.set_title("Bytes over the trace")


def _draw_peaks(axes: Axes, runs: Sequence[dict[str, Any]]) -> None:
    height = 0.8 / len(PEAKS)
    for index, key in enumerate(PEAKS):
        positions = [row - 0.4 + height * (index + 0.5) for row in range(len(runs))]
        values = [(run.get("peak") or {}).get(key) for run in runs]
        axes.barh(
            positions, [value or 0 for value in values], height,
            color=style.COLOURS[index], hatch=HATCHES[index], edgecolor="white",
            label=key.removesuffix("_bytes"),
        )  # fmt: skip
        for position, value, run in zip(positions, values, runs, strict=True):
            if value is None and run["status"] == "ok":
                axes.text(0, position, " unknown", va="center", fontsize=9)
    axes.set_yticks(range(len(runs)), [_subject_label(run) for run in runs])
    axes.set_ylim(len(runs) - 0.5, -0.5)
    known = [(run.get("peak") or {}).get(key) or 0 for run in runs for key in PEAKS]
    largest = max(known, default=0)
    axes.xaxis.set_major_locator(FixedLocator(style.byte_ticks(largest)))
    axes.xaxis.set_major_formatter(FuncFormatter(style.byte_label))
    axes.set_xlim(0, max(largest * 1.05, 1))
    for label in axes.get_xticklabels():
        label.set_rotation(20)
    axes.set_title("Peak per subject")
    axes.legend(loc="best")


def _draw_operation(axes: Axes, operation: str, runs: Sequence[dict[str, Any]]) -> None:
    height = 0.8 / len(PERCENTILES)
    seen = False
    for index, (key, word) in enumerate(PERCENTILES):
        positions = [row - 0.4 + height * (index + 0.5) for row in range(len(runs))]
        first = True
        for position, run in zip(positions, runs, strict=True):
            record = (run.get("operations") or {}).get(operation) or {}
            value = record.get(key)
            if value is None or run["status"] != "ok":
                continue
            if value <= 0:
                axes.text(
                    0.01, position, f"{word}: 0 (below the timer)", fontsize=9, va="center",
                    transform=axes.get_yaxis_transform(),
                )  # fmt: skip
                continue
            seen = True
            axes.barh(
                position, value * 1e-9, height, color=style.COLOURS[index],
                hatch=HATCHES[index], edgecolor="white", label=word if first else "_",
            )  # fmt: skip
            first = False
            note = " below timer" if record.get("below_timer") and key == "p50_ns" else ""
            axes.text(
                value * 1e-9, position, f" {style.time_label(value * 1e-9)}{note}",
                va="center", fontsize=9,
            )  # fmt: skip
    axes.set_yticks(range(len(runs)), [_subject_label(run) for run in runs])
    axes.set_ylim(len(runs) - 0.5, -0.5)
    if seen:
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        axes.set_xlim(low / 1.2, high * 6)
        axes.xaxis.set_major_formatter(EngFormatter(unit="s"))
        axes.xaxis.set_minor_formatter(FuncFormatter(lambda value, position: ""))
        axes.legend(loc="lower right")
    axes.set_xlabel("time of one call (log scale)")
    axes.set_title(style.plain(operation))


def _finding(runs: Sequence[dict[str, Any]]) -> tuple[str, str]:
    good = [run for run in runs if run["status"] == "ok"]
    bad = len(runs) - len(good)
    tail = f" {bad} subjects gave no result." if bad else ""
    if not good:
        return "No subject gave a result.", "No subject gave a result."
    reserved = [(run["peak"].get("reserved_bytes"), run["subject"]) for run in good
                if (run.get("peak") or {}).get("reserved_bytes")]  # fmt: skip
    footprint = "Reserved bytes are unknown."
    if reserved:
        low, high = min(reserved), max(reserved)
        footprint = (
            f"{low[1]} reserves least at its peak with {style.byte_label(low[0])}, "
            f"{high[1]} most with {style.byte_label(high[0])}."
        )
    tails = [(run["operations"]["allocate"]["p999_ns"], run["subject"]) for run in good
             if (run.get("operations") or {}).get("allocate", {}).get("p999_ns")]  # fmt: skip
    latency = "No allocate latency was recorded."
    if tails:
        low, high = min(tails), max(tails)
        latency = (
            f"Allocate p99.9: {low[1]} is shortest with {style.time_label(low[0] * 1e-9)}, "
            f"{high[1]} longest with {style.time_label(high[0] * 1e-9)}."
        )
    return footprint + tail, latency + tail


def plot_replay(replay: dict[str, Any], out: style.Target) -> list[style.FigureFile]:
    """Two figures: bytes and latency."""
    runs, context = replay["runs"], replay.get("context", {})
    operations = list(dict.fromkeys(name for run in runs for name in run.get("operations") or {}))
    trace = style.plain(Path(replay["trace"].get("path", "trace")).name)
    where = f"{trace}; {style.provenance(context)}"
    footprint, latency = _finding(runs)
    tall = max(4.0, 1.2 + 0.8 * len(runs))
    with matplotlib.rc_context(style.SETTINGS):
        figure = style.new_figure(12.0, tall + 0.6)
        _draw_timeline(figure.add_subplot(1, 2, 1), replay.get("timeline", []))
        _draw_peaks(figure.add_subplot(1, 2, 2), runs)
        figure.suptitle(f"Footprint of the replayed trace\n{where}", fontsize=11)
        style.mark_model(figure, context)
        title = "Footprint of the replayed trace"
        figures = [style.save(figure, out, "replay-bytes", title, footprint)]
        if operations:
            figure = style.new_figure(6.5 * len(operations), tall + 0.6)
            for index, operation in enumerate(operations):
                axes = figure.add_subplot(1, len(operations), index + 1)
                _draw_operation(axes, operation, runs)
            title = "Latency of replayed operations"
            timer = replay.get("timer_cost_ns")
            cost = "" if timer is None else f"; timer cost {timer:g} ns"
            figure.suptitle(f"{title}: p50, p99, p99.9{cost}\n{where}", fontsize=11)
            style.mark_model(figure, context)
            figures.append(style.save(figure, out, "replay-latency", title, latency))
    _write_tables(replay, operations, out)
    return figures


def _write_tables(replay: dict[str, Any], operations: Sequence[str], out: style.Target) -> None:
    timeline = replay.get("timeline", [])
    style.write_csv(
        out, "replay-timeline", ("event", *OVER_TIME),
        [[entry["event"], *(entry.get(key) for key in OVER_TIME)] for entry in timeline],
    )  # fmt: skip
    rows = []
    for run in replay["runs"]:
        peak, recorded = run.get("peak") or {}, run.get("operations") or {}
        cells = [run["subject"], run["status"], run.get("reason"), run.get("time_s")]
        cells += [peak.get(key) for key in PEAKS]
        for operation in operations:
            record = recorded.get(operation) or {}
            cells += [record.get(key) for key, _ in PERCENTILES]
        rows.append(cells)
    header = ["subject", "status", "reason", "time_s", *PEAKS]
    header += [f"{operation}_{key}" for operation in operations for key, _ in PERCENTILES]
    style.write_csv(out, "replay", header, rows)
