"""scripts/gpu-check: what it does without a GPU, and how its stages end."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from assay_tools import gpu_check, gpu_check_host, gpu_check_sanitizer
from assay_tools.errors import ToolError
from assay_tools.gpu_check_host import Host, Ran, Stage


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path, tmp_path, tmp_path / "model.so", False, time.monotonic())


def test_a_host_without_a_gpu_is_told_so_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_check, "gpu_count", lambda: 0)
    assert gpu_check.main(["--out", str(tmp_path / "out")]) == 77
    assert "no GPU here" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_missing_programs_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_check, "gpu_count", lambda: 1)
    assert gpu_check.main(["--out", str(tmp_path), "--programs", str(tmp_path)]) == 2
    assert "assay-conformance" in capsys.readouterr().err


def test_a_command_past_its_limit_is_stopped_with_its_children(host: Host, tmp_path: Path) -> None:
    marker = tmp_path / "child"
    child = f"import time, pathlib; time.sleep(60); pathlib.Path({str(marker)!r}).touch()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    began = time.monotonic()
    ran = gpu_check_host.run(host, [sys.executable, "-c", parent], 1.0)
    assert ran.code is None
    assert time.monotonic() - began < 50
    assert not marker.exists()
    assert "stopped after its limit" in (tmp_path / "log.txt").read_text()


@pytest.mark.parametrize(
    ("code", "outcome"), [(0, "ok"), (1, "FAILED"), (77, "skipped"), (None, "timed out")]
)
def test_how_a_stage_is_judged(code: int | None, outcome: str) -> None:
    done = Stage("x")
    gpu_check_host.judge(done, Ran(code, "why it was skipped\n"))
    assert done.outcome == outcome
    assert done.why == {"skipped": "why it was skipped", "ok": ""}.get(outcome, done.why)


@pytest.mark.parametrize("name", ["attributes", "conformance", "sequences", "properties"])
@pytest.mark.parametrize("outcome", ["FAILED", "timed out", "skipped"])
def test_the_verdict_needs_conformance_and_properties(
    host: Host, name: str, outcome: str, capsys: pytest.CaptureFixture[str]
) -> None:
    host.stages = [Stage("facts", "FAILED"), Stage(name, outcome)]
    assert gpu_check.summary(host, {}) == 1
    assert f"FAILED: {name}" in capsys.readouterr().out


def test_a_failed_benchmark_alone_is_no_bad_verdict(host: Host) -> None:
    host.stages = [Stage("conformance"), Stage("benchmark", "FAILED")]
    assert gpu_check.summary(host, {}) == 0


def test_a_long_summary_keeps_its_verdict_and_sixty_lines(host: Host) -> None:
    host.stages = [Stage("probes", lines=[f"P{i}" for i in range(200)])]
    gpu_check.summary(host, {})
    lines = (host.out / "summary.txt").read_text().splitlines()
    assert len(lines) == 60
    assert lines[-1] == "verdict: good"


def test_medians_skip_errors_and_aggregates(tmp_path: Path) -> None:
    rows = [{"name": "a", "run_name": "a", "run_type": "iteration", "real_time": t} for t in (1, 9)]
    rows += [
        {"name": "a", "run_name": "a", "run_type": "iteration", "real_time": 2},
        {"name": "a_mean", "run_name": "a", "run_type": "aggregate", "real_time": 99},
        {"name": "b", "run_name": "b", "error_occurred": True, "real_time": 0},
    ]
    assert gpu_check.medians(rows, tmp_path / "t.csv") == ["a: 2 ns"]
    assert (tmp_path / "t.csv").read_text().splitlines()[1] == "a,3,2.0,1.0,9.0"


def test_a_stage_that_raises_is_a_failed_stage_and_the_next_one_runs(host: Host) -> None:
    with gpu_check_host.stage(host, "first"):
        json.loads("{")
    with gpu_check_host.stage(host, "second"):
        pass
    assert [s.outcome for s in host.stages] == ["FAILED", "ok"]


def test_the_sanitizer_gets_tests_that_make_no_mistake() -> None:
    def test(name: str, outcome: str, *seen: tuple[str, int]) -> dict[str, object]:
        observations = [{"kind": kind, "value": value} for kind, value in seen]
        return {"id": name, "outcome": outcome, "observations": observations}

    tests = [
        test("init.first", "pass", ("code", 0)),
        test("copy.bad", "pass", ("code", 0), ("code", 1)),
        test("memory.touch", "pass", ("signal", 11)),
        test("copy.failed", "fail", ("code", 0)),
        test("copy.good", "pass", ("code", 0), ("number", 7)),
    ]
    assert gpu_check_sanitizer.positive_tests(tests) == ["copy.good", "init.first"]


def test_nothing_inherited_puts_a_model_in_the_drivers_place(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_CUDA_DRIVER", "model.so")
    monkeypatch.setenv("ASSAY_MODEL_FAULTS", "*:1:2")
    assert not [name for name in host.environment if name.startswith("ASSAY_")]
    host.rehearsal = True
    assert host.environment["ASSAY_CUDA_DRIVER"] == str(host.model)


def test_a_model_under_the_drivers_name_ends_the_check(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = json.dumps({"driver": {"kind": "model", "version": "13.0"}, "devices": []})
    monkeypatch.setattr(gpu_check, "run", lambda *a: Ran(0, said))
    assert gpu_check.check(host) == 1
    assert "the driver here is a model" in capsys.readouterr().out
    assert [s.name for s in host.stages] == ["facts", "attributes"]


def test_an_earlier_checks_results_are_taken_away(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    (tmp_path / "bench.csv").write_text("old")
    (tmp_path / "mine.txt").write_text("kept")
    gpu_check.clear(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


def test_a_full_disk_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "replace", lambda *a: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(ToolError, match="full"):
        gpu_check.write_json(tmp_path / "check.json", {})
    assert not list(tmp_path.iterdir())


def test_probes_are_compared_step_by_step() -> None:
    def probe(name: str, *answers: tuple[str, str, str]) -> dict[str, Any]:
        said = [{"step": s, "kind": k, "spelled": v} for s, k, v in answers]
        return {"id": name, "answers": said}

    models: list[dict[str, Any]] = [
        probe("P2", ("size 0", "code", "invalid_value (1)"), ("size 1", "code", "success (0)")),
        probe("P13", ("used", "value", "512"), ("free", "code", "success (0)")),
        {"id": "P25", "outcome": "absent"},
    ]
    mine = [
        probe("P2", ("size 0", "code", "out_of_memory (2)"), ("size 1", "code", "success (0)")),
        probe("P13", ("used", "value", "1"), ("another", "code", "success (0)")),
        probe("P25", ("host access", "code", "invalid_value (1)")),
    ]
    differ, same = gpu_check.probe_differences(models, mine)
    assert differ == ["P2 size 0: out_of_memory (2), the model invalid_value (1)"]
    assert same == 1
