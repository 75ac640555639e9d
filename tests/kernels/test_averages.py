"""SAGA's average against its twin, and what a run that starts from zero remembers."""

import cases
import naive
import numpy as np
import pytest

from hogshare.engine import memory
from hogshare.engine.rules import SAGA
from hogshare.engine.stops import Stop
from hogshare.kernels import layout
from hogshare.kernels.averages import average_table
from hogshare.problems.model import Model


def averages(problem, table, share):
    n_columns = table.shape[1]
    average, mean = np.full(problem.n_features * n_columns, 7.0), np.full(n_columns, 7.0)
    flat = np.ascontiguousarray(table, dtype=problem.dtype).reshape(-1)
    average_table(problem.rows, flat, share, average, mean)
    return average.reshape(-1, n_columns), mean


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize(("form", "dtype"), cases.FORMS)
def test_the_average_equals_the_twins(form, dtype, columns):
    problem, X, Y, _ = cases.problem(form, dtype, columns)
    table = np.random.default_rng(0).standard_normal(Y.shape).astype(dtype).astype(float)
    average, mean = averages(problem, table, 0.3)
    expected, expected_mean = naive.average_table(X, table, 0.3)
    np.testing.assert_allclose(average, expected, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-12)


@pytest.mark.parametrize(("form", "dtype"), cases.FORMS)
def test_one_column_and_several_are_summed_alike(form, dtype):
    """To the last bit, which the loops are different for: a product of three has two roundings."""
    problem, _, _, _ = cases.problem(form, dtype)
    table = np.random.default_rng(0).standard_normal((problem.n_rows, 2))
    several, several_mean = averages(problem, table, 1.0 / 23.0)
    for c in range(2):
        one, one_mean = averages(problem, table[:, c : c + 1], 1.0 / 23.0)
        np.testing.assert_array_equal(one[:, 0], several[:, c])
        assert one_mean[0] == several_mean[c]


LOSSES = [
    *((loss, n) for loss in ("log_loss", "squared_hinge", "multinomial") for n in (1, 3)),
    ("squared_error", 1),
]
SCRATCH = [layout.L_MARGIN, layout.L_STEP]  # of the last row


@pytest.mark.parametrize("held_out", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("loss", "columns"), LOSSES)
@pytest.mark.parametrize(("form", "dtype"), cases.FORMS)
def test_from_zero_no_row_has_to_be_read(
    form, dtype, loss, columns, weighted, held_out, monkeypatch
):
    task = "regression" if loss == "squared_error" else "classification"
    settings = {"task": task, "loss": loss, "weighted": weighted, "alpha": 0.05}
    problem, _, _, _ = cases.problem(form, dtype, columns, **settings)
    n = problem.n_columns
    intercept = np.linspace(-0.5, 0.6, n).astype(dtype)
    zero = Model(np.zeros((n, problem.n_features), dtype), intercept)
    mask = np.arange(problem.n_rows) % 4 == 1
    run = {"rule": SAGA(), "start": zero, "stop": Stop(validation=mask if held_out else None)}
    session = cases.session(problem, **run)
    table = session.arrays["gradients"].reshape(-1, n)
    assert table.any()
    assert not (held_out and table[mask].any())
    monkeypatch.setattr(
        memory, "remember_at_zero", lambda s, *_: memory.remember(s, s.rows, s.shared)
    )
    reading = cases.session(problem, **run)
    for name in ("gradients", "average", "dual_mean"):
        np.testing.assert_array_equal(session.arrays[name], reading.arrays[name])
    mine, read = (np.delete(s.locals(), SCRATCH, axis=1) for s in (session, reading))
    np.testing.assert_array_equal(mine, read)
