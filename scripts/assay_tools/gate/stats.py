"""The statistics of the gate: exact rank tests, Holm, medians and their intervals."""

from __future__ import annotations

import functools
import hashlib
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

# Exact null distributions are cheap up to here; beyond, the normal approximation is accurate.
# (SciPy's "auto" already goes asymptotic at n = 9, where it is off by a factor of ten.)
EXACT_SIZE_MAX = 60


@functools.cache
def _exact_tail(low: int, high: int) -> Array:
    """P(U >= u) for u = 0..low*high without ties, from the counts of rank subsets."""
    ways = np.zeros((high + 1, low * high + 1))
    ways[0, 0] = 1.0
    for rank in range(low + high):
        for chosen in range(min(high, rank + 1), 0, -1):
            shift = rank - (chosen - 1)
            if 0 <= shift <= low:
                ways[chosen, shift:] += ways[chosen - 1, : ways.shape[1] - shift]
    counts = ways[high]
    tail: Array = np.cumsum(counts[::-1])[::-1] / counts.sum()
    return tail


def _tied_tail(base: Array, head: Array) -> float:
    """The exact permutation p of the rank sum when values repeat, by counting every relabelling.

    Mid-ranks are doubled so that they are whole numbers.
    """
    from scipy.stats import rankdata

    ranks = np.rint(2 * rankdata(np.concatenate([base, head]))).astype(np.int64)
    observed = int(ranks[len(base) :].sum())
    size = len(head)
    ways = np.zeros((size + 1, int(ranks.sum()) + 1))
    ways[0, 0] = 1.0
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    return float(ways[size, observed:].sum() / ways[size].sum())


def _asymptotic(base: Array, head: Array) -> float:
    from scipy.stats import mannwhitneyu

    if np.ptp(np.concatenate([base, head])) == 0:
        return 1.0
    return float(mannwhitneyu(head, base, alternative="greater", method="asymptotic").pvalue)


def p_greater(base: Array, head: Array) -> Array:
    """One-sided Mann-Whitney p per row that `head` is larger; rows x repetitions each."""
    rows, low, high = base.shape[0], base.shape[1], head.shape[1]
    if max(low, high) > EXACT_SIZE_MAX:
        return np.array([_asymptotic(base[i], head[i]) for i in range(rows)])
    greater = np.zeros(rows, dtype=np.int64)
    tied = np.zeros(rows, dtype=bool)
    for column in range(high):
        value = head[:, column : column + 1]
        greater += (value > base).sum(axis=1)
        tied |= (value == base).any(axis=1)
    result: Array = _exact_tail(low, high)[greater]
    for row in np.flatnonzero(tied):
        result[row] = _tied_tail(base[row], head[row])
    return result


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm-adjusted p values in the given order."""
    if len(p_values) < 2:
        return [float(p) for p in p_values]
    order = np.argsort(np.asarray(p_values), kind="stable")
    count = len(p_values)
    adjusted = np.empty(count)
    scaled = np.asarray(p_values)[order] * np.arange(count, 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return [float(p) for p in adjusted]


def row_seed(seed: int, name: str) -> int:
    """A seed that depends on the row, not on its position in the file."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def _median_ratio(base: Array, head: Array, axis: int = -1) -> Any:
    return np.median(head, axis=axis) / np.median(base, axis=axis)


def ratio_interval(base: Array, head: Array, seed: int, resamples: int) -> tuple[float, float]:
    """95 % bootstrap interval of the ratio of medians (percentile method)."""
    from scipy.stats import bootstrap

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = bootstrap(
            (base, head),
            _median_ratio,
            vectorized=True,
            n_resamples=resamples,
            method="percentile",
            rng=np.random.default_rng(seed),
        )
    low, high = result.confidence_interval
    return float(low), float(high)


def geometric_mean(ratios: Sequence[float]) -> float | None:
    """The geometric mean, or nothing where there is nothing to average."""
    if not ratios:
        return None
    return math.exp(math.fsum(math.log(ratio) for ratio in ratios) / len(ratios))


def repetitions_needed(
    count: int, ratio: float, interval: tuple[float, float], limits: tuple[float, float]
) -> int | None:
    """How many repetitions would narrow the interval enough to decide against `limits`."""
    center = math.log(ratio)
    half = max(math.log(interval[1]) - center, center - math.log(interval[0]))
    effect, ceiling = math.log(limits[0]), math.log(limits[1])
    margin = max(ceiling - center, center - effect)
    if half <= 0 or margin <= 0:
        return None
    return max(count + 1, math.ceil(count * (half / margin) ** 2))
