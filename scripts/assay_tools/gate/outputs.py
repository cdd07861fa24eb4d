"""Four renderings of one result: gate.json (the contract), text, markdown and JUnit."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

from assay_tools import strict_json
from assay_tools.errors import Exit
from assay_tools.files import write_atomic
from assay_tools.gate.table import SYMBOL, WHAT_IT_MEANS, Result, Row, Verdict, sorted_for_people

SCHEMA_ID = "assay.gate/1"
FOLDED = (Verdict.SAME,)
_TIME_STEPS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def as_dict(result: Result) -> dict[str, Any]:
    """gate.json as a value, checked against its schema."""
    value = {
        "schema": SCHEMA_ID,
        "mode": result.mode,
        "exit_code": int(result.exit_code()),
        "headline": result.headline(),
        "banner": result.banner,
        "report_only": result.report_only,
        "rule": result.rule,
        "seed": result.seed,
        "inputs": result.inputs,
        "hosts": result.hosts,
        "metadata": result.metadata,
        "counts": result.counts(),
        "geomean": {"ratio": result.geomean, "rows": result.geomean_rows},
        "findings": [{"text": f.text, "exit_code": int(f.code)} for f in result.findings],
        "next_step": result.next_step,
        "run": result.run,
        "rows": [row.as_dict() for row in result.rows],
    }
    strict_json.validate(value, "gate", "gate.json", Exit.INTERNAL)
    return value


def number(value: float | None, unit: str) -> str:
    """A time with its prefix, a plain number otherwise."""
    if value is None:
        return "-"
    if unit != "s":
        return f"{value:.6g}"
    for step, suffix in _TIME_STEPS:
        if abs(value) >= step:
            return f"{value / step:.4g} {suffix}"
    return f"{value / 1e-9:.4g} ns"


def ratio_text(row: Row) -> str:
    """The ratio with its interval, or a dash."""
    if row.ratio is None:
        return "-"
    if row.interval is None:
        return f"x{row.ratio:.3f}"
    return f"x{row.ratio:.3f} [{row.interval[0]:.3f}, {row.interval[1]:.3f}]"


def one_line(text: str) -> str:
    """Control characters made visible, so that a name cannot break a line or a terminal."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def _counts_line(result: Result) -> str:
    parts = [f"{count} {verdict}" for verdict, count in result.counts().items()]
    return ", ".join(parts) or "no rows"


def _rule_line(result: Result) -> str:
    rule = result.rule
    floor = rule.get("floor")
    if floor is None:
        tail = (
            f"confirm: Holm p < {rule['confirm_p']} and ratio > {rule['confirm_ratio']} "
            "(interleaved data)"
        )
    else:
        tail = f"not interleaved: Holm p < {rule['confirm_p']} and ratio > {floor}"
    return (
        f"rule: screen p < {rule['screen_p']} and ratio > {rule['screen_ratio']}; {tail}; "
        f"n >= {rule['repetitions_min']} a side; seed {result.seed}"
    )


def _summary_lines(result: Result) -> list[str]:
    lines = [_counts_line(result), _rule_line(result)]
    hosts = sorted({f"{side} {host}" for side, host in result.hosts.items()})
    lines.append("hosts: " + ", ".join(hosts))
    if result.geomean is not None:
        lines.append(f"geometric mean of {result.geomean_rows} ratios: x{result.geomean:.3f}")
    dropped = sum(row.base.dropped + row.head.dropped for row in result.rows)
    lines.append(
        f"repetitions dropped for real/cpu > {result.rule['real_cpu_max']}: {dropped} "
        f"(base {sum(row.base.dropped for row in result.rows)}, "
        f"head {sum(row.head.dropped for row in result.rows)})"
    )
    return lines


def text(result: Result) -> str:
    """Plain text for a terminal or a log."""
    lines = []
    if result.banner:
        lines += ["*" * 78, result.banner, "*" * 78]
    lines.append(one_line(result.headline()))
    lines += [f"  {one_line(line)}" for line in _summary_lines(result)]
    lines += [f"  note: {one_line(finding.text)}" for finding in result.findings]
    shown = [row for row in sorted_for_people(result.rows) if row.verdict not in FOLDED]
    for row in shown:
        was = f" (was {one_line(row.renamed_from)})" if row.renamed_from else ""
        head = f"{SYMBOL[row.verdict]} {row.verdict}: {one_line(row.name)}{was}"
        lines.append(f"  {head} [{row.metric}] {ratio_text(row)}")
        lines.append(
            f"      {number(row.base.median, row.unit)} -> {number(row.head.median, row.unit)}, "
            f"n {row.base.n}/{row.head.n}: {one_line(row.reason)}"
        )
    same = result.count(Verdict.SAME)
    if same:
        lines.append(f"  {SYMBOL[Verdict.SAME]} same: {same} rows, listed in gate.json")
    if result.next_step:
        lines.append(f"next: {one_line(result.next_step)}")
    return "\n".join(lines) + "\n"


