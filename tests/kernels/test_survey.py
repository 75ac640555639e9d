"""One pass over sparse rows against a pass for each thing."""

import numpy as np
import pytest
import scipy.sparse as sp

from hogshare import problems
from hogshare.kernels.rows.survey import FEW, PART_VALUES, STRIDE, survey
from hogshare.problems.linear import problem as statement
from hogshare.problems.linear import row_arrays
from hogshare.problems.linear.row_arrays import survey_rows


def looked_over(X, sizes=True):
    columns = X.indices.view(np.uint64 if X.indices.itemsize == 8 else np.uint32)
    return survey(X.data, columns, X.indptr.astype(np.int64), X.shape[1], sizes)


def random_rows(n_rows, n_features, density, dtype=np.float64, index=np.int32, seed=0):
    X = sp.random(n_rows, n_features, density, "csr", dtype, random_state=seed)
    X.data -= 0.3  # of both signs
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("n_rows", "n_features", "density"),
    [
        (3000, 40, 0.2),  # several strides of many rows
        (7, 3 * STRIDE, 0.6),  # rows longer than a stride, of more features than are counted
        (500, 30, 0.01),  # rows without a value
        (1, 5, 0.0),
        (0, 5, 0.0),
    ],
)
def test_all_that_is_seen(n_rows, n_features, density, dtype, index):
    X = random_rows(n_rows, n_features, density, dtype, index)
    seen = looked_over(X)
    squares = np.asarray(X.astype(float).power(2).sum(axis=1)).ravel()
    assert seen.total == pytest.approx(squares.sum())
    assert seen.last_column == X.indices.max(initial=0)
    assert seen.mean == pytest.approx(squares.mean() if n_rows else 0.0)
    assert seen.largest == pytest.approx(squares.max(initial=0.0))
    if n_features > FEW:
        assert seen.counts is None
    else:
        np.testing.assert_array_equal(seen.counts, np.bincount(X.indices, minlength=n_features))
    short = looked_over(X, sizes=False)
    total = pytest.approx(X.data.sum(dtype=float), rel=1e-5, abs=1e-4)
    assert short == (total, seen.last_column, 0.0, 0.0, None)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("place", [0, 1, STRIDE + 7, -1])
def test_nothing_is_counted_of_a_column_that_is_too_large(place, index):
    X = random_rows(400, 40, 0.5, index=index)
    for column in (X.shape[1], -1, np.iinfo(index).min, np.iinfo(index).max):
        X.indices[place] = column
        seen = looked_over(X)
        assert seen.last_column >= X.shape[1]
        # of the strides before it, as a rule; of its own nothing
        assert seen.counts.sum() == 0 if place in (0, 1) else seen.counts.sum() < X.nnz
        with pytest.raises(ValueError, match="matrix is damaged"):
            survey_rows(X, True)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_in_the_total(bad):
    X = random_rows(400, 40, 0.5)
    for place in (0, STRIDE, X.nnz - 1):
        Y = X.copy()
        Y.data[place] = bad
        for sizes in (True, False):
            assert not np.isfinite(looked_over(Y, sizes).total)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(3000, 7), (40, 9000), (1, 1), (1, PART_VALUES + 3)])
