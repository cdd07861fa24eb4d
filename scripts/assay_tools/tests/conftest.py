"""Makers of inputs: result files, fake benchmark binaries, and a runner for the whole program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

HERE = Path(__file__).parent
SCRIPTS = HERE.parent.parent
DATA = HERE / "data"
CONTEXT = {
    "date": "2024-06-01T10:00:00+00:00",
    "host_name": "host",
    "num_cpus": 2,
    "library_build_type": "release",
}


def times(seed: int, n: int = 12, factor: float = 1.0, sigma: float = 0.01) -> list[float]:
    """Lognormal microseconds around 10 * factor."""
    values = 10 * factor * np.random.default_rng(seed).lognormal(0, sigma, n)
    return [float(value) for value in values]


def rows_of(name: str, values: list[Any], **extra: Any) -> list[dict[str, Any]]:
    """Iteration rows for one benchmark; a value may be a time or a dict to merge."""
    rows = []
    for index, value in enumerate(values):
        row: dict[str, Any] = {
            "name": name,
            "run_name": name,
            "run_type": "iteration",
            "repetitions": len(values),
            "repetition_index": index,
            "threads": 1,
            "iterations": 100,
            "time_unit": "us",
        }
        fields = value if isinstance(value, dict) else {"real_time": value, "cpu_time": value}
        rows.append(row | fields | extra)
    return rows


class Gate:
    """Writes inputs into a directory and runs `python -m assay_tools` on them."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(
        self, name: str, rows: list[dict[str, Any]], context: dict[str, Any] | None = None
    ) -> Path:
        path = self.root / name
        value = {"context": CONTEXT if context is None else context, "benchmarks": rows}
        path.write_text(json.dumps(value), encoding="utf-8")
        return path

    def fake(self, side: str, rows: list[dict[str, Any]], **config: Any) -> Path:
        """A fake binary in a directory of its own, `side` apart from its twin."""
        place = self.root / f"bin-{side}"
        place.mkdir(exist_ok=True)
        settings = {"side": side, "seed": 7, "rows": rows} | config
        text = (HERE / "fake_bench.py.in").read_text(encoding="utf-8")
        text = text.replace("@PYTHON@", sys.executable).replace("@CONFIG@", json.dumps(settings))
        path = place / "bench"
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
        return path

    def run(self, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
        """The program as a user runs it."""
        environment = os.environ | {"PYTHONPATH": str(SCRIPTS)} | options.pop("env", {})
        return subprocess.run(
            [sys.executable, "-m", "assay_tools", *map(str, arguments)],
            capture_output=True,
            text=True,
            env=environment,
            timeout=80,
            check=False,
            **options,
        )

    def call(self, *arguments: object) -> int:
        """The program inside this process: quicker, same mapping to exit codes."""
        from assay_tools.__main__ import run

        try:
            return run([str(argument) for argument in arguments])
        except SystemExit as stop:
            return int(stop.code or 0)

    def result(self, out: Path | None = None) -> dict[str, Any]:
        """The contract file."""
        loaded: dict[str, Any] = json.loads(
            ((out or self.root / "out") / "gate.json").read_text(encoding="utf-8")
        )
        return loaded

    def verdicts(self) -> dict[str, str]:
        """Name -> verdict of the last run with `--out out`."""
        return {row["name"]: row["verdict"] for row in self.result()["rows"]}

    def compare(
        self, base: list[dict[str, Any]], head: list[dict[str, Any]], *flags: object
    ) -> int:
        """Judge two lists of rows that were measured in one A/B session."""
        context = CONTEXT | {"ab_session": "s"}
        return self.call(
            "gate",
            "compare",
            self.write("base.json", base, context),
            self.write("head.json", head, context),
            "--out",
            self.root / "out",
            *flags,
        )


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    """A fresh directory."""
    return Gate(tmp_path)


@pytest.fixture(autouse=True)
def an_idle_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else runs here is no part of a test."""
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))


MakeRows = Callable[..., list[dict[str, Any]]]
