"""`assay gate ab`: measure two binaries against each other and judge them.

A repetition is one fresh process. Base and head alternate, the order inside each pair is drawn from
the recorded seed, so whatever the host does meets both sides alike. Suspects of the screening run
are measured again on fresh data; there is no third stage and no retry until green.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from assay_tools import strict_json
from assay_tools.benchfile import Bench, Sample
from assay_tools.errors import Exit
from assay_tools.files import write_atomic
from assay_tools.gate.analysis import Analysis, analyse, suspects
from assay_tools.gate.compare import banner_for, metadata_dict, metadata_findings, next_step
from assay_tools.gate.matching import CONFIRM, quality_filter
from assay_tools.gate.metadata import MetadataReport, compare_contexts, load_average, overload
from assay_tools.gate.options import Options
from assay_tools.gate.progress import Progress
from assay_tools.gate.rule import Rule
from assay_tools.gate.runner import Limits, Target, install, list_rows, run_pass
from assay_tools.gate.table import Finding, Result

SCREEN = "screen"
SIDES = ("base", "head")


@dataclass(frozen=True)
class AbRequest:
    """What to run."""

    base: Path
    head: Path
    filter: str = ""
    min_time_s: float = 0.003
    pairs: int = 10
    confirm_pairs: int = 20
    time_budget_s: float | None = None
    timeout_s: float = 120.0
    isolation: str = "process"
    out: Path | None = None


@dataclass
class _Recorder:
    """Samples and contexts as they come in; a row with a failure is not run again."""

    benches: dict[str, dict[str, Bench]] = field(default_factory=lambda: {s: {} for s in SIDES})
    contexts: dict[str, dict[str, Any]] = field(default_factory=lambda: {s: {} for s in SIDES})
    settled: set[tuple[str, str]] = field(default_factory=set)
    passes: int = 0

    def add(
        self, side: str, samples: dict[str, Bench], context: dict[str, Any], stage: str
    ) -> None:
        self.passes += 1
        if not self.contexts[side]:
            self.contexts[side] = context
        for name, bench in samples.items():
            failed = any(s.error is not None or s.skipped is not None for s in bench.samples)
            if failed:
                self.settled.add((side, name))
            if stage or failed:
                known = self.benches[side].setdefault(name, Bench(name, bench.threads))
                known.threads, known.source_version = bench.threads, bench.source_version
                known.samples += [replace(sample, stage=stage) for sample in bench.samples]


class AbRun:
    """One session: two installed targets, a seed, a clock."""

    def __init__(self, request: AbRequest, options: Options, rule: Rule, work: Path) -> None:
        self.request, self.options, self.rule, self.work = request, options, rule, work
        self.limits = Limits(request.min_time_s, request.timeout_s)
        self.progress = Progress()
        self.recorder = _Recorder()
        self.random = np.random.default_rng(options.seed)
        self.targets = {
            "base": install("base", request.base, work),
            "head": install("head", request.head, work),
        }
        self.load = load_average()
        self.started = time.monotonic()
        self.out_of_time = False
        self.pairs_done: dict[str, int] = {}
        self.head_name: dict[str, str] = {}

    def loaded(self) -> list[str]:
        """Whether other work filled the processors; at the end one task is this run's own."""
        loads = (("start", self.load, 0), ("end", load_average(), 1))
        reasons = [(when, overload(load, os.cpu_count(), own)) for when, load, own in loads]
        return [f"at the {when}, {reason}" for when, reason in reasons if reason]

    def listing(self) -> dict[str, list[str]]:
        """What each side has."""
        return {
            side: list_rows(target, self.request.filter, self.limits)
            for side, target in self.targets.items()
        }

    def over_budget(self) -> bool:
        """Whether no further pair may start."""
        budget = self.request.time_budget_s
        if budget is not None and time.monotonic() - self.started > budget:
            self.out_of_time = True
        return self.out_of_time

    def _pair(self, names: list[str], stage: str) -> None:
        """One process of each side, in the order the seed says."""
        order = SIDES if self.random.integers(2) == 0 else SIDES[::-1]
        for side in order:
            own = names if side == "base" else [self.head_name[name] for name in names]
            done = run_pass(self.targets[side], own, self.limits, self.work)
            self.recorder.add(side, done.samples, done.context, stage)

    def _settled(self, name: str) -> bool:
        failed = self.recorder.settled
        return ("base", name) in failed or ("head", self.head_name[name]) in failed

    def stage(self, stage: str, shared: list[str], pairs: int) -> None:
        """`pairs` repetitions of the shared rows; rows inside a pair, so that all age alike."""
        for index in range(pairs):
            live = [name for name in shared if not self._settled(name)]
            units = [[name] for name in live] if self.request.isolation == "process" else [live]
            for number, unit in enumerate(units):
                if not unit or self.over_budget():
                    return
                what = unit[0] if len(unit) == 1 else f"{len(unit)} rows"
                label = f"{stage or 'warm-up'} pair {index + 1}/{pairs}, row"
                self.progress.step(label, number + 1, len(units), what)
                self._pair(unit, stage)
            self.pairs_done[stage] = self.pairs_done.get(stage, 0) + 1

    def top_up(self, stage: str, names: list[str], pairs: int) -> None:
        """Replace interrupted repetitions, judged by real/cpu only, at most as many again."""
        for _ in range(pairs):
            short = [name for name in names if self._valid(name, stage) < pairs]
            if not short or self.over_budget():
                return
            self.stage(stage, short, 1)

    def _valid(self, name: str, stage: str) -> int:
        if self._settled(name):
            return self.request.pairs + self.request.confirm_pairs
        sides = []
        for side, own in (("base", name), ("head", self.head_name[name])):
            bench = self.recorder.benches[side].get(own) or Bench(own)
            chosen = [sample for sample in bench.samples if sample.stage == stage]
            sides.append(replace(bench, samples=chosen))
        return min(len(kept) for kept in quality_filter(sides[0], sides[1], self.rule))

    def measure(self) -> None:
        """Warm up, screen, confirm."""
        shared = self._share(self.listing())
        self.progress.say(
            f"{len(shared)} shared rows, {self.request.pairs} pairs, seed {self.options.seed}"
        )
        self.stage("", shared, 1)
        self.stage(SCREEN, shared, self.request.pairs)
        self.top_up(SCREEN, shared, self.request.pairs)
        names = suspects(
            self.recorder.benches["base"], self.recorder.benches["head"], self.options, self.rule
        )
        if names and not self.over_budget():
            self.progress.say(f"{len(names)} suspects, {self.request.confirm_pairs} fresh pairs")
            self.stage(CONFIRM, names, self.request.confirm_pairs)
            self.top_up(CONFIRM, names, self.request.confirm_pairs)
        self.progress.close()

    def _share(self, listed: dict[str, list[str]]) -> list[str]:
        """Rows to run, by base name; what one side alone has stays as an empty entry."""
        in_head = set(listed["head"])
        for name in listed["base"]:
            target = name if name in in_head else self.options.renames.get(name, name)
            if target in in_head:
                self.head_name[name] = target
        for side in SIDES:
            self.recorder.benches[side] = {name: Bench(name) for name in listed[side]}
        return [name for name in listed["base"] if name in self.head_name]


