"""One view of dense and CSR rows, and the loops over a row's features."""

import dataclasses

import cases
import naive
import numpy as np
import pytest
import scipy.sparse as sp

from hogshare import problems
from hogshare.kernels.jit.decorators import kernel
from hogshare.kernels.rows.moments import (
    add_chances,
    estimate_curvature,
    nonzeros_of,
    norms_of,
)
from hogshare.kernels.rows.row_scores import add_losses
from hogshare.kernels.rows.row_views import (
    column_of,
    margins,
    prefetch_labels,
    prefetch_row,
    row_bounds,
    scatter,
    squared_norm,
)
from hogshare.kernels.rules import penalties
from hogshare.problems.linear import problem as statement

FORMS = [
    ("dense", "float32"),
    ("dense", "float64"),
    ("csr", "float32"),
    ("csr", "float64"),
    ("csr64", "float64"),
]
COLUMNS = [1, 3]


@kernel
def look(rows, w, step, margin, out, squares, dense):
    """Margins of every row before any is scattered, then all rows scattered."""
    n_rows = rows.y.shape[0]
    for r in range(n_rows):
        start, end = row_bounds(rows, r)
        prefetch_labels(rows, r)
        prefetch_row(rows, r)
        margins(rows, start, end, w, margin)
        for c in range(margin.shape[0]):
            out[r, c] = margin[c]
        squares[r] = squared_norm(rows.data, start, end)
        for k in range(start, end):
            dense[r, column_of(rows, start, k)] += rows.data[k]
    for r in range(n_rows):
        start, end = row_bounds(rows, r)
        scatter(rows, start, end, w, step)


@kernel
def clip(rows, w, received, scale, due):
    for r in range(rows.y.shape[0]):
        start, end = row_bounds(rows, r)
        penalties.clip_l1(rows, start, end, w, received, scale, due)


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize(("form", "dtype"), FORMS)
def test_row_loops(form, dtype, columns):
    problem, X, _, _ = cases.problem(form, dtype, columns)
    n, m = X.shape
    rng = np.random.default_rng(2)
    W = rng.standard_normal((m, columns)).astype(dtype)
    w, step = W.reshape(-1).copy(), rng.standard_normal(columns)
    out, squares, dense = np.empty((n, columns)), np.empty(n), np.zeros((n, m))
    look(problem.rows, w, step, np.empty(columns), out, squares, dense)
    close = cases.tolerance(dtype)
    np.testing.assert_allclose(out, X @ W, **close)
    np.testing.assert_allclose(squares, np.square(X).sum(axis=1), **close)
    np.testing.assert_array_equal(dense, X)
    np.testing.assert_allclose(w.reshape(m, columns), W + X.sum(axis=0)[:, None] * step, **close)


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize(("form", "dtype"), FORMS)
def test_clip_l1(form, dtype, columns):
    problem, X, _, _ = cases.problem(form, dtype, columns)
    rng = np.random.default_rng(3)
    m = X.shape[1]
    scale, due = rng.uniform(0.2, 1.0, columns), rng.uniform(0.1, 0.4, columns)
    V = rng.standard_normal((m, columns)).astype(dtype)
    V[1] = 0.0
    received = (0.05 * rng.standard_normal((m, columns))).astype(dtype)
    w, q = (V / scale).astype(dtype).reshape(-1), received.reshape(-1).copy()
    clip(problem.rows, w, q, scale, due)
    expected, owed = V.astype(float), received.astype(float)
    for x in X:
        # a dense row's zeros are clipped as well: scikit-learn's dense rows have every feature
        support = np.arange(m) if form == "dense" else np.flatnonzero(x)
        for j in support:
            for c in range(columns):
                expected[j, c], owed[j, c] = naive.clip_l1(expected[j, c], owed[j, c], due[c])
    close = cases.tolerance(dtype)
    np.testing.assert_allclose(w.reshape(m, columns) * scale, expected, **close)
    np.testing.assert_allclose(q.reshape(m, columns), owed, **close)
    assert (w.reshape(m, columns)[1] == 0.0).all()


def curvature_sums(problem, sample, counts):
    """What the rows of a sample add up to, in float32."""
    sums, out = np.zeros(problem.n_features), np.empty(problem.n_features, np.float32)
    estimate_curvature(problem.rows, sample, counts, 3, float(len(sample)), sums, out)
    np.testing.assert_array_equal(out, sums.astype(np.float32))
    return sums


