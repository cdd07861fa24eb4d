"""Google Benchmark JSON read into samples: times in seconds, one sample per repetition."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay_tools import fields, strict_json
from assay_tools.errors import ToolError

SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
SKIP_PREFIX = "assay: skipped"
_AGGREGATE_KEYS = ("aggregate_name", "big_o", "rms", "cpu_coefficient", "real_coefficient")
_OLD_AGGREGATE = re.compile(r"(.*)_(mean|median|stddev|cv|BigO|RMS)")
_THREADS = re.compile(r"/threads:(\d+)(?:/|$)")
# Keys that Google Benchmark or assay write in a row; every other number is a user counter.
_ROW_KEYS = {
    "cpu_time", "real_time", "iterations", "threads", "repetitions", "repetition_index",
    "family_index", "per_family_instance_index", "assay_pair",
}  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """One repetition of one benchmark: its times, or why there are none."""

    real_s: float | None = None
    cpu_s: float | None = None
    counters: dict[str, float | None] = field(default_factory=dict)
    error: str | None = None
    skipped: str | None = None
    stage: str = ""
    raw: dict[str, Any] = field(default_factory=dict, compare=False)


@dataclass
class Bench:
    """All samples of one benchmark name on one side."""

    name: str
    threads: int = 1
    samples: list[Sample] = field(default_factory=list)
    source_version: str | None = None

    @property
    def clock(self) -> str:
        """`real_time` where threads or the benchmark's own clock work, `cpu_time` elsewhere."""
        parts = self.name.split("/")
        own_clock = "real_time" in parts or "manual_time" in parts
        return "real_time" if own_clock or self.threads > 1 else "cpu_time"

    @property
    def filterable(self) -> bool:
        """Whether real/cpu tells an interrupted repetition from a clean one."""
        return self.threads == 1 and "manual_time" not in self.name.split("/")


@dataclass
class BenchFile:
    """One parsed result file."""

    path: str
    sha256: str
    context: dict[str, Any]
    benches: dict[str, Bench]


def is_aggregate(row: dict[str, Any], names: dict[str, int]) -> bool:
    """Mean, median, BigO and RMS rows; files older than `run_type` are judged by their names."""
    if "run_type" in row:
        return bool(row["run_type"] != "iteration")
    if any(key in row for key in _AGGREGATE_KEYS):
        return True
    match = _OLD_AGGREGATE.fullmatch(str(row.get("name", "")))
    return bool(match and names.get(match.group(1), 0) > 1)


def read_sample(row: dict[str, Any], where: str) -> Sample:
    """One iteration row as a sample."""
    stage = fields.text(row, "assay_stage", where)
    if row.get("skipped"):
        message = fields.text(row, "skip_message", where) or "skipped"
        return Sample(skipped=message, stage=stage, raw=row)
    if row.get("error_occurred"):
        message = fields.text(row, "error_message", where) or "error without a message"
        if message.startswith(SKIP_PREFIX):
            return Sample(skipped=message, stage=stage, raw=row)
        return Sample(error=message, stage=stage, raw=row)
    if "real_time" not in row or "cpu_time" not in row:
        raise ToolError(f"{where}: no real_time and cpu_time: not a Google Benchmark result")
    unit = fields.text(row, "time_unit", where, "ns")
    if unit not in SECONDS:
        raise ToolError(
            f"{where}: unknown time unit {fields.shown(unit)} (known: {', '.join(SECONDS)})"
        )
    real, cpu = fields.number(row, "real_time", where), fields.number(row, "cpu_time", where)
    counters = {
        key: (None if value is None else float(value))
        for key, value in row.items()
        if key not in _ROW_KEYS and (value is None or fields.is_number(value))
    }
    scale = SECONDS[unit]
    return Sample(
        real_s=None if real is None else real * scale,
        cpu_s=None if cpu is None else cpu * scale,
        counters=counters,
        stage=stage,
        raw=row,
    )


def _row_name(row: Any, where: str) -> str:
    if not isinstance(row, dict):
        raise ToolError(f"{where}: a row is {type(row).__name__}, expected an object")
    name = row.get("run_name", row.get("name"))
    if not isinstance(name, str) or not name:
        raise ToolError(f"{where}: a row without a name")
    return name


def _threads(row: dict[str, Any], name: str) -> int:
    stated = row.get("threads")
    if isinstance(stated, int) and not isinstance(stated, bool) and stated > 0:
        return stated
    match = _THREADS.search(name)
    return (fields.size(match.group(1)) or 1) if match else 1


def parse_results(data: bytes, path: str, accept_median: bool = False) -> BenchFile:
    """Read one result file; anything that is not Google Benchmark JSON is refused by name.

    `accept_median`: a benchmark that reports aggregates only counts with its median row.
    """
    value = strict_json.parse(data, path)
    if not isinstance(value, dict) or not isinstance(value.get("benchmarks"), list):
        raise ToolError(f'{path}: not Google Benchmark JSON: no "benchmarks" array')
    context = value.get("context", {})
    if not isinstance(context, dict):
        raise ToolError(f'{path}: "context" is not an object')
    rows = value["benchmarks"]
    names: dict[str, int] = {}
    for index, row in enumerate(rows):
        name = _row_name(row, f"{path}: benchmarks[{index}]")
        names[name] = names.get(name, 0) + 1
    benches: dict[str, Bench] = {}
    seen: set[tuple[str, Any]] = set()
    iterated = {_row_name(row, path) for row in rows if not is_aggregate(row, names)}
    for index, row in enumerate(rows):
        name = _row_name(row, path)
        median = accept_median and name not in iterated and row.get("aggregate_name") == "median"
        if is_aggregate(row, names) and not median:
            continue
        where = f"{path}: benchmarks[{index}] ({name})"
        _refuse_duplicate(row, name, seen, where)
        bench = benches.setdefault(name, Bench(name=name, threads=_threads(row, name)))
        bench.samples.append(read_sample(row, where))
        if "source_version" in row:
            bench.source_version = str(row["source_version"])
    if not benches:
        raise ToolError(f"{path}: no benchmark rows")
    return BenchFile(path, strict_json.digest(data), context, benches)


def _refuse_duplicate(
    row: dict[str, Any], name: str, seen: set[tuple[str, Any]], where: str
) -> None:
    """Repetitions carry an index; the same index twice is two benchmarks under one name."""
    repetition = fields.integer(row, "repetition_index", where)
    if repetition is None:
        return
    key = (name, (repetition, fields.text(row, "assay_stage", where)))
    if key in seen:
        raise ToolError(f"{where}: duplicate key: this name and repetition occur twice")
    seen.add(key)


def load_results(path: Path) -> BenchFile:
    """Read one result file from disk."""
    return parse_results(strict_json.read_bytes(path), str(path))


def valid_time(seconds: float | None) -> bool:
    """A time that may enter a ratio."""
    return seconds is not None and math.isfinite(seconds) and seconds > 0
