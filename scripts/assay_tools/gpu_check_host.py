"""What gpu_check's stages share: where they run, and how a command is run, timed and judged."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TOTAL_S = 350.0  # the whole check; every stage ends before
EXIT_NOTHING_RAN = 77


@dataclass
class Stage:
    """What became of one stage."""

    name: str
    outcome: str = "ok"  # ok, FAILED, timed out, skipped
    why: str = ""
    seconds: float = 0.0
    code: int | None = None
    lines: list[str] = field(default_factory=list)  # for the summary


@dataclass
class Host:
    """Where the check runs and what it runs."""

    out: Path
    programs: Path
    model: Path
    rehearsal: bool
    started: float
    stages: list[Stage] = field(default_factory=list)

    def left_s(self) -> float:
        return TOTAL_S - (time.monotonic() - self.started)

    def program(self, name: str) -> str:
        return str(self.programs / name)

    @property
    def environment(self) -> dict[str, str]:
        """Without what would put another driver in the real one's place."""
        steering = ("ASSAY_CUDA_DRIVER", "ASSAY_MODEL_")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(steering)}
        return {**kept, **({"ASSAY_CUDA_DRIVER": str(self.model)} if self.rehearsal else {})}


@dataclass
class Ran:
    """How a command ended."""

    code: int | None  # None: it ran past its limit and was stopped
    text: str


def run(host: Host, command: list[str], limit_s: float) -> Ran:
    """Runs a command in a process group of its own and stops that group, and only it, in time."""
    limit_s = min(limit_s, max(1.0, host.left_s()))
    with (host.out / "log.txt").open("a", encoding="utf-8") as log:
        print("+", *command, file=log, flush=True)
        process = subprocess.Popen(
            command,
            env=host.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        code: int | None
        try:
            text, _ = process.communicate(timeout=limit_s)
            code = process.returncode
        except subprocess.TimeoutExpired:
            text, code = stop(process), None
        except BaseException:  # Ctrl-C or a signal: leave nothing running
            stop(process)
            raise
        log.write(text)
        print(f"  -> {'stopped after its limit' if code is None else code}", file=log)
    return Ran(code, text)


def stop(process: subprocess.Popen[str]) -> str:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            return process.communicate(timeout=5)[0]
        except subprocess.TimeoutExpired:
            continue
    return ""


@contextlib.contextmanager
def stage(host: Host, name: str) -> Iterator[Stage]:
    """Times a stage and keeps what became of it, also when it fails half way."""
    done = Stage(name)
    began = time.monotonic()
    print(f"== {name} ({host.left_s():.0f} s left)", flush=True)
    try:
        yield done
    except FileNotFoundError as error:
        if done.outcome == "ok":
            done.outcome = "FAILED"
        done.why += f" (no {Path(str(error.filename)).name} was written)"
    except (OSError, ValueError, KeyError, TypeError) as error:
        done.outcome, done.why = "FAILED", f"{type(error).__name__}: {error}"
    done.seconds = time.monotonic() - began
    host.stages.append(done)
    print(f"   {done.outcome} in {done.seconds:.0f} s {done.why}", flush=True)


def judge(done: Stage, ran: Ran, good: tuple[int, ...] = (0,)) -> bool:
    done.code = ran.code
    if ran.code is None:
        done.outcome, done.why = "timed out", "stopped after its limit; partial results are kept"
    elif ran.code == EXIT_NOTHING_RAN:
        done.outcome, done.why = "skipped", (ran.text.strip().splitlines() or [""])[-1]
    elif ran.code not in good:
        done.outcome, done.why = "FAILED", f"exit code {ran.code}"
    return done.outcome == "ok"


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
