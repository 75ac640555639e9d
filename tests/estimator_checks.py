"""What estimators on ranks that share no memory come to; `test_estimators_on_ranks.py` reads it.

Every check is called on every rank, in one order, with all rows at hand to compare with.
"""

import contextlib
import io
import sys
import warnings

import numpy as np
import optimum_cases
import pandas as pd
import scipy.sparse as sp
from mpi4py import MPI as library
from ranks import report_on
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet as SkElasticNet
from sklearn.linear_model import LogisticRegression as SkLogistic
from sklearn.linear_model import Ridge as SkRidge
from sklearn.linear_model import RidgeClassifier as SkRidgeClassifier
from sklearn.preprocessing import scale

from hogshare import (
    MPI,
    ElasticNet,
    Lasso,
    LatentDirichletAllocation,
    LogisticRegression,
    LogisticRegressionCV,
    MatrixFactorization,
    MLPClassifier,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
    SGDRegressor,
    problems,
)

COMM = library.COMM_WORLD
RANK, SIZE = COMM.rank, COMM.size
ALL, SHARDS = MPI(arena=False, rows="all", start_timeout=30), MPI(arena=False, start_timeout=30)
DRAWS = np.random.default_rng(0)
X, Y = load_breast_cancer(return_X_y=True)
ORDER = DRAWS.permutation(len(X))
X, Y = scale(X)[ORDER], Y[ORDER]
Z = X @ np.linspace(-1.0, 1.0, 30) + 0.3 * DRAWS.standard_normal(len(X)) + 2.0
WORDS = np.array(["bad", "good"])[Y]
WEIGHT = DRAWS.integers(0, 3, len(X)).astype(float)
DIGITS, DIGIT = load_digits(return_X_y=True)
DIGITS = DIGITS / 16.0
KINDS = ("even", "uneven", "empty", "no second class")


def part(kind, y=Y):
    """Numbers of the rows of this rank, of those with labels `y`."""
    rows = np.arange(len(y))
    if kind == "no second class":  # on the last rank
        few = np.flatnonzero(y == 0)[:40]
        others = np.setdiff1d(rows, few)
        shards = [*np.array_split(others, SIZE - 1), few]
        return shards[RANK]
    cuts = np.linspace(0, len(y), SIZE + 1).astype(int)
    if kind == "uneven":
        cuts[1:-1] = len(y) // 10 * np.arange(1, SIZE)
    if kind == "empty":
        cuts[1] = 0
    return rows[cuts[RANK] : cuts[RANK + 1]]


def alike(model, *names):
    """Whether the ranks have one model, to the last bit."""
    bits = tuple(np.asarray(getattr(model, name)).tobytes() for name in names)
    told = repr(model.report_), model.get_params(deep=False).keys()
    return len(set(COMM.allgather((bits, str(told))))) == 1


def refused(kind, function):
    """What a call says that is refused, the same on all ranks."""
    try:
        function()
    except kind as error:
        found = COMM.allgather(str(error))
        assert len(set(found)) == 1, found
        return found[0]
    raise AssertionError("it is not refused")


# -- all rows on every rank


def threads_and_ranks(make, *data, names=("coef_",)):
    """A fit by ranks, and one by as many threads."""
    model = make(runtime=ALL, barrier="bsp").fit(*data)
    assert alike(model, *names), type(model)
    return model, make(runtime="threads", barrier="bsp", n_jobs=SIZE).fit(*data)


