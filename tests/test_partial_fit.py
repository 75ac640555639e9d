"""`partial_fit` goes on in the model's own memory: what it copies, and what it must not write."""

import copy
import pickle
import tracemalloc

import cases
import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import linear_model
from sklearn.base import clone

from hogshare import SGDClassifier, SGDRegressor, Stop
from hogshare.kernels.jit.decorators import JIT_DISABLED
from hogshare.rules import SGD

THEIRS = {
    SGDClassifier: linear_model.SGDClassifier,
    SGDRegressor: linear_model.SGDRegressor,
}
KINDS = [(SGDRegressor, 1), (SGDClassifier, 2), (SGDClassifier, 3)]
EVERY_KIND = pytest.mark.parametrize(("kind", "classes"), KINDS)
SETTINGS = {"random_state": 0, "shuffle": False, "alpha": 0.01}


def batches(classes, n_features=6, count=4, dtype=np.float64, form="csr"):
    """Rows and targets of several calls, of several sizes."""
    rng = np.random.default_rng(classes)
    for k in range(count):
        X = rng.standard_normal((9 + k % 2, n_features)).astype(dtype)
        X[rng.random(X.shape) < 0.5] = 0.0
        y = rng.standard_normal(len(X)) if classes == 1 else np.arange(len(X)) % classes
        yield (sp.csr_array(X) if form == "csr" else X), y


def known(classes):
    return {} if classes == 1 else {"classes": np.arange(classes)}


def fitted(kind, classes, count=2, **settings):
    model = kind(**{**SETTINGS, **settings})
    for X, y in batches(classes, count=count):
        model.partial_fit(X, y, **known(classes))
    return model


def address(array):
    return array.__array_interface__["data"][0]


def last(classes):
    return list(batches(classes))[-1]


def same(ours, theirs, rtol=1e-9):
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=rtol, atol=1e-12)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=rtol, atol=1e-12)
    assert ours.coef_.shape == theirs.coef_.shape and ours.t_ == theirs.t_


# -- what a call costs ---------------------------------------------------------------------------


@EVERY_KIND
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_model_stays_where_it_is(kind, classes, average, dtype):
    names = ["_standard_coef", "_average_coef", "coef_"] if average else ["coef_"]
    model, places = kind(average=average, **SETTINGS), []
    for X, y in batches(classes, dtype=dtype):
        model.partial_fit(X, y, **known(classes))
        places.append([address(getattr(model, name)) for name in names])
        assert model.coef_.dtype == dtype and model.coef_.flags.writeable
    assert places[1:] == places[:1] * 3 or places[2:] == places[1:2] * 2
    if classes > 2:
        assert model.coef_.flags.f_contiguous


@pytest.mark.skipif(JIT_DISABLED, reason="a pass over a large model in plain Python")
@pytest.mark.parametrize(
    ("settings", "dtype", "models"),
    [
        ({}, np.float64, 0.2),
        ({"penalty": None}, np.float64, 0.2),
        ({"average": True}, np.float64, 0.2),
        ({}, np.float32, 0.2),
        ({"penalty": "l1"}, np.float64, 1.2),  # what each coordinate has received of the penalty
        ({"average": True}, np.float32, 0.2),
    ],
)
def test_a_call_allocates_no_models(settings, dtype, models):
    model, classes = SGDClassifier(**SETTINGS, **settings), np.arange(5)
    rows = [
        sp.random_array(
            (9, 1 << 15), density=1e-3, format="csr", random_state=np.random.default_rng(k)
        )
        for k in range(3)
    ]
    rows = [X.astype(dtype) for X in rows]
    for X in rows[:2]:
        model.partial_fit(X, np.arange(9) % 5, classes=classes)
    tracemalloc.start()
    try:
        model.partial_fit(rows[2], np.arange(9) % 5)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < models * model.coef_.nbytes + 100_000


# -- what it learns ------------------------------------------------------------------------------


@EVERY_KIND
@pytest.mark.parametrize("average", [False, True, 12])
@pytest.mark.parametrize("penalty", ["l2", "l1", "elasticnet", None])
@pytest.mark.parametrize("form", ["csr", "dense"])
def test_it_is_scikit_learns_model(kind, classes, average, penalty, form):
    settings = {**SETTINGS, "average": average, "penalty": penalty, "fit_intercept": not average}
    ours, theirs = kind(**settings), THEIRS[kind](**settings)
    for X, y in batches(classes, form=form):
        for model in (ours, theirs):
            model.partial_fit(X, y, **known(classes))
        same(ours, theirs)


@EVERY_KIND
def test_averages_in_float32_are_as_good_as_scikit_learns(kind, classes):
    settings = {**SETTINGS, "average": True, "fit_intercept": False}
    ours, theirs, exact = kind(**settings), THEIRS[kind](**settings), kind(**settings)
    for X, y in batches(classes, dtype=np.float32, count=8):
        ours.partial_fit(X, y, **known(classes))
        theirs.partial_fit(X, y, **known(classes))
        exact.partial_fit(X.astype(np.float64), y, **known(classes))
    same(ours, theirs, rtol=1e-4)
    np.testing.assert_allclose(ours.coef_, exact.coef_, rtol=1e-4, atol=1e-6)


