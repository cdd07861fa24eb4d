"""Pairing the rows of two sides and settling every row that has no ratio to judge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from assay_tools.benchfile import Bench, Sample, valid_time
from assay_tools.errors import Exit, ToolError
from assay_tools.gate.options import GatedCounter, Options
from assay_tools.gate.rule import Rule
from assay_tools.gate.stats import Array
from assay_tools.gate.table import Row, SideSummary, Verdict

CONFIRM = "confirm"
# Ratios, and sums for medians, of values in this range fit a double.
VALUE_MIN, VALUE_MAX = 1e-150, 1e150


@dataclass
class Pair:
    """One benchmark name on both sides."""

    name: str
    base: Bench | None
    head: Bench | None
    renamed_from: str | None = None


@dataclass
class Measured:
    """A row with valid samples on both sides, per stage, as costs (lower is better)."""

    row: Row
    base: dict[str, Array] = field(default_factory=dict)
    head: dict[str, Array] = field(default_factory=dict)


def match(base: dict[str, Bench], head: dict[str, Bench], options: Options) -> list[Pair]:
    """Pairs in base order, then what only head has; renames come from the user's map alone."""
    pairs: list[Pair] = []
    used: set[str] = set()
    for name, bench in base.items():
        new = options.renames.get(name)
        if new is not None and new in base:
            raise ToolError(f"rename map: {name!r} -> {new!r}, but base already has {new!r}")
        target = new if new is not None and name not in head else name
        other = head.get(target)
        renamed = name if other is not None and target != name else None
        pairs.append(Pair(target if renamed else name, bench, other, renamed))
        used.add(target)
    pairs.extend(Pair(name, None, bench) for name, bench in head.items() if name not in used)
    return pairs


def _first(samples: list[Sample], kind: str) -> str | None:
    for sample in samples:
        message = getattr(sample, kind)
        if message is not None:
            return str(message)
    return None


def settle(pair: Pair, options: Options) -> Row | None:
    """The rows of table 6.2 that need no timing: new, missing, skipped, failed, incomparable."""
    base, head = pair.base, pair.head
    anyone = head or base
    assert anyone is not None
    make = _Maker(pair.name, anyone.clock, pair.renamed_from)
    if base is None:
        return make.row(Verdict.NEW, "new", "only in head: nothing to compare with")
    if head is None:
        allowed = options.may_be_missing(pair.name)
        text = "only in base" + (", allowed by --allow-missing" if allowed else "")
        code = Exit.GOOD if allowed else Exit.INCOMPLETE
        return make.row(Verdict.MISSING, "missing", text, code)
    for side, bench in (("base", base), ("head", head)):
        skipped = _first(bench.samples, "skipped")
        if skipped is not None:
            code = Exit.INCOMPLETE if options.required(pair.name) else Exit.GOOD
            return make.row(Verdict.SKIPPED, "skipped", f"{side}: {skipped}", code)
    return _settle_errors(make, base, head, options.required(pair.name))


@dataclass(frozen=True)
class _Maker:
    name: str
    metric: str
    renamed_from: str | None

    def row(self, verdict: Verdict, code: str, reason: str, exit_code: Exit = Exit.GOOD) -> Row:
        return Row(
            self.name, self.metric, verdict, code, reason,
            renamed_from=self.renamed_from, exit_code=exit_code,
        )  # fmt: skip


def _settle_errors(make: _Maker, base: Bench, head: Bench, required: bool) -> Row | None:
    failed_base, failed_head = _first(base.samples, "error"), _first(head.samples, "error")
    if failed_head is not None and failed_base is not None:
        code = Exit.INCOMPLETE if required else Exit.GOOD
        text = f"base: {failed_base}; head: {failed_head}"
        return make.row(Verdict.ERRORED_BOTH, "errored_both", text, code)
    if failed_head is not None:
        return make.row(Verdict.ERRORED, "errored", f"head: {failed_head}", Exit.INCOMPLETE)
    if failed_base is not None:
        return make.row(Verdict.FIXED, "fixed", f"base: {failed_base}; head works")
    if base.source_version != head.source_version:
        text = f"source version {base.source_version} against {head.source_version}"
        return make.row(Verdict.INCOMPARABLE, "source_version", text)
    if base.clock != head.clock:
        return make.row(Verdict.INCOMPARABLE, "clock", f"{base.clock} against {head.clock}")
    return None


def _interrupted(sample: Sample, limit: float) -> bool:
    return bool(sample.real_s and sample.cpu_s and sample.real_s / sample.cpu_s > limit)


def quality_filter(base: Bench, head: Bench, rule: Rule) -> tuple[list[Sample], list[Sample]]:
    """Drop interrupted repetitions by one rule for both sides, blind to which side they are on.

    Where most repetitions of both sides exceed the limit, waiting is what the benchmark does, and
    nothing is dropped. For a row on real time one such side is enough: a head that began to wait is
    the slowdown that the row is there to find.
    """
    if not (base.filterable and head.filterable):
        return base.samples, head.samples
    keep = [
        [sample for sample in side.samples if not _interrupted(sample, rule.real_cpu_max)]
        for side in (base, head)
    ]
    waits = [
        2 * len(kept) < len(side.samples) for kept, side in zip(keep, (base, head), strict=True)
    ]
    if all(waits) or (base.clock == "real_time" and any(waits)):
        return base.samples, head.samples
    return keep[0], keep[1]