def run_ab(request: AbRequest, options: Options, rule: Rule) -> Result:
    """Measure and judge; the temporary copies are gone afterwards."""
    options = replace(options, rerun_prefix=_rerun_prefix(request, options))
    with tempfile.TemporaryDirectory(prefix="assay-gate-") as directory:
        run = AbRun(request, options, rule, Path(directory))
        run.measure()
        return _judge(run, request, options, rule)


def _rerun_prefix(request: AbRequest, options: Options) -> str:
    import shlex

    base, head = shlex.quote(str(request.base)), shlex.quote(str(request.head))
    return f"assay gate ab --base {base} --head {head} --seed {options.seed}"


def _judge(run: AbRun, request: AbRequest, options: Options, rule: Rule) -> Result:
    sides = run.recorder.benches
    # The load that the benchmarks saw is left out: loaded() has it for the whole session.
    contexts = [
        {key: value for key, value in run.recorder.contexts[side].items() if key != "load_avg"}
        for side in SIDES
    ]
    report = compare_contexts(
        contexts[0],
        contexts[1],
        options.allow_mismatch,
        groups=("build", "suite", "device"),
    )
    if not all(run.recorder.contexts.values()):
        report = MetadataReport(notes=["a side gave no result, so its metadata is unknown"])
    report.invalid_conditions += run.loaded()
    findings = metadata_findings(report, options.strict)
    findings += _session_findings(run, request, options)
    analysis = Analysis([], [], None, 0)
    if not report.refused:
        analysis = analyse(sides["base"], sides["head"], options, rule, None)
        findings += analysis.findings
    if request.out is not None:
        _write_sides(run, request, options)
    host = str(run.recorder.contexts["head"].get("host_name", "this host"))
    result = Result(
        mode="ab",
        rows=analysis.rows,
        findings=findings,
        rule=rule.as_dict() | {"floor": None},
        seed=options.seed,
        inputs={side: _input(target) for side, target in run.targets.items()},
        hosts={"base": host, "head": host},
        metadata=metadata_dict(report, analysis.conditions),
        banner=banner_for(report),
        report_only=bool(report.allowed),
        geomean=analysis.geomean,
        geomean_rows=analysis.geomean_rows,
        run={
            "filter": request.filter,
            "min_time_s": request.min_time_s,
            "isolation": request.isolation,
            "pairs": request.pairs,
            "confirm_pairs": request.confirm_pairs,
            "pairs_done": run.pairs_done,
            "processes": run.recorder.passes,
            "elapsed_s": round(time.monotonic() - run.started, 3),
        },
    )
    result.next_step = next_step(result.rows, result.exit_code(), report, "ab")
    return result


