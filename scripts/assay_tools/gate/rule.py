"""The decision rule: screen every row, confirm the suspects on fresh data.

A/A runs of 200 rows raise a false alarm in 0.2 % of cases under these numbers; a limit below 5 %
reports relinked copies of one program, because layout alone moves rows by up to 3 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from assay_tools.gate import stats

SLOWER, FASTER = "slower", "faster"
# Floors that keep A/A alarms of data that was not interleaved under 1 %.
FLOOR_SEQUENTIAL = 1.10
FLOOR_STORED = 1.30


@dataclass(frozen=True)
class Rule:
    """Every number a verdict depends on; it is written into gate.json."""

    screen_p: float = 0.05
    screen_ratio: float = 1.03
    confirm_p: float = 0.01
    confirm_ratio: float = 1.05
    repetitions_min: int = 10
    interval_limit: float = 1.10
    real_cpu_max: float = 1.05
    resamples: int = 9999

    def as_dict(self) -> dict[str, Any]:
        """For the result file."""
        return asdict(self)


@dataclass(frozen=True)
class Screened:
    """One row after the first stage."""

    ratio: float
    p_slower: float
    p_faster: float
    suspect: str | None

    @property
    def p(self) -> float:
        """The p value in the direction the ratio points to."""
        return self.p_slower if self.ratio >= 1 else self.p_faster


@dataclass(frozen=True)
class Confirmed:
    """One suspect after the second stage."""

    ratio: float
    p: float
    p_adjusted: float
    passed: bool


RowPair = tuple[stats.Array, stats.Array]


def screen(rows: Sequence[RowPair], rule: Rule) -> list[Screened]:
    """Stage one on (base, head) costs, lower is better; rows of equal shape go in one batch."""
    result: list[Screened | None] = [None] * len(rows)
    shapes: dict[tuple[int, int], list[int]] = {}
    for index, (base, head) in enumerate(rows):
        shapes.setdefault((len(base), len(head)), []).append(index)
    for indices in shapes.values():
        base = np.stack([rows[index][0] for index in indices])
        head = np.stack([rows[index][1] for index in indices])
        for index, screened in zip(indices, screen_batch(base, head, rule), strict=True):
            result[index] = screened
    return [row for row in result if row is not None]


def screen_batch(base: stats.Array, head: stats.Array, rule: Rule) -> list[Screened]:
    """Stage one on rows x repetitions arrays."""
    ratios = np.median(head, axis=1) / np.median(base, axis=1)
    slower = stats.p_greater(base, head)
    faster = stats.p_greater(head, base)
    result = []
    for ratio, p_slow, p_fast in zip(ratios, slower, faster, strict=True):
        suspect = None
        if p_slow < rule.screen_p and ratio > rule.screen_ratio:
            suspect = SLOWER
        elif p_fast < rule.screen_p and ratio < 1 / rule.screen_ratio:
            suspect = FASTER
        result.append(Screened(float(ratio), float(p_slow), float(p_fast), suspect))
    return result


def confirm(
    rows: Sequence[RowPair], directions: Sequence[str], rule: Rule, ratio_limit: float | None = None
) -> list[Confirmed]:
    """Stage two: Holm over the given rows, each direction a family of its own."""
    limit = rule.confirm_ratio if ratio_limit is None else ratio_limit
    screened = screen(rows, rule)
    raw = [
        row.p_slower if direction == SLOWER else row.p_faster
        for row, direction in zip(screened, directions, strict=True)
    ]
    adjusted = [1.0] * len(rows)
    for family in (SLOWER, FASTER):
        members = [i for i, direction in enumerate(directions) if direction == family]
        for index, value in zip(members, stats.holm([raw[i] for i in members]), strict=True):
            adjusted[index] = value
    return [
        Confirmed(
            ratio=row.ratio,
            p=p,
            p_adjusted=p_adjusted,
            passed=p_adjusted < rule.confirm_p
            and (row.ratio > limit if direction == SLOWER else row.ratio < 1 / limit),
        )
        for row, p, p_adjusted, direction in zip(screened, raw, adjusted, directions, strict=True)
    ]
