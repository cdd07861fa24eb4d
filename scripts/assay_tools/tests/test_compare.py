"""`gate compare`: a test per row of the table of odd rows, with its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from assay_tools import strict_json
from assay_tools.tests.conftest import CONTEXT, DATA, SCRIPTS, Gate, rows_of, times

STEADY = rows_of("steady", times(1))


def test_the_same_values_are_the_same(gate: Gate) -> None:
    assert gate.compare(STEADY, STEADY) == 0
    assert gate.verdicts() == {"steady": "same"}


def test_a_slow_row_fails_and_a_fast_one_is_reported(gate: Gate) -> None:
    base = STEADY + rows_of("a", times(2)) + rows_of("b", times(3))
    head = STEADY + rows_of("a", times(4, factor=20)) + rows_of("b", times(5, factor=0.8))
    assert gate.compare(base, head) == 1
    assert gate.verdicts() == {"steady": "same", "a": "regression", "b": "improvement"}


def staged(name: str, screen: float, confirm: float | None) -> list[dict[str, Any]]:
    """Both stages of an interleaved session, each with its own slowdown."""
    rows = rows_of(name, times(11, n=10, factor=screen), assay_stage="screen")
    if confirm is not None:
        rows += rows_of(name, times(12, n=20, factor=confirm), assay_stage="confirm")
    return rows


@pytest.mark.parametrize(
    ("screen", "confirm", "verdict", "code"),
    [
        (1.2, 1.2, "regression", 1),
        (1.2, 1.0, "same", 0),
        (1.2, 1.04, "same", 0),
        (1.2, 0.8, "same", 0),
        (1.0, 1.2, "same", 0),
        (0.8, 0.8, "improvement", 0),
        (0.8, 1.0, "same", 0),
        (1.2, None, "inconclusive", 4),
    ],
)
def test_only_fresh_data_confirms_a_suspect(
    gate: Gate, screen: float, confirm: float | None, verdict: str, code: int
) -> None:
    base = staged("s", 1.0, None if confirm is None else 1.0)
    assert gate.compare(base, staged("s", screen, confirm)) == code
    steady = staged("steady", 1.0, 1.0)
    assert gate.compare(base + steady, staged("s", screen, confirm) + steady) == code
    assert gate.verdicts()["s"] == verdict


def test_256_regressions_exit_1(gate: Gate) -> None:
    base, head = [], []
    for index in range(256):
        base += rows_of(f"r{index}", times(index))
        head += rows_of(f"r{index}", times(1000 + index, factor=1.5))
    assert gate.compare(base, head) == 1
    assert gate.result()["counts"] == {"regression": 256}


def test_new_row_passes_and_is_listed(gate: Gate) -> None:
    assert gate.compare(STEADY, STEADY + rows_of("n", times(2))) == 0
    assert gate.verdicts()["n"] == "new"


def test_missing_row_is_incomplete_unless_allowed(gate: Gate) -> None:
    base = STEADY + rows_of("gone/1", times(2))
    assert gate.compare(base, STEADY) == 4
    assert gate.verdicts()["gone/1"] == "missing"
    assert gate.compare(base, STEADY, "--allow-missing", "gone/*") == 0
    assert gate.compare(base, STEADY, "--allow-missing", "other") == 4


def test_renames_come_from_the_map_only(gate: Gate) -> None:
    base, head = rows_of("old", times(1)), rows_of("new", times(2, factor=1.5))
    assert gate.compare(base + STEADY, head + STEADY) == 4
    mapping = gate.root / "map.json"
    mapping.write_text('{"old": "new"}')
    assert gate.compare(base + STEADY, head + STEADY, "--rename-map", mapping) == 1
    row = next(r for r in gate.result()["rows"] if r["name"] == "new")
    assert row["renamed_from"] == "old" and row["verdict"] == "regression"
    assert gate.compare(base + head, head, "--rename-map", mapping) == 2
    mapping.write_text('["old"]')
    assert gate.compare(base, head, "--rename-map", mapping) == 2


@pytest.mark.parametrize("text", ['{"benchmarks": [], "context": {}}', "", "  \n", "{}", "[]"])
def test_empty_input_is_refused(gate: Gate, text: str) -> None:
    good, bad = gate.write("good.json", STEADY), gate.root / "bad.json"
    bad.write_text(text)
    assert gate.call("gate", "compare", good, bad) == 2
    assert gate.call("gate", "compare", bad, good) == 2


def test_nothing_in_common_is_refused(gate: Gate) -> None:
    assert gate.compare(rows_of("a", times(1)), rows_of("b", times(1))) == 2
    assert any("0 rows compared" in f["text"] for f in gate.result()["findings"])


def test_duplicate_key_is_refused(gate: Gate, capsys: Any) -> None:
    assert gate.compare(STEADY + STEADY[3:4], STEADY) == 2
    assert "duplicate key" in capsys.readouterr().err


def failed(name: str, message: str = "assay: short of work") -> list[dict[str, Any]]:
    return rows_of(name, [{"error_occurred": True, "error_message": message}])


def test_errors_by_side(gate: Gate) -> None:
    good, bad = rows_of("e", times(1)), failed("e")
    assert gate.compare(STEADY + good, STEADY + bad) == 4
    assert gate.verdicts()["e"] == "errored"
    assert gate.compare(STEADY + bad, STEADY + good) == 0
    assert gate.verdicts()["e"] == "fixed"
    assert gate.compare(STEADY + bad, STEADY + bad) == 0
    assert gate.verdicts()["e"] == "errored on both sides"
    assert gate.compare(bad, bad) == 4


@pytest.mark.parametrize(
    "fields",
    [
        {"skipped": True, "skip_message": "no GPU"},
        {"error_occurred": True, "error_message": "assay: skipped: no GPU"},
    ],
)
def test_skipped_is_listed_and_may_be_required(gate: Gate, fields: dict[str, Any]) -> None:
    base, head = STEADY + rows_of("gpu", times(1)), STEADY + rows_of("gpu", [fields])
    assert gate.compare(base, head) == 0
    assert gate.verdicts()["gpu"] == "skipped"
    assert gate.compare(base, head, "--require", "gpu") == 4
    assert gate.compare(STEADY, STEADY, "--require", "gpu") == 4


@pytest.mark.parametrize("value", [0, -1, None])
@pytest.mark.parametrize("side", ["base", "head"])
def test_a_time_that_is_no_time_is_invalid(gate: Gate, value: Any, side: str) -> None:
    broken = rows_of("z", [*times(1)[:-1], value])
    sides = {"base": rows_of("z", times(1)), "head": rows_of("z", times(1))} | {side: broken}
    assert gate.compare(STEADY + sides["base"], STEADY + sides["head"]) == 4
    assert gate.verdicts()["z"] == "invalid"
    result = gate.result()
    assert result["geomean"]["rows"] == 1
    assert next(r for r in result["rows"] if r["name"] == "z")["ratio"] is None


def counter(values: list[float | None]) -> list[dict[str, Any]]:
    return rows_of("c", [{"real_time": 1.0, "cpu_time": 1.0, "allocs": v} for v in values])


@pytest.mark.parametrize(
    ("base", "head", "flag", "verdict", "code"),
    [
        ([0] * 10, [0] * 10, "allocs=lower", "same", 0),
        ([0] * 10, [5] * 10, "allocs=lower", "regression", 1),
        ([0] * 10, [5] * 10, "allocs=lower,5", "same", 0),
        ([0] * 10, [5] * 10, "allocs=higher", "improvement", 0),
        ([5] * 10, [0] * 10, "allocs=lower", "improvement", 0),
        ([5] * 10, [5] * 10, "allocs=lower", "same", 0),
        ([5] * 10, [7] * 10, "allocs=lower", "regression", 1),
        ([5] * 10, [7] * 10, "allocs=higher", "improvement", 0),
        ([7] * 10, [5] * 10, "allocs=higher", "regression", 1),
        ([5] * 10, [None] * 10, "allocs=lower", "invalid", 4),
    ],
)
def test_counters_are_gated_on_request(  # fault:B-41, B-44, B-47
    gate: Gate, base: Any, head: Any, flag: str, verdict: str, code: int
) -> None:
    assert gate.compare(counter(base), counter(head), "--metric", flag) == code
    rows = {row["metric"]: row for row in gate.result()["rows"]}
    assert rows["allocs"]["verdict"] == verdict
    assert gate.compare(counter(base), counter(head)) == 0


def test_too_few_repetitions_are_insufficient_not_a_pass(gate: Gate) -> None:  # fault:B-48
    few_base, few_head = rows_of("f", times(1, n=3)), rows_of("f", times(2, n=3, factor=2))
    assert gate.compare(STEADY + few_base, STEADY + few_head) == 0
    assert gate.verdicts()["f"] == "inconclusive"
    assert gate.compare(STEADY + few_base, STEADY + few_head, "--strict") == 5
    assert gate.compare(few_base, few_head) == 4
    nine = [rows_of("f", times(seed, n=9)) for seed in (1, 2)]
    assert gate.compare(*nine) == 4
    row = gate.result()["rows"][0]
    assert row["reason_code"] == "insufficient" and row["n_needed"] == 10


def test_a_wide_interval_is_inconclusive(gate: Gate) -> None:
    base, head = rows_of("w", times(1, sigma=0.4)), rows_of("w", times(2, sigma=0.4))
    assert gate.compare(STEADY + base, STEADY + head) == 0
    assert gate.compare(STEADY + base, STEADY + head, "--strict") == 5
    row = next(r for r in gate.result()["rows"] if r["name"] == "w")
    assert row["reason_code"] == "wide_interval" and row["n_needed"] > 12


def test_a_changed_benchmark_is_incomparable(gate: Gate) -> None:
    base = rows_of("v", times(1), source_version="1")
    head = rows_of("v", times(2, factor=3), source_version="2")
    assert gate.compare(STEADY + base, STEADY + head) == 0
    assert gate.verdicts()["v"] == "incomparable"


def test_aggregates_are_ignored(gate: Gate) -> None:
    mean = {
        "name": "steady_mean",
        "run_name": "steady",
        "run_type": "aggregate",
        "aggregate_name": "mean",
        "real_time": 900,
        "cpu_time": 900,
        "time_unit": "us",
    }
    old = [{"name": "steady_BigO", "big_o": "N", "cpu_coefficient": 1.0, "time_unit": "ns"}]
    assert gate.compare(STEADY, [*STEADY, mean, *old]) == 0
    assert gate.verdicts() == {"steady": "same"}


def test_whole_samples_are_compared_not_positions(gate: Gate) -> None:  # fault:B-40
    values = times(1, n=15)
    assert gate.compare(rows_of("p", values), rows_of("p", values[::-1])) == 0
    assert gate.verdicts() == {"p": "same"}
    assert gate.compare(rows_of("p", values), rows_of("p", times(2, n=11))) == 0


def test_units_are_converted_or_refused(gate: Gate, capsys: Any) -> None:  # fault:B-42
    nano = [
        {
            **row,
            "real_time": row["real_time"] * 1e3,
            "cpu_time": row["cpu_time"] * 1e3,
            "time_unit": "ns",
        }
        for row in STEADY
    ]
    assert gate.compare(STEADY, nano) == 0
    assert gate.result()["rows"][0]["ratio"] == pytest.approx(1)
    assert gate.compare(STEADY, rows_of("steady", times(1), time_unit="fortnight")) == 2
    assert "fortnight" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["pytest_several_units.json", "nvbench_excerpt.json"])
def test_other_formats_are_refused_by_name(gate: Gate, name: str, capsys: Any) -> None:
    assert gate.call("gate", "compare", DATA / name, DATA / name) == 2
    assert "not a Google Benchmark result" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("test1_run1", "test1_run2"),
        ("test2_run", "test2_run"),
        ("test3_run0", "test3_run1"),
        ("test5_run0", "test5_run1"),
        ("googlecpp_output", "googlecpp_output"),
    ],
)
def test_published_single_runs_cannot_pass(gate: Gate, first: str, second: str) -> None:
    base, head = DATA / f"{first}.json", DATA / f"{second}.json"
    assert gate.call("gate", "compare", base, head) == 4


@pytest.mark.parametrize(
    ("break_it", "place"),
    [
        (lambda t: t.replace('"real_time": 9', '"real_time": NaN9', 1), ":1:"),
        (lambda t: t.replace('"cpu_time"', '"q": -Infinity, "cpu_time"', 1), ":1:"),
        (lambda t: t.replace('"cpu_time"', '"q": 1e999, "cpu_time"', 1), ":1:"),
        (lambda t: t.replace('"cpu_time"', '"threads": 1, "cpu_time"', 1), "duplicate key"),
        (lambda t: "\ufeff" + t, ":1:1:"),
        (lambda t: t.replace("}]", "},]"), ":1:"),
        (lambda t: t[: len(t) // 2], ":1:"),
        (lambda t: t + "\nwarning: library was built as debug", ":2:1:"),
        (lambda t: t.replace("[{", "[ text line {"), ":1:"),
        (lambda t: t.replace('"cpu_time": ', '"cpu_time": "x', 1), ":1:"),
        (lambda t: "[" * 100_000, "unusable"),
    ],
)
def test_broken_json_is_refused_with_its_position(  # fault:B-35
    gate: Gate, break_it: Any, place: str, capsys: Any
) -> None:
    good = gate.write("good.json", STEADY)
    bad = gate.root / "bad.json"
    bad.write_text(break_it(good.read_text()), encoding="utf-8")
    assert gate.call("gate", "compare", good, bad) == 2
    message = capsys.readouterr().err
    assert "bad.json" in message and place in message


def test_not_utf8_and_unreadable_are_refused(gate: Gate, capsys: Any) -> None:
    good, bad = gate.write("good.json", STEADY), gate.root / "bad.json"
    bad.write_bytes(b'{"a": "\xff"}')
    assert gate.call("gate", "compare", good, bad) == 2
    assert "byte 7" in capsys.readouterr().err
    assert gate.call("gate", "compare", good, gate.root / "absent.json") == 2


def test_stored_data_meets_a_floor_and_is_told_what_decides(gate: Gate) -> None:
    base = gate.write("b.json", STEADY)
    for factor, code, verdict in ((1.2, 0, "inconclusive"), (1.5, 1, "regression")):
        head = gate.write("h.json", rows_of("steady", times(2, factor=factor)))
        assert gate.call("gate", "compare", base, head, "--out", gate.root / "out") == code
        row = gate.result()["rows"][0]
        assert row["verdict"] == verdict
        if verdict == "inconclusive":
            assert "not interleaved" in row["reason"] and "assay gate ab" in row["reason"]
            assert gate.call("gate", "compare", base, head, "--strict") == 5
            assert gate.call("gate", "compare", base, head, "--floor", 10) == 1


def test_sequential_processes_meet_the_lower_floor(gate: Gate) -> None:
    context = CONTEXT | {"isolation": "process"}
    base = gate.write("b.json", STEADY, context)
    later = context | {"date": "2024-06-01T10:20:00+00:00"}
    slow = rows_of("steady", times(2, factor=1.2))
    assert gate.call("gate", "compare", base, gate.write("h.json", slow, later)) == 1
    next_day = context | {"date": "2024-06-02T10:20:00+00:00"}
    assert gate.call("gate", "compare", base, gate.write("h.json", slow, next_day)) == 0


def test_several_files_a_side_are_further_repetitions(gate: Gate) -> None:
    context = CONTEXT | {"ab_session": "s"}
    parts = [gate.write(f"{i}.json", rows_of("m", times(i, n=5)), context) for i in range(4)]
    joined = f"{parts[0]},{parts[1]}"
    flags = ("--base", joined, "--head", parts[2], "--head", parts[3])
    assert gate.call("gate", "compare", *flags, "--out", gate.root / "out") == 0
    assert gate.result()["rows"][0]["head"]["n"] == 10
    assert gate.call("gate", "compare", parts[0], "--base", parts[1]) == 2


def test_a_uniform_shift_is_named_as_environmental(gate: Gate) -> None:  # fault:B-45
    base = [row for i in range(6) for row in rows_of(f"u{i}", times(i))]
    head = [row for i in range(6) for row in rows_of(f"u{i}", times(i, factor=1.12))]
    gate.compare(base, head)
    assert any("uniform shift" in f["text"] for f in gate.result()["findings"])


def test_real_time_rules_for_threads_and_own_clocks(gate: Gate) -> None:
    def both(cpu_factor: float, real_factor: float, seed: int) -> list[dict[str, Any]]:
        return [{"cpu_time": t * cpu_factor, "real_time": t * real_factor} for t in times(seed)]

    for name, threads in (("t/threads:4", 4), ("t/real_time", 1), ("t/manual_time", 1)):
        base = rows_of(name, both(1, 1, 1), threads=threads)
        assert gate.compare(base, rows_of(name, both(2, 1, 2), threads=threads)) == 0
        assert gate.compare(base, rows_of(name, both(1, 1.04, 2), threads=threads)) == 0
        assert gate.compare(base, rows_of(name, both(1, 2, 2), threads=threads)) == 1
    base = rows_of("t", both(1, 1, 1))
    assert gate.compare(base, rows_of("t", both(2, 2, 2))) == 1
    # Head alone waits: its repetitions are dropped, so it cannot be judged and does not pass.
    assert gate.compare(base, rows_of("t", both(1, 2, 2))) == 4


def test_overlap_can_be_demanded(gate: Gate) -> None:  # fault:B-43
    base = STEADY + [row for i in range(3) for row in rows_of(f"g{i}", times(i))]
    assert gate.compare(base, STEADY, "--allow-missing", "*", "--min-overlap", 50) == 4
    assert gate.compare(base, STEADY, "--allow-missing", "*", "--min-overlap", 25) == 0


def test_outputs_are_stable_and_escaped(gate: Gate) -> None:
    name = 'pipe|line\nbreak `tick` <b> "q" \x1b[31m é'
    base, head = rows_of(name, times(1)), rows_of(name, times(2, factor=2))
    seen = set()
    for _ in range(2):
        assert gate.compare(STEADY + base, STEADY + head) == 1
        out = gate.root / "out"
        seen.add(tuple((out / f"gate.{kind}").read_bytes() for kind in ("json", "md", "junit.xml")))
    assert len(seen) == 1
    markdown = (gate.root / "out" / "gate.md").read_text(encoding="utf-8")
    table = [line for line in markdown.splitlines() if line.startswith("| ▲ regression")]
    assert len(table) == 1 and "pipe\\|line\\\\nbreak" in table[0] and "<b>" not in table[0]
    suite = ET.fromstring((gate.root / "out" / "gate.junit.xml").read_bytes())
    assert suite.attrib["failures"] == "1" and suite.attrib["tests"] == "2"
    failure = suite.find("testcase/failure")
    assert failure is not None and "regression" in failure.attrib["message"]
    strict_json.validate(gate.result(), "gate", "gate.json")


def test_another_seed_moves_only_the_intervals(gate: Gate) -> None:
    head = rows_of("steady", times(2))
    rows = []
    for seed in (1, 2):
        gate.compare(STEADY, head, "--seed", seed)
        rows.append(gate.result()["rows"][0])
    assert rows[0]["ci95"] != rows[1]["ci95"] and rows[0]["p"] == rows[1]["p"]


def test_a_stale_verdict_does_not_survive_a_refusal(gate: Gate) -> None:
    assert gate.compare(STEADY, STEADY) == 0
    (gate.root / "bad.json").write_text("{")
    flags = ("--out", gate.root / "out")
    assert gate.call("gate", "compare", gate.root / "bad.json", gate.root / "bad.json", *flags) == 2
    assert not (gate.root / "out" / "gate.json").exists()


def test_a_closed_pipe_keeps_the_exit_code(gate: Gate) -> None:  # fault:B-46
    context = CONTEXT | {"ab_session": "s"}
    base = gate.write("b.json", STEADY, context)
    head = gate.write("h.json", rows_of("steady", times(2, factor=20)), context)
    script = '"$0" -m assay_tools gate compare "$1" "$2" | true; exit ${PIPESTATUS[0]}'
    done = subprocess.run(
        ["bash", "-c", script, sys.executable, base, head],
        env=os.environ | {"PYTHONPATH": str(SCRIPTS)},
        check=False,
    )
    assert done.returncode == 1


def test_an_unwritable_report_is_an_error_not_a_verdict(gate: Gate, capsys: Any) -> None:
    base = gate.write("b.json", STEADY)
    assert gate.call("gate", "compare", base, base, "--out", "/proc/nowhere") == 2
    assert gate.call("gate", "compare", base, base, "--markdown", base / "x.md") == 2
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.parametrize(
    "verb", ["gate", "gate ab", "gate compare", "gate selftest", "plot", "report"]
)
def test_help_has_exit_codes_and_an_example(gate: Gate, verb: str, capsys: Any) -> None:
    assert gate.call(*verb.split(), "--help") == 0
    text = capsys.readouterr().out
    assert "exit codes:\n  0 " in text and f"example:\n  assay {verb}" in text
    if verb == "gate ab":
        for default in ("0.003", "10", "20", "120.0", "process", "all", "random, recorded"):
            assert f"default: {default})" in " ".join(text.split())


def test_outputs_may_be_pipes_or_links(gate: Gate) -> None:
    base, target = gate.write("b.json", STEADY), gate.root / "summary.md"
    target.write_text("old")
    (gate.root / "link.md").symlink_to(target)
    fifo = gate.root / "pipe"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    flags = ("--markdown", gate.root / "link.md", "--junit", fifo)
    assert gate.call("gate", "compare", base, base, *flags) == 0
    assert "PASS" in target.read_text() and (gate.root / "link.md").is_symlink()
    assert os.read(reader, 1 << 16).startswith(b"<?xml")
    os.close(reader)
    assert gate.call("gate", "compare", base, base, "--markdown", gate.root) == 2


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--pairs", "x"], ["--pairs", "x"]),
        (["--pairs", "0"], ["--pairs", "0"]),
        (["--seed", "-1"], ["--seed", "-1"]),
        (["--isolation", "thread"], ["--isolation", "thread"]),
        (["--unknown", "7"], ["--unknown"]),
        (["--min-time", "nan"], ["--min-time", "nan"]),
        (["--metric", "a=sideways"], ["--metric", "a=sideways"]),
    ],
)
def test_bad_flags_exit_2_and_are_named(
    gate: Gate, flags: list[str], words: list[str], capsys: Any
) -> None:
    base = gate.write("b.json", STEADY)
    assert gate.call("gate", "ab", "--base", base, "--head", base, *flags) == 2
    message = capsys.readouterr().err
    assert all(word in message for word in words) and "assay gate" in message


def test_an_uncaught_exception_is_70(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    from assay_tools.gate import compare

    def explode(*arguments: Any) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(compare, "analyse", explode)
    base = gate.write("b.json", STEADY)
    assert gate.call("gate", "compare", base, base) == 70
    assert "internal error" in capsys.readouterr().err


def test_json_flag_prints_the_contract(gate: Gate, capsys: Any) -> None:
    base = gate.write("b.json", STEADY)
    assert gate.call("gate", "compare", base, base, "--json") == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "assay.gate/1"


def test_a_locale_changes_nothing(gate: Gate) -> None:  # fault:B-36
    base = gate.write("b.json", STEADY)
    runs = [
        gate.run("gate", "compare", base, base, env={"LC_ALL": name, "LANG": name}).stdout
        for name in ("C", "de_DE.UTF-8")
    ]
    assert runs[0] == runs[1] and "PASS" in runs[0]
