"""Alternating least squares over all pairs: rows, objective, bits."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from hogshare.optimum.alternation import Alternation, Penalty
from hogshare.runtimes.pool import each_by

PENALTY = Penalty(0.7, 1.3)


def pairs(n_users=40, n_items=25, seed=0):
    rng = np.random.default_rng(seed)
    extras = (rng.random((n_users, n_items)) < 0.2) * rng.integers(1, 4, (n_users, n_items))
    return extras.astype(float)


def solved_densely(extras, fixed, biases):
    """Lines of the rows of `extras`, by a dense solve each."""
    designs, offsets = fixed.copy(), np.zeros(len(fixed))
    if biases:
        offsets[:] = fixed[:, -1]
        designs[:, -1] = 1.0
    n_factors = fixed.shape[1] - biases
    ridge = np.diag([PENALTY.alpha] * n_factors + [PENALTY.bias_alpha] * biases)
    found = []
    for row in extras:
        weighed = designs.T * (1.0 + row)
        right = weighed @ ((row > 0) - offsets)
        found.append(np.linalg.solve(weighed @ designs + ridge, right))
    return np.array(found)


@pytest.mark.parametrize("biases", [False, True])
def test_lines_are_those_of_a_dense_solve(biases):
    extras = pairs()
    extras[3] = 0.0  # a user who has met nothing
    sweeps = Alternation(sp.csr_array(extras), 4, biases, PENALTY, seed=1, dtype=np.float64)
    for _ in range(3):
        for kind, met in ((0, extras), (1, extras.T)):
            sweeps.solve(kind, steps=60)
            wanted = solved_densely(met, sweeps.lines[1 - kind], biases)
            np.testing.assert_allclose(sweeps.lines[kind], wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("biases", [False, True])
def test_the_objective_is_the_sum_over_all_pairs(biases):
    extras = pairs()
    sweeps = Alternation(sp.csr_array(extras), 4, biases, PENALTY, seed=1, dtype=np.float64)
    sweeps.sweep()
    (P, b), (Q, c) = ((one[:, :4], one[:, 4:]) for one in sweeps.lines)
    z = P @ Q.T + (b + c.T if biases else 0.0)
    losses = 0.5 * ((1.0 + extras) * ((extras > 0) - z) ** 2).sum()
    squares = [np.square(one).sum() for one in (P, Q, b, c)]
    ridge = PENALTY.alpha * sum(squares[:2]) + PENALTY.bias_alpha * sum(squares[2:])
    assert sweeps.objective() == pytest.approx((losses + 0.5 * ridge) / (extras > 0).sum())


def test_every_sweep_descends():
    extras = sp.csr_array(pairs())
    sweeps = Alternation(extras, 4, True, PENALTY, seed=0, dtype=np.float64)
    found = []
    for _ in range(10):
        sweeps.sweep()
        found.append(sweeps.objective())
    assert all(after < before for before, after in itertools.pairwise(found))


def test_bits_do_not_depend_on_the_threads():
    extras = sp.csr_array(pairs(300, 200))

    def lines(n_threads):
        sweeps = Alternation(
            extras, 8, True, PENALTY, seed=0, each=each_by(n_threads), n_threads=n_threads
        )
        for _ in range(3):
            sweeps.sweep()
        return sweeps.lines, sweeps.objective()

    alone, of_one = lines(1)
    for n_threads in (2, 3):
        found, of_several = lines(n_threads)
        for wanted, got in zip(alone, found, strict=True):
            assert np.array_equal(wanted, got)
        assert of_several == pytest.approx(of_one, rel=1e-12)


def test_float32_comes_as_near_as_it_can():
    extras = sp.csr_array(pairs(100, 80))
    found = []
    for dtype in (np.float32, np.float64):
        sweeps = Alternation(extras, 4, True, PENALTY, seed=0, dtype=dtype)
        for _ in range(60):
            sweeps.sweep()
        found.append(sweeps.objective())
    assert found[0] == pytest.approx(found[1], rel=1e-5)
