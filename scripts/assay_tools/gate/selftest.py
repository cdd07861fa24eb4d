"""`assay gate selftest`: does the gate keep its promises? Two figures, measured, with bounds.

The synthetic runs go through the very functions that judge real data; the injected run measures
real processes of a small probe, one row of which makes 20 % more calls.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

from assay_tools.errors import Exit
from assay_tools.gate import rule as rules
from assay_tools.gate.history import DATA_FILE, history_figures
from assay_tools.gate.options import Options
from assay_tools.gate.rule import FASTER, SLOWER, Rule
from assay_tools.gate.stats import Array
from assay_tools.gate.table import Verdict

ROWS = 200
SCREEN_PAIRS, CONFIRM_PAIRS = 10, 20
BATCH = 25
FALSE_ALARM_MAX = 0.01
INJECTED_ROW = "probe/injected"

Noise = Callable[[np.random.Generator, int, int, int], tuple[Array, Array]]


def lognormal(spread: float) -> Noise:
    """Independent multiplicative noise."""

    def draw(random: np.random.Generator, runs: int, rows: int, pairs: int) -> tuple[Array, Array]:
        shape = (runs, rows, pairs)
        return np.exp(random.normal(0, spread, shape)), np.exp(random.normal(0, spread, shape))

    return draw


def bimodal(random: np.random.Generator, runs: int, rows: int, pairs: int) -> tuple[Array, Array]:
    """Two modes 8 % apart, as page placement makes them."""
    base, head = lognormal(0.01)(random, runs, rows, pairs)
    modes = 1 + 0.08 * random.integers(0, 2, (2, runs, rows, pairs))
    return base * modes[0], head * modes[1]


def drift(random: np.random.Generator, runs: int, rows: int, pairs: int) -> tuple[Array, Array]:
    """The whole host slows down by 2 to 8 % over the session; a pair shares its moment."""
    base, head = lognormal(0.02)(random, runs, rows, pairs)
    slope = random.uniform(0.02, 0.08, (runs, 1, 1)) * np.linspace(0, 1, pairs)
    return base * (1 + slope), head * (1 + slope)


def bursts(random: np.random.Generator, runs: int, rows: int, pairs: int) -> tuple[Array, Array]:
    """A noisy neighbour that comes and goes; one repetition in twenty is up to 3 times slower."""
    base, head = lognormal(0.02)(random, runs, rows, pairs)
    level = np.zeros((runs, 1, pairs))
    for pair in range(1, pairs):
        level[..., pair] = 0.8 * level[..., pair - 1] + random.normal(0, 0.024, (runs, 1))
    for side in (base, head):
        side *= np.exp(level)
        hit = random.random(side.shape) < 0.05
        side *= np.where(hit, random.uniform(1, 3, side.shape), 1.0)
    return base, head


KINDS: dict[str, Noise] = {
    "lognormal 3 %": lognormal(0.03),
    "two modes": bimodal,
    "drift": drift,
    "bursts": bursts,
}


def simulate(
    seed: int, noise: Noise, runs: int, slow: float = 1.0, rule: Rule | None = None
) -> Iterator[list[int]]:
    """Per run the rows flagged as regressions; row 0 is `slow` times slower."""
    rule = rule or Rule()
    random = np.random.default_rng(seed)
    for start in range(0, runs, BATCH):
        count = min(BATCH, runs - start)
        base, head = noise(random, count, ROWS, SCREEN_PAIRS)
        head[:, 0] *= slow
        flat = rules.screen_batch(
            base.reshape(-1, SCREEN_PAIRS), head.reshape(-1, SCREEN_PAIRS), rule
        )
        for run in range(count):
            row_range = flat[run * ROWS : (run + 1) * ROWS]
            chosen = [index for index, row in enumerate(row_range) if row.suspect]
            yield _confirm(
                random, noise, chosen, [row_range[i].suspect for i in chosen], slow, rule
            )


def _confirm(
    random: np.random.Generator,
    noise: Noise,
    chosen: list[int],
    directions: list[str | None],
    slow: float,
    rule: Rule,
) -> list[int]:
    if not chosen:
        return []
    base, head = noise(random, 1, len(chosen), CONFIRM_PAIRS)
    for position, index in enumerate(chosen):
        head[0, position] *= slow if index == 0 else 1.0
    sides = [SLOWER if direction == SLOWER else FASTER for direction in directions]
    decided = rules.confirm(list(zip(base[0], head[0], strict=True)), sides, rule)
    return [
        index
        for index, outcome, side in zip(chosen, decided, sides, strict=True)
        if outcome.passed and side == SLOWER
    ]


def upper_bound(hits: int, runs: int) -> float:
    """Exact one-sided 95 % bound of a share."""
    from scipy.stats import binomtest

    interval = binomtest(hits, runs).proportion_ci(confidence_level=0.90, method="exact")
    return float(interval.high)


@dataclass(frozen=True)
class Power:
    """A slowdown that must be found with at least `target` at this spread."""

    spread: float
    slow: float
    target: float


POWERS = (Power(0.04, 1.10, 0.95), Power(0.04, 1.20, 0.99), Power(0.025, 1.07, 0.90))


def false_alarms(seed: int, runs: int) -> dict[str, tuple[int, int]]:
    """Kind of noise -> runs with at least one regression, runs."""
    share = max(1, runs // len(KINDS))
    return {
        name: (sum(1 for flagged in simulate(seed + i, noise, share) if flagged), share)
        for i, (name, noise) in enumerate(KINDS.items())
    }


def power(seed: int, wanted: Power, runs: int) -> float:
    """Share of runs in which the slowed row is flagged."""
    found = simulate(seed, lognormal(wanted.spread), runs, wanted.slow)
    return sum(1 for flagged in found if 0 in flagged) / runs


def make_probe(directory: Path, extra_percent: int) -> Path:
    """A benchmark binary whose `probe/injected` row makes `extra_percent` more calls."""
    template = (Path(__file__).parent / "probe.py.in").read_text(encoding="utf-8")
    directory.mkdir()
    path = directory / "bench"
    text = template.replace("@PYTHON@", sys.executable)
    path.write_text(text.replace("@EXTRA_PERCENT@", str(extra_percent)), encoding="utf-8")
    path.chmod(0o755)
    return path


def injected_run(seed: int) -> tuple[Exit, list[str]]:
    """Measure real processes: exit code and the names flagged as regressions."""
    from assay_tools.gate.ab import AbRequest, run_ab

    with tempfile.TemporaryDirectory(prefix="assay-selftest-") as work:
        base, head = make_probe(Path(work) / "a", 0), make_probe(Path(work) / "b", 20)
        result = run_ab(
            AbRequest(base=base, head=head, min_time_s=0.01), Options(seed=seed), Rule()
        )
    names = [row.name for row in result.rows if row.verdict is Verdict.REGRESSION]
    return result.exit_code(), names


def run_selftest(runs: int, seed: int, injected: bool, out: TextIO) -> Exit:
    """Print every figure beside its target; exit 1 if one is missed."""
    passed = True

    def line(ok: bool, text: str) -> None:
        nonlocal passed
        passed &= ok
        print(f"{'ok    ' if ok else 'MISSED'} {text}", file=out, flush=True)

    print(f"gate self-test, seed {seed}, {ROWS} rows a run", file=out)
    alarms = false_alarms(seed, runs)
    for name, (hits, count) in alarms.items():
        print(f"       A/A, {name}: {hits} of {count} runs alarmed", file=out)
    hits, count = (sum(pair[i] for pair in alarms.values()) for i in (0, 1))
    rate = hits / count
    line(
        rate <= FALSE_ALARM_MAX,
        f"false alarms: {hits} of {count} A/A runs = {rate:.2%}, 95 % upper bound "
        f"{upper_bound(hits, count):.2%} (target <= {FALSE_ALARM_MAX:.0%})",
    )
    tries = max(100, min(1000, runs // 4))
    for index, wanted in enumerate(POWERS):
        share = power(seed + 100 + index, wanted, tries)
        line(
            share >= wanted.target,
            f"power: x{wanted.slow:.2f} at {wanted.spread:.1%} spread found in {share:.1%} of "
            f"{tries} runs (target >= {wanted.target:.0%})",
        )
    if DATA_FILE.exists():
        figures = history_figures(DATA_FILE)
        line(figures.good, f"published history: {figures.text()}")
    if injected:
        code, names = injected_run(seed)
        line(
            code is Exit.BAD and names == [INJECTED_ROW],
            f"injected 20 % more calls: exit {int(code)}, flagged {names or 'nothing'} "
            f"(target exit 1, exactly {INJECTED_ROW})",
        )
    print("self-test passed" if passed else "self-test FAILED", file=out)
    return Exit.GOOD if passed else Exit.BAD
