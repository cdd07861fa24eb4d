"""Running Google Benchmark binaries: one fresh process per call, everything that fails is a value.

The two binaries are copied to paths of equal length, and their environments have equal length too:
both lie on the stack of the child and move it, which alone shifts timings.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import stat
import subprocess
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from assay_tools.benchfile import Bench, Sample, parse_results
from assay_tools.errors import ToolError
from assay_tools.gate.analysis import filter_for
from assay_tools.strict_json import digest, read_bytes

STDERR_TAIL = 400
OUTPUT_MAX = 64 << 20  # of each of stdout, stderr and the JSON file


@dataclass(frozen=True)
class Target:
    """One side's binary, copied; its helpers are found through ASSAY_LIBEXEC."""

    side: str
    original: Path
    copy: Path
    libexec: Path
    sha256: str

    def environment(self) -> dict[str, str]:
        return dict(os.environ) | {"ASSAY_LIBEXEC": str(self.libexec)}


def install(side: str, binary: Path, work: Path) -> Target:
    """Copy a binary to `work/<side>/bench`; `libexec` beside it leads to where it came from."""
    data = read_bytes(binary)
    if not os.access(binary, os.X_OK):
        raise ToolError(f"--{side} {binary}: not executable")
    place = work / side
    place.mkdir()
    copy, libexec = place / "bench", place / "libexec"
    shutil.copyfile(binary, copy)
    copy.chmod(0o755)
    libexec.symlink_to(binary.resolve().parent, target_is_directory=True)
    return Target(side, binary, copy, libexec, digest(data))


@dataclass(frozen=True)
class Limits:
    """What one process may take."""

    min_time_s: float
    timeout_s: float


def _tail(stderr: bytes) -> str:
    text = stderr.decode("utf-8", "replace").strip()
    return f"; it said: {text[-STDERR_TAIL:]}" if text else ""


def _ending(code: int) -> str:
    if code >= 0:
        return f"exited with {code}"
    try:
        return f"crashed ({signal.Signals(-code).name})"
    except ValueError:
        return f"crashed (signal {-code})"


@dataclass
class _Ended:
    failure: str | None
    stdout: bytes = b""
    stderr: bytes = b""


class _Reader:
    """Takes one stream of a child as it comes, up to a limit; a flood ends the child."""

    def __init__(self, child: subprocess.Popen[bytes], stream: IO[bytes] | None) -> None:
        assert stream is not None
        self.child, self.stream = child, stream
        self.parts: list[bytes] = []
        self.flooded = False
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        taken = 0
        with self.stream:
            while part := os.read(self.stream.fileno(), 1 << 16):
                taken += len(part)
                if taken > OUTPUT_MAX:
                    self.flooded = True
                    _kill(self.child)
                    return
                self.parts.append(part)


