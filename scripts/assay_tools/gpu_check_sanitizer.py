"""gpu_check's stages under compute-sanitizer: work that makes no mistake must show none."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from typing import Any

from assay_tools.gpu_check_host import EXIT_NOTHING_RAN, Host, Stage, load, run, stage

FINDING = 9  # the exit code that the tool is told to end with
MEMORY_MAX, POOLS_MAX = 30, 12  # tests of each stage: the tool makes them ten times as long
RESERVED_S = 70.0  # what the benchmark and the summary need

MEMCHECK = ["--tool", "memcheck", "--report-api-errors", "no"]
MEMCHECK += ["--error-exitcode", str(FINDING), "--target-processes", "all"]
RACES = ["--track-stream-ordered-races", "all"]
LEAKS = ["--leak-check", "full"]

WORK = ["kernel", "copy", "set", "prefetch", "managed", "pinned", "registered", "memory"]
POOLS = ["pooled", "pool", "location_pool"]
VIRTUAL = ["mapping", "virtual"]


@dataclass
class Command:
    """A program to run under the tool, and what the report calls it."""

    name: str
    words: list[str]
    options: list[str]


def group_of(name: str) -> str:
    return name.split(".")[0]


def positive_tests(tests: list[dict[str, Any]]) -> list[str]:
    """Tests whose every call succeeded and that met no fault."""

    def is_positive(test: dict[str, Any]) -> bool:
        seen = test["observations"]
        codes = [one["value"] for one in seen if one["kind"] == "code"]
        faults = any(one["kind"] == "signal" for one in seen)
        return test["outcome"] == "pass" and not faults and not any(codes)

    return sorted(test["id"] for test in tests if is_positive(test))


def in_turn(tests: list[str], groups: list[list[str]], most: int) -> list[str]:
    """At most so many tests, taken from each kind of group in turn, then from all others."""
    named = [name for kind in groups for name in kind]
    queues = [[t for name in kind for t in tests if group_of(t) == name] for kind in groups]
    queues.append([t for t in tests if group_of(t) not in named])
    chosen: list[str] = []
    while any(queues) and len(chosen) < most:
        for queue in queues[:-1] if any(queues[:-1]) else queues:
            if queue and len(chosen) < most:
                chosen.append(queue.pop(0))
    return chosen


def refusal(code: int | None, text: str) -> str:
    """Why the tool cannot work here, or nothing: it ends with FINDING for what it found."""
    if "Device not supported" in text:
        return "compute-sanitizer refuses this device"
    if code in (None, 0, FINDING, EXIT_NOTHING_RAN):
        return ""
    last = [line for line in text.strip().splitlines() if line.strip()]
    return f"compute-sanitizer does not work here (exit {code}): {last[-1][:80] if last else ''}"


def under_tool(host: Host, done: Stage, tool: str, commands: list[Command], limit_s: float) -> None:
    """Runs the commands until the time is up; the first one tells whether the tool works."""
    end = time.monotonic() + min(limit_s, host.left_s() - RESERVED_S)
    findings: list[str] = []
    ran_commands = 0
    for command in commands:
        left = end - time.monotonic()
        if left <= 1:
            break
        ran = run(host, [tool, *MEMCHECK, *command.options, *command.words], min(20.0, left))
        if ran_commands == 0 and (why := refusal(ran.code, ran.text)):
            done.outcome, done.why = "skipped", why
            return
        ran_commands += 1
        if ran.code is None:
            findings.append(f"{command.name}: stopped after its limit")
        elif ran.code not in (0, EXIT_NOTHING_RAN):
            findings.append(f"{command.name}: {ran.code}")
    done.lines.append(f"{ran_commands} of {len(commands)} programs, {len(findings)} findings")
    done.lines += findings[:8]
    if ran_commands == 0:
        done.outcome = "skipped"
        done.why = "no time was left" if commands else "no test is positive"
    elif any("stopped after" not in each for each in findings):
        done.outcome = "FAILED"
    elif findings:
        done.outcome, done.why = "timed out", "partial results are kept"


def tests_of(host: Host) -> list[str]:
    held = load(host.out / "conformance.json").get("driver", {"tests": []})
    return positive_tests(held["tests"])


def sanitizer(host: Host) -> None:
    """Memory errors and leaks first, then races of stream-ordered memory."""
    program = host.program("assay-conformance")
    tool = shutil.which("compute-sanitizer")
    absent = "not on a model" if host.rehearsal else "no compute-sanitizer in PATH"
    with stage(host, "compute-sanitizer") as done:
        if tool is None or host.rehearsal:
            done.outcome, done.why = "skipped", absent
        else:
            # A test gives nothing back, its process ends; sequences give everything back.
            chosen = in_turn(tests_of(host), [WORK, POOLS, VIRTUAL], MEMORY_MAX)
            commands = [Command(name, [program, "--one", name], []) for name in chosen]
            words = [program, "--sequences", "2", "--seed", "1", "--time-budget", "8"]
            commands.insert(1, Command("sequences", words, LEAKS))
            under_tool(host, done, tool, commands, 38.0)
    with stage(host, "stream-ordered races") as done:
        if tool is None or host.rehearsal:
            done.outcome, done.why = "skipped", absent
        else:
            pools = [name for name in tests_of(host) if group_of(name) in POOLS]
            chosen = in_turn(pools, [[group] for group in POOLS], POOLS_MAX)
            commands = [Command(name, [program, "--one", name], RACES) for name in chosen]
            under_tool(host, done, tool, commands, 20.0)