def check_all_rows_have_the_bits_of_threads():
    cases = {
        "SGDClassifier": (SGDClassifier, (X, WORDS), {}),
        "early stopping": (SGDClassifier, (DIGITS, DIGIT), {"early_stopping": True}),
        "average": (SGDClassifier, (X, Y), {"average": True, "class_weight": "balanced"}),
        "SGDRegressor": (SGDRegressor, (X, Z, None, None, WEIGHT), {}),
        "auto": (SGDClassifier, (X, Y), {"learning_rate": "auto"}),
        "LogisticRegression": (LogisticRegression, (X, WORDS), {}),
        "multinomial": (LogisticRegression, (DIGITS, DIGIT), {"max_iter": 20}),
        "Ridge": (Ridge, (X, np.c_[Z, -Z]), {}),
        "RidgeClassifier": (RidgeClassifier, (X, WORDS), {}),
        "ElasticNet": (ElasticNet, (X, Z), {"alpha": 0.05}),
    }
    for name, (kind, data, settings) in cases.items():

        def make(kind=kind, settings=settings, **where):
            return kind(random_state=0, **settings, **where)

        ours, theirs = threads_and_ranks(make, *data)
        if kind in (Ridge, RidgeClassifier, ElasticNet):  # means of rows, by where these lie
            np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-9, atol=1e-12)
            continue
        assert np.array_equal(ours.coef_, theirs.coef_), name
        assert np.array_equal(ours.intercept_, theirs.intercept_), name


def check_all_rows_networks_ratings_and_topics_have_the_bits_of_threads():
    def network(**where):
        return MLPClassifier((10,), max_iter=4, random_state=0, **where)

    ours, theirs = threads_and_ranks(network, DIGITS, WORDS_OF_DIGITS, names=("loss_",))
    # to rounding: threads compute a mini-batch by units, and ranks by rows
    np.testing.assert_allclose(ours.coefs_[0], theirs.coefs_[0], atol=1e-9)
    np.testing.assert_allclose(ours.loss_curve_, theirs.loss_curve_, rtol=1e-9)

    def topics(**where):
        settings = {"learning_method": "online", "max_iter": 2, "random_state": 0}
        return LatentDirichletAllocation(3, **settings, **where)

    counts = (16 * DIGITS).astype(int)
    ours, theirs = threads_and_ranks(topics, counts, names=("components_",))
    assert np.array_equal(ours.components_, theirs.components_)

    def taste(**where):
        return MatrixFactorization(2, plane="shared", random_state=0, **where)

    ratings = [f"u{k}" for k in USERS], ITEMS, RATINGS
    ours, theirs = threads_and_ranks(taste, *ratings, names=("user_factors_",))
    assert np.array_equal(ours.user_factors_, theirs.user_factors_)
    assert list(ours.users_) == list(theirs.users_)


WORDS_OF_DIGITS = np.array(list("abcdefghij"))[DIGIT]
USERS, ITEMS = np.arange(600) * 7 % 23, np.arange(600) * 5 % 11
RATINGS = (USERS % 3 + ITEMS % 2).astype(float)


def check_all_rows_warm_starts_and_partial_fits_go_on():
    def model(**where):
        return SGDClassifier(loss="log_loss", random_state=0, **where)

    ours, theirs = model(runtime=ALL, barrier="bsp"), model(n_jobs=SIZE, barrier="bsp")
    theirs.runtime = "threads"
    for _ in range(3):
        for one in (ours, theirs):
            one.partial_fit(X, WORDS, classes=["bad", "good"])
        assert alike(ours, "coef_") and np.array_equal(ours.coef_, theirs.coef_)
    ours, theirs = (
        SGDRegressor(random_state=0, warm_start=True, barrier="bsp", **where).fit(X, Z).fit(X, Z)
        for where in ({"runtime": ALL}, {"runtime": "threads", "n_jobs": SIZE})
    )
    assert np.array_equal(ours.coef_, theirs.coef_)


def check_all_rows_what_differs_between_ranks_is_drawn_by_the_first():
    for state in (None, np.random.RandomState(RANK)):
        model = SGDClassifier(runtime=ALL, random_state=state, max_iter=5, tol=None).fit(X, Y)
        assert alike(model, "coef_") and model.score(X, Y) > 0.9
    text = refused(ValueError, lambda: SGDClassifier(runtime=ALL).fit(X + RANK, Y))
    assert "not those of rank 0" in text


def check_all_rows_without_an_order_score_alike():
    choice = {"Cs": 3, "cv": 3, "l1_ratios": (0,), "use_legacy_attributes": False}
    model = LogisticRegressionCV(runtime=ALL, scoring="accuracy", **choice).fit(X, WORDS)
    assert alike(model, "coef_", "scores_", "C_") and model.score(X, WORDS) > 0.97
    model = Lasso(0.01, runtime=ALL, tol=1e-6).fit(X, Z)
    assert alike(model, "coef_")
    whole = SkElasticNet(0.01, l1_ratio=1).fit(X, Z)
    assert model.score(X, Z) > whole.score(X, Z) - 1e-4