def _kill(child: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        child.kill()


def _execute(target: Target, arguments: list[str], timeout_s: float) -> _Ended:
    """Run to the end or to the limit; the whole process group is stopped at the limit."""
    try:
        child = subprocess.Popen(
            [str(target.copy), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=target.environment(),
            start_new_session=True,
        )
    except OSError as error:
        return _Ended(f"failed to start: {error.strerror}")
    readers = [_Reader(child, stream) for stream in (child.stdout, child.stderr)]
    deadline = time.monotonic() + timeout_s
    try:
        for reader in readers:  # ends with the last process that holds the pipe
            reader.thread.join(deadline - time.monotonic())
        child.wait(max(0.0, deadline - time.monotonic()))
        in_time = not any(reader.thread.is_alive() for reader in readers)
    except subprocess.TimeoutExpired:
        in_time = False
    except BaseException:
        _stop(child)
        raise
    if any(reader.flooded for reader in readers):
        _stop(child)
        return _Ended(f"wrote more than {OUTPUT_MAX >> 20} MiB to stdout or stderr")
    if not in_time:
        _stop(child)
        return _Ended(f"timed out after {timeout_s:g} s")
    stdout, stderr = (b"".join(reader.parts) for reader in readers)
    if child.returncode != 0:
        return _Ended(_ending(child.returncode) + _tail(stderr), stdout, stderr)
    return _Ended(None, stdout, stderr)


def _stop(child: subprocess.Popen[bytes]) -> None:
    _kill(child)
    child.wait()


def list_rows(target: Target, pattern: str, limits: Limits) -> list[str]:
    """Names as the binary itself lists them; an empty list is an error, not a pass."""
    where = f"--{target.side} {target.original}"
    arguments = ["--benchmark_list_tests=true"]
    if pattern:
        arguments.append(f"--benchmark_filter={pattern}")
    ended = _execute(target, arguments, limits.timeout_s)
    if ended.failure is not None:
        raise ToolError(f"{where}: listing benchmarks: {ended.failure}")
    try:
        lines = ended.stdout.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise ToolError(f"{where}: list is not UTF-8") from None
    names = [line.rstrip("\r") for line in lines if line.strip()]
    if not names:
        chosen = f" match --filter {pattern!r}" if pattern else " are listed"
        raise ToolError(f"{where}: no benchmarks{chosen}{_tail(ended.stderr)}")
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ToolError(f"{where}: duplicate names: {', '.join(twice[:5])}")
    return names


@dataclass
class Pass:
    """What one process gave: a sample per asked name, and its context."""

    samples: dict[str, Bench]
    context: dict[str, Any]


def one_repetition(bench: Bench) -> Bench:
    """A process is one repetition: those the benchmark makes inside it become their median."""
    usable = [s for s in bench.samples if s.error is None and s.skipped is None]
    if len(bench.samples) == 1 or len(usable) < len(bench.samples):
        bad = [s for s in bench.samples if s.error is not None or s.skipped is not None]
        return replace(bench, samples=(bad or bench.samples)[:1])
    times = [(s.real_s, s.cpu_s) for s in usable]
    if any(real is None or cpu is None for real, cpu in times):
        return replace(bench, samples=[Sample()])
    with np.errstate(over="ignore"):
        real, cpu = (float(np.median([pair[i] for pair in times])) for i in (0, 1))
    if not (math.isfinite(real) and math.isfinite(cpu)):
        return replace(bench, samples=[Sample()])
    return replace(bench, samples=[replace(usable[0], real_s=real, cpu_s=cpu)])


def _failed(names: list[str], message: str, context: dict[str, Any] | None = None) -> Pass:
    rows = {name: Bench(name, samples=[Sample(error=message)]) for name in names}
    return Pass(rows, context or {})


def _clear(output: Path) -> None:
    """Whatever an earlier process left at the place of its result."""
    if output.is_dir() and not output.is_symlink():
        shutil.rmtree(output, ignore_errors=True)
    else:
        output.unlink(missing_ok=True)


def _read_output(output: Path) -> tuple[bytes, str]:
    """The JSON of a process, or why there is none."""
    try:
        status = output.stat()
        if not stat.S_ISREG(status.st_mode):
            return b"", "made something else than a file of its JSON output"
        if status.st_size > OUTPUT_MAX:
            return b"", f"wrote more than {OUTPUT_MAX >> 20} MiB of JSON"
        data = output.read_bytes()
    except FileNotFoundError:
        return b"", "wrote no JSON"
    except OSError as error:
        return b"", f"its JSON output cannot be read: {error.strerror}"
    return data, "" if data else "wrote no JSON"


def run_pass(target: Target, names: list[str], limits: Limits, work: Path) -> Pass:
    """One process over exactly these names."""
    output = work / target.side / "result.json"
    _clear(output)
    exact = [filter_for(name)[1:-1] for name in names]
    pattern = f"^{exact[0]}$" if len(exact) == 1 else f"^({'|'.join(exact)})$"
    arguments = [
        f"--benchmark_filter={pattern}",
        f"--benchmark_min_time={limits.min_time_s:g}",
        f"--benchmark_out={output}",
        "--benchmark_out_format=json",
    ]
    ended = _execute(target, arguments, limits.timeout_s)
    data, why = _read_output(output)
    if why:
        return _failed(names, f"{ended.failure or 'exited with 0'}, and {why}")
    try:
        result = parse_results(data, "its JSON output", accept_median=True)
    except ToolError as error:
        return _failed(names, f"{ended.failure}" if ended.failure else str(error))
    samples: dict[str, Bench] = {}
    for name in names:
        bench = result.benches.get(name)
        if bench is None:
            reason = ended.failure or "exited with 0"
            bench = Bench(name, samples=[Sample(error=f"{reason}, without a row for it")])
        elif ended.failure and all(s.error is None for s in bench.samples):
            bench = Bench(name, samples=[Sample(error=f"{ended.failure}, after its rows")])
        samples[name] = one_repetition(bench)
    return Pass(samples, result.context)
