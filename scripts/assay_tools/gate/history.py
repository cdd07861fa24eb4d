"""A walk over years of published timings of unchanged code: how often would one run alarm?

One run against the last is useless on shared runners (one in eight is over 10 % slower), so a
history is judged by the median of the last five runs over the median of the thirty before.
"""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from assay_tools import strict_json
from assay_tools.gate.stats import Array

DATA_FILE = Path(__file__).parent.parent / "tests" / "data" / "gha-benchmark-history.json.gz"
RECENT, BEFORE, LIMIT = 5, 30, 1.2
STEP, STEP_EVERY = 1.3, 7
ALARM_MAX, FOUND_MIN = 0.01, 0.75
_RATE = re.compile(r"^(ops|iter)/s(ec)?$")
_TIME = re.compile(r"^(ns|us|ms|s)(/(iter|op))?$")


@dataclass(frozen=True)
class HistoryFigures:
    """Alarms without a step, and steps found within five runs."""

    alarms: int
    judged: int
    found: int
    steps: int

    @property
    def good(self) -> bool:
        """Both targets met."""
        return self.alarms <= ALARM_MAX * self.judged and self.found >= FOUND_MIN * self.steps > 0

    def text(self) -> str:
        """One line."""
        return (
            f"{self.alarms} of {self.judged} runs alarmed = {self.alarms / self.judged:.2%} "
            f"(target <= {ALARM_MAX:.0%}); a x{STEP} step found within {RECENT} runs from "
            f"{self.found} of {self.steps} starts = {self.found / self.steps:.1%} "
            f"(target >= {FOUND_MIN:.0%})"
        )


def load_series(path: Path) -> list[Array]:
    """Costs (lower is better) per benchmark; a changed unit starts a new series."""
    value = strict_json.parse(gzip.decompress(strict_json.read_bytes(path)), str(path))
    series: dict[tuple[str, str, str], list[float]] = {}
    for suite, runs in value["suites"].items():
        for run in runs:
            for bench in run["benches"]:
                unit = str(bench["unit"])
                cost = float(bench["value"])
                if cost <= 0 or not (_RATE.match(unit) or _TIME.match(unit)):
                    continue
                key = (suite, str(bench["name"]), unit)
                series.setdefault(key, []).append(1 / cost if _RATE.match(unit) else cost)
    return [np.array(values) for values in series.values() if len(values) >= BEFORE + RECENT]


def alarms_of(values: Array) -> list[int]:
    """Positions of the runs at which the history alarms, each judged on the runs before it."""
    return [
        end
        for end in range(BEFORE + RECENT - 1, len(values))
        if np.median(values[end - RECENT + 1 : end + 1])
        > LIMIT * np.median(values[end - RECENT - BEFORE + 1 : end - RECENT + 1])
    ]


def history_figures(path: Path) -> HistoryFigures:
    """Walk every series as it is, then with a step from every seventh run on."""
    alarms = judged = found = steps = 0
    for values in load_series(path):
        alarms += len(alarms_of(values))
        judged += len(values) - (BEFORE + RECENT - 1)
        for start in range(BEFORE + RECENT, len(values) - RECENT + 1, STEP_EVERY):
            stepped = values[: start + RECENT].copy()
            stepped[start:] *= STEP
            steps += 1
            found += any(start <= end < start + RECENT for end in alarms_of(stepped))
    return HistoryFigures(alarms, judged, found, steps)
