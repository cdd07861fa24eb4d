"""The one result table: a row per benchmark and metric, and what it means for the exit code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from assay_tools.errors import Exit, combine


class Verdict(StrEnum):
    """What became of one row."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"
    NEW = "new"
    MISSING = "missing"
    ERRORED = "errored"
    FIXED = "fixed"
    ERRORED_BOTH = "errored on both sides"
    SKIPPED = "skipped"
    INVALID = "invalid"
    INCOMPARABLE = "incomparable"


WHAT_IT_MEANS = {
    Verdict.REGRESSION: "slower, confirmed",
    Verdict.IMPROVEMENT: "faster, confirmed",
    Verdict.SAME: "no change worth reporting",
    Verdict.INCONCLUSIVE: "the data cannot decide",
    Verdict.NEW: "only in head",
    Verdict.MISSING: "only in base",
    Verdict.ERRORED: "failed in head",
    Verdict.FIXED: "failed in base only",
    Verdict.ERRORED_BOTH: "failed in base and head",
    Verdict.SKIPPED: "not run on one side",
    Verdict.INVALID: "a time that is zero, negative or not a number",
    Verdict.INCOMPARABLE: "the benchmark itself changed",
}

# Shown in every table beside the word, so that neither colour nor symbol carries it alone.
SYMBOL = {
    Verdict.REGRESSION: "▲",
    Verdict.IMPROVEMENT: "▼",
    Verdict.SAME: "=",
    Verdict.INCONCLUSIVE: "?",
    Verdict.NEW: "+",
    Verdict.MISSING: "-",
    Verdict.ERRORED: "✗",
    Verdict.FIXED: "✓",
    Verdict.ERRORED_BOTH: "✗",
    Verdict.SKIPPED: "○",
    Verdict.INVALID: "!",
    Verdict.INCOMPARABLE: "≠",
}


@dataclass
class SideSummary:
    """One side of one row: how many repetitions counted and their median."""

    n: int = 0
    median: float | None = None
    dropped: int = 0


@dataclass
class Row:
    """One benchmark and metric with its verdict."""

    name: str
    metric: str
    verdict: Verdict
    reason_code: str
    reason: str
    base: SideSummary = field(default_factory=SideSummary)
    head: SideSummary = field(default_factory=SideSummary)
    unit: str = "s"
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    p: float | None = None
    p_adjusted: float | None = None
    stage: str = ""
    renamed_from: str | None = None
    n_needed: int | None = None
    rerun: str = ""
    exit_code: Exit = Exit.GOOD

    def as_dict(self) -> dict[str, Any]:
        """The row as gate.json has it."""
        return {
            "name": self.name,
            "metric": self.metric,
            "unit": self.unit,
            "verdict": str(self.verdict),
            "reason_code": self.reason_code,
            "reason": self.reason,
            "base": vars(self.base),
            "head": vars(self.head),
            "ratio": self.ratio,
            "ci95": list(self.interval) if self.interval else None,
            "p": self.p,
            "p_adjusted": self.p_adjusted,
            "stage": self.stage,
            "renamed_from": self.renamed_from,
            "n_needed": self.n_needed,
            "exit_code": int(self.exit_code),
            "rerun": self.rerun,
        }


@dataclass(frozen=True)
class Finding:
    """A remark about the whole comparison; it may ask for an exit code."""

    text: str
    code: Exit = Exit.GOOD
    loud: bool = False  # stands in the headline too


def condition_finding(why: str, strict: bool) -> Finding:
    """The timings should not be trusted, whatever they say."""
    code = Exit.INCONCLUSIVE if strict else Exit.GOOD
    return Finding(f"conditions invalid: {why}", code, loud=True)


@dataclass
class Result:
    """Everything that any output prints."""

    mode: str
    rows: list[Row]
    findings: list[Finding]
    rule: dict[str, Any]
    seed: int
    inputs: dict[str, Any]
    hosts: dict[str, str]
    metadata: dict[str, Any]
    banner: str = ""
    report_only: bool = False
    geomean: float | None = None
    geomean_rows: int = 0
    next_step: str = ""
    run: dict[str, Any] = field(default_factory=dict)

    def count(self, verdict: Verdict) -> int:
        """Rows with this verdict."""
        return sum(row.verdict is verdict for row in self.rows)

    def counts(self) -> dict[str, int]:
        """Rows per verdict, only those that occur."""
        return {str(verdict): self.count(verdict) for verdict in Verdict if self.count(verdict)}

    def exit_code(self) -> Exit:
        """The one code; a comparison with waved-through metadata never blocks."""
        code = combine([row.exit_code for row in self.rows] + [f.code for f in self.findings])
        if self.report_only and code not in (Exit.USAGE, Exit.INTERNAL, Exit.NOT_COMPARABLE):
            return Exit.GOOD
        return code

    def headline(self) -> str:
        """The verdict in one line."""
        words = {
            Exit.GOOD: "PASS: no confirmed regression",
            Exit.BAD: "FAIL: confirmed regression",
            Exit.USAGE: "REFUSED: nothing was compared",
            Exit.NOT_COMPARABLE: "REFUSED: the two sides are not comparable",
            Exit.INCOMPLETE: "INCOMPLETE: rows are missing, failed, invalid or undecidable",
            Exit.INCONCLUSIVE: "INCONCLUSIVE: the data cannot decide (--strict)",
        }
        code = self.exit_code()
        text = words.get(code, f"exit {int(code)}")
        if self.report_only and code is Exit.GOOD:
            text = "REPORT ONLY: metadata mismatch was allowed, so this cannot pass or fail"
        undecided = self.count(Verdict.INCONCLUSIVE)
        if undecided:
            text += f", but {undecided} of {len(self.rows)} rows are inconclusive"
        loud = [finding.text for finding in self.findings if finding.loud]
        if loud:
            text += "; " + "; ".join(loud)
        regressions, improvements = self.count(Verdict.REGRESSION), self.count(Verdict.IMPROVEMENT)
        return f"{text} ({regressions} regressions : {improvements} improvements)"


def sorted_for_people(rows: Iterable[Row]) -> list[Row]:
    """Worst ratio first, rows without a ratio before those that did not change."""
    return sorted(
        rows,
        key=lambda row: (
            row.verdict is Verdict.SAME,
            row.ratio is not None,
            -(row.ratio or 0.0),
            row.name,
        ),
    )