# -- rows of each rank's own


def check_shards_of_sgd_come_as_near_as_the_whole():
    rows, y = make_classification(8000, 20, n_informative=8, flip_y=0.1, random_state=0)
    rows, words = scale(rows), np.array(["bad", "good"])[y]
    loss = {"loss": "log_loss", "alpha": 0.01}
    settings = {"random_state": 0, "max_iter": 20, "tol": None, **loss}
    for weight in (None, np.random.default_rng(0).integers(0, 3, len(y)).astype(float)):
        problem = problems.linear(rows, words, sample_weight=weight, **loss)
        whole = SGDClassifier(**settings).fit(rows, words, sample_weight=weight)
        for kind in KINDS:
            mine = part(kind, y)
            given = None if weight is None else weight[mine]
            model = SGDClassifier(runtime=SHARDS, **settings)
            model.fit(rows[mine], words[mine], sample_weight=given)
            assert alike(model, "coef_", "t_", "classes_"), kind
            assert list(model.classes_) == ["bad", "good"] and model.t_ == 1.0 + 20 * len(y)
            ours, theirs = (problem.objective(one.coef_, one.intercept_) for one in (model, whole))
            assert ours < 1.01 * theirs, (kind, ours, theirs)


def check_shards_of_sgd_stop_by_rows_of_all():
    settings = {"random_state": 0, "early_stopping": True, "class_weight": "balanced"}
    for kind in KINDS:
        mine = part(kind)
        model = SGDClassifier(runtime=SHARDS, **settings).fit(X[mine], Y[mine])
        assert alike(model, "coef_"), kind
        assert model.n_iter_ < 1000 and model.score(X, Y) > 0.95, kind
        model = SGDRegressor(runtime=SHARDS, random_state=0, early_stopping=True)
        model.fit(X[mine], Z[mine])
        assert alike(model, "coef_", "intercept_") and model.score(X, Z) > 0.85, kind


def check_shards_of_sgd_go_on():
    mine = part("uneven")
    model = SGDClassifier(loss="log_loss", runtime=SHARDS, random_state=0)
    for k in range(3):
        model.partial_fit(X[mine], WORDS[mine], classes=["bad", "good"])
        assert model.t_ == 1.0 + (k + 1) * len(X) and alike(model, "coef_")
    assert model.score(X, WORDS) > 0.94
    model = SGDRegressor(runtime=SHARDS, random_state=0, warm_start=True)
    model.fit(X[mine], Z[mine])
    model.fit(X[mine], Z[mine])
    assert alike(model, "coef_") and model.score(X, Z) > 0.85


def check_shards_of_logistic_regression_come_to_the_optimum():
    for kind in KINDS:
        mine = part(kind)
        for weight, balance in ((None, None), (WEIGHT, "balanced")):
            settings = {"class_weight": balance, "max_iter": 500}
            model = LogisticRegression(runtime=SHARDS, tol=1e-7, **settings)
            given = None if weight is None else weight[mine]
            model.fit(X[mine], WORDS[mine], sample_weight=given)
            assert alike(model, "coef_", "n_iter_"), kind
            assert model.report_.converged, model.report_.stop_reason
            whole = SkLogistic(tol=1e-10, solver="newton-cholesky", **settings)
            whole.fit(X, WORDS, sample_weight=weight)
            np.testing.assert_allclose(model.coef_, whole.coef_, atol=2e-4, err_msg=kind)
    mine = part("even")
    model = LogisticRegression(runtime=SHARDS, tol=1e-6, max_iter=500, warm_start=True)
    model.fit(X[mine], WORDS[mine])
    model.fit(X[mine], WORDS[mine])
    assert alike(model, "coef_")


