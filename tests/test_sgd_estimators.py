"""SGDClassifier and SGDRegressor as a scikit-learn user meets them."""

from __future__ import annotations

import pickle
import re
import threading

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
import sklearn_conformance
from sklearn import linear_model
from sklearn.base import clone, is_classifier
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.datasets import load_iris, make_classification, make_regression
from sklearn.exceptions import ConvergenceWarning, UndefinedMetricWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils import get_tags
from sklearn.utils._test_common.instance_generator import PER_ESTIMATOR_XFAIL_CHECKS
from sklearn.utils.estimator_checks import parametrize_with_checks

from hogshare import SGDClassifier, SGDRegressor, Shared

PAIRS = {
    SGDClassifier: linear_model.SGDClassifier,
    SGDRegressor: linear_model.SGDRegressor,
}
CLASSES = pytest.mark.parametrize("ours", PAIRS, ids=lambda k: k.__name__)
SMOOTH = {
    SGDClassifier: ["log_loss", "squared_hinge", "modified_huber", "squared_error"],
    SGDRegressor: ["squared_error", "huber", "squared_epsilon_insensitive"],
}
KINKED = {SGDClassifier: ["hinge", "perceptron"], SGDRegressor: ["epsilon_insensitive"]}


def binary(n=300, seed=0):
    return make_classification(n, 12, n_informative=6, random_state=seed, flip_y=0.05)


def numbers(n=300, seed=0):
    X, y = make_regression(n, 12, noise=5.0, random_state=seed)
    return X, y / y.std()


def data_for(klass):
    return binary() if klass is SGDClassifier else numbers()


def sparse(X):
    return sp.csr_array(np.where(np.abs(X) > 0.7, X, 0.0))


def equal(ours, theirs, rtol=1e-9, atol=1e-12):
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=rtol, atol=atol)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=rtol, atol=atol)
    assert ours.coef_.shape == theirs.coef_.shape
    assert ours.intercept_.shape == theirs.intercept_.shape
    assert (ours.n_iter_, ours.t_) == (theirs.n_iter_, theirs.t_)


# -- scikit-learn's checks -----------------------------------------------------------------------


