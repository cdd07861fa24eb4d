"""scripts/run: what it does about a GPU, and what its summary says of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay_tools import run_all
from assay_tools.tests import samples


class Recorded(run_all.Loop):
    """A loop that runs nothing: it keeps the stages, and writes what each would have written."""

    def run(self, stage: run_all.Stage) -> bool:
        self.stages.append(stage)
        profile = stage.command[stage.command.index("--profile") + 1]
        written = on_model(profile)
        Path(stage.command[stage.command.index("--out") + 1]).write_text(json.dumps(written))
        return True


def on_model(profile: str, **outcomes: str) -> dict[str, Any]:
    value = samples.verify(**(outcomes or {"no_overlap": "pass"}))
    value["cells"] = value["cells"][:1]
    value["context"] |= {"driver": "model", "driver_profile": profile}
    return value


def folder_with(path: Path, driver: dict[str, Any]) -> Path:
    verify = samples.verify(no_overlap="pass")
    verify["context"] |= driver
    (path / "verify.json").write_text(json.dumps(verify))
    replay = samples.replay()
    replay["trace"]["unknown_frees"] = 0
    (path / "replay.json").write_text(json.dumps(replay))
    skip = {"error_occurred": True, "error_message": "assay: skipped: needs 1 bytes"}
    rows = [{"name": "touch/backing:device/size:4096", **skip}]
    (path / "bench.json").write_text(json.dumps({"context": {}, "benchmarks": rows}))
    return path


def test_without_a_gpu_every_profile_of_the_model_is_verified(tmp_path: Path) -> None:
    loop = Recorded(folder_with(tmp_path, {"driver": "none"}))
    assert run_all.verify_on_model(loop)
    assert [stage.name for stage in loop.stages] == [f"model-{p}" for p in run_all.PROFILES]
    assert all("--driver" in stage.command for stage in loop.stages)
    verdict = run_all.judge(tmp_path)
    line = next(line for line in verdict.lines if line.startswith("driver"))
    assert "no GPU; verified on the model (not a GPU): h200 1 of 1 cells" in line
    assert not verdict.own_failures


def test_with_a_gpu_the_model_is_left_alone(tmp_path: Path) -> None:
    real = {"driver": "driver", "driver_version": "13.0", "device_name": "A GPU"}
    loop = Recorded(folder_with(tmp_path, real))
    assert run_all.verify_on_model(loop)
    assert not loop.stages
    assert "driver   A GPU, driver 13.0" in run_all.judge(tmp_path).lines


@pytest.mark.parametrize("outcome", ["fail", "crashed", "timed_out"])
def test_what_fails_on_the_model_is_a_failure_of_ours(tmp_path: Path, outcome: str) -> None:
    folder_with(tmp_path, {"driver": "none"})
    bad = on_model("driver_11_8", no_overlap=outcome)
    (tmp_path / "model-driver_11_8.json").write_text(json.dumps(bad))
    expected = "ours fails no_overlap on the model driver_11_8"
    assert run_all.judge(tmp_path).own_failures == [expected]


def test_a_skipped_row_is_no_error_row(tmp_path: Path) -> None:
    verdict = run_all.judge(folder_with(tmp_path, {"driver": "none"}))
    assert "bench    1 rows, 0 of them error rows" in verdict.lines
