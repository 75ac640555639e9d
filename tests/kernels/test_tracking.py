"""Sums of losses, also where the logarithm is put off over more rows than a product can hold."""

import naive
import numpy as np
import pytest

from hogshare.kernels import layout
from hogshare.kernels.jit.decorators import kernel
from hogshare.kernels.rules import block_sums, losses
from hogshare.kernels.rules.sgd_steps import RuleNumbers


@kernel
def add_up(rule, local, p, y, penalty):
    block_sums.start_block(local)
    for i in range(p.shape[0]):
        for c in range(local.shape[1]):
            block_sums.count_loss(rule, local, c, y[i], p[i], penalty)
    for c in range(local.shape[1]):
        block_sums.settle(local, c)


def sums(loss, p, y, penalty=0.0, track=block_sums.CRITERION):
    fields = dict.fromkeys(RuleNumbers._fields, 0) | {"loss": losses.CODES[loss], "epsilon": 0.1}
    local = np.full((layout.N_LOCAL_FIELDS, 2), 7.0)
    add_up(RuleNumbers(**(fields | {"track": track})), local, p, y, penalty)
    return local[[layout.L_LOSS, layout.L_CRITERION]]


@pytest.mark.parametrize("loss", [loss for loss in losses.CODES if loss != "multinomial"])
@pytest.mark.parametrize("n_rows", [0, 1, 5000])
def test_sums_equal_the_twin(loss, n_rows):
    rng = np.random.default_rng(n_rows)
    p = rng.standard_normal(n_rows) * rng.choice([1e-3, 1.0, 1e3], n_rows)
    y = rng.choice([0.0, 1.0] if loss == "log_loss" else [-1.0, 1.0], n_rows)
    expected = sum(naive.loss_value(loss, 0.1, *pair) for pair in zip(y, p, strict=True))
    found = sums(loss, p, y, penalty=0.25)
    np.testing.assert_allclose(found[0], expected, rtol=1e-11)
    np.testing.assert_allclose(found[1], expected + 0.25 * n_rows, rtol=1e-11)


def test_the_largest_factors_do_not_overflow():
    n_rows = 100_000  # each multiplies by two
    found = sums("log_loss", np.zeros(n_rows), np.ones(n_rows))
    np.testing.assert_allclose(found, n_rows * np.log(2.0), rtol=1e-12)


@pytest.mark.parametrize("p", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_so(p):
    with np.errstate(invalid="ignore"):
        found = sums("log_loss", np.array([1.0, p, 1.0]), np.array([0.0, 0.0, 0.0]))
    assert not np.isfinite(found).any()


def test_nothing_is_counted_unless_asked_for():
    assert (sums("log_loss", np.ones(9), np.ones(9), 1.0, block_sums.NOTHING) == 0.0).all()