@parametrize_with_checks(
    [SGDClassifier(max_iter=5), SGDRegressor(max_iter=5)],
    expected_failed_checks=lambda est: PER_ESTIMATOR_XFAIL_CHECKS[PAIRS[type(est)]],
    xfail_strict=False,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_scikit_learns_own_tests_pass():
    rows = sklearn_conformance.run(None, "auto", timeout=280)
    found = sklearn_conformance.judge(rows, sklearn_conformance.known_failures(1))
    assert not found["unexpected"]
    assert len(found["passed"]) > 190
    names = {row["test"] for row in found["known"]}
    assert names == set(sklearn_conformance.KNOWN_ONE_WORKER), "a known failure is none any more"


# -- the same model as scikit-learn's ------------------------------------------------------------


@CLASSES
@pytest.mark.parametrize("average", [False, 40])
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("penalty", ["l2", "l1", "elasticnet", None])
@pytest.mark.quick
def test_one_worker_gives_scikit_learns_model(ours, penalty, form, average):
    X, y = data_for(ours)
    X = sparse(X) if form == "csr" else X
    for loss in SMOOTH[ours] + KINKED[ours]:
        settings = {
            "loss": loss,
            "penalty": penalty,
            "average": average,
            "alpha": 1e-3,
            "learning_rate": "invscaling",
            "eta0": 0.01,
            "power_t": 0.25,
            "max_iter": 4,
            "tol": None,
            "random_state": 7,
        }
        # with kinks a last bit may decide whether a row counts; on this data it does not
        equal(ours(**settings).fit(X, y), PAIRS[ours](**settings).fit(X, y))


@CLASSES
@pytest.mark.parametrize("rate", ["constant", "optimal", "invscaling", "adaptive", "pa1", "pa2"])
def test_schedules_and_the_stop_criterion_are_scikit_learns(ours, rate):
    X, y = data_for(ours)
    loss = "hinge" if ours is SGDClassifier else "epsilon_insensitive"
    if not rate.startswith("pa"):
        loss = "log_loss" if ours is SGDClassifier else "squared_error"
    settings = {"loss": loss, "learning_rate": rate, "eta0": 0.01, "alpha": 0.01, "random_state": 1}
    equal(ours(**settings).fit(X, y), PAIRS[ours](**settings).fit(X, y))


@CLASSES
def test_weights_are_scikit_learns(ours):
    X, y = data_for(ours)
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    settings = {"max_iter": 5, "tol": None, "random_state": 2, "alpha": 0.01}
    if ours is SGDClassifier:
        settings |= {"loss": "log_loss", "class_weight": "balanced"}
        X, y, weight = X[y + np.arange(len(y)) % 3 > 0], y[y + np.arange(len(y)) % 3 > 0], None
        weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    theirs = PAIRS[ours](**settings).fit(X, y, sample_weight=weight)
    equal(ours(**settings).fit(X, y, sample_weight=weight), theirs)


@CLASSES
def test_the_split_of_early_stopping_is_scikit_learns(ours):
    X, y = data_for(ours)
    for state in (3, np.random.RandomState):
        settings = {"penalty": None, "early_stopping": True, "n_iter_no_change": 8, "shuffle": True}
        settings |= {"learning_rate": "constant", "eta0": 1e-3}
        # without l2: scikit-learn scores without its scale factor
        models = [
            k(random_state=state if state == 3 else state(3), **settings).fit(X, y)
            for k in (ours, PAIRS[ours])
        ]
        equal(*models)


def test_several_classes_share_the_row_order_of_the_first():
    X, y = load_iris(return_X_y=True)
    settings = {"loss": "log_loss", "max_iter": 6, "tol": None, "random_state": 5, "alpha": 0.01}
    ours = SGDClassifier(**settings).fit(scale(X), y)
    theirs = linear_model.SGDClassifier(**settings).fit(scale(X), y)
    np.testing.assert_allclose(ours.coef_[0], theirs.coef_[0], rtol=1e-9)
    assert ours.coef_.shape == (3, 4) and ours.intercept_.shape == (3,)
    assert ours.score(scale(X), y) > 0.9
    # and without shuffling they are the same altogether
    settings |= {"shuffle": False, "class_weight": {0: 0.5, 1: 2.0, 2: 1.0}}
    equal(
        SGDClassifier(**settings).fit(scale(X), y),
        linear_model.SGDClassifier(**settings).fit(scale(X), y),
    )


@CLASSES
@pytest.mark.parametrize("average", [False, True, 700])
def test_partial_fit_goes_on_as_scikit_learn_does(ours, average):
    X, y = data_for(ours)
    settings = {"average": average, "random_state": 4, "alpha": 0.01, "fit_intercept": False}
    settings |= {"loss": "log_loss" if ours is SGDClassifier else "squared_error"}
    extra = {"classes": [0, 1]} if ours is SGDClassifier else {}
    a, b = ours(**settings), PAIRS[ours](**settings)
    for part in (slice(0, 100), slice(100, 300), slice(0, 300), slice(50, 200)):
        equal(a.partial_fit(X[part], y[part], **extra), b.partial_fit(X[part], y[part], **extra))
    assert hasattr(a, "_average_coef") == bool(average)


@CLASSES
def test_warm_start_and_initial_values(ours):
    X, y = data_for(ours)
    settings = {"random_state": 4, "max_iter": 3, "tol": None, "alpha": 0.01, "warm_start": True}
    a, b = ours(**settings), PAIRS[ours](**settings)
    for _ in range(2):
        equal(a.fit(X, y), b.fit(X, y), rtol=1e-8)
    init = {"coef_init": np.ones(12), "intercept_init": np.array([0.5])}
    settings["warm_start"] = False
    # scikit-learn writes into the arrays that it is given
    theirs = PAIRS[ours](**settings).fit(X, y, **{k: v.copy() for k, v in init.items()})
    equal(ours(**settings).fit(X, y, **init), theirs)
    assert init["coef_init"].tolist() == [1.0] * 12, "the caller's array was written to"
    with pytest.raises(ValueError, match="Provided coef_init does not match dataset"):
        ours(**settings).fit(X, y, coef_init=np.ones(3))


@CLASSES
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_kept(ours, dtype):
    X, y = data_for(ours)
    for rows in (X.astype(dtype), sparse(X).astype(dtype)):
        model = ours(max_iter=3, tol=None, average=10, random_state=0).fit(rows, y)
        assert model.coef_.dtype == model.intercept_.dtype == dtype
        assert model.partial_fit(rows, y).coef_.dtype == dtype


def test_wide_indices_are_accepted_and_left_alone():
    X, y = binary()
    wide = sparse(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    a = SGDClassifier(max_iter=3, tol=None, random_state=0).fit(wide, y)
    b = SGDClassifier(max_iter=3, tol=None, random_state=0).fit(sparse(X), y)
    np.testing.assert_array_equal(a.coef_, b.coef_)
    assert wide.indices.dtype == np.int64


# -- many workers --------------------------------------------------------------------------------


@CLASSES
@pytest.mark.parametrize("plane", ["shared", None, Shared(exchange=None), Shared(exchange=32)])
@pytest.mark.quick
def test_two_workers_learn_as_much(ours, plane):
    X, y = binary(2000, 1) if ours is SGDClassifier else numbers(2000, 1)
    X = scale(X)
    # 15 epochs are over while a thread is preempted, which then writes what it has read before them
    settings = {"max_iter": 200, "tol": None, "random_state": 0, "alpha": 1e-3}
    alone = ours(**settings).fit(X, y)
    model = ours(n_jobs=2, runtime="threads", plane=plane, **settings).fit(X, y)
    assert len(model.report_.workers) == 2
    assert sum(worker["rows"] for worker in model.report_.workers) == 200 * 2000
    assert model.score(X, y) > alone.score(X, y) - 0.02


def test_the_tag_says_that_many_workers_are_not_deterministic():
    for n_jobs, expected in ((None, False), (1, False), (2, True), (-1, True)):
        assert get_tags(SGDClassifier(n_jobs=n_jobs)).non_deterministic is expected
    assert get_tags(SGDRegressor()).input_tags.sparse
    assert is_classifier(SGDClassifier()) and not is_classifier(SGDRegressor())


def test_one_worker_is_reproducible_and_threads_do_not_disturb_each_other():
    X, y = binary()
    models = [SGDClassifier(random_state=i % 2, max_iter=20, tol=None) for i in range(4)]
    threads = [threading.Thread(target=m.fit, args=(X, y)) for m in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(models[0].coef_, models[2].coef_)
    np.testing.assert_array_equal(models[1].coef_, models[3].coef_)
    assert np.abs(models[0].coef_ - models[1].coef_).max() > 0


# -- settings and errors -------------------------------------------------------------------------


@CLASSES
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_jobs": 0}, "n_jobs == 0 has no meaning"),
        ({"n_jobs": "two"}, "'n_jobs' parameter of"),
        ({"runtime": "fast"}, "'runtime' parameter of"),
        ({"plane": "star"}, "'plane' parameter of"),
        ({"n_jobs": 2, "runtime": "caller"}, "runs one worker"),
        ({"loss": "cubic"}, "'loss' parameter of"),
        ({"alpha": -1.0}, "'alpha' parameter of"),
        ({"alpha": 0.0, "learning_rate": "optimal"}, "alpha must be > 0 since"),
        ({"penalty": "elasticnet", "l1_ratio": None}, "l1_ratio must be set"),
        ({"loss": "squared_error", "learning_rate": "pa1"}, "only works with loss"),
        ({"early_stopping": True, "validation_fraction": 0.9999}, "[Tt]rain|empty set"),
    ],
)
def test_bad_settings_are_named(ours, settings, words):
    with pytest.raises(ValueError, match=words):
        ours(**settings).fit(*data_for(ours))


@CLASSES
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_diverging_fit_says_so(ours, n_jobs):
    X, y = data_for(ours)
    X = X * np.where(np.arange(12) < 2, 1e300, 1.0)
    loss = "squared_hinge" if ours is SGDClassifier else "squared_error"
    model = ours(loss=loss, alpha=0.1, n_jobs=n_jobs, runtime="threads")
    with pytest.raises(ValueError, match=r"under-/overflow occurred at epoch #.*StandardScaler"):
        model.fit(X, y)
    assert not hasattr(model, "coef_")


def test_partial_fit_refuses_what_scikit_learn_refuses():
    X, y = binary()
    for settings, words in (
        ({"early_stopping": True}, "early_stopping should be False"),
        ({"class_weight": "balanced"}, "'balanced' is not supported"),
        ({}, "classes must be passed on the first call"),
    ):
        with pytest.raises(ValueError, match=words):
            SGDClassifier(**settings).partial_fit(X, y)
    with pytest.raises(ValueError, match="number of classes has to be greater than one"):
        SGDClassifier().fit(X, np.ones(len(y)))


def test_bad_rows_are_refused():
    X, y = binary()
    bad = sparse(X)
    bad.indices[3] = 10_000_000
    for rows in (bad, np.full_like(X, np.nan), X[:10]):
        with pytest.raises(ValueError):
            SGDClassifier().fit(rows, y)
    columns = sp.csc_array(sparse(X))
    columns.indices[0] = 10_000_000
    with pytest.raises(ValueError):
        SGDClassifier().fit(columns, y)


@CLASSES
def test_warnings_are_scikit_learns(ours):
    X, y = data_for(ours)
    with pytest.warns(ConvergenceWarning, match="Maximum number of iteration reached"):
        ours(max_iter=2).fit(X, y)
    with pytest.warns(FutureWarning, match="Negative values for `power_t`"):
        ours(power_t=-0.1, max_iter=2, tol=None).fit(X, y)


@CLASSES
def test_verbose_prints_epochs(ours, capsys):
    X, y = data_for(ours)
    ours(verbose=1, max_iter=3, tol=None).fit(X, y)
    said = capsys.readouterr().out
    assert "-- Epoch 3" in said and "-- Epoch 4" not in said
    assert "Norm: " in said and "Objective: " in said
    ours(verbose=1, max_iter=500).fit(scale(X), y)
    assert "Convergence after" in capsys.readouterr().out


@CLASSES
def test_verbose_prints_each_epoch_with_its_own_count(ours, capsys):
    X, y = data_for(ours)
    model = ours(verbose=1, max_iter=24, tol=None, n_jobs=2, runtime="threads").fit(X, y)
    lines = capsys.readouterr().out
    counts = [int(count) for count in re.findall(r"T: (\d+),", lines)]
    assert counts == [epoch * len(y) for epoch in range(1, 25)]
    assert len(set(re.findall(r"Objective: \S+", lines))) > 12, "and its own model"
    assert model.t_ - 1 == counts[-1] and model.n_iter_ == 24


# -- living with scikit-learn --------------------------------------------------------------------


@CLASSES
def test_pickle_clone_and_feature_names(ours):
    pd = pytest.importorskip("pandas")
    X, y = data_for(ours)
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(12)])
    model = ours(max_iter=5, tol=None, average=True, plane=Shared(exchange=64)).fit(frame, y)
    assert isinstance(model, PAIRS[ours])
    assert model.n_features_in_ == 12 and model.feature_names_in_[0] == "x0"
    back = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(back.predict(frame), model.predict(frame))
    assert back.report_.n_epochs == 5
    back.partial_fit(frame, y)
    fresh = clone(model)
    assert fresh.get_params() == model.get_params() and not hasattr(fresh, "coef_")
    assert set(PAIRS[ours]().get_params()) < set(model.get_params())
    for name, value in PAIRS[ours]().get_params().items():
        assert ours().get_params()[name] == value


