"""Malformed values and outputs that cannot be written: one line and a documented exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from assay_tools.tests.conftest import SCRIPTS, Gate, rows_of, times

STEADY = rows_of("steady", times(1))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cpu_time", 10**400),
        ("real_time", -(10**400)),
        ("iterations", 10**400),
        ("hits", "5000 digits"),
        ("cpu_time", "1"),
        ("time_unit", ["us"]),
        ("time_unit", {}),
        ("repetition_index", [1]),
        ("repetition_index", "0"),
        ("assay_stage", {"a": 1}),
        ("assay_stage", ["confirm"]),
        ("run_name", "a\ud800"),
        ("a\udfff", 1),
        ("run_name", ["a"]),
    ],
)
def test_a_malformed_field_is_refused(gate: Gate, field: str, value: Any, capsys: Any) -> None:
    odd = gate.write("odd.json", rows_of("a", times(1), **{field: value}))
    odd.write_text(odd.read_text().replace('"5000 digits"', "9" * 5000))
    good = gate.write("good.json", rows_of("a", times(1)))
    assert gate.call("gate", "compare", good, odd) == 2
    message = capsys.readouterr().err
    assert "odd.json" in message and message.count("\n") == 1 and len(message) < 500
    assert gate.call("plot", odd, "--out", gate.root / "plots") == 2
    assert gate.call("report", "--bench", odd, "--out", gate.root / "page.html") == 2


@pytest.mark.parametrize("value", [1e308, 1e-290])
def test_a_time_whose_ratio_overflows_is_invalid(gate: Gate, value: float) -> None:
    fast, slow = ([{"real_time": v, "cpu_time": v}] * 10 for v in (5, value))
    unit = {"time_unit": "s"}
    assert (
        gate.compare(STEADY + rows_of("a", fast, **unit), STEADY + rows_of("a", slow, **unit)) == 4
    )
    assert gate.verdicts()["a"] == "invalid"


@pytest.mark.parametrize("value", [1e308, 1e-308])
def test_a_counter_whose_ratio_overflows_is_invalid(gate: Gate, value: float) -> None:
    base, head = (rows_of("a", times(1), hits=v) for v in (5, value))
    for direction in ("lower", "higher"):
        assert gate.compare(base, head, "--metric", f"hits={direction}") == 4


@pytest.mark.parametrize("digits", [31, 400, 5000])
def test_a_number_in_a_name_may_have_any_length(gate: Gate, digits: int) -> None:
    rows = [row for part in ("size", "threads") for row in
            rows_of(f"f/{part}:{'9' * digits}", times(1))]  # fmt: skip
    sized = rows + rows_of("f/size:64", times(2))
    assert gate.compare(sized, sized) == 0
    alone, mixed = gate.write("alone.json", rows), gate.write("mixed.json", sized)
    assert gate.call("plot", alone, "--out", gate.root / "plots") == 2
    assert gate.call("plot", mixed, "--out", gate.root / "plots") == 0
    manifest = (gate.root / "plots" / "figures.json").read_text(encoding="utf-8")
    assert "2 rows without a size up to 2^64 bytes are left out" in manifest
    assert gate.call("report", "--bench", mixed, "--out", gate.root / "page.html") == 0


def test_arguments_that_are_not_utf8_stay_visible(gate: Gate) -> None:
    base = gate.write("b\udcff.json", STEADY)
    done = gate.run("gate", "compare", base, base, "--out", gate.root / "out", "--json")
    assert done.returncode == 0
    assert r"b\udcff.json" in gate.result()["inputs"]["base"][0]["path"]


@pytest.mark.parametrize("verb", ["compare", "compare --json", "--help", "compare --help"])
@pytest.mark.parametrize("target", [">/dev/full", ">&-"])
def test_a_full_or_closed_stdout_is_one_line(gate: Gate, verb: str, target: str) -> None:
    base = gate.write("b.json", STEADY)
    files = "" if "help" in verb else f"{base} {base}"
    script = f'exec "$0" -m assay_tools gate {verb} {files} {target}'
    done = subprocess.run(
        ["bash", "-c", script, sys.executable],
        env=os.environ | {"PYTHONPATH": str(SCRIPTS)},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "stdout: cannot write" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("flag", ["--markdown", "--junit"])
def test_folders_of_named_files_are_not_made(gate: Gate, flag: str, capsys: Any) -> None:
    base = gate.write("b.json", STEADY)
    target = gate.root / "typo" / "deep" / "file"
    assert gate.call("gate", "compare", base, base, flag, target) == 2
    assert "does not exist" in capsys.readouterr().err and not (gate.root / "typo").exists()
    assert gate.call("gate", "compare", base, base, "--out", gate.root / "new") == 0
    assert gate.call("report", "--bench", base, "--out", target) == 2
    # A file inside --out is fine, though --out is only now made.
    out = gate.root / "other"
    assert gate.call("gate", "compare", base, base, "--out", out, flag, out / "more") == 0
