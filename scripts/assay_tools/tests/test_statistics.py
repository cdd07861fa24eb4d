"""The gate's statistics against the libraries they replace, and its promises on synthetic data."""

from __future__ import annotations

from io import StringIO

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, permutation_test

from assay_tools.gate import rule as rules
from assay_tools.gate import selftest, stats
from assay_tools.gate.history import DATA_FILE, history_figures
from assay_tools.gate.rule import Rule


@pytest.mark.parametrize(("low", "high"), [(5, 7), (8, 8), (9, 9), (10, 10), (20, 13), (20, 20)])
def test_exact_p_agrees_with_scipy_without_ties(low: int, high: int) -> None:
    random = np.random.default_rng(low * 100 + high)
    base, head = random.normal(0, 1, (40, low)), random.normal(0.5, 1, (40, high))
    ours = stats.p_greater(base, head)
    for row in range(40):
        theirs = mannwhitneyu(head[row], base[row], alternative="greater", method="exact").pvalue
        assert ours[row] == pytest.approx(theirs, rel=1e-9)


def test_smallest_p_is_the_exact_one() -> None:
    base, head = np.arange(9.0)[None], np.arange(9.0)[None] + 100
    assert stats.p_greater(base, head)[0] == pytest.approx(1 / 48620)


def rank_sum(first: np.ndarray, second: np.ndarray, axis: int = -1) -> np.ndarray:
    result: np.ndarray = mannwhitneyu(second, first, axis=axis).statistic
    return result


def test_tied_p_is_the_full_permutation_p() -> None:
    random = np.random.default_rng(5)
    for _ in range(5):
        base, head = random.integers(0, 4, 6).astype(float), random.integers(1, 5, 5).astype(float)
        theirs = permutation_test(
            (base, head), rank_sum, alternative="greater", n_resamples=np.inf, vectorized=True
        ).pvalue
        assert stats.p_greater(base[None], head[None])[0] == pytest.approx(theirs, rel=1e-9)


def test_constant_samples_are_no_change() -> None:  # fault:B-47
    same = np.full((1, 12), 7.0)
    assert stats.p_greater(same, same)[0] == 1.0
    large = np.full((1, 100), 7.0)
    assert stats.p_greater(large, large)[0] == 1.0
    assert rules.screen_batch(same, same, Rule())[0].suspect is None


def test_large_samples_stay_close_to_exact() -> None:
    random = np.random.default_rng(1)
    base, head = random.normal(0, 1, (1, 70)), random.normal(0.3, 1, (1, 70))
    theirs = mannwhitneyu(head[0], base[0], alternative="greater", method="exact").pvalue
    assert stats.p_greater(base, head)[0] == pytest.approx(theirs, rel=0.02)


def test_holm_agrees_with_statsmodels() -> None:
    from statsmodels.stats.multitest import multipletests

    values = [float(p) for p in np.random.default_rng(2).uniform(0, 0.2, 25)]
    assert stats.holm(values) == pytest.approx(list(multipletests(values, method="holm")[1]))
    assert stats.holm([0.04]) == [0.04] and stats.holm([]) == []


def test_the_interval_covers_the_ratio_and_follows_the_seed() -> None:
    random = np.random.default_rng(3)
    base, head = random.lognormal(0, 0.02, 20), 1.1 * random.lognormal(0, 0.02, 20)
    low, high = stats.ratio_interval(base, head, 1, 999)
    assert low < 1.1 < high and (low, high) == stats.ratio_interval(base, head, 1, 999)


def test_geometric_mean_of_nothing_is_nothing() -> None:
    assert stats.geometric_mean([]) is None
    assert stats.geometric_mean([0.5, 2.0]) == pytest.approx(1)


def test_two_thousand_quiet_runs_raise_at_most_one_percent_alarms() -> None:  # fault:B-48
    alarms = selftest.false_alarms(20240607, 2000)
    assert sum(count for _, count in alarms.values()) == 2000
    assert sum(hits for hits, _ in alarms.values()) <= 20, alarms


def test_the_alarm_counter_can_count() -> None:
    loose = Rule(screen_p=0.5, screen_ratio=1.0, confirm_p=0.9, confirm_ratio=1.0)
    noise = selftest.lognormal(0.05)
    assert any(selftest.simulate(1, noise, 5, rule=loose))


@pytest.mark.parametrize("wanted", selftest.POWERS, ids=str)
def test_slowdowns_are_found(wanted: selftest.Power) -> None:
    assert selftest.power(20240707, wanted, 300) >= wanted.target


def test_published_history_meets_both_figures() -> None:  # fault:B-49
    figures = history_figures(DATA_FILE)
    assert figures.good, figures.text()
    assert figures.judged > 3000 and figures.steps > 400


def test_selftest_reports_a_missed_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "FALSE_ALARM_MAX", -1.0)
    monkeypatch.setattr(selftest, "POWERS", ())
    out = StringIO()
    assert selftest.run_selftest(8, 1, injected=False, out=out) == 1
    assert "MISSED false alarms" in out.getvalue()
