"""`MLPClassifier` and `MLPRegressor`: scikit-learn's steps, decisions and words; more workers."""

import copy
import dataclasses
import pickle
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from crews import kill_members
from sklearn import clone, neural_network
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import hogshare
from hogshare import Master, MLPClassifier, MLPRegressor, Shared, problems
from hogshare.io.models import model_file, save_load
from hogshare.runtimes.processes import WorkerDied

DRAWS = np.random.default_rng(0)
N, D = 70, 6
X = DRAWS.standard_normal((N, D)) * (DRAWS.random((N, D)) < 0.7)
TARGETS = {
    "many": DRAWS.integers(0, 3, N),
    "two": np.where(X[:, 0] + X[:, 1] > 0.0, "yes", "no"),
    "labels": (DRAWS.random((N, 4)) < 0.4).astype(int),
    "number": X @ DRAWS.standard_normal(D),
    "numbers": X @ DRAWS.standard_normal((D, 3)),
    "counts": DRAWS.poisson(1.0, N),
}
WEIGHT = DRAWS.uniform(0.5, 2.0, N)
SMALL = {
    "hidden_layer_sizes": (7, 5),
    "batch_size": 16,  # the last of an epoch has 6 rows
    "max_iter": 4,
    "random_state": 3,
    "alpha": 0.1,
    "learning_rate_init": 0.02,
}
OURS = ("n_jobs", "plane", "barrier", "runtime")
LEFT = ("loss_", "best_loss_", "loss_curve_", "validation_scores_", "best_validation_score_")
COUNTS = ("n_iter_", "t_", "n_layers_", "n_outputs_", "out_activation_", "_no_improvement_count")


def pair(kind, **settings):
    """scikit-learn's and ours."""
    name = "MLPClassifier" if kind in ("many", "two", "labels") else "MLPRegressor"
    loss = {"loss": "poisson"} if kind == "counts" else {}
    ours = getattr(hogshare, name)(**{**SMALL, **loss, **settings})
    known = {name: value for name, value in ours.get_params().items() if name not in OURS}
    return getattr(neural_network, name)(**known), ours


def quietly(method, *args, **others):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return method(*args, **others)


def assert_alike(ours, theirs, near=1e-9):
    """That networks, relative to their largest, and what is said of their fits, are equal."""
    largest = max(np.abs(part).max() for part in theirs.coefs_ + theirs.intercepts_)
    for name in ("coefs_", "intercepts_"):
        for mine, other in zip(getattr(ours, name), getattr(theirs, name), strict=True):
            assert mine.dtype == other.dtype
            np.testing.assert_allclose(mine, other, atol=near * largest)
    for name in LEFT:
        mine, other = getattr(ours, name), getattr(theirs, name)
        assert (mine is None) == (other is None), name
        if other is not None:
            np.testing.assert_allclose(mine, other, rtol=near, atol=near, err_msg=name)
    for name in COUNTS:
        assert getattr(ours, name) == getattr(theirs, name), name


SETTINGS = {
    "adam": {},
    "sgd": {"solver": "sgd", "momentum": 0.0},
    "momentum": {"solver": "sgd", "momentum": 0.8, "nesterovs_momentum": False},
    "nesterov": {"solver": "sgd"},
    "invscaling": {"solver": "sgd", "learning_rate": "invscaling"},
    "adaptive": {"solver": "sgd", "learning_rate": "adaptive", "tol": 10.0, "n_iter_no_change": 1},
    "in order": {"shuffle": False},
    "one row": {"batch_size": 1, "max_iter": 2},
    "all rows": {"batch_size": N},
    "auto": {"batch_size": "auto"},
    "early": {"early_stopping": True, "validation_fraction": 0.3, "max_iter": 30},
    "tol": {"tol": 0.1, "n_iter_no_change": 2, "max_iter": 50},
    "a layer": {"hidden_layer_sizes": 4, "activation": "tanh"},
    "no layer": {"hidden_layer_sizes": (), "activation": "logistic"},
}


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("kind", ["many", "number"])
def test_one_worker_follows_scikit_learn(kind, settings, capsys):
    theirs, ours = pair(kind, **SETTINGS[settings], verbose=True)
    quietly(theirs.fit, X, TARGETS[kind])
    told = capsys.readouterr().out
    quietly(ours.fit, X, TARGETS[kind])
    assert capsys.readouterr().out == told
    assert_alike(ours, theirs, 1e-12)
    assert ours._optimizer.learning_rate == pytest.approx(theirs._optimizer.learning_rate)
    np.testing.assert_array_equal(ours.predict(X).shape, theirs.predict(X).shape)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("solver", ["sgd", "adam"])
