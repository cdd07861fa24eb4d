"""What the page shows, worked out from the inputs: verdict, scorecard, tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from assay_tools.benchfile import BenchFile
from assay_tools.fields import is_number
from assay_tools.plots.latency import Name, summarise
from assay_tools.plots.style import byte_label, time_label

# outcome -> symbol, word, style class
OUTCOMES: dict[str, tuple[str, str, str]] = {
    "pass": ("✓", "pass", "good"),
    "fail": ("✗", "FAIL", "bad"),
    "n/a": ("–", "n/a", "quiet"),
    "skipped": ("○", "skipped", "quiet"),
    "crashed": ("‼", "crashed", "bad"),
    "timed_out": ("…", "timed out", "bad"),
    "not run": ("?", "not run", "quiet"),
}
ORIGINS = ("assay", "system", "foreign", "mutant", "demo")
BAD_OUTCOMES = ("fail", "crashed", "timed_out")
EXPECTED_TO_FAIL = ("mutant", "demo")
DASH = "-"
NOTHING_VERIFIED = "incomplete"
# Facts that are different in every run by nature.
PER_RUN = ("date", "seed", "assay_schema", "executable", "load_avg", "mhz_per_cpu")


@dataclass(frozen=True)
class Cell:
    """One subject and property."""

    symbol: str
    word: str
    style: str
    anchor: str
    note: str


@dataclass
class Failure:
    """Everything needed to reproduce one bad cell."""

    anchor: str
    subject: str
    origin: str
    property: str
    goal: str
    word: str
    detail: str
    explanation: str
    seed: str
    cases: str
    commands: list[str]
    trace: str
    reproduced: str


@dataclass
class Scorecard:
    """The matrix and its failures, a line a subject; failures of assay's own come first."""

    properties: list[dict[str, Any]]
    rows: list[tuple[dict[str, Any], list[Cell]]]
    failures: list[Failure]
    mutants: list[dict[str, Any]]
    totals: list[tuple[str, str, int]]


@dataclass
class Line:
    """One sentence of the summary, with the style class of its weight."""

    style: str
    word: str
    text: str


@dataclass
class Table:
    """A plain table; the first cell of a row is its header."""

    title: str
    header: list[str]
    rows: list[list[str]] = field(default_factory=list)


def _shown(value: Any) -> str:
    return DASH if value is None or value == "" else str(value)


def _failure(cell: Mapping[str, Any], anchor: str, origin: str, goal: str) -> Failure:
    reproduced = {True: "yes", False: "no: flaky", None: "not tried"}[cell.get("reproduced")]
    return Failure(
        anchor=anchor,
        subject=cell["subject"],
        origin=origin,
        property=cell["property"],
        goal=goal,
        word=OUTCOMES[cell["outcome"]][1],
        detail=_shown(cell.get("detail")),
        explanation=cell.get("explanation") or "",
        seed=_shown(cell.get("seed")),
        cases=_shown(cell.get("cases")),
        commands=list(cell.get("commands") or []),
        trace=_shown(cell.get("trace")),
        reproduced=reproduced,
    )


def scorecard(verify: Mapping[str, Any]) -> Scorecard:
    """Subjects down, properties across; a pair without a cell is shown as not run."""
    subjects = [dict(subject) for subject in verify["subjects"]]
    properties = [dict(prop) for prop in verify["properties"]]
    cells = {(cell["subject"], cell["property"]): cell for cell in verify["cells"]}
    known_subjects = {subject["id"] for subject in subjects}
    known_properties = {prop["id"] for prop in properties}
    for subject, prop in cells:
        if subject not in known_subjects:
            subjects.append({"id": subject, "status": "ran", "origin": "foreign"})
            known_subjects.add(subject)
        if prop not in known_properties:
            properties.append({"id": prop, "goal": ""})
            known_properties.add(prop)
    failures: list[Failure] = []
    rows = []
    counts: dict[str, int] = {}
    for subject in subjects:
        line = []
        for prop in properties:
            cell = cells.get((subject["id"], prop["id"]))
            outcome = cell["outcome"] if cell else _without_cell(subject)
            counts[outcome] = counts.get(outcome, 0) + 1
            anchor = ""
            if cell is not None and outcome in BAD_OUTCOMES:
                anchor = f"failure-{len(failures) + 1}"
                origin = subject.get("origin", "foreign")
                failures.append(_failure(cell, anchor, origin, prop.get("goal", "")))
            symbol, word, style = OUTCOMES[outcome]
            note = (cell or {}).get("detail") or subject.get("reason") or ""
            line.append(Cell(symbol, word, style, anchor, note if outcome != "pass" else ""))
        rows.append((subject, line))
    totals = [(OUTCOMES[k][0], OUTCOMES[k][1], counts[k]) for k in OUTCOMES if counts.get(k)]
    failures.sort(key=lambda failure: ORIGINS.index(failure.origin))
    return Scorecard(properties, rows, failures, list(verify.get("mutants", [])), totals)