@EVERY_KIND
@pytest.mark.parametrize("average", [False, True])
def test_averaging_is_switched_on_and_off(kind, classes, average):
    model = fitted(kind, classes, average=average)
    before = model.coef_.copy()
    model.set_params(average=not average).partial_fit(*last(classes))
    plain = kind(**SETTINGS, average=not average).partial_fit(*last(classes), **known(classes))
    plain.coef_, plain.intercept_, plain.t_ = (
        before,
        fitted(kind, classes, average=average).intercept_,
        20.0,
    )
    plain.report_ = None
    for name in ("_standard_coef", "_standard_intercept", "_average_coef", "_average_intercept"):
        plain.__dict__.pop(name, None)
    same(model, plain.partial_fit(*last(classes)))


@EVERY_KIND
def test_the_first_call_after_a_fit_goes_on_from_there(kind, classes):
    X, y = last(classes)
    ours, theirs = (
        kind(max_iter=3, tol=None, **SETTINGS),
        THEIRS[kind](max_iter=3, tol=None, **SETTINGS),
    )
    for model in (ours, theirs):
        model.fit(X, y)
    place = address(ours.coef_)
    for model in (ours, theirs):
        model.partial_fit(X, y)
    same(ours, theirs)
    assert address(ours.coef_) == place
    kept = ours.coef_
    before = kept.copy()
    ours.fit(X, y)
    np.testing.assert_array_equal(kept, before)
    same(ours, theirs.fit(X, y))


@EVERY_KIND
def test_a_warm_start_leaves_the_model_before_alone(kind, classes):
    model = fitted(kind, classes, warm_start=True, max_iter=2, tol=None)
    kept = model.coef_
    before = kept.copy()
    model.fit(*last(classes))
    np.testing.assert_array_equal(kept, before)
    assert np.abs(model.coef_ - before).max() > 0.0


# -- what the user changes in between ------------------------------------------------------------


@EVERY_KIND
@pytest.mark.parametrize("how", ["in place", "assigned", "assigned by columns"])
def test_changed_coefficients_count(kind, classes, how):
    models = fitted(kind, classes), THEIRS[kind](**SETTINGS)
    for X, y in batches(classes, count=2):
        models[1].partial_fit(X, y, **known(classes))
    given = []
    for model in models:
        if how == "in place":
            model.coef_ += 0.5
            model.coef_[..., 2] = 3.0
            continue
        order = "C" if how == "assigned" else "F"
        given.append(np.array(model.coef_ * 2.0, order=order if model is models[0] else "C"))
        model.coef_ = given[-1]
    before = [array.copy() for array in given]
    for model in models:
        model.partial_fit(*last(classes))
    same(*models)
    if given:
        np.testing.assert_array_equal(given[0], before[0], "an array of the user's was written to")


def test_a_missing_number_that_the_user_has_put_there_is_told():
    for place in (0, 5):  # one that the row has, and one that it has not
        model = fitted(SGDRegressor, 1)
        model.coef_[place] = np.nan
        X = sp.csr_array(([1.0], ([0], [0])), shape=(1, 6))
        with pytest.raises(ValueError, match="under-/overflow occurred at epoch #1"):
            model.partial_fit(X, [1.0])


# -- arrays that somebody else has ---------------------------------------------------------------


def copied_by(how, model, folder):
    if how == "pickle":
        return pickle.loads(pickle.dumps(model))
    if how == "joblib":
        joblib.dump(model, folder / "model")
        return joblib.load(folder / "model", mmap_mode="r")
    if how == "shared arrays":
        twin = fitted(
            type(model), 1 if isinstance(model, SGDRegressor) else 2 + (len(model.coef_) > 1)
        )
        twin.coef_, twin.intercept_, twin.t_ = model.coef_, model.intercept_, model.t_
        return twin
    return {"copy": copy.copy, "deepcopy": copy.deepcopy}[how](model)


@EVERY_KIND
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("how", ["copy", "deepcopy", "pickle", "joblib", "shared arrays"])
def test_a_copy_goes_on_by_itself(kind, classes, average, how, tmp_path):
    if average and how == "shared arrays":
        pytest.skip("averages are scikit-learn's private matter")
    model = fitted(kind, classes, average=average)
    before = model.coef_.copy()
    twin = copied_by(how, model, tmp_path)
    twin.partial_fit(*last(classes))
    np.testing.assert_array_equal(model.coef_, before)
    same(twin, fitted(kind, classes, average=average).partial_fit(*last(classes)))
    gone = twin.coef_.copy()
    model.partial_fit(*last(classes))
    np.testing.assert_array_equal(twin.coef_, gone)
    same(model, twin)
    assert not hasattr(clone(model), "coef_")