def interruptions(pairs: list[Pair], rule: Rule) -> str | None:
    """A remark where rows on CPU time were mostly interrupted, so that nothing could be dropped.

    From one such row alone a loaded machine and a benchmark that waits look the same, so the
    remark names the rows and both ways out.
    """
    interrupted, total, rows = 0, 0, []
    for pair in pairs:
        sides = [side for side in (pair.base, pair.head) if side is not None]
        if len(sides) < 2 or any(not s.filterable or s.clock != "cpu_time" for s in sides):
            continue
        counts = [sum(_interrupted(s, rule.real_cpu_max) for s in side.samples) for side in sides]
        interrupted, total = interrupted + sum(counts), total + sum(len(s.samples) for s in sides)
        if 2 * sum(counts) > sum(len(side.samples) for side in sides):
            rows.append(pair.name)
    if not rows:
        return None
    return (
        f"{interrupted} of {total} repetitions were interrupted by other work "
        f"(real/cpu > {rule.real_cpu_max:g}); run on a quieter machine"
        f" (mostly interrupted: {', '.join(rows[:3])}{', ...' if len(rows) > 3 else ''};"
        " a benchmark that waits by nature belongs on /real_time)"
    )


def _time_of(sample: Sample, clock: str) -> float | None:
    return sample.real_s if clock == "real_time" else sample.cpu_s


def computable(values: Sequence[float]) -> bool:
    """Whether medians and ratios of these stay finite and above zero; zeros are judged apart."""
    return all(value == 0 or VALUE_MIN <= abs(value) <= VALUE_MAX for value in values)


def _out_of_range(what: str) -> tuple[Verdict, str, str]:
    text = f"{what} outside {VALUE_MIN:g} to {VALUE_MAX:g}: no ratio can be computed"
    return Verdict.INVALID, "out_of_range", text


def _stages(samples: list[Sample], values: list[float]) -> dict[str, Array]:
    """Values per stage; data without stage marks is one stage."""
    result: dict[str, list[float]] = {}
    for sample, value in zip(samples, values, strict=True):
        result.setdefault(sample.stage, []).append(value)
    return {stage: np.array(members) for stage, members in result.items()}


def measure_time(pair: Pair, rule: Rule) -> Measured:
    """The time metric of a pair; one bad time anywhere makes the row invalid."""
    assert pair.base is not None and pair.head is not None
    clock = pair.base.clock
    row = Row(pair.name, clock, Verdict.SAME, "", "", renamed_from=pair.renamed_from)
    for side, bench in (("base", pair.base), ("head", pair.head)):
        for index, sample in enumerate(bench.samples):
            if not valid_time(_time_of(sample, clock)):
                row.verdict, row.reason_code = Verdict.INVALID, "invalid_time"
                row.reason = f"{side}: repetition {index} has {clock} {_time_of(sample, clock)}"
                row.exit_code = Exit.INCOMPLETE
                return Measured(row)
    times = [_time_of(s, clock) or 0.0 for b in (pair.base, pair.head) for s in b.samples]
    if not computable(times):
        row.verdict, row.reason_code, row.reason = _out_of_range(clock)
        row.exit_code = Exit.INCOMPLETE
        return Measured(row)
    measured = Measured(row)
    kept = quality_filter(pair.base, pair.head, rule)
    for bench, samples, summary, stages in (
        (pair.base, kept[0], row.base, measured.base),
        (pair.head, kept[1], row.head, measured.head),
    ):
        values = [_time_of(sample, clock) or 0.0 for sample in samples]
        _summarise(summary, values, len(bench.samples) - len(samples))
        stages.update(_stages(samples, values))
    return measured


def _summarise(summary: SideSummary, values: list[float], dropped: int) -> None:
    summary.n, summary.dropped = len(values), dropped
    summary.median = float(np.median(values)) if values else None


def measure_counter(pair: Pair, counter: GatedCounter) -> Measured:
    """A gated counter: missing or non-finite is invalid, zero is judged without a ratio."""
    assert pair.base is not None and pair.head is not None
    row = Row(
        pair.name, counter.name, Verdict.SAME, "", "", unit="", renamed_from=pair.renamed_from
    )
    measured = Measured(row)
    values: list[list[float]] = []
    for side, bench, summary in (("base", pair.base, row.base), ("head", pair.head, row.head)):
        found = [sample.counters.get(counter.name) for sample in bench.samples]
        good = [value for value in found if value is not None and math.isfinite(value)]
        if len(good) != len(found) or any(value < 0 for value in good):
            row.verdict, row.reason_code = Verdict.INVALID, "invalid_counter"
            row.reason = f"{side}: counter {counter.name} is absent, negative or not a number"
            row.exit_code = Exit.INCOMPLETE
            return measured
        if not computable(good):
            row.verdict, row.reason_code, row.reason = _out_of_range(f"counter {counter.name}")
            row.exit_code = Exit.INCOMPLETE
            return measured
        _summarise(summary, good, 0)
        values.append(good)
    if any(value == 0 for side_values in values for value in side_values):
        _judge_zero(row, counter)
        return measured
    cost = [1 / np.array(v) if counter.higher_is_better else np.array(v) for v in values]
    measured.base = _stages(pair.base.samples, list(cost[0]))
    measured.head = _stages(pair.head.samples, list(cost[1]))
    return measured


def _judge_zero(row: Row, counter: GatedCounter) -> None:
    base, head = row.base.median or 0.0, row.head.median or 0.0
    row.reason_code = "zero"
    row.reason = f"{counter.name}: {base:g} to {head:g}, judged without a ratio"
    if base == head:
        row.verdict = Verdict.SAME
        return
    worse = head < base if counter.higher_is_better else head > base
    if not worse:
        row.verdict = Verdict.IMPROVEMENT
    elif abs(head - base) > counter.zero_limit:
        row.verdict, row.exit_code = Verdict.REGRESSION, Exit.BAD
