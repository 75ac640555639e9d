"""Input that is used as it is: only what scikit-learn would hand back unchanged."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import unique_labels
from sklearn.utils.validation import validate_data

from hogshare import LogisticRegression, Ridge, SGDClassifier, SGDRegressor
from hogshare.engine.arrays import private_memory
from hogshare.estimators import parameters, validation
from hogshare.estimators.parameters import generator_of
from hogshare.problems.linear.row_arrays import as_rows, check_sparse
from hogshare.shm.spacing import SPACING

ROWS = np.array([[1.0, 2.0, 0.0], [0.0, 0.5, 3.0], [1.0, 0.0, 0.0], [2.0, 2.0, 1.0]])
LABELS = np.array([0, 1, 1, 0])


class Named(np.ndarray):
    """An array that may mean something else."""


def with_value(value, dtype=np.float64):
    rows = ROWS.astype(dtype)
    rows[1, 1] = value
    return rows


def csr(dtype=np.float64, index=np.int32, kind=sp.csr_matrix, rows=ROWS):
    X = kind(rows.astype(dtype))
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X


def mixed_indices():
    X = csr()
    X.indptr = X.indptr.astype(np.int64)
    return X


PLAIN_ROWS = {
    "float64": ROWS,
    "float32": ROWS.astype(np.float32),
    "read-only": np.frombuffer(ROWS.tobytes()).reshape(4, 3),
    "csr_matrix": csr(),
    "csr_array": csr(np.float32, kind=sp.csr_array),
    "long indices": csr(index=np.int64),
}
OTHER_ROWS = {
    "list": ROWS.tolist(),
    "integers": ROWS.astype(int),
    "float16": ROWS.astype(np.float16),
    "long double": ROWS.astype(np.longdouble),
    "other byte order": ROWS.astype(ROWS.dtype.newbyteorder()),
    "columns first": np.asfortranarray(ROWS),
    "strided": np.repeat(ROWS, 2, axis=1)[:, ::2],
    "subclass": ROWS.view(Named),
    "nan": with_value(np.nan),
    "inf": with_value(np.inf),
    "minus inf, float32": with_value(-np.inf, np.float32),
    "overflowing sum": np.full((4, 3), 1e308),
    "one dimension": ROWS[:, 0],
    "three dimensions": ROWS[:, :, None],
    "no rows": ROWS[:0],
    "no features": ROWS[:, :0],
    "csc": sp.csc_matrix(ROWS),
    "csr of integers": csr(int),
    "csr with nan": csr(rows=with_value(np.nan)),
    "csr without rows": sp.csr_matrix((0, 3)),
    "csr with mixed indices": mixed_indices(),
    "coo": sp.coo_array(ROWS),
}
PLAIN_TARGETS = {
    "integers": LABELS,
    "bytes": LABELS.astype(np.int8),
    "booleans": LABELS == 1,
    "float64": LABELS.astype(float),
    "fractions": LABELS + 0.5,
    "float32": LABELS.astype(np.float32),
}
OTHER_TARGETS = {
    "list": LABELS.tolist(),
    "strings": np.array(list("abba")),
    "objects": LABELS.astype(object),
    "column": LABELS[:, None],
    "strided": np.repeat(LABELS, 2)[::2],
    "nan": np.array([0.0, 1.0, np.nan, 1.0]),
    "inf": np.array([0.0, 1.0, np.inf, 1.0]),
    "float16": LABELS.astype(np.float16),
    "complex": LABELS.astype(complex),
    "other byte order": LABELS.astype(LABELS.dtype.newbyteorder()),
    "none": np.empty(0),
    "subclass": LABELS.view(Named),
}
SETTINGS = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "order": "C"}


@pytest.mark.parametrize("target", PLAIN_TARGETS)
@pytest.mark.parametrize("rows", PLAIN_ROWS)
def test_what_is_accepted_is_what_scikit_learn_hands_back(rows, target):
    X, y = PLAIN_ROWS[rows], PLAIN_TARGETS[target]
    ours, theirs = SGDClassifier(), SGDClassifier()
    assert validation.accept(ours, X, y, reset=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for settings in ({}, {"multi_output": True, "y_numeric": True}):
            after_X, after_y = validate_data(theirs, X, y, **SETTINGS, **settings)
            assert after_X is X
            assert after_y is y or np.shares_memory(after_y, y)
            assert (after_y.dtype, after_y.shape) == (y.dtype, y.shape)
    assert vars(ours) == vars(theirs)
    check_sparse(X)


@pytest.mark.parametrize("rows", OTHER_ROWS)
def test_other_rows_go_scikit_learns_way(rows):
    estimator = SGDClassifier()
    assert not validation.accept(estimator, OTHER_ROWS[rows], LABELS, reset=True)
    assert not hasattr(estimator, "n_features_in_")


@pytest.mark.parametrize("target", OTHER_TARGETS)
def test_other_targets_go_scikit_learns_way(target):
    assert not validation.accept(SGDClassifier(), ROWS, OTHER_TARGETS[target], reset=True)


def test_rows_and_targets_of_different_lengths_go_scikit_learns_way():
    assert not validation.accept(SGDClassifier(), ROWS, LABELS[:3], reset=True)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        SGDClassifier().fit(ROWS, LABELS[:3])


def test_features_are_compared_with_those_of_the_first_pass():
    model = SGDClassifier().partial_fit(ROWS, LABELS, classes=[0, 1])
    assert validation.accept(model, ROWS, LABELS, reset=False)
    assert not validation.accept(model, ROWS[:, :2].copy(), LABELS, reset=False)
    with pytest.raises(ValueError, match="X has 2 features"):
        model.partial_fit(ROWS[:, :2].copy(), LABELS)
    model.feature_names_in_ = np.array(["a", "b", "c"], dtype=object)
    assert not validation.accept(model, ROWS, LABELS, reset=False)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.partial_fit(ROWS, LABELS)
    model.fit(ROWS, LABELS)
    assert not hasattr(model, "feature_names_in_")


def test_infinity_of_both_signs_is_found():
    X = ROWS.copy()
    X[0, 0], X[1, 0] = np.inf, -np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not validation.is_finite(X)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_many_values_are_looked_at_as_few_are(bad, monkeypatch):
    monkeypatch.setattr(validation, "MANY", 10)
    for dtype in (np.float32, np.float64):
        values = np.full((30, 8), -1.0, dtype)
        unaligned = np.frombuffer(b"." + values.tobytes(), np.uint8)[1:].view(dtype)
        forms = (values, values[:, ::2], np.asfortranarray(values), unaligned)
        assert all(validation.is_finite(form) for form in forms)
        values[29, 6] = bad
        assert not any(validation.is_finite(form) for form in forms[:2])
        assert not validation.is_finite(np.asfortranarray(values))


@pytest.mark.parametrize(
    "y",
    [
        [3, 1, 1],
        [True, False, True],
        [-1.0, 1.0, 1.0],
        np.array([2, 5, 7], np.uint8),
        np.arange(10, dtype=np.float32),
        [4, 4],
    ],
)
def test_plain_classes_are_scikit_learns(y):
    classes = np.unique(y)
    assert validation.are_plain_classes(classes)
    theirs = unique_labels(classes)
    np.testing.assert_array_equal(classes, theirs)
    assert classes.dtype == theirs.dtype


@pytest.mark.parametrize(
    "classes",
    [[0, 1], np.array([0.5, 1.0]), np.array([0.0, 1e300]), np.array(["a", "b"]), np.arange(11)],
)
def test_other_classes_go_scikit_learns_way(classes):
    assert not validation.are_plain_classes(classes)


@pytest.mark.parametrize(
    "y", [[0, 1, 1], [2.0, -1.0, 2.0], [True, False], ["b", "a"], list(range(11)) * 3]
)
def test_classes_of_targets_are_sorted_labels(y):
    classes = validation.classes_of(np.array(y))
    assert list(classes) == sorted(set(y)) and classes.dtype == np.array(y).dtype


@pytest.mark.parametrize("y", [[0.5, 1.0, 2.0], [[0.5, 1.0], [1.0, 1.0]]])
def test_targets_that_are_no_classes_are_refused_in_scikit_learns_words(y):
    with pytest.raises(ValueError, match="label type"):
        validation.classes_of(np.array(y))


def test_scikit_learn_warns_of_many_classes():
    with pytest.warns(UserWarning, match="greater than 50%"):
        validation.classes_of(np.arange(30) % 16)


def test_fractions_are_no_classes():
    with pytest.raises(ValueError, match="Unknown label type"):
        SGDClassifier().fit(ROWS, LABELS + 0.5)


def test_labels_that_are_none_of_the_classes_are_refused():
    model = SGDClassifier().partial_fit(ROWS, LABELS, classes=[0, 1])
    with pytest.raises(ValueError, match="classes should include all valid labels"):
        model.partial_fit(ROWS, LABELS + 1)


def test_a_kept_generator_draws_what_a_new_one_does():
    for seed in (0, 7, 0, np.int64(3), 2**32 - 1):
        ours, theirs = generator_of(seed), check_random_state(seed)
        assert ours.randint(1, 2**31 - 1) == theirs.randint(1, 2**31 - 1)
        assert ours.standard_normal() == theirs.standard_normal()
    given = np.random.RandomState(5)
    assert generator_of(given) is given
    for wrong in (-1, 2**32):
        with pytest.raises(ValueError, match="Seed must be between"):
            generator_of(wrong)


def test_parameters_names_are_kept_per_class():
    class Own(SGDClassifier):
        def __init__(self, alpha=0.5):
            super().__init__(alpha=alpha)

    assert list(SGDClassifier().get_params()) == list(SGDClassifier().get_params())
    assert Own().get_params() == {"alpha": 0.5}
    assert "penalty" in SGDClassifier().get_params()


def test_parameters_are_looked_at_until_they_have_passed():
    class Careless(SGDClassifier):
        def __init__(self, alpha=-1.0):
            super().__init__(alpha=alpha)

    assert SGDClassifier().fit(ROWS, LABELS).n_iter_ > 0
    with pytest.raises(ValueError, match="'alpha' parameter of SGDClassifier"):
        SGDClassifier(alpha=-1.0).fit(ROWS, LABELS)
    for _ in range(2):
        with pytest.raises(ValueError, match="'alpha' parameter of Careless"):
            Careless().fit(ROWS, LABELS)
    with pytest.raises(ValueError, match="'tol' parameter of SGDClassifier"):
        SGDClassifier().set_params(tol="small").fit(ROWS, LABELS)


def test_of_parameters_that_have_passed_only_plain_ones_are_kept(monkeypatch):
    looked = []

    def look(constraints, values, name):
        looked.append(set(values))

    monkeypatch.setattr(parameters, "validate_parameter_constraints", look)

    number = np.float64(0.01)

    class Own(SGDClassifier):
        def __init__(self, alpha=0.5, max_iter=5, class_weight=None, eta0=number):
            super().__init__(alpha=alpha, max_iter=max_iter, class_weight=class_weight, eta0=eta0)

    Own()._validate_params()
    assert looked == [{"alpha", "max_iter", "class_weight", "eta0"}]
    Own()._validate_params()
    assert looked.pop() == {"eta0"}, "NumPy's numbers are looked at each time"
    Own(alpha=0.25)._validate_params()
    assert looked.pop() == {"alpha", "eta0"}
    Own(max_iter=True, class_weight={0: 1.0})._validate_params()
    assert looked.pop() == {"max_iter", "class_weight", "eta0"}
    Own(max_iter=1, eta0=0.5)._validate_params()
    assert looked.pop() == {"max_iter", "eta0"}, "a 1 is not a True"
    for k in range(parameters.MANY + 5):
        Own(alpha=float(k))._validate_params()
    assert len(Own._sound) <= parameters.MANY + 4
    Own(alpha=0.5, eta0=0.5)._validate_params()
    assert "alpha" in looked.pop(), "so many are not kept"


def test_seeds_need_no_look_and_what_is_none_is_refused_each_time(monkeypatch):
    looked = []
    real = parameters.validate_parameter_constraints

    def look(constraints, values, name):
        looked.append(set(values))
        real(constraints, values, name)

    monkeypatch.setattr(parameters, "validate_parameter_constraints", look)
    SGDClassifier(random_state=0)._validate_params()
    looked.clear()
    for seed in (0, 1, 2**32 - 1):
        SGDClassifier(random_state=seed)._validate_params()
    assert looked == []
    for none in (-1, 2**32, "1", 1.0):
        for _ in range(2):
            with pytest.raises(ValueError, match="random_state"):
                SGDClassifier(random_state=none)._validate_params()


@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_columns_out_of_range_are_found(kind, index):
    def matrix(place, value):
        X = sp.csr_array(np.ones((4, 3))).asformat(kind)
        X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
        X.indices[place] = value
        return X

    limit = 3 if kind == "csr" else 4
    check_sparse(matrix(5, limit - 1))
    for place in (0, 5, 11):
        for value in (limit, -1, np.iinfo(index).min, np.iinfo(index).max):
            with pytest.raises(ValueError, match="matrix is damaged"):
                check_sparse(matrix(place, value))


INDICES = ["<i2", "<i4", "<i8", ">i2", ">i4", ">i8", "<u2", "<u4", "<u8", ">u2", ">u4", ">u8"]


@pytest.mark.parametrize("kind", INDICES)
@pytest.mark.parametrize("limit", [0, 1 << 26])
def test_kernels_read_columns_of_any_size_and_byte_order(kind, limit, seams):
    seams.sizes.narrowed = limit
    X = csr(index=kind)
    check_sparse(X)
    rows = as_rows(X, LABELS.astype(float), None)
    assert rows.indices.dtype in (np.uint32, np.uint64)
    np.testing.assert_array_equal(rows.indices, csr().indices)
    np.testing.assert_array_equal(rows.indptr, csr().indptr)


def test_a_fit_to_columns_of_the_other_byte_order():
    """In a process of its own, which columns that are read as they lie kill."""
    script = """
        from functools import partial
        import numpy as np, scipy.sparse as sp
        from hogshare import Ridge, SGDClassifier, Stop, problems, solve
        rng = np.random.default_rng(0)
        X = sp.random_array((300, 400), density=0.02, format="csr", random_state=rng)
        y = np.arange(300) % 2
        want = solve(problems.linear(X, y), stop=Stop(epochs=2), seed=0).model.coef
        for kind in ("u4", "i4"):
            for both in (False, True):
                Z = X.copy()
                Z.indices = Z.indices.astype(np.dtype(kind).newbyteorder())
                if both:
                    Z.indptr = Z.indptr.astype(Z.indices.dtype)
                found = solve(problems.linear(Z, y), stop=Stop(epochs=2), seed=0).model.coef
                np.testing.assert_array_equal(found, want)
                for kind_of in (SGDClassifier, partial(Ridge, solver="saga")):
                    estimator = kind_of(n_jobs=1, random_state=0)
                    found = estimator.fit(Z, y).coef_
                    np.testing.assert_array_equal(found, estimator.fit(X, y).coef_)
        print("done")
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (told.returncode, told.stdout) == (0, "done\n"), told.stderr


