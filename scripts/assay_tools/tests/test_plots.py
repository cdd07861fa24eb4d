"""Figures: what is drawn, what is refused, and that the bytes are stable."""

from __future__ import annotations

import csv
import itertools
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from assay_tools.plots import style
from assay_tools.plots.latency import Name
from assay_tools.tests import samples
from assay_tools.tests.conftest import CONTEXT, Gate, rows_of, times

TEXT = "{http://www.w3.org/2000/svg}text"


def words(path: Path) -> list[str]:
    return ["".join(node.itertext()) for node in ET.parse(path).iter(TEXT)]


def draw(gate: Gate, rows: list[dict[str, Any]], context: Any = None, out: str = "p") -> int:
    path = gate.write("bench.json", rows, samples.FULL_CONTEXT if context is None else context)
    return gate.call("plot", path, "--out", gate.root / out)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_latency_has_panels_lines_ticks_and_gaps(gate: Gate) -> None:
    assert draw(gate, samples.bench_rows()) == 0
    out = gate.root / "p"
    text = words(out / "latency.svg")
    for word in ("allocate", "touch", "heap", "slab_pool", "4 KiB", "2 MiB", "1 GiB"):
        assert word in text
    assert any("no valid time" in word for word in text)
    assert any("0123456789ab" in word and "A CPU" in word for word in text)
    assert any("n=" in word and "p10 to p90" in word for word in text)
    rows = table(out / "latency.csv")
    failed = [row for row in rows if row["status"] == "error"]
    assert len(failed) == 1 and failed[0]["median_s"] == "" and len(rows) == 12
    assert (out / "latency.png").read_bytes().startswith(b"\x89PNG")
    description = (out / "latency.svg").read_text(encoding="utf-8")
    assert "is fastest with" in description and "are gaps" in description


def test_a_failed_size_breaks_the_line(gate: Gate) -> None:
    rows = []
    for size in (64, 512, 4096):
        values = [0.0] * 3 if size == 512 else times(1, n=3)
        rows += rows_of(f"a/backing:x/size:{size}", values)
    assert draw(gate, rows) == 0
    line = ET.parse(gate.root / "p" / "latency.svg").find(".//*[@id='series-0-0']/{*}path")
    assert line is not None
    assert line.get("d", "").split().count("M") == 2 and "L" not in line.get("d", "")
    assert [row["status"] for row in table(gate.root / "p" / "latency.csv")] == [
        "ok", "invalid", "ok",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "rows",
    [
        rows_of("a/size:64", [1.0]),
        rows_of("a/size:64", [0.0]),
        rows_of("a/size:64", [0.0]) + rows_of("a/size:128", [0.0]),
        rows_of("a/64", times(1)),
        rows_of("a/size:64", times(1)) + rows_of("a/size:0", times(1)),
    ],
    ids=["single point", "single zero", "all zero", "bare number", "size zero"],
)
def test_odd_series_draw(gate: Gate, rows: list[dict[str, Any]]) -> None:  # fault:B-50
    assert draw(gate, rows) == 0


def test_nothing_to_draw_is_refused(gate: Gate, capsys: Any) -> None:
    assert draw(gate, rows_of("no size here", times(1))) == 2
    assert "no row has a size" in capsys.readouterr().err
    assert gate.call("plot", "--out", gate.root / "p") == 2
    assert gate.call("plot", gate.root / "absent.json", "--out", gate.root / "p") == 2
    assert draw(gate, []) == 2


def test_files_of_two_runs_are_not_joined(gate: Gate) -> None:
    rows = rows_of("a/backing:x/size:64", times(1))
    one, two = gate.write("one.json", rows), gate.write("two.json", rows)
    assert gate.call("plot", one, two, "--out", gate.root / "p") == 0
    series = {row["series"] for row in table(gate.root / "p" / "latency.csv")}
    assert len(series) == 2


def test_simulated_results_say_model(gate: Gate) -> None:
    rows = rows_of("a/size:64", times(1))
    assert draw(gate, rows, CONTEXT | {"driver": "model"}) == 0
    assert "MODEL" in words(gate.root / "p" / "latency.svg")


def gate_result(gate: Gate, count: int = 3) -> Path:
    base, head = [], []
    for index in range(count):
        base += rows_of(f"row{index}", times(index))
        head += rows_of(f"row{index}", times(100 + index, factor=1.5 if index == 0 else 1.0))
    base += rows_of("gone", times(1))
    gate.compare(base, head)
    return gate.root / "out" / "gate.json"


def test_forest_shows_each_ratio_with_its_word(gate: Gate) -> None:
    assert gate.call("plot", gate_result(gate), "--out", gate.root / "p") == 0
    text = words(gate.root / "p" / "forest.svg")
    assert any(word.startswith("row0") and "regression" in word for word in text)
    assert any("row1" in word and "same" in word for word in text)
    assert any("1 without a ratio" in word for word in text)
    rows = table(gate.root / "p" / "forest.csv")
    assert rows[0]["name"] == "row0" and rows[-1]["verdict"] == "missing"