@EVERY_KIND
def test_a_read_only_model_is_copied(kind, classes):
    model = fitted(kind, classes)
    model.coef_.flags.writeable = False
    before, kept = model.coef_.copy(), model.coef_
    model.partial_fit(*last(classes))
    np.testing.assert_array_equal(kept, before)
    same(model, fitted(kind, classes).partial_fit(*last(classes)))
    assert model.coef_.flags.writeable


def test_rows_that_are_the_model_itself():
    model, twin = fitted(SGDRegressor, 1), fitted(SGDRegressor, 1)
    rows = model.coef_[np.newaxis]
    twin.partial_fit(rows.copy(), [1.0])
    same(model.partial_fit(rows, [1.0]), twin)
    assert address(model.coef_) != address(rows)


def test_reports_outlive_the_calls_after_them():
    model = fitted(SGDClassifier, 2)
    kept = model.report_
    told = kept.to_dict(), kept.turns.copy(), kept.staleness.copy()
    for X, y in list(batches(2)) * 2:
        model.partial_fit(X, y)
    assert kept.to_dict() == told[0]
    np.testing.assert_array_equal(kept.turns, told[1])
    np.testing.assert_array_equal(kept.staleness, told[2])


# -- runs that end early, or elsewhere -----------------------------------------------------------


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("average", [0, 1])
def test_a_run_that_is_broken_off_leaves_a_model(columns, average):
    problem, *_ = cases.problem(columns=columns, alpha=0.3)
    session = cases.session(problem, rule=SGD(average=average), block=5, stop=Stop(epochs=2))
    worker = session.worker(0)
    assert worker.join()
    worker.run_quantum(2)
    model = session.model()
    assert np.abs(model.coef - session.vector.w.reshape(-1, columns).T).max() > 1e-3, "no scale"
    session.settle()
    vector = session.vector.w.reshape(-1, columns).T
    np.testing.assert_allclose(vector, model.coef, rtol=1e-12)
    if average:
        np.testing.assert_allclose(session.model().average_coef, model.average_coef, rtol=1e-9)


def test_an_interrupted_call_leaves_a_model(seams):
    model = fitted(SGDRegressor, 1, average=True)
    other = pickle.loads(pickle.dumps(model))
    X, y = last(1)
    turn = seams.loop.quantum

    def interrupted(self, n_blocks):
        turn(self, 1)  # the run's one block, before its scale is folded
        raise KeyboardInterrupt

    seams.loop.quantum = interrupted
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X, y)
    seams.undo()
    other.partial_fit(X, y)
    np.testing.assert_allclose(model._standard_coef, other._standard_coef, rtol=1e-12)
    np.testing.assert_allclose(model._average_coef, other._average_coef, rtol=1e-9)


@EVERY_KIND
def test_two_workers_go_on_in_the_same_memory(kind, classes):
    model = fitted(kind, classes)
    place = address(model.coef_)
    model.set_params(n_jobs=2, runtime="threads").partial_fit(*last(classes))
    assert len(model.report_.workers) == 2 and address(model.coef_) == place
    model.set_params(n_jobs=1, runtime="auto").partial_fit(*last(classes))
    assert np.isfinite(model.coef_).all() and address(model.coef_) == place


def test_labels_and_classes_that_are_not_known():
    model = fitted(SGDClassifier, 3)
    X, y = last(3)
    before = model.coef_.copy()
    for labels, more in ((y + 1, {}), (y, known(2)), (y, {"classes": ["a", "b", "c"]})):
        with pytest.raises(ValueError, match="classes"):
            model.partial_fit(X, labels, **more)
    np.testing.assert_array_equal(model.coef_, before)
    model.partial_fit(X, y, classes=[0, 1, 2]).partial_fit(X, y.astype(float))


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("n_features", [6, 1000])
def test_unsorted_rows_of_few_values(repeated, n_features):
    columns = np.array([5, 2, 5 if repeated else 4, 1, 0])
    X = sp.csr_matrix((np.ones(5), columns, [0, 3, 5]), shape=(2, n_features))
    # of sparse rows the intercept takes a hundredth of the step
    ours, exact = (SGDRegressor(**SETTINGS, fit_intercept=False) for _ in range(2))
    ours.partial_fit(X, [1.0, 2.0])
    exact.partial_fit(X.toarray(), [1.0, 2.0])
    np.testing.assert_allclose(ours.coef_, exact.coef_, rtol=1e-12)
    assert columns.tolist()[:2] == [5, 2], "the caller's rows were sorted"


def test_a_copy_of_a_copy_is_not_taken_for_the_one_that_is_gone():
    """Its identity may be that of the estimator whose arrays it has."""
    X, y = np.random.default_rng(0).normal(size=(2, 50, 10))[0], np.arange(50) % 2
    for _ in range(10):
        first = SGDClassifier(random_state=0).partial_fit(X, y, classes=[0, 1])
        second = copy.copy(first)
        del first
        third = copy.copy(second)
        before = second.coef_.copy()
        third.partial_fit(X, 1 - y)
        np.testing.assert_array_equal(second.coef_, before)
