"""Gaia's threshold: fixed it stalls, falling it does not; soft it uses what a link has left."""

import numpy as np
import pytest

from hogshare.lab.claims import gaia

SEEDS = range(5)
EPOCHS, ROWS = 16, 600


@pytest.fixture(scope="module")
def drawn():
    """A problem and its optimum."""
    return gaia.drawn(ROWS, 10, seed=1)


@pytest.fixture(scope="module")
def optimum(drawn):
    return drawn[1]


@pytest.fixture(scope="module")
def runs(drawn):
    """Runs of all seeds by their settings."""
    return lambda **how: [gaia.with_threshold(drawn[0], EPOCHS, seed, **how) for seed in SEEDS]


def test_a_fixed_threshold_stalls_and_one_that_falls_does_not(runs, optimum):
    fixed, falling = runs(threshold=1.0, decay=None), runs(threshold=1.0)
    gaps = [np.median([r.trace.objective[-1] - optimum for r in one]) for one in (fixed, falling)]
    apart = [np.median([r.exchanges.disagreement for r in one]) for one in (fixed, falling)]
    assert gaps[0] > 3.0 * gaps[1], gaps
    assert apart[0] > 3.0 * apart[1], apart
    middle, end = EPOCHS - 1, 2 * EPOCHS - 1
    for report in falling:  # theorem 1: it grows with the root of T at most
        by_root = gaia.regret_over_root(report, ROWS, optimum)
        assert by_root[end] <= by_root[middle], by_root
    for report in fixed:
        by_root = gaia.regret_over_root(report, ROWS, optimum)
        assert by_root[end] > by_root[middle], by_root


def test_a_soft_threshold_uses_an_idle_link_and_is_sooner(runs, optimum):
    hard, soft = (runs(threshold=1.0, decay=None, links="lan", soft=s) for s in (None, 0.01))
    assert sum(r.exchanges.bytes for r in soft) > 1.5 * sum(r.exchanges.bytes for r in hard)
    gaps = [np.median([r.trace.objective[-1] - optimum for r in one]) for one in (hard, soft)]
    assert gaps[1] < 0.5 * gaps[0], gaps
    target = optimum + gaps[0]
    sooner = [
        s.trace.first(target, "seconds") / h.run_seconds for h, s in zip(hard, soft, strict=True)
    ]
    assert np.median(sooner) < 0.5, sooner