def _input(target: Target) -> list[dict[str, str]]:
    return [{"path": str(target.original), "sha256": target.sha256}]


def _session_findings(run: AbRun, request: AbRequest, options: Options) -> list[Finding]:
    findings = []
    if run.targets["base"].sha256 == run.targets["head"].sha256:
        findings.append(Finding("same binary on both sides: this is an A/A run"))
    if run.out_of_time:
        code = Exit.INCONCLUSIVE if options.strict else Exit.GOOD
        text = f"time budget of {request.time_budget_s:g} s ended: later pairs were not run"
        findings.append(Finding(text, code))
    if request.isolation == "suite":
        findings.append(Finding("one process per pass: rows share heap state and order"))
    return findings


def _write_sides(run: AbRun, request: AbRequest, options: Options) -> None:
    """Keep every repetition as JSON that `gate compare` judges by the full rule."""
    assert request.out is not None
    hashes = ":".join(target.sha256 for target in run.targets.values())
    session = strict_json.digest(f"{hashes}:{options.seed}:{time.time_ns()}".encode())[:16]
    for side in SIDES:
        context = run.recorder.contexts[side] | {
            "ab_session": session,
            "ab_side": side,
            "ab_seed": str(options.seed),
            "isolation": request.isolation,
            "binary_sha256": run.targets[side].sha256,
        }
        rows = [
            _raw_row(name, bench, sample, index)
            for name, bench in run.recorder.benches[side].items()
            for index, sample in enumerate(bench.samples)
        ]
        value = {"context": context, "benchmarks": rows}
        write_atomic(request.out / f"{side}.json", strict_json.dumps(value))


def _raw_row(name: str, bench: Bench, sample: Sample, index: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": name,
        "run_name": name,
        "run_type": "iteration",
        "repetitions": len(bench.samples),
        "repetition_index": index,
        "threads": bench.threads,
        "assay_stage": sample.stage,
    }
    if bench.source_version is not None:
        row["source_version"] = bench.source_version
    if sample.skipped is not None:
        return row | {"skipped": True, "skip_message": sample.skipped}
    if sample.error is not None:
        return row | {"error_occurred": True, "error_message": sample.error}
    counters = {key: value for key, value in sample.counters.items() if key not in row}
    iterations = sample.raw.get("iterations", 0)
    seconds = {"real_time": sample.real_s, "cpu_time": sample.cpu_s, "time_unit": "s"}
    return row | {"iterations": iterations} | seconds | counters