def test_forest_pages_after_forty_rows(gate: Gate) -> None:
    assert gate.call("plot", gate_result(gate, 41), "--out", gate.root / "p") == 0
    names = sorted(path.name for path in (gate.root / "p").glob("forest*.svg"))
    assert names == ["forest-1.svg", "forest-2.svg"]


def test_a_forest_without_ratios_is_refused(gate: Gate) -> None:
    gate.compare(rows_of("a", times(1)), rows_of("b", times(1)))
    path = gate.root / "out" / "gate.json"
    assert gate.call("plot", path, "--out", gate.root / "p") == 2


def write_replay(gate: Gate, value: dict[str, Any]) -> Path:
    path = gate.root / "replay.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def test_replay_figures(gate: Gate) -> None:
    path = write_replay(gate, samples.replay())
    assert gate.call("plot", "--replay", path, "--out", gate.root / "p") == 0
    out = gate.root / "p"
    footprint, latency = words(out / "replay-bytes.svg"), words(out / "replay-latency.svg")
    assert {"live", "reserved", " unknown", "other (skipped)", "1 GiB"} <= set(footprint)
    assert {"allocate", "deallocate", "p50", "p99", "p99.9"} <= set(latency)
    assert any("below the timer" in word for word in latency)
    rows = table(out / "replay.csv")
    assert rows[0]["granted_bytes"] == "" and rows[2]["status"] == "skipped"
    assert len(table(out / "replay-timeline.csv")) == 20


@pytest.mark.parametrize(
    "change",
    [
        {"timeline": []},
        {"runs": [{"subject": "x", "status": "crashed", "reason": "signal 11"}]},
        {"timer_cost_ns": None},
        {"trace": {}},
    ],
)
def test_thin_replays_still_draw(gate: Gate, change: dict[str, Any]) -> None:
    path = write_replay(gate, samples.replay() | change)
    assert gate.call("plot", "--replay", path, "--out", gate.root / "p") == 0


@pytest.mark.parametrize(
    "change",
    [{"schema": "assay.replay/9"}, {"runs": []}, {"runs": [{"subject": "x", "status": "fine"}]}],
)
def test_a_replay_off_its_schema_is_refused(
    gate: Gate, change: dict[str, Any], capsys: Any
) -> None:
    path = write_replay(gate, samples.replay() | change)
    assert gate.call("plot", "--replay", path, "--out", gate.root / "p") == 2
    assert "not a valid replay file" in capsys.readouterr().err


def test_bytes_are_stable(gate: Gate) -> None:
    replay = write_replay(gate, samples.replay())
    seen = []
    for out in ("p", "q"):
        assert draw(gate, samples.bench_rows(), out=out) == 0
        assert gate.call("plot", "--replay", replay, "--out", gate.root / out) == 0
        files = sorted((gate.root / out).iterdir())
        seen.append([(path.name, path.read_bytes()) for path in files])
    assert seen[0] == seen[1] and len(seen[0]) > 8


def test_names_are_taken_apart() -> None:
    assert Name.parse("a/b/backing:heap/size:64/threads:2") == Name("a/b", "heap", 64, "threads:2")
    assert Name.parse("alloc/4096/real_time") == Name("alloc", "", 4096, "real_time")
    assert Name.parse("plain") == Name("plain", "", None, "")


def test_labels() -> None:
    assert [style.byte_label(v) for v in (0, 1, 4096, 2 << 20, 3 << 29)] == [
        "0 B", "1 B", "4 KiB", "2 MiB", "1.5 GiB",
    ]  # fmt: skip
    assert style.time_label(1.234e-8) == "12.3 ns" and style.time_label(2e-6) == "2 us"
    assert style.byte_ticks(3 << 30)[:3] == [0, 1 << 29, 1 << 30]


def test_neighbouring_series_differ_in_colour_marker_and_line() -> None:
    looks = [style.series_style(index) for index in range(20)]
    for key in ("color", "marker", "linestyle"):
        assert all(a[key] != b[key] for a, b in itertools.pairwise(looks))
    assert len({(a["color"], a["marker"], a["linestyle"]) for a in looks}) == 20


def test_names_cannot_break_or_turn_a_figure(gate: Gate, recwarn: Any) -> None:
    evil = "a\nb\u202ec"
    rows = rows_of(f"_{evil}/backing:_{evil}/size:64", times(1))
    bench = gate.write("evil.json", rows, CONTEXT | {"host_name": evil, "cpu_model": evil})
    assert gate.call("gate", "compare", bench, bench, "--out", gate.root / "gate") == 0
    replay = samples.replay()
    replay["runs"][0]["subject"], replay["trace"]["path"] = evil, evil
    replay["runs"][0]["operations"][evil] = replay["runs"][0]["operations"]["allocate"]
    path = gate.root / "replay.json"
    path.write_text(json.dumps(replay))
    out = gate.root / "plots"
    inputs = (bench, gate.root / "gate" / "gate.json", "--replay", path)
    assert gate.call("plot", *inputs, "--out", out) == 0
    for figure in out.glob("*.svg"):
        text = figure.read_text(encoding="utf-8")
        assert "\u202e" not in text and r"a\nb\u202ec" in text, figure
    assert not [w for w in recwarn if issubclass(w.category, UserWarning)]
