"""From matched samples to verdicts: the same code for `ab`, `compare` and the self-test."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from assay_tools.benchfile import Bench
from assay_tools.errors import Exit
from assay_tools.gate import rule as rules
from assay_tools.gate import stats
from assay_tools.gate.matching import (
    CONFIRM,
    Measured,
    interruptions,
    match,
    measure_counter,
    measure_time,
    settle,
)
from assay_tools.gate.options import Options
from assay_tools.gate.rule import FASTER, SLOWER, Rule, Screened
from assay_tools.gate.table import Finding, Row, Verdict, condition_finding

UNIFORM_ROWS_MIN = 5
UNIFORM_SPREAD_MAX = 0.01


@dataclass
class Analysis:
    """Rows, remarks on the whole, and the geometric mean over the valid rows."""

    rows: list[Row]
    findings: list[Finding]
    geomean: float | None
    geomean_rows: int
    conditions: list[str] = field(default_factory=list)


def filter_for(name: str) -> str:
    """An anchored extended regular expression that matches this name only."""
    return "^" + "".join("\\" + c if c in r"\.[]{}()*+?^$|" else c for c in name) + "$"


def collect(
    base: dict[str, Bench], head: dict[str, Bench], options: Options, rule: Rule
) -> tuple[list[Row], list[Measured]]:
    """Settled rows, and rows with samples to judge."""
    settled: list[Row] = []
    measured: list[Measured] = []
    for pair in match(base, head, options):
        row = settle(pair, options)
        if row is not None:
            settled.append(row)
            continue
        candidates = [measure_time(pair, rule)]
        candidates += [measure_counter(pair, counter) for counter in options.counters]
        for candidate in candidates:
            if candidate.row.reason_code:
                settled.append(candidate.row)
            else:
                measured.append(candidate)
    for row in settled + [item.row for item in measured]:
        row.rerun = f"{options.rerun_prefix} --filter {shlex.quote(filter_for(row.name))}"
    return settled, measured


def analyse(
    base: dict[str, Bench],
    head: dict[str, Bench],
    options: Options,
    rule: Rule,
    floor: float | None,
) -> Analysis:
    """Judge everything; `floor` is the least effect that counts, None for interleaved data."""
    settled, measured = collect(base, head, options, rule)
    enough = [item for item in measured if _enough(item, rule)]
    staged = any(stage for item in enough for stage in item.base)
    if floor is not None or not staged:
        _judge_single_stage(enough, options, rule, floor)
    else:
        _judge_two_stages(enough, options, rule)
    rows = settled + [item.row for item in measured]
    order = {name: index for index, name in enumerate(dict.fromkeys([*base, *head]))}
    rows.sort(key=lambda row: (order.get(row.renamed_from or row.name, 0), row.metric))
    if options.strict:
        for row in rows:
            if row.verdict is Verdict.INCONCLUSIVE and row.exit_code is Exit.GOOD:
                row.exit_code = Exit.INCONCLUSIVE
    ratios = [row.ratio for row in rows if row.ratio is not None and row.unit == "s"]
    interrupted = interruptions(match(base, head, options), rule)
    conditions = [] if interrupted is None else [interrupted]
    findings = [condition_finding(why, options.strict) for why in conditions]
    findings += _whole_findings(rows, options)
    return Analysis(rows, findings, stats.geometric_mean(ratios), len(ratios), conditions)


def suspects(
    base: dict[str, Bench], head: dict[str, Bench], options: Options, rule: Rule
) -> list[str]:
    """Base names to measure again: stage one only."""
    _, measured = collect(base, head, options, rule)
    enough = [item for item in measured if _enough(item, rule)]
    screened = rules.screen([_pair(item, confirmed=False) for item in enough], rule)
    return list(
        dict.fromkeys(
            item.row.renamed_from or item.row.name
            for item, row in zip(enough, screened, strict=True)
            if row.suspect
        )
    )


def _values(stages: dict[str, stats.Array], confirmed: bool) -> stats.Array:
    if confirmed:
        return stages.get(CONFIRM, np.empty(0))
    parts = [values for stage, values in stages.items() if stage != CONFIRM]
    return np.concatenate(parts) if parts else np.empty(0)


def _pair(item: Measured, confirmed: bool) -> rules.RowPair:
    return _values(item.base, confirmed), _values(item.head, confirmed)


def _enough(item: Measured, rule: Rule, confirmed: bool = False) -> bool:
    counts = [len(values) for values in _pair(item, confirmed)]
    if min(counts) >= rule.repetitions_min:
        return True
    row = item.row
    row.verdict, row.reason_code = Verdict.INCONCLUSIVE, "insufficient"
    where = "confirming run: " if confirmed else ""
    row.reason = (
        f"{where}insufficient: {counts[0]} against {counts[1]} valid repetitions, "
        f"at least {rule.repetitions_min} a side are needed"
    )
    row.n_needed = rule.repetitions_min
    return False


def _fill(
    item: Measured, screened: Screened, confirmed: bool, options: Options, rule: Rule
) -> None:
    """Numbers of the stage that decided."""
    base, head = _pair(item, confirmed)
    row = item.row
    row.ratio, row.p, row.stage = screened.ratio, screened.p, CONFIRM if confirmed else "screen"
    row.interval = stats.ratio_interval(
        base, head, stats.row_seed(options.seed, f"{row.name}\0{row.metric}"), rule.resamples
    )
    row.base.n, row.head.n = len(base), len(head)
    if row.unit == "s":
        row.base.median, row.head.median = float(np.median(base)), float(np.median(head))


def _unflagged(row: Row, rule: Rule, reason: str) -> None:
    """Not flagged: `same`, unless the interval still allows a change that matters."""
    row.verdict, row.reason_code, row.reason = Verdict.SAME, "same", reason
    if row.interval is None or row.ratio is None or row.interval[1] <= rule.interval_limit:
        return
    row.n_needed = stats.repetitions_needed(
        min(row.base.n, row.head.n),
        row.ratio,
        row.interval,
        (rule.confirm_ratio, rule.interval_limit),
    )
    needed = f"about {row.n_needed} a side would decide" if row.n_needed else "too noisy"
    row.verdict, row.reason_code = Verdict.INCONCLUSIVE, "wide_interval"
    row.reason = (
        f"{reason}, but the 95 % interval reaches x{row.interval[1]:.2f}, "
        f"above x{rule.interval_limit:.2f}: {needed}"
    )


def _flag(row: Row, direction: str, reason: str) -> None:
    if direction == SLOWER:
        row.verdict, row.reason_code, row.exit_code = Verdict.REGRESSION, "slower", Exit.BAD
    else:
        row.verdict, row.reason_code = Verdict.IMPROVEMENT, "faster"
    row.reason = reason


def _judge_two_stages(items: Sequence[Measured], options: Options, rule: Rule) -> None:
    first = rules.screen([_pair(item, confirmed=False) for item in items], rule)
    second: list[tuple[Measured, Screened]] = []
    for item, screened in zip(items, first, strict=True):
        _fill(item, screened, False, options, rule)
        if screened.suspect is None:
            _unflagged(item.row, rule, "not a suspect in the screening run")
        elif _enough(item, rule, confirmed=True):
            second.append((item, screened))
        elif screened.suspect == SLOWER:
            item.row.reason_code, item.row.exit_code = "unconfirmed", Exit.INCOMPLETE
            item.row.reason = f"a suspect at x{screened.ratio:.3f}; {item.row.reason}"
    directions = [screened.suspect or SLOWER for _, screened in second]
    decided = rules.confirm([_pair(item, True) for item, _ in second], directions, rule)
    for (item, screened), outcome, direction in zip(second, decided, directions, strict=True):
        again = Screened(outcome.ratio, outcome.p, outcome.p, screened.suspect)
        _fill(item, again, True, options, rule)
        item.row.p, item.row.p_adjusted = outcome.p, outcome.p_adjusted
        numbers = f"x{outcome.ratio:.3f}, Holm p {outcome.p_adjusted:.2g}"
        if outcome.passed:
            _flag(item.row, direction, f"confirmed on fresh data: {numbers}")
        else:
            _unflagged(item.row, rule, f"suspect not confirmed on fresh data ({numbers})")


def _judge_single_stage(
    items: Sequence[Measured], options: Options, rule: Rule, floor: float | None
) -> None:
    """Data without a confirming run: Holm over every row that was tested."""
    pairs = [_pair(item, confirmed=False) for item in items]
    first = rules.screen(pairs, rule)
    directions = [SLOWER if screened.ratio >= 1 else FASTER for screened in first]
    limit = rule.confirm_ratio if floor is None else floor
    decided = rules.confirm(pairs, directions, rule, limit)
    for item, screened, outcome, direction in zip(items, first, decided, directions, strict=True):
        row = item.row
        _fill(item, screened, False, options, rule)
        row.p_adjusted = outcome.p_adjusted
        numbers = f"x{outcome.ratio:.3f}, Holm p {outcome.p_adjusted:.2g}"
        if outcome.passed:
            _flag(row, direction, f"beyond the floor of x{limit:.2f}: {numbers}")
        elif screened.suspect is not None and floor is not None:
            row.verdict, row.reason_code = Verdict.INCONCLUSIVE, "not_interleaved"
            row.reason = (
                f"not interleaved: {numbers} is within the floor of x{limit:.2f}; "
                f"decide with: {row.rerun}"
            )
        else:
            _unflagged(row, rule, f"no significant change ({numbers})")


def _whole_findings(rows: Sequence[Row], options: Options) -> list[Finding]:
    findings: list[Finding] = []
    both = [row for row in rows if row.verdict not in (Verdict.NEW, Verdict.MISSING)]
    if not both:
        findings.append(
            Finding("0 rows compared: no benchmark name occurs on both sides", Exit.USAGE)
        )
    elif all(row.ratio is None and row.reason_code != "zero" for row in both):
        insufficient = any(row.reason_code == "insufficient" for row in both)
        why = "too few repetitions" if insufficient else "no row has valid times on both sides"
        findings.append(Finding(f"0 rows could be judged: {why}", Exit.INCOMPLETE))
    names = {row.renamed_from or row.name for row in rows if row.verdict is not Verdict.NEW}
    shared = {row.renamed_from or row.name for row in both}
    if names and len(shared) < options.min_overlap * len(names):
        text = f"overlap {len(shared)} of {len(names)} base rows is below --min-overlap"
        findings.append(Finding(text, Exit.INCOMPLETE))
    for wanted in options.require:
        if not any(Options(require=(wanted,)).required(row.name) for row in rows):
            findings.append(Finding(f"required benchmark {wanted!r} is absent", Exit.INCOMPLETE))
    for old, new in options.renames.items():
        if not any(row.renamed_from == old for row in rows):
            findings.append(Finding(f"rename map: {old!r} -> {new!r} matched nothing"))
    findings.extend(_uniform_shift(rows))
    return findings


def _uniform_shift(rows: Sequence[Row]) -> list[Finding]:
    """All rows moved by one factor: that is the machine or the build, not the change."""
    logs = np.log([row.ratio for row in rows if row.ratio is not None and row.unit == "s"])
    if len(logs) < UNIFORM_ROWS_MIN:
        return []
    center = float(np.median(logs))
    spread = float(np.median(np.abs(logs - center)))
    if abs(center) < np.log(1.03) or spread > UNIFORM_SPREAD_MAX:
        return []
    text = (
        f"uniform shift: {len(logs)} rows all moved by about x{np.exp(center):.3f}; "
        "look at the machine, the clock or the build before the code"
    )
    return [Finding(text)]
