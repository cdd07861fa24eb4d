"""The stages of scripts/gpu-check under compute-sanitizer, with a program in the tool's place."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from assay_tools import gpu_check_sanitizer
from assay_tools.gpu_check_host import Host, Stage
from assay_tools.gpu_check_sanitizer import Command, in_turn, refusal, under_tool


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path, tmp_path, tmp_path / "model.so", False, time.monotonic())


def tool(folder: Path, script: str) -> str:
    path = folder / "compute-sanitizer"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def held(host: Host, *names: str) -> None:
    seen = [{"kind": "code", "value": 0}]
    tests = [{"id": name, "outcome": "pass", "observations": seen} for name in names]
    (host.out / "conformance.json").write_text(json.dumps({"driver": {"tests": tests}}))


def test_every_kind_of_memory_gets_its_turn() -> None:
    tests = ["copy.a", "copy.b", "copy.c", "init.a", "pooled.a", "mapping.a", "pool.a"]
    kinds = [["copy"], ["pooled", "pool"], ["mapping"]]
    assert in_turn(tests, kinds, 4) == ["copy.a", "pooled.a", "mapping.a", "copy.b"]
    assert in_turn(tests, kinds, 9)[-1] == "init.a"
    assert in_turn(tests, kinds, 0) == []


@pytest.mark.parametrize(
    ("code", "text", "why"),
    [
        (0, "========= ERROR SUMMARY: 0 errors", ""),
        (9, "========= Invalid __global__ read", ""),
        (77, "no device", ""),
        (None, "", ""),
        (1, "usage\nunrecognised option '--track-stream-ordered-races'\n", "unrecognised option"),
        (255, "", "exit 255"),
        (0, "========= Error: Device not supported. Please refer", "refuses this device"),
    ],
)
def test_a_tool_that_does_not_work_is_told_from_what_it_found(
    code: int | None, text: str, why: str
) -> None:
    assert (why in refusal(code, text)) if why else refusal(code, text) == ""


def test_a_refused_tool_is_a_skip_with_a_reason(host: Host, tmp_path: Path) -> None:
    done = Stage("x")
    refuses = tool(tmp_path, "echo cannot attach >&2; exit 3")
    under_tool(host, done, refuses, [Command("a", ["true"], [])] * 3, 30)
    assert (done.outcome, done.lines) == ("skipped", [])
    assert done.why == "compute-sanitizer does not work here (exit 3): cannot attach"


def test_findings_fail_the_stage_and_are_named(host: Host, tmp_path: Path) -> None:
    done = Stage("x")
    finds = tool(tmp_path, 'case "$*" in *second*) exit 9;; esac')
    commands = [Command(name, [name], []) for name in ("first", "second", "third")]
    under_tool(host, done, finds, commands, 30)
    assert done.outcome == "FAILED"
    assert done.lines == ["3 of 3 programs, 1 findings", "second: 9"]


def test_no_time_and_no_test_are_told(host: Host, tmp_path: Path) -> None:
    late, empty = Stage("x"), Stage("x")
    under_tool(host, late, tool(tmp_path, "exit 0"), [Command("a", ["a"], [])], 0)
    under_tool(host, empty, tool(tmp_path, "exit 0"), [], 30)
    assert (late.outcome, late.why) == ("skipped", "no time was left")
    assert (empty.outcome, empty.why) == ("skipped", "no test is positive")


def test_pools_are_looked_at_twice(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held(host, "copy.a", "pooled.a", "mapping.a", "pool.b")
    log = tmp_path / "calls"
    path = tool(tmp_path, f'echo "$*" >> {log}')
    monkeypatch.setattr(shutil, "which", lambda name: path)
    gpu_check_sanitizer.sanitizer(host)
    assert [(s.name, s.outcome) for s in host.stages] == [
        ("compute-sanitizer", "ok"),
        ("stream-ordered races", "ok"),
    ]
    calls = log.read_text().splitlines()
    raced = [call.split()[-1] for call in calls if "--track-stream-ordered-races all" in call]
    assert raced == ["pooled.a", "pool.b"]
    assert {call.split()[-1] for call in calls if "--one" in call and "races" not in call} == {
        "copy.a",
        "pooled.a",
        "mapping.a",
        "pool.b",
    }
    assert [call for call in calls if "--leak-check full" in call and "--sequences" in call]


@pytest.mark.parametrize("rehearsal", [True, False])
def test_without_the_tool_both_stages_say_why(
    host: Host, rehearsal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.rehearsal = rehearsal
    monkeypatch.setattr(shutil, "which", lambda name: None)
    gpu_check_sanitizer.sanitizer(host)
    why = "not on a model" if rehearsal else "no compute-sanitizer in PATH"
    assert [(s.outcome, s.why) for s in host.stages] == [("skipped", why)] * 2
