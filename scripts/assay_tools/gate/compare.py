"""`assay gate compare`: judge result files that were measured elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from assay_tools.benchfile import Bench, BenchFile, load_results
from assay_tools.errors import Exit, ToolError
from assay_tools.gate import rule as rules
from assay_tools.gate.analysis import analyse
from assay_tools.gate.metadata import MetadataReport, Mismatch, compare_contexts
from assay_tools.gate.options import Options
from assay_tools.gate.table import Finding, Result, Row, Verdict, condition_finding

SEQUENTIAL_WINDOW = timedelta(hours=1)


@dataclass
class Side:
    """The files of one side, merged: their rows are further repetitions."""

    files: list[BenchFile]
    benches: dict[str, Bench]

    @property
    def context(self) -> dict[str, Any]:
        return self.files[0].context

    @property
    def host(self) -> str:
        return str(self.context.get("host_name", "unknown host"))

    def inputs(self) -> list[dict[str, str]]:
        return [{"path": file.path, "sha256": file.sha256} for file in self.files]


def load_side(paths: Sequence[Path]) -> Side:
    """Read and merge; files of one side must agree on their metadata among themselves."""
    files = [load_results(path) for path in paths]
    merged: dict[str, Bench] = {}
    for file in files:
        refused = compare_contexts(files[0].context, file.context).refused
        if file is not files[0] and refused:
            fields = "; ".join(mismatch.text() for mismatch in refused)
            raise ToolError(
                f"{files[0].path} and {file.path} are given as one side but differ: {fields}",
                Exit.NOT_COMPARABLE,
            )
        for name, bench in file.benches.items():
            known = merged.setdefault(
                name, Bench(name, bench.threads, source_version=bench.source_version)
            )
            known.samples.extend(bench.samples)
    return Side(files, merged)


def _same_session(base: Mapping[str, Any], head: Mapping[str, Any]) -> bool:
    session = base.get("ab_session")
    return isinstance(session, str) and session != "" and session == head.get("ab_session")


def _date(context: Mapping[str, Any]) -> datetime | None:
    try:
        parsed = datetime.fromisoformat(str(context.get("date", "")))
    except ValueError:
        return None
    return parsed.replace(tzinfo=None)


def effect_floor(base: Mapping[str, Any], head: Mapping[str, Any]) -> tuple[float | None, str]:
    """The smallest effect that counts, and why.

    Only repetitions from separate processes, taken on one host within the hour, earn the lower
    floor: repetitions inside one process share its bias, which no test can see.
    """
    if _same_session(base, head):
        return None, "same A/B session: full rule"
    processes = base.get("isolation") == head.get("isolation") == "process"
    host = base.get("host_name")
    dates = (_date(base), _date(head))
    near = dates[0] and dates[1] and abs(dates[0] - dates[1]) <= SEQUENTIAL_WINDOW
    if processes and near and host is not None and host == head.get("host_name"):
        return rules.FLOOR_SEQUENTIAL, "not interleaved, one host within an hour"
    return rules.FLOOR_STORED, "not interleaved: stored data or repetitions inside one process"


def metadata_dict(report: MetadataReport, conditions: Sequence[str] = ()) -> dict[str, Any]:
    """For gate.json; `conditions` are those that the samples themselves showed."""

    def listed(items: Sequence[Mismatch]) -> list[dict[str, Any]]:
        return [vars(item) for item in items]

    return {
        "refused": listed(report.refused),
        "allowed": listed(report.allowed),
        "notes": report.notes,
        "invalid_conditions": [*report.invalid_conditions, *conditions],
    }


def metadata_findings(report: MetadataReport, strict: bool) -> list[Finding]:
    """Remarks on where the data came from."""
    findings = [
        Finding(f"not comparable: {mismatch.text()}", Exit.NOT_COMPARABLE)
        for mismatch in report.refused
    ]
    findings += [Finding(f"mismatch allowed: {mismatch.text()}") for mismatch in report.allowed]
    findings += [Finding(note) for note in report.notes]
    findings += [condition_finding(why, strict) for why in report.invalid_conditions]
    return findings


def next_step(result_rows: Sequence[Row], code: Exit, report: MetadataReport, mode: str) -> str:
    """What the reader should do now."""
    if code is Exit.NOT_COMPARABLE:
        fields = ", ".join(mismatch.field for mismatch in report.refused)
        return (
            f"measure both sides under the same {fields}, or pass --allow-mismatch FIELD "
            "for a report that cannot pass or fail"
        )
    for verdict in (Verdict.REGRESSION, Verdict.ERRORED, Verdict.MISSING, Verdict.INCONCLUSIVE):
        for row in result_rows:
            if row.verdict is verdict:
                again = "measure again" if mode == "ab" else "decide by an interleaved run"
                return f"{again}: {row.rerun}"
    return ""


def banner_for(report: MetadataReport) -> str:
    """The warning on every output once a mismatch was waved through."""
    if not report.allowed:
        return ""
    fields = ", ".join(mismatch.field for mismatch in report.allowed)
    return f"WARNING: metadata differ and were allowed ({fields}). This is a report, not a gate."


def run_compare(
    base_paths: Sequence[Path],
    head_paths: Sequence[Path],
    options: Options,
    rule: rules.Rule,
    floor_override: float | None = None,
) -> Result:
    """Load, check, judge."""
    base, head = load_side(base_paths), load_side(head_paths)
    report = compare_contexts(base.context, head.context, options.allow_mismatch)
    floor, why = effect_floor(base.context, head.context)
    if floor is not None and floor_override is not None:
        floor, why = floor_override, "not interleaved, floor given by --floor"
    findings = metadata_findings(report, options.strict)
    rows: list[Row] = []
    geomean, geomean_rows = None, 0
    conditions: list[str] = []
    if not report.refused:
        analysis = analyse(base.benches, head.benches, options, rule, floor)
        rows, geomean, geomean_rows = analysis.rows, analysis.geomean, analysis.geomean_rows
        findings += analysis.findings
        conditions = analysis.conditions
    findings.append(Finding(f"effect floor: {why}"))
    result = Result(
        mode="compare",
        rows=rows,
        findings=findings,
        rule=rule.as_dict() | {"floor": floor},
        seed=options.seed,
        inputs={"base": base.inputs(), "head": head.inputs()},
        hosts={"base": base.host, "head": head.host},
        metadata=metadata_dict(report, conditions),
        banner=banner_for(report),
        report_only=bool(report.allowed),
        geomean=geomean,
        geomean_rows=geomean_rows,
    )
    result.next_step = next_step(rows, result.exit_code(), report, "compare")
    return result