@pytest.mark.parametrize(("form", "dtype"), FORMS)
def test_moments(form, dtype):
    problem, X, _, _ = cases.problem(form, dtype)
    sums = curvature_sums(problem, np.array([4, 0, 9, 4]), np.array([2.0, 1.0, 0.0, 1.0]))
    np.testing.assert_allclose(sums, naive.interactions(X[[4, 4, 4, 0]]), rtol=1e-6)
    if form != "dense":
        np.testing.assert_array_equal(nonzeros_of(problem.rows, X.shape[1]), (X != 0).sum(axis=0))
        chances, sums = np.arange(len(X)) / 4.0, np.zeros(X.shape[1])
        add_chances(problem.rows, chances, sums)
        np.testing.assert_array_equal(sums, chances @ (X != 0))


def test_rows_of_a_sample_are_drawn_evenly():
    problem, X, _, _ = cases.problem("csr", "float64")
    sample = np.empty(1000 * len(X), np.int64)
    sums = curvature_sums(problem, sample, np.empty(0))
    drawn = np.bincount(sample, minlength=len(X))
    assert len(drawn) == len(X)
    assert 850 < drawn.min() <= drawn.max() < 1150
    np.testing.assert_allclose(sums, naive.interactions(X[sample]))
    other = np.empty_like(sample)
    estimate_curvature(
        problem.rows, other, np.empty(0), 4, 1.0, np.zeros(X.shape[1]), np.empty(X.shape[1], "f4")
    )
    assert (sample != other).mean() > 0.5


def test_curvatures_beyond_float32_are_its_largest():
    problem = problems.linear(np.array([[1e30, 1.0], [1.0, 1.0]]), np.arange(2))
    out = np.empty(2, np.float32)
    estimate_curvature(problem.rows, np.zeros(1, int), np.ones(1), 0, 1.0, np.zeros(2), out)
    np.testing.assert_array_equal(out, np.float32([np.finfo(np.float32).max, 1e30]))


def test_samples_longer_than_what_is_asked_for_ahead():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((200, 7)) < 0.5, rng.normal(size=(200, 7)), 0.0)
    problem = problems.linear(sp.csr_array(X), np.arange(200) % 2)
    sample = rng.integers(0, 200, 40)
    sums = curvature_sums(problem, sample, np.ones(40))
    np.testing.assert_allclose(sums, naive.interactions(X[sample]))
    squares = np.square(X).sum(axis=1)
    for every in (1, 3):
        expected = squares[::every].mean(), squares[::every].max()
        np.testing.assert_allclose(norms_of(problem.rows, every), expected)


def test_a_problem_looks_at_its_sample_once(monkeypatch):
    calls = []
    monkeypatch.setattr(
        statement, "norms_of", lambda rows, every: calls.append(every) or (1.0, 2.0)
    )
    problem, *_ = cases.problem("csr")
    assert problem.sampled_norms == problem.sampled_norms == (1.0, 2.0)
    assert calls == [1]
    assert dataclasses.replace(problem, alpha=2.0).sampled_norms == (1.0, 2.0)
    assert calls == [1, 1], "another problem looks anew"


def test_interactions_bound_the_hessian():
    """By Gershgorin: the row sums of |H| are never below its largest eigenvalue's reach."""
    _, X, _, _ = cases.problem("dense")
    hessian = X.T @ X
    row_sums = naive.interactions(X)
    assert (row_sums >= np.abs(hessian).sum(axis=1) - 1e-9).all()
    assert np.linalg.eigvalsh(np.diag(row_sums) - hessian).min() >= -1e-9


@pytest.mark.parametrize(
    ("loss", "columns"),
    [
        ("log_loss", 1),
        ("log_loss", 3),
        ("hinge", 1),
        ("hinge", 3),
        ("multinomial", 3),
        ("squared_error", 1),
        ("huber", 1),
    ],
)
@pytest.mark.parametrize(("form", "dtype"), FORMS)
def test_add_losses_and_objective(form, dtype, columns, loss):
    task = "regression" if loss in ("squared_error", "huber") else "classification"
    problem, X, Y, weight = cases.problem(
        form, dtype, columns, task, loss=loss, weighted=True, penalty="elasticnet", alpha=0.01
    )
    rng = np.random.default_rng(4)
    W = rng.standard_normal((X.shape[1], columns)).astype(dtype)
    b = rng.standard_normal(columns)
    out = np.zeros(columns)
    add_losses(
        problem.rows,
        naive.losses.CODES[loss],
        0.1,
        W.reshape(-1),
        b,
        problem.positive,
        problem.negative,
        np.empty(columns),
        out,
    )
    args = (X, Y, weight, loss, 0.1, W.astype(float), b, problem.positive, problem.negative)
    close = cases.tolerance(dtype)
    np.testing.assert_allclose(out, naive.sum_of_losses(*args), **close)
    value = naive.objective(*args, 0.01, 0.15)
    assert problem.objective(W.T, b) == pytest.approx(value, rel=close["rtol"])