def test_sparsified_models_predict_and_go_on():
    X, y = binary()
    model = SGDClassifier(penalty="l1", alpha=0.05, max_iter=5, tol=None, random_state=0).fit(X, y)
    before = model.predict(X)
    np.testing.assert_array_equal(model.sparsify().predict(X), before)
    model.partial_fit(X, y)
    assert not sp.issparse(model.coef_)


def test_probabilities_follow_the_loss():
    X, y = binary()
    model = SGDClassifier(loss="log_loss", random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert not hasattr(SGDClassifier(loss="hinge"), "predict_proba")


def test_grid_search_in_processes_and_pipeline():
    X, y = binary()
    model = make_pipeline(StandardScaler(), SGDClassifier(n_jobs=-1, random_state=0))
    search = GridSearchCV(model, {"sgdclassifier__alpha": [1e-4, 1e-2]}, n_jobs=2, cv=2)
    assert search.fit(X, y).best_score_ > 0.7


def test_read_only_rows_of_a_joblib_worker():
    X, y = binary()
    X.flags.writeable = y.flags.writeable = False
    fits = joblib.Parallel(n_jobs=2, backend="threading")(
        joblib.delayed(SGDClassifier(random_state=0, max_iter=4, tol=None).fit)(rows, y)
        for rows in (X, sparse(X))
    )
    assert all(model.n_iter_ == 4 for model in fits)


# -- callbacks -----------------------------------------------------------------------------------


class Recorder:
    """Keeps what the hooks are told; asks to stop after `last` epochs."""

    def __init__(self, last=10**9):
        self.last, self.begun, self.ended, self.models, self.torn_down = last, [], [], [], 0

    def setup(self, estimator, context):
        self.tasks = context.max_subtasks

    def teardown(self, estimator, context):
        self.torn_down += 1

    def on_fit_task_begin(self, estimator, context):
        self.begun.append((context.task_name, context.task_id))

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None, metadata=None):
        self.ended.append((context.task_name, context.task_id))
        if context.task_name == "epoch" and fitted_estimator is not None:
            assert fitted_estimator.predict(X).shape == (X.shape[0],)
            self.models.append(fitted_estimator)
        self.metadata = metadata
        return context.task_name == "epoch" and context.task_id + 1 >= self.last