def test_all_that_is_seen_of_dense_rows(shape, dtype, seams):
    seams.sizes.helped = 1
    X = np.random.default_rng(0).uniform(-1.0, 2.0, shape).astype(dtype)
    squares = np.square(X.astype(float)).sum(axis=1)
    seen = survey_rows(X, True)
    assert seen[1:] == (
        shape[1] - 1,
        pytest.approx(squares.mean()),
        pytest.approx(squares.max()),
        None,
    )
    short = survey_rows(X, False)
    assert short == (pytest.approx(X.sum(dtype=float), rel=1e-4), shape[1] - 1, 0.0, 0.0, None)
    unaligned = np.frombuffer(b"." + X.tobytes(), np.uint8)[1:].view(dtype).reshape(shape)
    assert survey_rows(unaligned, True) == seen
    for bad in (np.nan, np.inf, -np.inf):
        for row, column in ((0, 0), (shape[0] // 2, shape[1] // 2), (-1, -1)):
            Y = X.copy()
            Y[row, column] = bad
            for sizes in (True, False):
                assert not np.isfinite(survey_rows(Y, sizes).total)


def test_few_dense_values_and_dense_rows_in_another_form_are_not_surveyed(seams):
    X = np.ones((row_arrays.MANY // 8, 8))
    assert survey_rows(X, True) is not None
    assert survey_rows(X[1:], True) is None
    seams.sizes.helped = 1
    for other in (np.asfortranarray(X), X[:, ::2], X.astype(int), X[0], X.astype(">f8"), [[1.0]]):
        assert survey_rows(other, True) is None


def test_only_rows_as_kernels_read_them_are_surveyed():
    X = random_rows(30, 8, 0.5)
    assert survey_rows(X, True) is not None
    assert survey_rows(sp.csr_array(X), False).counts is None
    more = X.copy()
    more.data, more.indices = np.append(more.data, np.nan), np.append(more.indices, 99)
    others = {
        "dense": X.toarray(),
        "columns": X.tocsc(),
        "whole numbers": X.astype(np.int64),
        "64-bit columns": random_rows(30, 8, 0.5, index=np.int64),
        "beyond the last pointer": more,
        "a list": [[1.0]],
    }
    for name, other in others.items():
        assert survey_rows(other, True) is None, name


def test_a_problem_takes_what_was_seen_and_looks_by_itself_otherwise(monkeypatch):
    X = random_rows(300, 20, 0.3)
    y = np.arange(300) % 2
    settings = {"loss": "log_loss", "penalty": "l2", "alpha": 1e-3, "l1_ratio": 0.0}
    settings |= {"fit_intercept": False, "epsilon": 0.0, "sample_weight": None}
    settings |= {"class_weight": None, "classes": np.array([0, 1])}
    calls = []
    monkeypatch.setattr(statement, "survey", lambda *args: calls.append(1) or survey(*args))
    given = statement.build(X, y, **settings, seen=survey_rows(X, True))
    alone = statement.build(X, y, **settings)
    assert given.norms == given.sampled_norms
    assert not calls
    assert alone.norms == given.norms
    np.testing.assert_array_equal(alone.nonzeros, given.nonzeros)
    np.testing.assert_array_equal(given.nonzeros, np.bincount(X.indices, minlength=20))
    assert len(calls) == 1, "once"
    repeated = sp.csr_matrix(
        (np.ones(4), np.array([0, 0, 1, 2]), np.array([0, 2, 4])), shape=(2, 3)
    )
    summed = statement.build(repeated, y[:2], **settings, seen=survey_rows(repeated, True))
    assert summed.norms == (3.0, 4.0), "of the rows whose repeated columns were added up"
    np.testing.assert_array_equal(summed.nonzeros, [1, 1, 1])


def test_features_that_are_many_are_counted_when_they_are_asked_for():
    X = random_rows(50, FEW + 1, 0.01)
    problem = problems.linear(X, np.arange(50) % 2)
    assert problem.survey.counts is None
    np.testing.assert_array_equal(problem.nonzeros, np.bincount(X.indices, minlength=FEW + 1))
    dense = problems.linear(X.toarray(), np.arange(50) % 2)
    assert dense.survey.counts is None
    assert dense.norms == pytest.approx(problem.norms)


@pytest.mark.parametrize("pointer", [-1, 10_000, np.iinfo(np.int32).min, np.iinfo(np.int32).max])
@pytest.mark.parametrize("place", [1, 200, 399])
def test_nothing_is_read_where_pointers_do_not_fit(place, pointer):
    X = random_rows(400, 40, 0.5)
    assert pointer not in range(X.indptr[place - 1], X.indptr[place + 1] + 1)
    X.indptr[place] = pointer
    seen = looked_over(X)
    assert seen.last_column >= X.shape[1]
    assert seen.counts.sum() < X.nnz
    with pytest.raises(ValueError, match="matrix is damaged"):
        survey_rows(X, True)


def test_pointers_of_rows_without_a_value_are_checked_too():
    X = sp.csr_matrix((3, 4))
    assert survey_rows(X, True).last_column == 0
    X.indptr[1] = 5
    with pytest.raises(ValueError, match="indptr decreases"):
        survey_rows(X, True)
