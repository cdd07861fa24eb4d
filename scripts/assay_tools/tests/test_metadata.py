"""Which differences of origin refuse a comparison, and which only inform."""

from __future__ import annotations

from typing import Any

import pytest

from assay_tools.gate.metadata import ASSAY_REQUIRED, GROUPS
from assay_tools.tests.conftest import CONTEXT, Gate, rows_of, times

ROWS = rows_of("a", times(1))
FULL = CONTEXT | {name: f"{name} value" for names in GROUPS.values() for name in names}
FULL |= {
    "num_cpus": 2,
    "library_build_type": "release",
    "sanitizers": "none",
    "cpu_scaling_enabled": False,
    "driver": "none",
    "device_kind": "real",
}
FIELDS = [name for names in GROUPS.values() for name in names]


def judge(gate: Gate, base: dict[str, Any], head: dict[str, Any], *flags: object) -> int:
    return gate.call(
        "gate",
        "compare",
        gate.write("b.json", ROWS, base),
        gate.write("h.json", ROWS, head),
        "--out",
        gate.root / "out",
        *flags,
    )


def without(context: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in context.items() if key not in names}


def test_equal_metadata_pass(gate: Gate) -> None:
    assert judge(gate, FULL, FULL) == 0


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_refuses_when_it_differs_or_is_absent(
    gate: Gate, field: str, capsys: Any
) -> None:
    other = FULL | {field: 3 if field == "num_cpus" else "other"}
    assert judge(gate, FULL, other) == 3
    assert f"not comparable: {field} " in capsys.readouterr().out
    assert judge(gate, FULL, without(FULL, field)) == 3
    assert judge(gate, without(FULL, field), FULL) == 3


@pytest.mark.parametrize("field", ["num_cpus", "library_build_type"])
def test_a_file_without_any_origin_is_refused(gate: Gate, field: str) -> None:
    plain = without(CONTEXT, field)
    assert judge(gate, plain, plain) == 3
    assert judge(gate, {}, {}) == 3


@pytest.mark.parametrize("field", ASSAY_REQUIRED[1:])
def test_our_own_files_must_carry_our_fields(gate: Gate, field: str) -> None:
    assert judge(gate, without(FULL, field), without(FULL, field)) == 3
    unknown = FULL | {field: "unknown"}
    assert judge(gate, unknown, unknown) == 3


def test_an_optional_field_that_neither_could_read_is_equal(gate: Gate) -> None:
    unknown = FULL | {"governor": "unknown"}
    assert judge(gate, unknown, unknown) == 0


def test_plain_google_benchmark_files_are_usable(gate: Gate) -> None:
    assert judge(gate, CONTEXT, CONTEXT) == 0


@pytest.mark.parametrize(
    "field", ["commit", "dirty", "binary_sha256", "host_name", "executable", "mhz_per_cpu", "mine"]
)
def test_code_and_host_only_inform(gate: Gate, field: str) -> None:
    assert judge(gate, FULL | {field: "x"}, FULL | {field: "y"}) == 0


@pytest.mark.parametrize(("factor", "code"), [(1.0, 0), (9.0, 0)])
def test_an_allowed_mismatch_is_a_report(gate: Gate, factor: float, code: int, capsys: Any) -> None:
    head = gate.write("h.json", rows_of("a", times(2, factor=factor)), FULL | {"kernel": "x"})
    base = gate.write("b.json", ROWS, FULL)
    flags = ("--out", gate.root / "out", "--allow-mismatch", "kernel", "--strict")
    assert gate.call("gate", "compare", base, head, *flags) == code
    assert "WARNING" in capsys.readouterr().out
    for name in ("gate.md", "gate.json"):
        assert "WARNING" in (gate.root / "out" / name).read_text()
    assert gate.call("gate", "compare", base, head, "--allow-mismatch", "thp") == 3
    (gate.root / "h.json").write_text("{")
    assert gate.call("gate", "compare", base, head, *flags) == 2


def test_allowing_what_does_not_differ_keeps_the_gate(gate: Gate) -> None:
    base = gate.write("b.json", ROWS, FULL)
    head = gate.write("h.json", rows_of("a", times(2, factor=9)), FULL)
    assert gate.call("gate", "compare", base, head, "--allow-mismatch", "kernel") == 1


@pytest.mark.parametrize("field", ["driver", "device_kind"])
def test_a_model_is_never_compared_with_a_real_device(gate: Gate, field: str) -> None:
    model = FULL | {field: "model"}
    assert judge(gate, FULL, model, "--allow-mismatch", field) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"build_type": "Debug"},
        {"cpu_scaling_enabled": True},
        {"sanitizers": "address"},
        {"scope": "smoke"},
    ],
)
def test_invalid_conditions_are_labelled_and_strict_fails(  # fault:B-38
    gate: Gate, change: dict[str, Any], capsys: Any
) -> None:
    context = FULL | change
    assert judge(gate, context, context) == 0
    assert "conditions invalid" in capsys.readouterr().out
    assert judge(gate, context, context, "--strict") == 5


def test_a_debug_library_counts_unless_our_own_build_type_says_otherwise(gate: Gate) -> None:
    plain = CONTEXT | {"library_build_type": "debug"}
    assert judge(gate, plain, plain, "--strict") == 5
    ours = plain | {"build_type": "Release"}
    assert judge(gate, ours, ours, "--strict") == 0
    loaded = CONTEXT | {"load_avg": [7.5, 1, 1]}
    assert judge(gate, loaded, loaded, "--strict") == 5
    assert "load average of 7.5 was above the 2 CPUs" in gate.result()["headline"]
    for odd in ([2.5, 1, 1], ["x"], [], 7):
        idle = CONTEXT | {"load_avg": odd}
        assert judge(gate, idle, idle, "--strict") == 0
    assert judge(gate, plain, CONTEXT) == 3


def test_files_of_one_side_must_agree(gate: Gate) -> None:
    one = gate.write("1.json", ROWS, FULL)
    two = gate.write("2.json", ROWS, FULL | {"kernel": "x"})
    assert gate.call("gate", "compare", "--base", f"{one},{two}", "--head", one) == 3