@pytest.mark.parametrize("part", ["indices", "indptr"])
@pytest.mark.parametrize("kind", ["float32", "float64", "bool", "complex64"])
@pytest.mark.parametrize("form", ["csr", "csc", "bsr"])
def test_indices_that_are_no_whole_numbers_are_refused(part, kind, form):
    X = sp.csr_array(np.ones((4, 2))).asformat(form)
    setattr(X, part, getattr(X, part).astype(kind))
    with pytest.raises(ValueError, match=f"{part} contains {kind}, and must contain whole numbers"):
        check_sparse(X)


def test_columns_that_belong_to_no_row_do_not_matter():
    X = sp.csr_array(np.ones((2, 3)))
    X.indptr = np.array([0, 3, 5], np.int32)
    X.indices[5] = 99
    check_sparse(X)
    assert X.indices.size == 6  # the caller's arrays are not trimmed


def test_a_matrix_without_columns_has_no_values():
    X = sp.csr_array((2, 0))
    check_sparse(X)
    X.data, X.indices, X.indptr = np.ones(1), np.zeros(1, np.int32), np.array([0, 1, 1], np.int32)
    with pytest.raises(ValueError, match="matrix is damaged"):
        check_sparse(X)


def test_arrays_of_a_run_are_zero_and_on_lines_of_their_own():
    shapes = {
        "a": ((3,), "float64"),
        "none": ((0, 4), "int64"),
        "b": ((2, 5), "float32"),
        "c": ((300,), "uint8"),
        "last": ((0,), "float32"),
    }
    arrays = private_memory(shapes)
    assert {name: (a.shape, a.dtype.name) for name, a in arrays.items()} == shapes
    lines = []
    for array in arrays.values():
        assert not array.any()
        first = array.ctypes.data
        assert first % SPACING == 0 or not array.size
        lines += [(first + k) // SPACING for k in range(0, array.nbytes, SPACING)]
        array[...] = 1
    assert len(lines) == len(set(lines))


SURVEYED = {
    "SGDClassifier": lambda: SGDClassifier(loss="log_loss", learning_rate="auto", random_state=0),
    "SGDRegressor": lambda: SGDRegressor(learning_rate="auto", random_state=0),
    "LogisticRegression": lambda: LogisticRegression(solver="saga", random_state=0),
    "Ridge": lambda: Ridge(solver="saga", random_state=0),
}


@pytest.mark.parametrize("name", SURVEYED)
def test_the_model_is_that_of_rows_that_nobody_has_surveyed(name, monkeypatch):
    """Norms and counts that come with the rows are those that a problem finds by itself."""
    rng = np.random.default_rng(0)
    X = sp.random_array((400, 30), density=0.3, format="csr", random_state=rng)
    y = X @ rng.standard_normal(30) > 0.0
    found = []
    survey = validation.survey_rows

    def spied(*given):
        found.append(survey(*given))
        return found[-1]

    monkeypatch.setattr(validation, "survey_rows", spied)
    with_survey = SURVEYED[name]().fit(X, y.astype(np.float64))
    assert any(seen is not None and seen.counts is not None for seen in found)
    monkeypatch.setattr(validation, "survey_rows", lambda *given: None)
    without = SURVEYED[name]().fit(X, y.astype(np.float64))
    np.testing.assert_array_equal(with_survey.coef_, without.coef_)
    np.testing.assert_array_equal(with_survey.intercept_, without.intercept_)