def md(value: str) -> str:
    """Text that cannot break out of a markdown table cell."""
    value = one_line(value)
    for char in "\\`*_[]|":
        value = value.replace(char, "\\" + char)
    return value.replace("<", "&lt;").replace(">", "&gt;")


def _md_table(rows: list[Row]) -> list[str]:
    lines = [
        "| verdict | benchmark | metric | base | head | ratio [95 %] | n | why |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        name = md(row.name) + (f" (was {md(row.renamed_from)})" if row.renamed_from else "")
        cells = (
            f"{SYMBOL[row.verdict].replace('|', '')} {row.verdict}", name, md(row.metric),
            number(row.base.median, row.unit), number(row.head.median, row.unit),
            ratio_text(row).replace("[", "\\["), f"{row.base.n}/{row.head.n}", md(row.reason),
        )  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def markdown(result: Result) -> str:
    """For a pull-request comment or a job summary: what changed first, the rest folded."""
    lines = [f"## assay gate: {md(result.headline())}", ""]
    if result.banner:
        lines += [f"> **{md(result.banner)}**", ""]
    lines += [f"- {md(line)}" for line in _summary_lines(result)]
    lines += [f"- note: {md(finding.text)}" for finding in result.findings]
    lines.append("")
    ordered = sorted_for_people(result.rows)
    loud = [row for row in ordered if row.verdict not in FOLDED]
    quiet = [row for row in ordered if row.verdict in FOLDED]
    if loud:
        lines += [*_md_table(loud), ""]
    if quiet:
        lines += [f"<details><summary>{len(quiet)} rows without a change</summary>", ""]
        lines += [*_md_table(quiet), "", "</details>", ""]
    used = [verdict for verdict in Verdict if result.count(verdict)]
    lines.append("; ".join(f"{SYMBOL[v]} {v}: {WHAT_IT_MEANS[v]}" for v in used))
    if result.next_step:
        lines += ["", f"Next: {md(result.next_step)}"]
    return "\n".join(lines) + "\n"


def _xml_text(value: str) -> str:
    return one_line(value)


def junit(result: Result) -> str:
    """One case per row: failure is a regression, error is an incomplete row, the rest skipped."""
    suite = ET.Element("testsuite", name="assay gate")
    totals = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    skipped = (
        Verdict.NEW, Verdict.SKIPPED, Verdict.INCONCLUSIVE, Verdict.INCOMPARABLE,
        Verdict.ERRORED_BOTH,
    )  # fmt: skip
    for row in result.rows:
        totals["tests"] += 1
        case = ET.SubElement(suite, "testcase", classname="assay.gate", name=_xml_text(row.name))
        message = _xml_text(f"{row.verdict}: {ratio_text(row)}: {row.reason}; rerun: {row.rerun}")
        if row.verdict is Verdict.REGRESSION:
            totals["failures"] += 1
            ET.SubElement(case, "failure", message=message, type="regression")
        elif row.exit_code is Exit.INCOMPLETE:
            totals["errors"] += 1
            ET.SubElement(case, "error", message=message, type=str(row.verdict))
        elif row.verdict in skipped:
            totals["skipped"] += 1
            ET.SubElement(case, "skipped", message=message)
    for finding in result.findings:
        if finding.code is not Exit.GOOD:
            totals["tests"] += 1
            totals["errors"] += 1
            case = ET.SubElement(suite, "testcase", classname="assay.gate", name="comparison")
            ET.SubElement(case, "error", message=_xml_text(finding.text), type="comparison")
    suite.attrib.update({key: str(value) for key, value in totals.items()})
    ET.indent(suite)
    body = ET.tostring(suite, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body}\n'


def write_all(
    result: Result, out: Path | None, markdown_file: Path | None, junit_file: Path | None
) -> None:
    """Write what was asked for; gate.json comes last, so that it proves the others exist."""
    contract = strict_json.dumps(as_dict(result))
    if markdown_file is not None:
        write_atomic(markdown_file, markdown(result))
    if junit_file is not None:
        write_atomic(junit_file, junit(result))
    if out is not None:
        write_atomic(out / "gate.md", markdown(result))
        write_atomic(out / "gate.junit.xml", junit(result))
        write_atomic(out / "gate.json", contract)