def check_shards_of_many_classes_come_to_the_optimum():
    rows = np.array_split(np.argsort(DIGIT, kind="stable")[:600], SIZE)[RANK]  # few of 0 to 3 each
    model = LogisticRegression(runtime=SHARDS, tol=1e-6, max_iter=500, C=0.1)
    model.fit(DIGITS[rows], WORDS_OF_DIGITS[rows])
    everyone = np.argsort(DIGIT, kind="stable")[:600]
    whole = SkLogistic(C=0.1, tol=1e-10, max_iter=1000).fit(DIGITS[everyone], DIGIT[everyone])
    assert alike(model, "coef_") and model.report_.converged
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-4)


def check_shards_of_least_squares_are_solved_exactly():
    both = np.c_[Z, 3.0 - Z]
    for kind in KINDS:
        mine = part(kind)
        for weight in (None, WEIGHT):
            given = None if weight is None else weight[mine]
            for rows in (X, sp.csr_array(X), X.astype(np.float32)):
                model = Ridge(2.0, runtime=SHARDS).fit(rows[mine], both[mine], sample_weight=given)
                assert alike(model, "coef_", "intercept_"), kind
                whole = SkRidge(2.0).fit(X, both, sample_weight=weight)
                close = {"rtol": 1e-3 if rows.dtype == np.float32 else 1e-8, "atol": 1e-6}
                np.testing.assert_allclose(model.coef_, whole.coef_, **close)
                np.testing.assert_allclose(model.intercept_, whole.intercept_, **close)
            for ratio in (0.5, 1.0):
                settings = {"alpha": 0.05, "l1_ratio": ratio, "tol": 1e-10, "max_iter": 10_000}
                model = ElasticNet(runtime=SHARDS, **settings)
                model.fit(X[mine], Z[mine], sample_weight=given)
                whole = SkElasticNet(**settings).fit(X, Z, sample_weight=weight)
                assert alike(model, "coef_", "dual_gap_"), kind
                np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-6)
        model = RidgeClassifier(runtime=SHARDS).fit(X[mine], WORDS[mine])
        assert alike(model, "coef_", "classes_")
        np.testing.assert_allclose(model.coef_, SkRidgeClassifier().fit(X, WORDS).coef_, rtol=1e-6)


def check_shards_have_the_optimum_of_one_machine():
    def fit(model, X, y, weight):
        rows = np.array_split(np.arange(len(y)), SIZE)[RANK]
        return model.set_params(runtime=SHARDS).fit(X[rows], y[rows], sample_weight=weight[rows])

    for name in optimum_cases.NAMES:
        optimum_cases.require_one_optimum(name, fit)


def check_shards_of_wide_ridge_are_solved_by_products():
    mine, wide = part("uneven"), np.random.default_rng(0).standard_normal((len(X), 2500)) / 50.0
    whole = SkRidge(2.0, solver="cholesky").fit(wide, np.c_[Z, 3.0 - Z], sample_weight=WEIGHT)
    model = Ridge(2.0, tol=1e-12, runtime=SHARDS)
    model.fit(wide[mine], np.c_[Z, 3.0 - Z][mine], sample_weight=WEIGHT[mine])
    assert alike(model, "coef_") and model.solver_ == "cg" and model.report_.converged
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-8)