@CLASSES
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_callbacks_see_every_epoch(ours, average, n_jobs):
    X, y = data_for(ours)
    runtime = "threads" if n_jobs == 2 else "auto"
    settings = {"max_iter": 6, "tol": None, "average": average, "random_state": 0}
    hook = Recorder()
    model = ours(n_jobs=n_jobs, runtime=runtime, **settings).set_callbacks(hook)
    model.fit(X, y, sample_weight=np.ones(len(y)))
    epochs = [("epoch", k) for k in range(6)]
    assert hook.begun == [("fit", 0), *epochs] and hook.ended == [*epochs, ("fit", 0)]
    assert hook.tasks == 6 and hook.torn_down == 1
    assert list(hook.metadata) == ["sample_weight"]
    if n_jobs == 1:
        np.testing.assert_allclose(hook.models[-1].coef_, model.coef_, rtol=1e-12)
        short = ours(**{**settings, "max_iter": 3}).fit(X, y)
        np.testing.assert_allclose(hook.models[2].coef_, short.coef_, rtol=1e-9)
        assert hook.models[2].t_ == short.t_
        np.testing.assert_array_equal(ours(**settings).fit(X, y).coef_, model.coef_)


@CLASSES
def test_a_hook_stops_the_fit(ours):
    X, y = data_for(ours)
    hook = Recorder(last=2)
    model = ours(max_iter=50, random_state=0).set_callbacks(hook).fit(X, y)
    assert model.n_iter_ == 2 and not model.report_.converged
    assert [name for name, _ in hook.begun].count("epoch") == 2
    assert hook.torn_down == 1