def _without_cell(subject: Mapping[str, Any]) -> str:
    return "skipped" if subject.get("status") == "skipped" else "not run"


def verified(verify: Mapping[str, Any]) -> bool:
    """Whether the scorecard answers anything: skipped cells and broken demos do not."""
    return not any(line.word == NOTHING_VERIFIED for line in verify_summary(scorecard(verify)))


def verify_summary(card: Scorecard) -> list[Line]:
    """Ours must hold; findings in other people's allocators are results, not failures of ours."""
    ours = [f for f in card.failures if f.origin == "assay"]
    others = [f for f in card.failures if f.origin in ("system", "foreign")]
    expected = [f for f in card.failures if f.origin in EXPECTED_TO_FAIL]
    alive = [mutant["id"] for mutant in card.mutants if not mutant["killed"]]
    lines = []
    if ours:
        names = sorted({failure.subject for failure in ours})
        text = f"{len(ours)} properties fail for allocators of this project: {', '.join(names)}"
        lines.append(Line("bad", "FAIL", text))
    elif any(cell.word == "pass" for _, cells in card.rows for cell in cells):
        text = "no property fails for an allocator of this project"
        lines.append(Line("good", "pass", text))
    else:
        lines.append(
            Line("warn", NOTHING_VERIFIED, "no property passed anywhere: nothing was verified")
        )
    if others:
        names = sorted({failure.subject for failure in others})
        text = f"{len(others)} findings in other allocators: {', '.join(names)}"
        lines.append(Line("warn", "finding", text))
    if expected:
        text = f"{len(expected)} failures of demos and mutants, which are broken on purpose"
        lines.append(Line("good", "expected", text))
    if alive:
        text = f"{len(alive)} broken allocators were not caught: {', '.join(alive)}"
        lines.append(Line("bad", "FAIL", text))
    skipped = [s for s in [subject for subject, _ in card.rows] if s.get("status") == "skipped"]
    if skipped:
        text = "; ".join(f"{s['id']}: {_shown(s.get('reason'))}" for s in skipped)
        lines.append(Line("quiet", "skipped", f"{len(skipped)} subjects did not run ({text})"))
    return lines


@dataclass
class ProfileCard:
    """What was verified on one profile of the driver's model."""

    name: str
    driver: str
    card: Scorecard
    summary: list[Line]


def profile_card(verify: Mapping[str, Any]) -> ProfileCard:
    """A scorecard of the model, under the name of its profile, with its own line of summary."""
    context = verify["context"]
    name = _shown(context.get("driver_profile"))
    card = scorecard(verify)
    ours = [failure for failure in card.failures if failure.origin == "assay"]
    passed = sum(cell.word == "pass" for _, cells in card.rows for cell in cells)
    if ours:
        names = ", ".join(sorted({failure.subject for failure in ours}))
        line = Line("bad", "FAIL", f"{len(ours)} properties fail on the model {name}: {names}")
    elif passed:
        text = f"{passed} properties hold on the model {name} (not a GPU)"
        line = Line("good", "pass", text)
    else:
        line = Line("warn", NOTHING_VERIFIED, f"nothing was verified on the model {name}")
    return ProfileCard(name, _shown(context.get("driver_version")), card, [line])


def bench_tables(bench: BenchFile) -> list[Table]:
    """A table per family: sizes down, backings across; rows without a size in a plain list."""
    families: dict[str, dict[int, dict[str, str]]] = {}
    plain = Table("Other rows", ["benchmark", "median", "p10 to p90", "n"])
    for item in bench.benches.values():
        name, point = Name.parse(item.name), summarise(item)
        if point.median is None:
            text = f"{point.status}: {point.reason}"
        else:
            text = time_label(point.median)
        if name.size is None:
            band = DASH
            if point.low is not None and point.high is not None:
                band = f"{time_label(point.low)} to {time_label(point.high)}"
            plain.rows.append([item.name, text, band, str(point.n)])
            continue
        column = " ".join(part for part in (name.backing or "all", name.rest) if part)
        families.setdefault(name.family, {}).setdefault(name.size, {})[column] = text
    tables = []
    for family, sizes in families.items():
        columns = list(dict.fromkeys(column for cells in sizes.values() for column in cells))
        table = Table(family, ["size", *columns])
        for size in sorted(sizes):
            cells = [sizes[size].get(column, "no row") for column in columns]
            table.rows.append([byte_label(size), *cells])
        tables.append(table)
    return tables + ([plain] if plain.rows else [])


