"""`gate ab` against fake binaries: every way a measured comparison can end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assay_tools.benchfile import Bench, Sample
from assay_tools.gate.runner import Pass
from assay_tools.tests.conftest import SCRIPTS, Gate

ROWS: list[dict[str, Any]] = [{"name": "alloc/size:8"}, {"name": "free/[x]"}, {"name": "copy"}]


def ab(gate: Gate, base: Path, head: Path, *flags: object) -> int:
    return gate.call(
        "gate",
        "ab",
        "--base",
        base,
        "--head",
        head,
        "--seed",
        3,
        "--isolation",
        "suite",
        "--out",
        gate.root / "out",
        *flags,
    )


def changed(index: int, **fields: Any) -> list[dict[str, Any]]:
    return [row | (fields if i == index else {}) for i, row in enumerate(ROWS)]


def test_identical_binaries_pass_and_are_called_the_same(gate: Gate) -> None:
    twin = gate.fake("base", ROWS)
    assert ab(gate, twin, twin) == 0
    assert set(gate.verdicts().values()) == {"same"}
    assert any("same binary" in f["text"] for f in gate.result()["findings"])


def test_one_slow_row_is_named_alone_with_a_process_per_row(gate: Gate) -> None:
    base, head = gate.fake("base", ROWS), gate.fake("head", changed(1, factor=1.2))
    assert ab(gate, base, head, "--isolation", "process") == 1
    assert gate.verdicts() == {
        "alloc/size:8": "same",
        "free/[x]": "regression",
        "copy": "same",
    }
    row = next(r for r in gate.result()["rows"] if r["verdict"] == "regression")
    assert row["stage"] == "confirm" and row["base"]["n"] == 20
    assert "--filter '^free/\\[x\\]$'" in row["rerun"]
    # The kept samples give the same answer through `compare`.
    out = gate.root / "out"
    assert gate.call("gate", "compare", out / "base.json", out / "head.json") == 1


def test_a_fast_row_is_an_improvement(gate: Gate) -> None:
    base, head = gate.fake("base", ROWS), gate.fake("head", changed(2, factor=0.8))
    assert ab(gate, base, head) == 0
    assert gate.verdicts()["copy"] == "improvement"


def test_a_benchmark_that_reports_aggregates_only_counts_with_its_median(gate: Gate) -> None:
    base = gate.fake("base", changed(0, aggregates_only=True))
    head = gate.fake("head", changed(0, aggregates_only=True, factor=1.2))
    assert ab(gate, base, head) == 1
    assert gate.verdicts()["alloc/size:8"] == "regression"


def test_a_missing_row_is_incomplete_unless_allowed(gate: Gate) -> None:
    base, head = gate.fake("base", ROWS), gate.fake("head", ROWS[:2])
    assert ab(gate, base, head, "--pairs", 10) == 4
    assert gate.verdicts()["copy"] == "missing"
    assert ab(gate, base, head, "--allow-missing", "copy") == 0


def test_a_renamed_row_is_measured_through_the_map(gate: Gate) -> None:
    head_rows = changed(2, name="copy/renamed", factor=1.2)
    base, head = gate.fake("base", ROWS), gate.fake("head", head_rows)
    (gate.root / "map.json").write_text('{"copy": "copy/renamed"}')
    assert ab(gate, base, head, "--rename-map", gate.root / "map.json") == 1
    assert gate.verdicts()["copy/renamed"] == "regression"


@pytest.mark.parametrize("side", ["base", "head"])
def test_an_empty_listing_is_refused(gate: Gate, side: str, capsys: Any) -> None:
    rows = {"base": ROWS, "head": ROWS} | {side: []}
    assert ab(gate, gate.fake("base", rows["base"]), gate.fake("head", rows["head"])) == 2
    assert "no benchmarks are listed" in capsys.readouterr().err


def test_a_filter_without_a_match_is_refused(gate: Gate) -> None:
    twin = gate.fake("base", ROWS)
    assert ab(gate, twin, twin, "--filter", "nothing") == 2


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"crash_at": 0}, "SIGSEGV"),
        ({"crash_at": 4}, "SIGSEGV"),
        ({"error": "assay: checksum differs"}, "checksum differs"),
        ({"absent": True}, "no benchmark rows"),
        ({"sleep": 30}, "timed out"),
        ({"flood": 1}, "wrote more than 64 MiB"),
        ({"flood": 2}, "wrote more than 64 MiB"),
        ({"in_the_way": True}, "something else than a file"),
        ({"pipe_in_the_way": True}, "something else than a file"),
    ],
)
def test_a_row_that_fails_in_head_is_incomplete(gate: Gate, fields: Any, word: str) -> None:
    base, head = gate.fake("base", ROWS), gate.fake("head", changed(1, **fields))
    flags = ("--isolation", "process", "--timeout", 3, "--filter", "free|copy")
    assert ab(gate, base, head, *flags) == 4
    row = next(r for r in gate.result()["rows"] if r["name"] == "free/[x]")
    assert row["verdict"] == "errored" and word in row["reason"]
    assert gate.verdicts()["copy"] == "same"


def test_a_row_that_fails_in_base_only_is_fixed(gate: Gate) -> None:
    base, head = gate.fake("base", changed(0, error="x")), gate.fake("head", ROWS)
    assert ab(gate, base, head) == 0
    assert gate.verdicts()["alloc/size:8"] == "fixed"


def test_a_skipped_row_is_listed_and_may_be_required(gate: Gate) -> None:
    rows = changed(0, error="assay: skipped: no GPU")
    base, head = gate.fake("base", rows), gate.fake("head", rows)
    assert ab(gate, base, head) == 0
    assert gate.verdicts()["alloc/size:8"] == "skipped"
    assert ab(gate, base, head, "--require", "alloc/*") == 4


@pytest.mark.parametrize("output", ["", "{", '{"context": {}, "benchmarks": [NaN]}'])
def test_output_that_is_not_json_is_incomplete(gate: Gate, output: str) -> None:
    base, head = gate.fake("base", ROWS), gate.fake("head", ROWS, output=output)
    assert ab(gate, base, head) == 4
    assert set(gate.verdicts().values()) == {"errored"}


def test_a_failing_exit_code_after_good_rows_is_not_ignored(gate: Gate) -> None:
    base, head = gate.fake("base", ROWS), gate.fake("head", ROWS, exit=9)
    assert ab(gate, base, head) == 4


def test_a_binary_that_cannot_start_is_refused(gate: Gate, capsys: Any) -> None:
    base = gate.fake("base", ROWS)
    dead = gate.fake("head", ROWS, die_at_start=True, stderr="no such device")
    assert ab(gate, base, dead) == 2
    assert "no such device" in capsys.readouterr().err
    assert ab(gate, base, gate.root / "absent") == 2
    dead.chmod(0o644)
    assert ab(gate, base, dead) == 2
    not_a_program = gate.root / "text"
    not_a_program.write_bytes(b"\x7fELF nonsense")
    not_a_program.chmod(0o755)
    assert ab(gate, base, not_a_program) == 2


def test_interrupted_repetitions_are_dropped_counted_and_replaced(gate: Gate) -> None:
    rows = changed(1, interrupt_every=4)
    twin = gate.fake("base", rows)
    assert ab(gate, twin, twin) == 0
    row = next(r for r in gate.result()["rows"] if r["name"] == "free/[x]")
    assert row["base"]["dropped"] + row["head"]["dropped"] > 0
    assert row["base"]["n"] >= 10 and row["head"]["n"] >= 10


def test_a_row_that_always_waits_is_not_filtered_away(gate: Gate) -> None:
    rows = changed(1, real_over_cpu=3.0)
    twin = gate.fake("base", rows)
    assert ab(gate, twin, twin) == 0
    assert gate.verdicts()["free/[x]"] == "same"
    assert "mostly interrupted: free/[x];" in gate.result()["headline"]


def test_a_machine_that_interrupts_most_repetitions_is_named_in_the_headline(gate: Gate) -> None:
    rows = [row | {"real_over_cpu": 3.0, "sigma": 0.4} for row in ROWS]
    twin = gate.fake("base", rows)
    assert ab(gate, twin, twin) == 0
    result = gate.result()
    undecided = result["counts"]["inconclusive"]
    why = "60 of 60 repetitions were interrupted by other work (real/cpu > 1.05)"
    assert f"but {undecided} of 3 rows are inconclusive" in result["headline"]
    assert f"conditions invalid: {why}" in result["headline"]
    assert any(why in condition for condition in result["metadata"]["invalid_conditions"])
    quiet = gate.fake("quiet", [row | {"real_over_cpu": 3.0} for row in ROWS])
    assert ab(gate, quiet, quiet) == 0
    assert ab(gate, quiet, quiet, "--strict") == 5


@pytest.mark.parametrize(("loads", "when"), [((9e3, 0), "start"), ((0, 9e3), "end")])
def test_a_loaded_machine_is_an_invalid_condition(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, loads: tuple[float, float], when: str
) -> None:
    twin, values = gate.fake("base", ROWS), iter(loads)
    monkeypatch.setattr(os, "getloadavg", lambda: (next(values), 0.0, 0.0))
    assert ab(gate, twin, twin, "--strict") == 5
    assert (
        f"conditions invalid: at the {when}, the load average of 9e+03"
        in (gate.result()["headline"])
    )


def test_different_builds_are_not_comparable(gate: Gate) -> None:
    base = gate.fake("base", ROWS, context={"compiler": "g++ 12"})
    head = gate.fake("head", ROWS, context={"compiler": "clang 19"})
    assert ab(gate, base, head, "--pairs", 1) == 3
    assert ab(gate, base, head, "--pairs", 10, "--allow-mismatch", "compiler") == 0
    assert gate.result()["banner"].startswith("WARNING")


def test_the_time_budget_stops_pairs_and_says_so(gate: Gate) -> None:
    twin = gate.fake("base", changed(0, sleep=0.05))
    assert ab(gate, twin, twin, "--time-budget", 0.5) == 4
    assert any("time budget" in f["text"] for f in gate.result()["findings"])


def test_the_seed_decides_the_order_and_the_result(gate: Gate) -> None:
    outcomes = []
    for attempt in ("one", "two"):
        part = Gate(gate.root / attempt)
        part.root.mkdir()
        base, head = part.fake("base", ROWS), part.fake("head", changed(0, factor=1.2))
        ab(part, base, head)
        outcomes.append([(r["p"], r["ratio"], r["ci95"]) for r in part.result()["rows"]])
    assert outcomes[0] == outcomes[1]


def test_the_order_in_a_pair_is_drawn_from_the_seed(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    from assay_tools.gate import ab as module

    sides: list[str] = []

    def record(target: Any, names: list[str], limits: Any, work: Path) -> Pass:
        sides.append(target.side)
        benches = {n: Bench(n, samples=[Sample(real_s=1.0, cpu_s=1.0)]) for n in names}
        return Pass(benches, {"num_cpus": 2, "library_build_type": "release"})

    monkeypatch.setattr(module, "run_pass", record)
    twin = gate.fake("base", ROWS)
    orders = []
    for seed in (1, 1, 2):
        sides.clear()
        assert ab(gate, twin, twin, "--seed", seed) == 0
        pairs = [tuple(sides[i : i + 2]) for i in range(0, len(sides), 2)]
        assert all(set(pair) == {"base", "head"} for pair in pairs)
        assert len(set(pairs)) == 2  # both orders occur
        orders.append(pairs)
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGHUP])
def test_a_killed_run_leaves_no_verdict(gate: Gate, number: signal.Signals) -> None:
    rows = changed(0, sleep=0.2)
    twin, out = gate.fake("base", rows), gate.root / "out"
    out.mkdir()
    (out / "gate.json").write_text("{}")
    temporary = gate.root / "tmp"
    temporary.mkdir()
    child = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "assay_tools",
            "gate",
            "ab",
            "--base",
            twin,
            "--head",
            twin,
            "--out",
            out,
        ],
        env={"PYTHONPATH": str(SCRIPTS), "TMPDIR": str(temporary)},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    for line in child.stderr or ():
        if b"shared rows" in line:  # measuring has begun
            break
    child.send_signal(number)
    child.communicate(timeout=20)
    if number is signal.SIGKILL:
        assert child.returncode == -number
    else:
        assert child.returncode == 128 + number
        assert not list(temporary.iterdir())
    assert not (out / "gate.json").exists()


def test_json_goes_to_stdout_and_progress_to_stderr(gate: Gate) -> None:
    twin = gate.fake("base", ROWS)
    done = gate.run("gate", "ab", "--base", twin, "--head", twin, "--isolation", "suite", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["mode"] == "ab"
    assert "gate: 3 shared rows" in done.stderr