def test_tasks_are_closed_when_a_fit_converges_or_fails():
    X, y = binary()
    hook = Recorder()
    model = SGDClassifier(max_iter=500, random_state=0).set_callbacks(hook).fit(X, y)
    assert len(hook.models) == model.n_iter_ < 500
    assert len(hook.begun) == len(hook.ended)
    hook = Recorder()
    with pytest.raises(ValueError, match="overflow"):
        model = SGDClassifier(loss="squared_hinge", alpha=0.1, random_state=0)
        model.set_callbacks(hook).fit(X * 1e300, y)
    assert hook.torn_down == 1


def test_scoring_monitor_and_progress_bar():
    pytest.importorskip("rich")
    X, y = load_iris(return_X_y=True)
    monitor = ScoringMonitor(scoring="accuracy")
    model = SGDClassifier(max_iter=5, tol=None, random_state=0)
    model.set_callbacks(monitor, ProgressBar()).fit(scale(X), y)
    scores = [row["accuracy"] for row in monitor.get_logs().data if row["task_name"] == "epoch"]
    assert len(scores) == 5
    assert scores[-1] == pytest.approx(model.score(scale(X), y))


def test_progress_bar_of_a_pipeline_reaches_the_epochs():
    pytest.importorskip("rich")
    X, y = binary()
    model = make_pipeline(StandardScaler(), SGDClassifier(max_iter=3, tol=None))
    model.set_callbacks(ProgressBar(max_propagation_depth=None)).fit(X, y)
    assert model[-1].n_iter_ == 3