def bench_summary(bench: BenchFile) -> list[Line]:
    """How many rows have a number, and which have not."""
    points = [(item.name, summarise(item)) for item in bench.benches.values()]
    failed = [name for name, point in points if point.status in ("error", "invalid")]
    skipped = sum(point.status == "skipped" for _, point in points)
    good = len(points) - len(failed) - skipped
    lines = [Line("good" if good else "bad", "measured", f"{good} of {len(points)} benchmark rows")]
    if failed:
        more = ", ..." if len(failed) > 5 else ""
        text = f"{len(failed)} benchmark rows failed: {', '.join(failed[:5])}{more}"
        lines.append(Line("bad", "FAIL", text))
    if skipped:
        lines.append(Line("quiet", "skipped", f"{skipped} benchmark rows"))
    return lines


def _nanoseconds(record: Mapping[str, Any], key: str) -> str:
    value = record.get(key)
    if value is None:
        return DASH
    return "below timer" if value <= 0 else time_label(value * 1e-9)


def _bytes(value: float | None) -> str:
    return "unknown" if value is None else byte_label(value)


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{100 * value:.1f} %"


def replay_table(replay: Mapping[str, Any]) -> Table:
    """One row per subject; a subject without a result says why."""
    operations = list(
        dict.fromkeys(n for run in replay["runs"] for n in run.get("operations") or {})
    )
    header = ["subject", "status", "time"]
    header += [f"{op} {word}" for op in operations for word in ("p50", "p99", "p99.9")]
    header += ["peak requested", "granted", "reserved", "resident"]
    header += ["internal fragmentation", "external fragmentation", "failed allocations"]
    table = Table("Replay", header)
    for run in replay["runs"]:
        status = str(run["status"]).replace("_", " ")
        if run["status"] != "ok":
            reason = f"{status}: {_shown(run.get('reason'))}"
            table.rows.append([run["subject"], reason, *[DASH] * (len(header) - 2)])
            continue
        time_s = run.get("time_s")
        cells = [run["subject"], status, DASH if time_s is None else time_label(time_s)]
        for operation in operations:
            record = (run.get("operations") or {}).get(operation) or {}
            cells += [_nanoseconds(record, key) for key in ("p50_ns", "p99_ns", "p999_ns")]
        peak = run.get("peak") or {}
        for key in ("requested", "granted", "reserved", "resident"):
            cells.append(_bytes(peak.get(f"{key}_bytes")))
        cells += [_percent(run.get(f"{key}_fragmentation")) for key in ("internal", "external")]
        table.rows.append([*cells, _shown(run.get("failed_allocations"))])
    return table


def replay_summary(replay: Mapping[str, Any]) -> list[Line]:
    """How many subjects replayed the trace."""
    good = [run for run in replay["runs"] if run["status"] == "ok"]
    lines = [
        Line(
            "good" if good else "bad", "replayed",
            f"{len(good)} of {len(replay['runs'])} subjects ran the trace to its end",
        )
    ]  # fmt: skip
    for run in replay["runs"]:
        if run["status"] in ("error", "crashed", "timed_out"):
            text = f"replay on {run['subject']}: {_shown(run.get('reason'))}"
            lines.append(Line("warn", str(run["status"]).replace("_", " "), text))
    return lines


def trace_table(replay: Mapping[str, Any]) -> Table:
    """What was replayed."""
    table = Table("Trace", ["fact", "value"])
    for key, value in {**replay["trace"], **replay.get("options", {})}.items():
        in_bytes = is_number(value) and (key.endswith("bytes") or "bytes_" in key)
        text = byte_label(value) if in_bytes else _shown(value)
        table.rows.append([key.replace("_", " "), text])
    return table


def _agreement(key: str, values: Mapping[str, Any]) -> str:
    present = {name: value for name, value in values.items() if value is not None}
    if len(present) == 1 and len(values) > 1:
        return f"only {next(iter(present))}"
    if len({str(value) for value in present.values()}) <= 1:
        return "same"
    return "per run" if key in PER_RUN else "differs"


def environment_table(contexts: Mapping[str, Mapping[str, Any]]) -> Table:
    """Every fact of every input; a fact that differs between inputs is marked."""
    table = Table("Environment", ["fact", *contexts, "agreement"])
    for key in dict.fromkeys(key for context in contexts.values() for key in context):
        values = {name: context.get(key) for name, context in contexts.items()}
        cells = [_shown(value) for value in values.values()]
        table.rows.append([key, *cells, _agreement(key, values)])
    return table


def environment_summary(table: Table) -> list[Line]:
    """Results of different builds or machines on one page are worth a warning."""
    differing = [row[0] for row in table.rows if row[-1] == "differs"]
    if not differing:
        return []
    return [Line("warn", "mixed", f"the inputs differ in {', '.join(differing)}")]
