"""Gaia's threshold: fixed it stalls, falling it does not; soft it uses what a link has left."""

import numpy as np
import pytest

from hogshare import Mirrors, Simulator, StepSize, problems, solve
from hogshare.simulation import Constant

SEEDS = range(5)
EPOCHS, ROWS, EVERY = 16, 600, 20
RNG = np.random.default_rng(1)
X = RNG.standard_normal((ROWS, 10))
SIGNAL = X @ RNG.standard_normal(10) + RNG.standard_normal(ROWS)
PROBLEM = problems.linear(X, np.where(SIGNAL > 0.0, 1, -1), alpha=0.02, fit_intercept=False)


@pytest.fixture(scope="module")
def optimum():
    run = {"rule": "saga", "n_workers": 1, "runtime": "caller", "stop": 200, "seed": 0}
    return min(solve(PROBLEM, trace=1, **run).trace.objective)


def runs(**settings):
    """Three centres, whose steps fall as one over the root of the clock, as theorem 1 has them."""
    plane = Mirrors(3, every=EVERY, flush=False, **settings)
    step = StepSize("invscaling", 0.1, 0.5)
    run = {"plane": plane, "n_workers": 3, "stop": EPOCHS, "step": step, "trace": 2}
    clock = Simulator(block_time=Constant(0.01))
    return [solve(PROBLEM, runtime=clock, seed=seed, **run) for seed in SEEDS]


def regret_over_root(report, optimum):
    """At each point of a trace: the sum over rows of what is above the optimum, over the root."""
    rows = ROWS * np.asarray(report.trace.epochs)
    above = np.asarray(report.trace.objective)[1:] - optimum
    return np.cumsum(above * np.diff(rows)) / np.sqrt(rows[1:])


def test_a_fixed_threshold_stalls_and_one_that_falls_does_not(optimum):
    fixed, falling = runs(threshold=1.0, decay=None), runs(threshold=1.0)
    gaps = [np.median([r.trace.objective[-1] - optimum for r in one]) for one in (fixed, falling)]
    apart = [np.median([r.exchanges.disagreement for r in one]) for one in (fixed, falling)]
    assert gaps[0] > 3.0 * gaps[1], gaps
    assert apart[0] > 3.0 * apart[1], apart
    middle, end = EPOCHS - 1, 2 * EPOCHS - 1
    for report in falling:  # theorem 1: it grows with the root of T at most
        by_root = regret_over_root(report, optimum)
        assert by_root[end] <= by_root[middle], by_root
    for report in fixed:
        by_root = regret_over_root(report, optimum)
        assert by_root[end] > by_root[middle], by_root


def test_a_soft_threshold_uses_an_idle_link_and_is_sooner(optimum):
    hard, soft = (runs(threshold=1.0, decay=None, links="lan", soft=s) for s in (None, 0.01))
    assert sum(r.exchanges.bytes for r in soft) > 1.5 * sum(r.exchanges.bytes for r in hard)
    gaps = [np.median([r.trace.objective[-1] - optimum for r in one]) for one in (hard, soft)]
    assert gaps[1] < 0.5 * gaps[0], gaps
    target = optimum + gaps[0]
    sooner = [
        s.trace.first(target, "seconds") / h.run_seconds for h, s in zip(hard, soft, strict=True)
    ]
    assert np.median(sooner) < 0.5, sooner