def test_early_stopping_counts_both_classes():
    X, y = binary(2000)
    model = SGDClassifier(loss="log_loss", early_stopping=True, random_state=0).fit(scale(X), y)
    assert model.n_iter_ < 100 and model.score(scale(X), y) > 0.75
    assert model.t_ == 1 + model.n_iter_ * len(y)
    late = SGDClassifier(
        early_stopping=True, average=1900, max_iter=1, tol=None, random_state=0
    ).fit(X, y)
    assert late.coef_.any(), "the average had not begun, so the last iterate is the model"


@pytest.mark.filterwarnings("ignore:Maximum number:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_a_single_row_held_out_decides_nothing_as_in_scikit_learn(make):
    X = np.random.default_rng(0).normal(size=(10, 2))
    y = X @ [3.0, -2.0] + 1.0
    settings = {"early_stopping": True, "random_state": 0, "max_iter": 200}
    with pytest.warns(UndefinedMetricWarning, match="single row"):
        ours = SGDRegressor(**settings).fit(make(X), y)
    with pytest.warns(UndefinedMetricWarning):
        theirs = linear_model.SGDRegressor(**settings).fit(make(X), y)
    equal(ours, theirs)
    assert ours.n_iter_ == theirs.n_iter_ == 200
    assert not ours.report_.converged
    assert ours.score(X, y) > 0.8
    with pytest.warns(UndefinedMetricWarning):
        automatic = SGDRegressor(learning_rate="auto", **settings).fit(make(X), y)
    assert automatic.score(X, y) > 0.95


def test_a_single_row_held_out_is_refused_by_classifiers_as_in_scikit_learn():
    X, y = np.random.default_rng(0).normal(size=(10, 2)), np.arange(10) % 2
    for model in (SGDClassifier, linear_model.SGDClassifier):
        with pytest.raises(ValueError, match="test_size = 1 should be greater"):
            model(early_stopping=True).fit(X, y)