@pytest.mark.parametrize("batch", [1, 16, 1000])
@pytest.mark.parametrize("layers", [(), (1,), (3,), (17,), (17, 3, 1)], ids=str)
@pytest.mark.filterwarnings("ignore:Got `batch_size`")
def test_layers_of_any_width_follow_scikit_learn(layers, batch, solver, dtype):
    activation = "relu" if len(layers) < 2 else "tanh"
    settings = {"hidden_layer_sizes": layers, "batch_size": batch, "activation": activation}
    theirs, ours = pair("many", **settings, solver=solver, max_iter=2)
    for model in (theirs, ours):
        quietly(model.fit, X.astype(dtype), TARGETS["many"])
    assert_alike(ours, theirs, 1e-12 if dtype is np.float64 else 1e-5)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, sp.csc_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", TARGETS)
def test_every_target_and_form_of_rows(kind, dtype, form):
    theirs, ours = pair(kind)
    rows = form(X.astype(dtype))
    for model in (theirs, ours):
        quietly(model.fit, rows, TARGETS[kind], sample_weight=WEIGHT)
    assert_alike(ours, theirs, 1e-9 if dtype is np.float64 else 1e-4)
    if kind in ("many", "two", "labels"):
        np.testing.assert_array_equal(ours.predict(rows), theirs.predict(rows))


@pytest.mark.parametrize("solver", ["sgd", "adam"])
@pytest.mark.parametrize("kind", ["many", "labels", "numbers"])
def test_partial_fit_goes_on_with_the_moments(kind, solver):
    theirs, ours = pair(kind, solver=solver)
    y = TARGETS[kind]
    first = {} if kind == "numbers" else {"classes": np.arange(3 if kind == "many" else 4)}
    for model in (theirs, ours):
        model.partial_fit(X[:40], y[:40], **first)
        model.partial_fit(X[40:], y[40:])
        model.partial_fit(X, y)
    assert_alike(ours, theirs)
    quietly(theirs.fit, X, y), quietly(ours.fit, X, y)
    assert_alike(ours.partial_fit(X, y), theirs.partial_fit(X, y))


def test_warm_starts_and_generators_go_on():
    theirs, ours = pair("many", warm_start=True)
    theirs.random_state, ours.random_state = (np.random.RandomState(1) for _ in range(2))
    for model in (theirs, ours):
        quietly(model.fit, X, TARGETS["many"])
        quietly(model.fit, X.astype(np.float32), TARGETS["many"])
    assert_alike(ours, theirs, 1e-5)
    assert ours.random_state.randint(1 << 30) == theirs.random_state.randint(1 << 30)


def test_a_fit_goes_on_from_one_that_ended_otherwise():
    """Where scikit-learn's finds that it lacks the other's best loss or score."""
    _, model = pair("number", solver="lbfgs", warm_start=True)
    for settings in ({}, {"solver": "sgd"}, {"early_stopping": True}, {"early_stopping": False}):
        quietly(model.set_params(**settings).fit, X, TARGETS["number"])
    assert len(model.loss_curve_) == 12 and len(model.validation_scores_) == 4