def check_shards_of_what_needs_all_rows_are_brought_together():
    mine, digits = part("uneven"), np.array_split(np.arange(len(DIGITS)), SIZE)[RANK]
    choice = {"Cs": 3, "cv": 3, "l1_ratios": (0,), "use_legacy_attributes": False}
    model = LogisticRegressionCV(runtime=SHARDS, scoring="accuracy", **choice)
    model.fit(X[mine], WORDS[mine])
    assert alike(model, "coef_", "scores_") and model.score(X, WORDS) > 0.97
    network = MLPClassifier((20,), max_iter=30, tol=0.0, runtime=SHARDS, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        network.fit(DIGITS[digits], WORDS_OF_DIGITS[digits])
    assert alike(network, "loss_") and network.score(DIGITS, WORDS_OF_DIGITS) > 0.8
    rated = np.array_split(np.arange(len(USERS)), SIZE)[RANK]
    names = [f"u{k}" for k in USERS[rated]]
    taste = MatrixFactorization(2, runtime=SHARDS, random_state=0, max_iter=50)
    taste.fit(names, ITEMS[rated], RATINGS[rated])
    assert len(taste.users_) == 23 and alike(taste, "user_factors_")
    topics = LatentDirichletAllocation(
        3, learning_method="online", max_iter=2, runtime=SHARDS, random_state=0
    ).fit((16 * DIGITS[digits]).astype(int))
    assert alike(topics, "components_")


def check_shards_of_a_fit_are_printed_by_the_first_and_an_error_of_one_is_of_all():
    class Odd(SGDClassifier):
        def _draw(self, y, weight):
            if RANK == SIZE - 1:
                raise RuntimeError("odd")
            return super()._draw(y, weight)

    mine = part("uneven")
    for kind in (SGDClassifier, LogisticRegression):
        with contextlib.redirect_stdout(io.StringIO()) as printed, warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            kind(runtime=SHARDS, verbose=1, max_iter=2, tol=1e-9).fit(X[mine], Y[mine])
        assert ("Objective on the rows of rank 0" in printed.getvalue()) == (RANK == 0)
    text = refused(RuntimeError, lambda: Odd(runtime=SHARDS).fit(X[mine], Y[mine]))
    assert text == f"On rank {SIZE - 1}: odd"


def check_shards_of_frames_go_by_name():
    names = [f"c{k}" for k in range(30)]
    frame = pd.DataFrame(X, columns=names)
    mine = part("even")
    for kind, settings in ((Ridge, {}), (LogisticRegression, {}), (SGDClassifier, {})):
        rows = frame.iloc[mine]
        rows = rows[names[::-1]] if RANK == SIZE - 1 else rows
        y = Z if kind is Ridge else Y
        model = kind(runtime=SHARDS, random_state=0, **settings).fit(rows, y[mine])
        assert list(model.feature_names_in_) == names and alike(model, "coef_")
        assert model.score(frame, y) > 0.9, kind
    rows = frame.iloc[mine].rename(columns={"c3": "odd"} if RANK == SIZE - 1 else {})
    text = refused(ValueError, lambda: Ridge(runtime=SHARDS).fit(rows, Z[mine]))
    assert "'odd'" in text and f"rank {SIZE - 1}" in text


def check_shards_that_do_not_fit_are_refused_on_all_ranks():
    mine, last = part("even"), RANK == SIZE - 1
    for kind, y in ((SGDClassifier, Y), (LogisticRegression, Y), (Ridge, Z), (MLPClassifier, Y)):
        fit = kind(runtime=SHARDS).fit
        text = refused(ValueError, lambda: fit(X[mine][:, : 30 - last], y[mine]))  # noqa: B023
        assert f"rank {SIZE - 1}" in text and "29" in text, text
        text = refused(ValueError, lambda: fit(X[:0], y[:0]))  # noqa: B023
        assert "none of the ranks 0 to" in text and "has rows" in text, text
        if kind is not MLPClassifier:
            few = slice(0, min(RANK, 1))
            text = refused(ValueError, lambda: fit(X[few], y[few]))  # noqa: B023
            assert f"{SIZE - 1} rows together" in text and f"{SIZE - 1}" in text, text
        gaps = X[mine].copy()
        gaps[0, 0] = np.nan if last else 0.0
        text = refused(ValueError, lambda: fit(gaps, y[mine]))  # noqa: B023
        assert "NaN" in text and f"rank {SIZE - 1}" in text, text
        model = kind(runtime=SHARDS, C=1.0 + last) if kind is LogisticRegression else None
        if model is not None:
            text = refused(ValueError, lambda: model.fit(X[mine], y[mine]))  # noqa: B023
            assert "C is 1.0 on rank 0" in text
    model = Ridge(runtime=SHARDS).fit(X[mine], Z[mine])
    assert alike(model, "coef_")


CHECKS = {name: thing for name, thing in list(globals().items()) if name.startswith("check_")}

if __name__ == "__main__":
    report_on({name: CHECKS[name] for name in sys.argv[1:] or CHECKS}, RANK)