def test_lbfgs_is_scikit_learns():
    theirs, ours = pair("number", solver="lbfgs")
    quietly(theirs.fit, X, TARGETS["number"]), quietly(ours.fit, X, TARGETS["number"])
    for mine, other in zip(ours.coefs_, theirs.coefs_, strict=True):
        np.testing.assert_array_equal(mine, other)
    assert "lbfgs" in ours.report_.reason and ours.report_.by == "scikit-learn"


@pytest.mark.parametrize("runtime", ["threads", "processes"])
@pytest.mark.parametrize("plane", [Shared(), Shared(exchange=None), Master()], ids=repr)
@pytest.mark.quick
def test_one_worker_goes_the_same_way_everywhere(plane, runtime):
    theirs, ours = pair("many", early_stopping=True, max_iter=6)
    ours.set_params(plane=plane, runtime=runtime)
    quietly(theirs.fit, X, TARGETS["many"]), quietly(ours.fit, X, TARGETS["many"])
    assert_alike(ours, theirs, 1e-8)


@pytest.mark.parametrize("plane", [Shared(), Master()], ids=repr)
def test_behind_bsp_two_workers_repeat_in_every_runtime(plane):
    _, model = pair("many", n_jobs=2, barrier="bsp", plane=plane, tol=0.02, n_iter_no_change=2)
    model.set_params(max_iter=30)
    found = [
        quietly(clone(model).set_params(runtime=runtime).fit, X, TARGETS["many"])
        for runtime in ("threads", "threads", "processes")
    ]
    for other in found[1:]:
        assert other.loss_curve_ == found[0].loss_curve_ and other.n_iter_ == found[0].n_iter_
        for mine, theirs in zip(found[0].coefs_, other.coefs_, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    assert found[0].report_.n_workers == 2


@pytest.mark.parametrize("solver", ["sgd", "adam"])
def test_more_workers_come_as_far(solver):
    step = 0.003 if solver == "adam" else 0.05
    _, model = pair("two", max_iter=60, barrier="bsp", runtime="threads", solver=solver, tol=0.0)
    model.set_params(alpha=1e-3, learning_rate_init=step)
    losses = []
    for n_jobs in (1, 2):
        fitted = quietly(clone(model).set_params(n_jobs=n_jobs).fit, X, TARGETS["two"])
        losses.append((fitted.loss_curve_[0], fitted.loss_))
    (start, one), (_, two) = losses
    assert one < 0.5 * start
    assert start - two > 0.95 * (start - one)


def test_several_workers_go_on_with_the_moments_of_the_run():
    _, one = pair("many")
    _, two = pair("many", n_jobs=2, barrier="bsp", runtime="threads")
    for model in (one, two):
        model.partial_fit(X, TARGETS["many"], classes=[0, 1, 2])
        model.partial_fit(X, TARGETS["many"])
    assert two._optimizer.t == one._optimizer.t == 10 and len(two.loss_curve_) == 2
    for mine, theirs in zip(two._optimizer.ms, one._optimizer.ms, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("n_jobs", [2, 4, 8])
@pytest.mark.parametrize("solver", ["sgd", "adam"])
@pytest.mark.parametrize("plane", [Shared(), Shared(exchange=None), Master()], ids=repr)
def test_any_number_of_workers_takes_the_steps_of_one(plane, solver, n_jobs):
    settings = {"solver": solver, "learning_rate_init": 0.05, "max_iter": 7, "batch_size": 13}
    weight = np.linspace(0.0, 2.0, len(X))
    _, one = pair("many", **settings)
    quietly(one.fit, X, TARGETS["many"], sample_weight=weight)
    _, model = pair("many", **settings, n_jobs=n_jobs, plane=plane, runtime="threads")
    quietly(model.fit, X, TARGETS["many"], sample_weight=weight)
    assert min(worker["blocks"] for worker in model.report_.workers) > 0
    for mine, theirs in zip(model.coefs_, one.coefs_, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("plane", [Shared(), Shared(exchange=None), Master()], ids=repr)
def test_losses_of_several_workers_are_those_of_one(plane):
    _, one = pair("many", max_iter=4)
    _, three = pair("many", max_iter=4, n_jobs=3, plane=plane, runtime="threads")
    for model in (one, three):
        quietly(model.fit, X, TARGETS["many"])
    np.testing.assert_allclose(three.loss_curve_, one.loss_curve_, rtol=1e-9)


def test_mini_batches_without_weight_have_one_penalty():
    weight = (np.arange(N) % 3 > 0).astype(float)
    settings = {"batch_size": 1, "alpha": 5.0, "max_iter": 3, "hidden_layer_sizes": (5,)}
    losses = []
    for n_jobs in (1, 2):
        _, model = pair("many", **settings, n_jobs=n_jobs, runtime="threads")
        quietly(model.fit, X, TARGETS["many"], sample_weight=weight)
        losses.append(model.loss_curve_)
    np.testing.assert_allclose(*losses, rtol=1e-9)


@pytest.mark.parametrize("plane", [Shared(), Shared(exchange=None), Master()], ids=repr)
def test_losses_of_workers_with_steps_of_their_own_are_those_of_the_networks(plane):
    _, model = pair("number", solver="sgd", n_jobs=3, plane=plane, runtime="threads")
    model.set_params(barrier="ssp:4", learning_rate_init=0.01, max_iter=1, warm_start=True)
    for _ in range(4):
        quietly(model.fit, X, TARGETS["number"])
        loss = 0.5 * np.mean((model.predict(X) - TARGETS["number"]) ** 2)
        assert model.loss_ == model.loss_curve_[-1] >= model.best_loss_
        penalty = 0.5 * model.alpha * sum((part**2).sum() for part in model.coefs_)
        assert model.loss_ == pytest.approx(loss + penalty / model.batch_size, rel=0.02)


def test_steps_that_come_late_are_told_of():
    _, model = pair("many", n_jobs=4, runtime="threads", barrier="ssp:8", max_iter=20, tol=0.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, TARGETS["many"])
    told = [str(one.message) for one in caught if "steps late" in str(one.message)]
    assert bool(told) == (model.report_.staleness_mean >= 0.1)
    assert not told or "SSP(staleness=8)" in told[0]


# -- what cannot be -------------------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_steps_that_are_too_long_end_in_a_sentence(n_jobs):
    _, model = pair("number", solver="sgd", learning_rate_init=1e6, n_jobs=n_jobs, max_iter=50)
    model.set_params(activation="identity", runtime="threads" if n_jobs else "auto")
    with pytest.raises(ValueError, match=r"non-finite parameter weights.*learning_rate_init"):
        quietly(model.fit, X, TARGETS["number"])


def test_early_stopping_keeps_the_network_before_the_steps_were_too_long():
    settings = {"solver": "sgd", "learning_rate_init": 0.9, "activation": "identity"}
    _, model = pair("number", early_stopping=True, max_iter=300, **settings)
    with pytest.warns(ConvergenceWarning, match="with the best validation score"):
        model.fit(X, TARGETS["number"])
    assert np.isnan(model.validation_scores_[-1]) and np.isfinite(model.coefs_[0]).all()


def damaged():
    bad = sp.csr_matrix(X)
    bad.indices[3] = D + 100
    return bad


@pytest.mark.parametrize(
    ("settings", "rows", "told"),
    [
        ({"n_jobs": 0}, X, "n_jobs"),
        ({"plane": "shred"}, X, "plane"),
        ({"barrier": "bsb"}, X, "barrier"),
        ({"runtime": "trheads"}, X, "runtime"),
        ({"hidden_layer_sizes": (3, 0)}, X, "hidden_layer_sizes"),
        ({"learning_rate_init": 0.0}, X, "learning_rate_init"),
        ({"beta_1": 1.0}, X, "beta_1"),
        ({"early_stopping": True, "validation_fraction": 0.001}, X, "validation"),
        ({}, np.where(X > 1.0, np.nan, X), "NaN"),
        ({}, damaged(), "damaged"),
    ],
)
def test_bad_input_is_told_before_anybody_works(settings, rows, told):
    _, model = pair("number", **settings)
    with pytest.raises((ValueError, TypeError), match=told):
        model.fit(rows, TARGETS["number"])
    assert not hasattr(model, "report_")


@pytest.mark.parametrize("solver", ["sgd", "lbfgs"])
@pytest.mark.parametrize("form", [sp.csr_matrix, sp.csc_array])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_sparse_numbers_are_refused_in_scikit_learns_words(n_outputs, form, solver):
    X = np.eye(8)
    model = MLPRegressor(solver=solver)
    for method in (model.fit, model.partial_fit):
        with pytest.raises(TypeError, match="Sparse data was passed for y"):
            method(X, form(X[:, :n_outputs]))
    with pytest.raises(TypeError, match="Sparse data was passed for y"):
        problems.network(X, form(X[:, :n_outputs]), loss="squared_error")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["sgd", "adam", "lbfgs"])
@pytest.mark.parametrize("klass", [MLPClassifier, MLPRegressor])
def test_a_network_goes_on_with_the_layers_that_it_has(klass, solver):
    X, y = np.eye(8), np.arange(8) % 2
    model = klass(hidden_layer_sizes=(3,), solver=solver, max_iter=1, warm_start=True).fit(X, y)
    before = model.predict(X)
    for hidden in ((5,), (3, 3), ()):
        model.set_params(hidden_layer_sizes=hidden)
        with pytest.raises(ValueError, match=r"has \(8, 3, 1\) units .* warm_start=False"):
            model.fit(X, y)
        if solver != "lbfgs":
            with pytest.raises(ValueError, match=r"has \(8, 3, 1\) units .* warm_start=False"):
                model.partial_fit(X, y)
    model.set_params(hidden_layer_sizes=3)
    if klass is MLPRegressor:
        with pytest.raises(ValueError, match=r"\(8, 3, 2\) were requested"):
            model.fit(X, np.column_stack([y, y]))
    assert model.n_outputs_ == 1
    np.testing.assert_array_equal(model.predict(X), before)
    model.fit(X, y)
    model.set_params(hidden_layer_sizes=(5,), warm_start=False).fit(X, y)
    assert model.coefs_[0].shape == (8, 5)


def test_counts_are_not_negative():
    _, model = pair("counts")
    with pytest.raises(ValueError, match="negative"):
        model.fit(X, TARGETS["number"])


def test_an_interrupt_leaves_the_last_epochs_network(monkeypatch):
    _, model = pair("number")

    theirs = neural_network.MLPRegressor._update_no_improvement_count

    def interrupted(self, *args):
        if self.n_iter_ == 3:
            raise KeyboardInterrupt
        theirs(self, *args)

    monkeypatch.setattr(MLPRegressor, "_update_no_improvement_count", interrupted, raising=False)
    with pytest.warns(UserWarning, match="interrupted by user"):
        model.fit(X, TARGETS["number"])
    assert model.n_iter_ == 3 and np.isfinite(model.predict(X)).all()


# -- files, scikit-learn's own, and its checks ----------------------------------------------------


def left_in(model):
    dropped = {"report_", "_optimizer", "_random_state", "_label_binarizer", *model.get_params()}
    dropped |= {"_coef_indptr", "_intercept_indptr"}  # that lbfgs makes anew
    return {name: value for name, value in vars(model).items() if name not in dropped}


def fitted(kind, solver):
    _, model = pair(kind, solver=solver, early_stopping=kind == "two" and solver != "lbfgs")
    return quietly(model.fit, X.astype(np.float32), TARGETS[kind])


@pytest.mark.parametrize("solver", ["sgd", "adam", "lbfgs"])
@pytest.mark.parametrize("kind", TARGETS)
def test_networks_travel_in_files_and_go_on(tmp_path, kind, solver):
    model, y = fitted(kind, solver), TARGETS[kind]
    hogshare.save(model, tmp_path / "network")
    again = hogshare.load(tmp_path / "network")
    for _ in range(2):
        assert repr(again) == repr(model) and left_in(again).keys() == left_in(model).keys()
        for name, value in left_in(model).items():
            assert type(left_in(again)[name]) is type(value), name
            for mine, other in zip(*map(_as_list, (left_in(again)[name], value)), strict=True):
                np.testing.assert_array_equal(mine, other)
        for of in ("predict", "predict_proba"):
            if hasattr(model, of):
                np.testing.assert_array_equal(getattr(again, of)(X), getattr(model, of)(X))
        if solver == "lbfgs":
            return
        for one in (model, again):
            one.set_params(early_stopping=False).partial_fit(X[:30].astype(np.float32), y[:30])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_pickles_and_copies_go_on(copied):
    model, y = fitted("many", "adam"), TARGETS["many"]
    other = copied(model)
    for one in (model, other):
        one.partial_fit(X.astype(np.float32), y)
    for mine, theirs in zip(model.coefs_, other.coefs_, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def _as_list(value):
    return value if isinstance(value, list) else [value]


def test_a_file_of_layers_that_do_not_fit_is_refused():
    model = fitted("many", "adam")
    saved = save_load.to_saved(model)
    optimizer = saved.attributes["_optimizer"]
    for name, value in {
        "coefs_": model.coefs_[:2],
        "intercepts_": [part[:-1] for part in model.intercepts_],
        "_best_coefs": model.coefs_[::-1],
        "n_outputs_": 4,
        "n_layers_": 3,
        "out_activation_": "relu",
        "classes_": np.arange(5),
        "n_iter_": -1,
        "t_": 0.5,
        "loss_curve_": ["low"],
        "best_loss_": "low",
        "_optimizer": {**optimizer, "ms": optimizer["ms"][:3]},
    }.items():
        bad = dataclasses.replace(saved, attributes={**saved.attributes, name: value})
        with pytest.raises(ValueError, match=name.strip("_")[:4]):
            model_file.check(bad)
    wrong = {**saved.attributes, "_optimizer": {**optimizer, "call": "me"}}
    with pytest.raises(ValueError, match="_optimizer"):
        model_file.check(dataclasses.replace(saved, attributes=wrong))


@pytest.mark.parametrize("kind", ["many", "number", "labels"])
def test_scikit_learns_own_goes_on_from_our_network(kind):
    model, y = fitted(kind, "adam"), TARGETS[kind]
    made = model.to_sklearn()
    assert type(made).__module__.startswith("sklearn.")
    assert b"hogshare" not in pickle.dumps(made)
    np.testing.assert_array_equal(made.predict(X), model.predict(X))
    rows = X.astype(np.float32)
    made.partial_fit(rows, y), model.partial_fit(rows, y)
    for mine, other in zip(model.coefs_, made.coefs_, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_worker_that_is_killed_leaves_a_network():
    """In the middle of a fit; the other goes on."""
    settings = {"n_jobs": 2, "runtime": "processes", "max_iter": 400, "tol": 0.0}
    model = MLPClassifier((8,), random_state=0, n_iter_no_change=1000, **settings)
    killed = []

    def kill(epoch, _):
        if not killed and epoch > 20:
            killed.extend(kill_members())  # there may be none yet

    model._on_epoch = kill
    with pytest.warns(WorkerDied):
        model.fit(X, TARGETS["many"])
    assert killed and model.n_iter_ == 400
    whole = clone(model).set_params(n_jobs=1, runtime="caller").fit(X, TARGETS["many"])
    assert model.score(X, TARGETS["many"]) > whole.score(X, TARGETS["many"]) - 0.1


def expected_failures(estimator):
    from sklearn.utils._test_common.instance_generator import PER_ESTIMATOR_XFAIL_CHECKS

    return PER_ESTIMATOR_XFAIL_CHECKS.get(getattr(neural_network, type(estimator).__name__), {})


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [MLPClassifier(max_iter=100), MLPRegressor(max_iter=100)],
    expected_failed_checks=expected_failures,
    xfail_strict=False,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
