"""Estimators on Dask collections: rows stay with their workers, and the model is one machine's."""

import itertools
import os
import pickle
import subprocess
import sys
import threading
import time
import warnings
from dataclasses import replace

import numpy as np
import optimum_cases
import pytest
import scipy.sparse as sp
from executors import NEEDS_DASK, cluster, fork_workers
from selection import long_but
from sklearn import linear_model
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError, UndefinedMetricWarning

from hogshare import (
    ElasticNet,
    Lasso,
    LatentDirichletAllocation,
    LogisticRegression,
    MLPClassifier,
    MLPRegressor,
    Ridge,
    SGDClassifier,
    SGDRegressor,
    problems,
)
from hogshare.barriers import BSP
from hogshare.estimators import partitioned_fits
from hogshare.estimators.partitioned_fits import fit_on_worker
from hogshare.kernels.exchange.copy_exchange import exchange_weight
from hogshare.partitioned.cluster_calls import ClusterCall
from hogshare.partitioned.descent import lanes_that_pay
from hogshare.partitioned.lane_folds import Weighing, share
from hogshare.partitioned.lane_quanta import Pull, rows_between, steps_along
from hogshare.partitioned.owners import Owners
from hogshare.partitioned.partition_blocks import Meaning, block_of
from hogshare.partitioned.partitioned_rows import PartitionedRows
from hogshare.partitioned.schedule import lanes_of, rounds_of
from hogshare.partitioned.state import (
    Average,
    Criterion,
    DescentState,
    DescentTerms,
    folded,
    weighing_of,
)
from hogshare.planes import Shared
from hogshare.problems.model import Model
from hogshare.rules.steps import StepSize
from hogshare.system import clusters

ROWS, FEATURES, PARTS = 4000, 40, 6
LIMIT = 60.0  # seconds until something that is waited for has failed


def made(n=ROWS, d=FEATURES, classes=2, seed=0, density=0.2):
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, density, "csr", random_state=seed)
    scores = X @ rng.standard_normal((d, classes)) + 0.1 * rng.standard_normal((n, classes))
    y = scores.argmax(axis=1) if classes > 1 else scores[:, 0]
    return X, y


def parted(X, parts=PARTS, load=None):
    """A Dask array of blocks that a loader gives, CSR ones as CSR."""
    import dask
    import dask.array as da

    cuts = np.linspace(0, X.shape[0], parts + 1).astype(int)
    load = load or (lambda rows: rows)
    blocks = [
        da.from_delayed(
            dask.delayed(load)(X[a:b]), shape=(b - a, *X.shape[1:]), dtype=X.dtype, meta=X[:0]
        )
        for a, b in itertools.pairwise(cuts)
    ]
    return da.concatenate(blocks)


def framed(rows, names):
    """A data frame of rows."""
    import pandas as pd

    return pd.DataFrame(rows, columns=list(names))


def sgd(**settings):
    defaults = {"loss": "log_loss", "max_iter": 6, "tol": None, "random_state": 0, "alpha": 1e-3}
    return SGDClassifier(**{**defaults, **settings})


def worse(X, y, model, other, **problem):
    """By which share of the objective one model is above another."""
    problem = problems.linear(X, y, **{"alpha": 1e-3, **problem})
    here, there = (problem.objective(one.coef_, one.intercept_) for one in (model, other))
    return here / there - 1.0


# --- pieces, without Dask ------------------------------------------------------------------------


def test_weights_are_the_kernel_s():
    z, plain = np.array([0.0, 0.3, 2.0, 1e9]), getattr(exchange_weight, "py_func", exchange_weight)
    for proposals in (1, 2, 5):
        expected = [plain(one, float(proposals)) for one in z]
        np.testing.assert_allclose(share(z, proposals), expected, rtol=1e-15)
    assert share(z, 1).tolist() == [1.0] * 4


def test_a_fold_adds_cold_changes_averages_hot_ones_and_keeps_exact_zeros():
    weighing = Weighing(np.array([0.0, 1e12, 0.0]), 0.0, l1=0.1, l2=0.0)
    base = Model(np.array([[1.0, 1.0, 0.5]]), np.zeros(1), 7.0)
    into = Model(np.array([[2.0, 2.0, 0.4]]), np.ones(1), 9.0)
    copy = Model(np.array([[1.5, 3.0, 0.0]]), np.full(1, 0.25))
    folded = weighing.fold(into, base, copy, eta=1.0, rows=10, proposals=2)
    np.testing.assert_allclose(folded.coef, [[2.5, 3.0, 0.0]])
    assert folded.intercept.tolist() == [1.25] and folded.t == 9.0
    assert into.coef.tolist() == [[2.0, 2.0, 0.4]], "a model that is on its way was written"


def test_what_the_penalty_fades_is_not_averaged_while_it_is_much():
    weighing = Weighing(np.array([1e12]), 0.0, l1=0.0, l2=0.5)
    base = Model(np.array([[8.0]]), np.zeros(1), 7.0)
    for eta, fade in ((1.0, np.exp(-5.0)), (1e-5, 1.0)):
        copy = Model(fade * base.coef, np.zeros(1))  # of which the loss has changed nothing
        folded = weighing.fold(base, base, copy, eta=eta, rows=10, proposals=2)
        assert folded.coef[0, 0] == pytest.approx(8.0 * fade, rel=1e-3)
        alone = weighing.fold(base, base, copy, eta=eta, rows=10, proposals=1)
        np.testing.assert_allclose(alone.coef, copy.coef, rtol=1e-10)


@pytest.mark.parametrize("dense", [False, True])
def test_quanta_one_after_the_other_are_an_epoch(dense):
    """In order, and alone: then nothing but the cuts is different."""
    X, y = made(600)
    problem = problems.linear(X.toarray() if dense else X, y)
    model = Model(np.zeros((1, FEATURES)), np.zeros(1), 1.0)
    averages = []
    for first, last in ((0, 250), (250, 600)):
        middle = first + 50  # as if they were two partitions
        spans = (first, middle), (middle, last)
        pull = Pull(model, spans, StepSize("optimal"), False, True, first == 0, 0)
        push = steps_along(pull, problem, problem)
        model = Model(push.model.coef, push.model.intercept, push.model.t)
        assert model.t == 1.0 + last and (push.curvature is None) == (first > 0)
        averages.append((last - first) * push.model.average_coef)
    expected = linear_model.SGDClassifier(loss="log_loss", max_iter=1, tol=None, shuffle=False)
    X = X.toarray() if dense else X
    expected.fit(X, y)
    np.testing.assert_allclose(model.coef, expected.coef_, rtol=1e-10)
    expected.set_params(average=True).fit(X, y)
    np.testing.assert_allclose(sum(averages) / 600, expected.coef_, rtol=1e-10)


def test_rows_between_are_those_rows():
    X, y = made(50)
    whole = problems.linear(X, y, sample_weight=np.arange(50.0))
    part = rows_between(whole, 10, 30)
    alone = problems.linear(X[10:30], y[10:30], sample_weight=np.arange(10.0, 30.0))
    w = np.linspace(-1, 1, FEATURES)[None]
    assert part.n_rows == 20
    assert part.objective(w, [0.5]) == alone.objective(w, [0.5])


def test_owners_keep_what_they_have_and_are_even():
    owners = Owners(["a"] * 5 + ["b"])
    assert owners.settle({"a", "b"}) == 2 and sorted(owners.of) == ["a"] * 3 + ["b"] * 3
    before = list(owners.of)
    assert owners.settle({"a", "b"}) == 0 and owners.of == before
    assert owners.settle({"b", "c"}) == 3 and sorted(owners.of) == ["b"] * 3 + ["c"] * 3
    assert all(now == "b" for now, then in zip(owners.of, before, strict=True) if then == "b")


class Submissions:
    """A stand-in for a client, which records the arguments of all calls."""

    def __init__(self):
        self.args = []

    def submit(self, function, *args, **settings):
        self.args.append(args)
        return self

    def release(self):
        pass


@NEEDS_DASK
def test_a_released_call_is_not_made_again():
    client = Submissions()
    given = ClusterCall(client, abs, (1.0,), "lost")
    call = ClusterCall(client, max, (given, 2.0), "lost")
    given.release()
    call.settle(["present"])
    assert client.args == [(1.0,), (client, 2.0), (client, 2.0)]
    call.release()
    call.address = "lost"
    call.settle(["present"])
    assert len(client.args) == 3


def test_a_fit_on_a_worker_leaves_the_caller_s_estimator_as_it_is():
    """Workers may be threads of the caller's process."""
    X, y = made(100)
    seeds = np.random.RandomState(0)
    model = sgd(random_state=seeds).partial_fit(X, y, classes=[0, 1])
    coef, state = model.coef_.copy(), seeds.get_state()
    attributes, _ = fit_on_worker(model, "partial_fit", {}, block_of(X, y))
    np.testing.assert_array_equal(model.coef_, coef)
    np.testing.assert_equal(seeds.get_state(), state)
    assert (attributes["coef_"] != coef).any() and attributes["random_state"] is not seeds


def test_a_mean_begins_within_a_quantum():
    X, y = made(600)
    for begins, count in ((10, 591), (600, 1), (601, 0)):
        start = Model(np.zeros((1, FEATURES)), np.zeros(1), 1.0)
        pull = Pull(start, ((0, 250), (250, 600)), StepSize("optimal"), False, begins, False, 0)
        push = steps_along(pull, *[problems.linear(X, y)] * 2)
        assert push.averaged == count and (push.model.average_coef is None) == (count == 0)
        if count:
            expected = linear_model.SGDClassifier(
                loss="log_loss", max_iter=1, tol=None, shuffle=False, average=begins
            )
            found = push.model.average_coef
            np.testing.assert_allclose(found, expected.fit(X, y)._average_coef[None], rtol=1e-10)


@pytest.mark.parametrize("most", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("is_mixed", [False, True])
def test_all_rows_are_in_one_quantum_of_their_worker(most, is_mixed):
    owners, sizes = list("abcabcabb"), np.array([7, 1, 90, 3, 41, 5, 1, 60, 2])
    order = np.random.default_rng(0).permutation(len(sizes))
    lanes = lanes_of(Owners(owners).partitions(order), {"a": 2, "b": 1, "c": 2}, most)
    assert len(lanes) == min(most, 5)
    for per_worker in (1, 4, 16):
        rounds = rounds_of(lanes, sizes, per_worker, is_mixed)
        done = [np.zeros(size, int) for size in sizes]
        for quanta in rounds:
            assert len({quantum.lane for quantum in quanta}) == len(quanta)
            for quantum in quanta:
                for p, first, last in quantum.spans:
                    assert owners[p] == quantum.address and first < last
                    done[p][first:last] += 1
        assert all((rows == 1).all() for rows in done)
        assert len(rounds) <= per_worker * max(map(len, lanes))


def test_more_lanes_start_where_they_pay():
    assert lanes_that_pay(0.01, 16, 2) == 1
    assert lanes_that_pay(10.0, 2, 2) == 2
    counts = [lanes_that_pay(seconds, 16, 16) for seconds in (0.01, 1.0, 10.0, 1000.0)]
    assert counts == sorted(counts) and counts[-1] == 16


@pytest.mark.parametrize("classes", [2, 3])
def test_a_lane_that_is_alone_is_the_sequential_algorithm(classes):
    """To the bit, whatever its quanta, and for each class by itself once one has ended."""
    X, y = made(400, classes=classes)
    problem = problems.linear(X, y)
    meaning = Meaning("log_loss", "l2", 1e-4, classes=np.arange(classes))
    terms = DescentTerms(meaning, 800, weighing_of(meaning, True), None)
    columns = 1 if classes == 2 else classes
    start = Model(np.zeros((columns, FEATURES)), np.zeros(columns), 1.0)
    criterion = Criterion.of(StepSize("optimal"), 1e-3, 5, columns)
    state = DescentState(start, criterion, Average(0))
    for first, last in ((0, 150), (150, 400), (0, 400)):
        pull = Pull(state.model, ((first, last),), StepSize("optimal"), False, False, False, 0)
        state = folded(state, terms, [steps_along(pull, problem)])
    expected = linear_model.SGDClassifier(loss="log_loss", max_iter=2, tol=None, shuffle=False)
    np.testing.assert_allclose(state.model.coef, expected.fit(X, y).coef_, rtol=1e-10)
    assert state.n_epochs == 1 and state.rows == 0 and state.model.t == 801.0
    one = Pull(start, ((0, 400),), StepSize("optimal"), False, False, False, 0)
    alone = folded(DescentState(start, criterion, Average(0)), terms, [steps_along(one, problem)])
    np.testing.assert_array_equal(alone.model.coef, steps_along(one, problem).model.coef)
    if classes == 3:
        over = replace(criterion, active=np.array([True, False, True]))
        some = folded(DescentState(start, over, Average(0)), terms, [steps_along(one, problem)])
        assert not some.model.coef[1].any() and some.model.coef[0].any()


def test_a_round_of_many_lanes_neither_overshoots_nor_stands_still():
    X, y = made(4000)
    parts = [problems.linear(X[k::8], y[k::8]) for k in range(8)]
    meaning = Meaning("log_loss", "l2", 1e-4, classes=np.arange(2))
    terms = DescentTerms(meaning, 4000, weighing_of(meaning, True), None)
    criterion = Criterion.of(StepSize("optimal"), None, 5, 1)
    state = DescentState(Model(np.zeros((1, FEATURES)), np.zeros(1), 1.0), criterion, Average(0))
    for epoch in range(5):
        for k in range(8):
            pulls = [
                Pull(state.model, ((500 * k // 8, 500 * (k + 1) // 8),), StepSize("optimal"), True,
                     False, state.curvatures < 8, 8 * epoch + p, (p,), None, str(p))
                for p in range(8)
            ]  # fmt: skip
            pushes = [steps_along(pull, part) for pull, part in zip(pulls, parts, strict=True)]
            state = folded(state, terms, pushes)
    whole = problems.linear(X, y)
    alone = linear_model.SGDClassifier(loss="log_loss", max_iter=5, tol=None, random_state=0)
    alone.fit(X, y)
    here = whole.objective(state.model.coef, state.model.intercept)
    assert here < 1.02 * whole.objective(alone.coef_, alone.intercept_)
    assert state.n_epochs == 5 and state.staleness == (40,) * 8
    assert sum(tally.rows for tally in state.tallies.values()) == 5 * 4000


def test_the_criterion_is_scikit_learn_s():
    criterion = Criterion.of(StepSize("adaptive", eta0=1.0), 0.1, 2, 1)
    for value in (3.0, 2.0, 1.95, 1.0, 0.95):
        criterion = criterion.after(np.array([value]))
        assert not criterion.is_met and criterion.step.eta0 == 1.0
    criterion = criterion.after(np.array([0.94]))
    assert not criterion.is_met and criterion.step.eta0 == 0.2
    fixed, ends = Criterion.of(StepSize("optimal"), 0.1, 2, 1), []
    for value in (3.0, 2.95, 2.94):
        fixed = fixed.after(np.array([value]))
        ends.append(fixed.is_met)
    assert ends == [False, False, True]
    assert not Criterion.of(StepSize("optimal"), None, 2, 1).after(np.array([np.inf])).is_met


def test_the_criterion_is_of_each_class():
    criterion = Criterion.of(StepSize("optimal"), 0.1, 2, 2)
    for values in ([3, 3], [2.95, 2], [2.94, 1]):
        criterion = criterion.after(np.array(values))
        assert not criterion.is_met
    assert criterion.active.tolist() == [False, True]
    criterion = criterion.after(np.array([0.0, 0.95]))
    assert not criterion.is_met, "who has ended does not learn again"
    assert criterion.after(np.array([0.0, 0.94])).is_met


@pytest.fixture(scope="module")
def client():
    with cluster() as client:
        yield client


# --- on a cluster --------------------------------------------------------------------------------


@pytest.fixture
def placed(monkeypatch):
    """Every other partition is the second worker's, wherever Dask has computed it."""

    def owners(has):
        there = sorted(clusters.threads_of(clusters.local_client()))
        return Owners([there[p % len(there)] for p in range(len(has))])

    monkeypatch.setattr("hogshare.partitioned.partitioned_rows.Owners", owners)


@pytest.fixture
def together(monkeypatch):
    """All partitions are one worker's, which visits them in their order with ``shuffle=False``."""

    def owners(has):
        return Owners([min(clusters.threads_of(clusters.local_client()))] * len(has))

    monkeypatch.setattr("hogshare.partitioned.partitioned_rows.Owners", owners)


def same(model, other):
    """That two estimators have the same numbers."""
    for name in ("coef_", "intercept_", "components_", "n_iter_", "t_"):
        if hasattr(other, name):
            np.testing.assert_array_equal(getattr(model, name), getattr(other, name), name)


@NEEDS_DASK
@pytest.mark.usefixtures("client")
class TestOnOneWorker:
    """What a worker fits that has all rows, or to which all come."""

    @pytest.mark.parametrize(
        "make",
        [
            sgd,
            lambda: sgd(early_stopping=True, tol=1e-3, max_iter=50),
            lambda: sgd(learning_rate="auto", max_iter=50),
            lambda: sgd(average=True, class_weight="balanced"),
            LogisticRegression,
            lambda: LogisticRegression(l1_ratio=1.0, solver="saga", max_iter=500, random_state=0),
            lambda: Ridge(alpha=0.5),
            lambda: Lasso(alpha=0.01),
        ],
    )
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.usefixtures("few_rows_are_left")  # as in the cluster's processes
    def test_one_partition_is_one_machine_to_the_bit(self, make):
        X, y = made(600, classes=3)
        weight = np.random.default_rng(0).random(600)
        model = make().fit(parted(X, 1), parted(y, 1), sample_weight=parted(weight, 1))
        same(model, make().fit(X, y, sample_weight=weight))
        assert "1 partition, fitted by the worker that has it" in model.report_.notes
        assert model.get_params() == make().get_params()
        assert model.n_features_in_ == FEATURES

    def test_partial_fit_of_one_partition_goes_on_to_the_bit(self):
        X, y = made(600, classes=3)
        model, other = sgd(), sgd()
        for k in range(0, 600, 200):
            rows = X[k : k + 200], y[k : k + 200]
            model.partial_fit(*(parted(one, 1) for one in rows), classes=[0, 1, 2])
            other.partial_fit(*rows, classes=[0, 1, 2])
        same(model, other)

    def test_a_generator_goes_on_as_in_memory(self):
        X, y = made(200)
        model, other = (sgd(random_state=np.random.RandomState(0)) for _ in range(2))
        for _ in range(3):
            model.partial_fit(parted(X, 1), parted(y, 1), classes=[0, 1])
            other.partial_fit(X, y, classes=[0, 1])
        same(model, other)
        np.testing.assert_equal(model.random_state.get_state(), other.random_state.get_state())

    def test_networks_topics_and_others_come_together_on_one(self):
        X, y = made(400)
        X = X.toarray()
        rows = parted(X, 3), parted(y, 3)
        for make in (
            lambda: MLPClassifier((4,), max_iter=3, random_state=0),
            lambda: MLPRegressor(hidden_layer_sizes=(4,), max_iter=3, random_state=0),
        ):
            with pytest.warns(ConvergenceWarning, match="Maximum iterations"):
                model = make().fit(*rows)
            with pytest.warns(ConvergenceWarning):
                other = make().fit(X, y)
            for one, two in zip(model.coefs_, other.coefs_, strict=True):
                np.testing.assert_array_equal(one, two)
            assert "3 partitions, fitted by one worker, which collected them" in model.report_.notes
        counts = np.random.default_rng(0).poisson(1.0, (200, 12))
        topics = LatentDirichletAllocation(3, random_state=0, max_iter=2)
        same(topics.fit(parted(counts, 3)), clone(topics).fit(counts))
        same(
            LogisticRegression(solver="liblinear", random_state=0).fit(*rows),
            LogisticRegression(solver="liblinear", random_state=0).fit(X, y),
        )

    def test_rows_that_no_worker_has_room_for_are_refused(self, monkeypatch):
        X, y = made(400)
        few = dict.fromkeys(clusters.threads_of(clusters.local_client()), 50_000)
        monkeypatch.setattr("hogshare.partitioned.partitioned_rows.memory_of", lambda client: few)
        with pytest.raises(ValueError, match=r"take 3.84e-05 GB\. .* worker, which has 5e-05 GB"):
            MLPClassifier((4,)).fit(parted(X, 3), parted(y, 3))


@NEEDS_DASK
@pytest.mark.usefixtures("client")
class TestLeastSquares:
    def test_few_rows_that_stand_for_all_give_scikit_learn_s_model(self):
        X, _ = made(900)
        rng = np.random.default_rng(0)
        y, weight = rng.standard_normal((900, 2)) + 3.0, rng.random(900)
        y[:, 0] += X @ rng.standard_normal(FEATURES)
        for ours, theirs in (
            (Lasso(alpha=0.01, tol=1e-10), linear_model.Lasso(alpha=0.01, tol=1e-10)),
            (ElasticNet(alpha=0.01, tol=1e-10), linear_model.ElasticNet(alpha=0.01, tol=1e-10)),
            (Ridge(positive=True, tol=1e-10), linear_model.Ridge(positive=True, tol=1e-10)),
        ):
            for rows in (X, X.toarray()):
                model = ours.fit(parted(rows), parted(y[:, 0]), parted(weight))
                theirs.fit(X.toarray(), y[:, 0], weight)
                np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=1e-6, atol=1e-8)
                np.testing.assert_allclose(model.intercept_, theirs.intercept_, rtol=1e-6)
            assert "rows represent those of 6 partitions" in str(model.report_)
        model = Ridge(alpha=0.5).fit(parted(X), parted(y))
        theirs = linear_model.Ridge(alpha=0.5, solver="cholesky").fit(X.toarray(), y)
        np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=1e-8, atol=1e-10)
        model = Lasso(alpha=0.01).fit(parted(X), parted(y))
        assert model.coef_.shape == (2, FEATURES) and np.shape(model.dual_gap_) == (2,)


@NEEDS_DASK
class TestPredictions:
    """Lazy, and by whatever scheduler; a cluster is not needed."""

    @pytest.mark.parametrize("kind", ["csr", "dense"])
    def test_classifiers_say_of_collections_what_they_say_of_rows(self, kind):
        X, y = made(300, classes=3)
        rows = X if kind == "csr" else X.toarray()
        weight = np.random.default_rng(0).random(300)
        for model in (sgd().fit(X, y), LogisticRegression().fit(X, y)):
            for name in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
                method = getattr(model, name)
                lazy, expected = method(parted(rows, 4)), method(rows)
                assert lazy.shape == expected.shape and lazy.dtype == expected.dtype
                # BLAS rounds by the number of rows
                np.testing.assert_allclose(lazy.compute(scheduler="sync"), expected, rtol=1e-10)
            found = model.score(parted(rows, 4), parted(y, 4), parted(weight, 4))
            assert found == pytest.approx(model.score(X, y, weight))
        assert not hasattr(SGDClassifier().fit(X, y), "predict_proba")
        pickle.loads(pickle.dumps(model.predict))

    def test_regressors_and_topics(self):
        X, y = made(300, classes=1)
        model = Ridge().fit(X, np.column_stack([y, -2.0 * y + 1.0]))
        lazy = model.predict(parted(X, 4))
        np.testing.assert_allclose(lazy.compute(scheduler="sync"), model.predict(X), rtol=1e-10)
        targets = np.column_stack([y, y])
        assert model.score(parted(X, 4), parted(targets, 4)) == pytest.approx(
            model.score(X, targets)
        )
        far = np.column_stack([y + 1e8, np.full(300, 2.0)])  # and one that is constant
        model.fit(X, far)
        assert model.score(parted(X, 4), parted(far, 4)) == pytest.approx(model.score(X, far))
        counts = np.random.default_rng(0).poisson(1.0, (200, 12))
        topics = LatentDirichletAllocation(3, random_state=0, max_iter=2).fit(counts)
        shares = topics.transform(parted(counts, 3)).compute(scheduler="sync")
        np.testing.assert_allclose(shares, topics.transform(counts), rtol=1e-12)
        with pytest.raises(TypeError, match="score of LatentDirichletAllocation takes no Dask"):
            topics.score(parted(counts, 3))
        with pytest.raises(NotFittedError):
            Ridge().predict(parted(X, 4))
        with pytest.raises(ValueError, match="X has 39 features"):
            model.predict(parted(X[:, 1:], 4))

    def test_scores_of_targets_in_a_column(self):
        X, y = made(60, classes=3)
        model = sgd().fit(X, y)
        found = model.score(parted(X, 3), parted(y[:, np.newaxis], 3))
        assert found == pytest.approx(model.score(X, y))
        with pytest.raises(ValueError, match="y has 2 columns, and SGDClassifier predicts 1"):
            model.score(parted(X, 3), parted(np.column_stack([y, y]), 3))

    @pytest.mark.parametrize("kind", [SGDClassifier, SGDRegressor])
    def test_scores_that_do_not_exist(self, kind):
        X, y = made(60)
        rows, model = parted(X.toarray(), 3), kind().fit(X, y)
        missing, none = np.where(np.arange(60) == 50, np.nan, y), np.array([*y[:59], None], object)
        for bad in (missing, none):
            with pytest.raises(ValueError, match="Input y contains NaN"):
                model.score(rows, parted(bad, 3))
        few = rows[:, 0] > 10.0
        with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
            model.score(rows[few], parted(y, 3)[few])
        with pytest.raises(ValueError, match="at least one non-zero number"):
            model.score(rows, parted(y, 3), parted(np.zeros(60), 3))
        some = rows[:, 0] > -10.0  # all, but Dask does not know it
        with pytest.raises(ValueError, match=r"20 rows and 1 targets|20 rows and 0 targets"):
            model.score(rows[some], parted(y, 3)[rows[:, 0] > 1.0])
        with pytest.raises(ValueError, match=r"sample_weight.* for each of 20 rows"):
            model.score(rows[some], parted(y, 3)[some], parted(np.ones(60), 3)[rows[:, 0] > 1.0])

    @pytest.mark.parametrize("classes", [1, 2])
    def test_scores_of_partitions_without_rows(self, classes):
        X, y = made(60, classes=classes)
        model = Ridge() if classes == 1 else LogisticRegression()
        y = np.column_stack([y, -y]) if classes == 1 else y
        held = np.arange(60) >= 20  # none of the first partition
        which, weight = parted(held, 3), np.linspace(0.0, 1.0, 60)
        model.fit(X.toarray(), y)
        rows = (parted(one, 3)[which] for one in (X.toarray(), y, weight))
        expected = model.score(X[held], y[held], weight[held])
        assert model.score(*rows) == pytest.approx(expected)

    def test_r2_of_one_row_is_not_a_number(self):
        X, y = made(60, classes=1)
        model = Ridge().fit(X, y)
        with pytest.warns(UndefinedMetricWarning, match="less than two samples"):
            assert np.isnan(model.score(parted(X[:1], 1), parted(y[:1], 1)))

    def test_further_arguments_are_passed_on(self):
        counts = np.random.default_rng(0).poisson(1.0, (60, 12))
        topics = LatentDirichletAllocation(3, random_state=0, max_iter=2).fit(counts)
        found = topics.transform(parted(counts, 3), normalize=False).compute(scheduler="sync")
        np.testing.assert_allclose(found, topics.transform(counts, normalize=False), rtol=1e-12)
        with pytest.raises(TypeError, match="normalise"):
            topics.transform(parted(counts, 3), normalise=False)
        with pytest.raises(TypeError, match="positional argument"):
            topics.transform(parted(counts, 3), False)

    def test_partitions_without_rows_and_of_unknown_length(self):
        X, y = made(60)
        rows, model = parted(X.toarray(), 3), sgd().fit(X, y)
        few = rows[rows[:, 0] > 10.0]  # none
        assert model.predict(few).compute(scheduler="sync").shape == (0,)
        some = rows[rows[:, 0] > 0.0]
        expected = model.predict(X[X[:, 0].toarray().ravel() > 0.0])
        np.testing.assert_array_equal(model.predict(some).compute(scheduler="sync"), expected)


@NEEDS_DASK
@pytest.mark.usefixtures("client")
class TestFits:
    def test_columns_in_another_order_are_taken_by_name(self):
        X, y = np.random.default_rng(0).standard_normal((60, 3)), np.arange(60) % 2

        def load(rows):
            return framed(rows, "abc") if rows[0, 0] == X[0, 0] else framed(rows, "abc")[[*"cba"]]

        for model in (Ridge(), LogisticRegression()):
            found = model.fit(parted(X, 3, load), parted(y, 3)).coef_
            expected = clone(model).fit(framed(X, "abc"), y).coef_
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
            assert model.feature_names_in_.tolist() == [*"abc"]

    def test_partial_fit_is_a_pass_over_all_partitions(self):
        X, y = made()
        model = sgd()
        for k in range(1, 7):
            model.partial_fit(parted(X), parted(y), classes=[0, 1])
            assert model.t_ == 1.0 + k * ROWS and model.n_iter_ == 1
        assert worse(X, y, model, sgd().fit(X, y)) < 0.05

    @pytest.mark.parametrize("parts", [1, 2])
    def test_fits_that_go_on_compare_names_of_columns(self, parts):
        X, y = made(200, 2)

        def rows(names):
            return parted(X.toarray(), parts, lambda rows: framed(rows, names)), parted(y, parts)

        classifier = sgd().partial_fit(*rows("ab"), classes=[0, 1])
        regressor = SGDRegressor(warm_start=True).fit(*rows("ab"))
        for model, fit in ((classifier, classifier.partial_fit), (regressor, regressor.fit)):
            before = model.coef_.copy()
            for names in ("ba", "az"):
                with pytest.raises(ValueError, match="feature names should match those"):
                    fit(*rows(names))
            np.testing.assert_array_equal(model.coef_, before)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                fit(*rows("ab"))
            with pytest.warns(UserWarning, match="X does not have valid feature names"):
                fit(parted(X.toarray(), parts), parted(y, parts))
            assert model.feature_names_in_.tolist() == ["a", "b"] and model.n_features_in_ == 2
            told = "X has 1 features, but SGD.* is expecting 2"
            with pytest.warns(UserWarning, match="names"), pytest.raises(ValueError, match=told):
                fit(parted(X[:, 1:], parts), parted(y, parts))

    def test_a_network_that_goes_on_compares_names_of_columns(self):
        X, y = made(200, 2)
        model = MLPRegressor(hidden_layer_sizes=(2,), warm_start=True, max_iter=1, random_state=0)

        def fit(names):
            rows = parted(X.toarray(), 2, lambda rows: framed(rows, names))
            with pytest.warns(ConvergenceWarning):
                model.fit(rows, parted(y, 2))

        fit("ab")
        fit("ab")
        with pytest.raises(ValueError, match="feature names should match those"):
            model.fit(parted(X.toarray(), 2, lambda rows: framed(rows, "ba")), parted(y, 2))

    @pytest.mark.usefixtures("together")
    def test_balanced_weights_are_those_of_a_call_s_rows(self):
        X, y = made(400)
        y = 10 * y + 5 * (np.arange(400) % 3 == 0)  # labels that are no counts
        settings = {"class_weight": "balanced", "n_jobs": 1, "shuffle": False, "max_iter": 1}
        model, other = sgd(**settings), sgd(**settings)
        for one, kind in ((model, parted), (other, lambda rows, parts: rows)):
            one.fit(kind(X, 2), kind(y, 2)).partial_fit(kind(X[:100], 2), kind(y[:100], 2))
        np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-10)
        few = y != 5
        with pytest.raises(ValueError, match="classes should have valid labels that are in y"):
            model.partial_fit(parted(X[few], 2), parted(y[few], 2))

    @pytest.mark.usefixtures("together")
    @pytest.mark.parametrize("average", [10, 10**6])
    @pytest.mark.parametrize("kind", [sgd, SGDRegressor])
    def test_averages_begin_after_some_rows_or_never(self, kind, average):
        X, y = made(400)
        settings = {"average": average, "max_iter": 1, "tol": None, "n_jobs": 1, "shuffle": False}
        model = kind(**settings).fit(parted(X, 2), parted(y, 2))
        other = kind(**settings).fit(X, y)
        np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-10)
        np.testing.assert_allclose(model.intercept_, other.intercept_, rtol=1e-10)

    @pytest.mark.parametrize("classes", [1, 2, 3])
    def test_early_stopping_goes_by_rows_that_nobody_trains_on(self, classes):
        X, y = made(2000, classes=classes)
        settings = {"early_stopping": True, "tol": 1e-3, "max_iter": 60, "random_state": 0}
        kind = SGDRegressor if classes == 1 else SGDClassifier
        weight = np.random.default_rng(0).random(2000) + 0.5
        rows = parted(X), parted(y)
        model = kind(**settings).fit(*rows, sample_weight=parted(weight))
        other = kind(**settings).fit(X, y, sample_weight=weight)
        assert 5 < model.n_iter_ < 60 and model.report_.converged
        assert model.t_ == 1.0 + model.n_iter_ * 2000
        assert model.score(X, y) > other.score(X, y) - 0.05
        with pytest.raises(ValueError, match="led to an empty set"):
            kind(**settings | {"validation_fraction": 1e-12}).fit(*rows)

    def test_classes_end_each_by_itself(self):
        X, y = made(2000, classes=5)
        settings = {"tol": 1e-3, "max_iter": 300, "n_iter_no_change": 3}
        model, other = sgd(**settings).fit(parted(X), parted(y)), sgd(**settings).fit(X, y)
        assert model.n_iter_ < 2 * other.n_iter_
        assert model.score(X, y) > other.score(X, y) - 0.03

    @pytest.mark.parametrize("kind", ["csr", "dense", "float32"])
    def test_the_model_is_as_good_as_one_machine_s(self, kind):
        X, y = made()
        rows = {"csr": X, "dense": X.toarray(), "float32": X.astype(np.float32)}[kind]
        model, other = sgd().fit(parted(rows), parted(y)), sgd().fit(rows, y)
        assert worse(X, y, model, other) < 0.05  # 1 % by bench/dask_estimators.py, on larger sets
        # runs differ: of a hundred the accuracy was 0.023 below at most, the objective 0.9 % above
        assert abs(model.score(rows, y) - other.score(rows, y)) < 0.05
        assert model.coef_.dtype == rows.dtype and model.coef_.shape == other.coef_.shape
        assert model.classes_.tolist() == [0, 1] and model.t_ == other.t_
        assert model.n_iter_ == 6 and model.n_features_in_ == FEATURES
        report = model.report_
        assert report.runtime == "dask" and report.n_workers == 2 and report.n_epochs == 6
        assert sum(worker["rows"] for worker in report.workers) >= 6 * ROWS
        assert "dask" in str(report) and report.to_json()

    @pytest.mark.usefixtures("placed")
    def test_two_fits_to_rows_that_lie_there_are_the_same(self):
        """Who does what does not depend on who is quick."""
        X, y = made()
        kept = parted(X), parted(y)
        for settings in ({}, {"plane": Shared(exchange=100), "average": True}):
            one, other = (sgd(**settings).fit(*kept) for _ in range(2))
            np.testing.assert_array_equal(one.coef_, other.coef_)
            assert one.report_.epoch_losses.tolist() == other.report_.epoch_losses.tolist()

    @pytest.mark.usefixtures("placed")
    @pytest.mark.parametrize(
        "settings",
        [
            {},
            {"tol": 1e-3, "max_iter": 200},
            {"tol": 1e-3, "max_iter": 200, "learning_rate": "adaptive", "eta0": 0.5},
            {"early_stopping": True, "tol": 1e-3, "max_iter": 200},
            {"average": True, "plane": Shared(exchange=300)},
            {"n_jobs": 1},
        ],
        ids=str,
    )
    def test_chains_and_large_models_change_no_bit(self, settings, monkeypatch):
        """A model that comes to the client seldom, and chains of one epoch or of all."""
        X, y = made(classes=3)
        kept = parted(X), parted(y)
        expected = sgd(**settings).fit(*kept)
        for seconds in (0.0, 1e9):
            monkeypatch.setattr("hogshare.partitioned.descent.WHOLE_BYTES", 0)
            monkeypatch.setattr("hogshare.partitioned.descent.CHAIN_SECONDS", seconds)
            same(sgd(**settings).fit(*kept), expected)

    def test_graphs_one_after_the_other_do_not_meet(self, caplog):
        """Dask gives up a graph that finds tasks of another one, which are being released."""
        import dask
        import dask.array as da

        def load(k):
            return np.random.default_rng(k).standard_normal((50, 6))

        files = [da.from_delayed(dask.delayed(load)(k), (50, 6), float) for k in range(8)]
        table = da.concatenate(files)
        X, y = table[:, :5], (table[:, 0] + table[:, 5] > 0).astype(int)
        for k in range(10):  # the second has tasks on their way when it ends
            models = LogisticRegression(), sgd(tol=1e-3, max_iter=1000)
            model = models[k % 2].fit(X, y)
            assert len(model.predict(X)[:5].compute()) == 5
            assert model.score(X, y) > 0.6
        assert not [one for one in caplog.records if "Detected different" in one.message]

    def test_labels_that_a_partition_lacks_and_weights_of_classes(self):
        """Sorted by label: no partition has all of them."""
        X, y = made(classes=3)
        order = np.argsort(y, kind="stable")
        names = np.array(["blue", "green", "red"])[y[order]]
        settings = {"class_weight": "balanced", "max_iter": 10}
        model = sgd(**settings).fit(parted(X[order]), parted(names))
        assert model.classes_.tolist() == ["blue", "green", "red"]
        assert model.coef_.shape == (3, FEATURES)
        assert model.score(X[order], names) > sgd(**settings).fit(X, y).score(X, y) - 0.1

    @pytest.mark.parametrize("seed", [1, 2])
    def test_rows_sorted_by_class_end_where_shuffled_ones_do(self, seed):
        """At `tol`: their losses before the steps fall at once, at any model."""
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((40_000, 20))
        noise = 1.5 * rng.standard_normal(len(X))
        y = (X @ rng.standard_normal(20) + noise > 0).astype(int)
        order = np.argsort(y, kind="stable")
        settings = {"tol": 1e-3, "max_iter": 200, "alpha": 1e-4}
        shuffled = sgd(**settings).fit(parted(X, 8), parted(y, 8))
        model = sgd(**settings).fit(parted(X[order], 8), parted(y[order], 8))
        assert worse(X, y, model, shuffled, alpha=1e-4) < 0.02
        assert model.n_iter_ < 200
        # what it says of an epoch is the loss at the epoch's end
        of_model = worse(X, y, model, shuffled, alpha=0.0)
        of_shuffled = problems.linear(X, y, alpha=0.0).objective(
            shuffled.coef_, shuffled.intercept_
        )
        last = model.report_.epoch_losses[-1]
        assert last == pytest.approx(of_shuffled * (1.0 + of_model), rel=1e-6)

    def test_l1_gives_exact_zeros_and_averages_are_kept(self):
        X, y = made()
        model = sgd(penalty="l1", alpha=2e-2, average=True).fit(parted(X), parted(y))
        assert 0 < np.count_nonzero(model._standard_coef) < FEATURES
        assert model.coef_.shape == (1, FEATURES) and (model.coef_[0] != model._standard_coef).any()

    def test_a_regression(self):
        X, y = made(classes=1)
        settings = {"max_iter": 8, "tol": None, "random_state": 0}
        model = SGDRegressor(**settings).fit(parted(X), parted(y))
        other = SGDRegressor(**settings).fit(X, y)
        assert model.coef_.shape == (FEATURES,)
        assert abs(model.score(X, y) - other.score(X, y)) < 0.02

    def test_the_criterion_ends_a_fit(self):
        X, y = made()
        report = sgd(max_iter=100, tol=1e-2, n_iter_no_change=2).fit(parted(X), parted(y)).report_
        assert report.converged and report.n_epochs < 100
        assert len(report.epoch_losses) == report.n_epochs

    def test_a_warm_start_goes_on(self):
        X, y = made()
        model = sgd(warm_start=True, learning_rate="constant", eta0=1e-9, max_iter=2)
        model.coef_, model.intercept_ = np.full((1, FEATURES), 0.5), np.array([0.25])
        model.classes_ = np.array([0, 1])
        model.fit(parted(X), parted(y))
        np.testing.assert_allclose(model.coef_, 0.5, atol=1e-3)

    @pytest.mark.parametrize("classes", [2, 3])
    def test_logistic_regression_is_scikit_learn_s(self, classes):
        X, y = made(classes=classes)
        weight = np.linspace(0.5, 2.0, ROWS)
        settings = {"tol": 1e-8, "max_iter": 500, "class_weight": "balanced"}
        model = LogisticRegression(**settings).fit(parted(X), parted(y), parted(weight))
        other = linear_model.LogisticRegression(**settings).fit(X, y, weight)
        np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-4)
        np.testing.assert_allclose(model.intercept_, other.intercept_, atol=1e-4)
        assert model.report_.converged and "the objective is" in model.report_.notes[0]
        assert model.n_iter_.shape == (1,) and model.solver_ == "newton-cholesky"

    @pytest.mark.parametrize(
        ("settings", "method"),
        [
            ({"C": 0.5}, "newton-cholesky"),
            ({"C": 0.5, "solver": "newton-cg"}, "newton-cg"),
            ({"C": 0.5, "fit_intercept": False, "class_weight": {0: 2.0}}, "lbfgs"),
            ({"C": 0.1, "l1_ratio": 1.0, "solver": "saga"}, "newton-cholesky"),
            ({"C": 0.1, "l1_ratio": 0.5, "solver": "saga"}, "newton-cholesky"),
            ({"C": 100.0}, "newton-cholesky"),
        ],
    )
    @pytest.mark.parametrize("classes", [2, 3])
    def test_logistic_regression_is_one_machine_s(self, classes, settings, method, monkeypatch):
        """By every method, with every penalty; the units of features and their origins differ."""
        if method == "lbfgs":
            monkeypatch.setitem(partitioned_fits.AFAR, "few", 0)
        X, y = made(1500, classes=classes)
        X = X.toarray() * np.logspace(-1, 1, FEATURES) + np.linspace(-1.0, 1.0, FEATURES)
        weight = np.linspace(0.0, 2.0, len(y))
        settings = {"tol": 1e-9, "max_iter": 1000, **settings}
        model = LogisticRegression(**settings).fit(parted(X), parted(y), parted(weight))
        if settings.get("solver") == "saga":
            settings["max_iter"] = 100_000
        other = LogisticRegression(**settings).fit(X, y, weight)
        np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(model.intercept_, other.intercept_, rtol=1e-5, atol=1e-6)
        assert model.report_.converged and model.solver_.split(", ")[0] == method

    def test_logistic_regression_without_iterations_or_need_of_them(self):
        X, y = made()
        rows = parted(X), parted(y)
        with pytest.warns(ConvergenceWarning, match="after 0 iterations"):
            model = LogisticRegression(max_iter=0).fit(*rows)
        assert not model.coef_.any() and model.solver_ == "none" and model.n_iter_ == [0]
        model = LogisticRegression(tol=1e-6, warm_start=True).fit(*rows)
        before = model.coef_
        np.testing.assert_array_equal(model.fit(*rows).coef_, before)
        assert model.n_iter_ == [0]

    def test_iterations_are_printed(self, capsys):
        X, y = made()
        model = LogisticRegression(verbose=1).fit(parted(X), parted(y))
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 2 * model.n_iter_[0] and lines[0] == "-- Iteration 1"
        printed = float(lines[-1].split("Objective: ")[1])
        assert printed == pytest.approx(float(model.report_.notes[0].split()[-1]), abs=1e-6)

    def test_classes_that_are_apart_have_no_optimum_without_a_penalty(self):
        X, _ = made()
        y = X[:, 0].toarray().ravel() > 0.0
        with pytest.warns(ConvergenceWarning, match="separates the classes"):
            LogisticRegression(C=np.inf).fit(parted(X), parted(y))

    def test_logistic_regression_says_where_it_has_not_converged(self):
        X, y = made()
        with pytest.warns(ConvergenceWarning, match="max_iter"):
            LogisticRegression(tol=1e-12, max_iter=2).fit(parted(X), parted(y))

    @pytest.mark.parametrize("kind", ["dense", "csr", "wide"])
    def test_ridge_is_scikit_learn_s(self, kind, monkeypatch):
        if kind == "wide":
            monkeypatch.setattr("hogshare.estimators.ridge.MOST_FEATURES", 0)
        monkeypatch.setattr("hogshare.estimators.ridge.FEW_OF_SPARSE", 0)
        X, y = made(classes=1)
        X = X.toarray() + 3.0
        y = np.column_stack([y, 2.0 - y, np.full(ROWS, 3.0)])
        weight = np.linspace(0.0, 2.0, ROWS)
        rows = sp.csr_matrix(X) if kind == "csr" else X
        alpha = [2.0, 0.0, 1.0]
        model = Ridge(alpha=alpha, tol=1e-12).fit(parted(rows), parted(y), parted(weight))
        other = linear_model.Ridge(alpha=alpha, solver="cholesky").fit(X, y, weight)
        np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(model.intercept_, other.intercept_, rtol=1e-6)
        assert model.solver_ == ("svd" if kind == "dense" else "cg")
        assert (model.n_iter_ is None) == (kind == "dense")
        assert model.report_.converged or kind == "dense"

    @pytest.mark.parametrize("offset", [0.0, 1e4, 1e8])
    def test_ridge_by_products_with_targets_far_from_zero(self, offset):
        X, y = made(800, 150, classes=1)
        expected = linear_model.Ridge(solver="cholesky").fit(X.toarray(), y)
        for tol, close in ((1e-4, 1e-4), (1e-10, 1e-7 if offset < 1e8 else 1e-5)):
            model = Ridge(tol=tol).fit(parted(X), parted(y + offset))
            assert model.solver_ == "cg" and model.report_.converged
            np.testing.assert_allclose(model.coef_, expected.coef_, atol=close)
            assert model.intercept_ - offset == pytest.approx(expected.intercept_, abs=1e-4)

    def test_wide_l1_comes_to_the_optimum(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((300, 700))
        y = (X[:, :4].sum(axis=1) + rng.standard_normal(300) > 0.0).astype(int)
        settings = {"C": 0.5, "l1_ratio": 1.0, "solver": "saga", "tol": 1e-5, "max_iter": 20_000}
        model = LogisticRegression(**settings).fit(parted(X), parted(y))
        other = LogisticRegression(**settings).fit(X, y)
        assert model.solver_ == "newton-cg" and model.report_.converged
        found, expected = (
            0.5 * np.logaddexp(0.0, (1 - 2 * y) * one.decision_function(X)).sum()
            + np.abs(one.coef_).sum()
            for one in (model, other)
        )
        assert found == pytest.approx(expected, rel=1e-4)

    def test_classes_that_weigh_nothing_cannot_be_balanced(self):
        X, y = made()
        with pytest.raises(ValueError, match=r"class_weight must contain a number.* got inf"):
            LogisticRegression(class_weight="balanced").fit(
                parted(X), parted(y), parted((y == 0).astype(float))
            )

    def test_ridge_says_where_it_has_not_converged(self, monkeypatch):
        monkeypatch.setattr("hogshare.estimators.ridge.FEW_OF_SPARSE", 0)
        X, y = made(classes=1)
        with pytest.warns(
            ConvergenceWarning, match="after 2 iterations the gradient or the duality gap"
        ):
            Ridge(tol=1e-12, max_iter=2).fit(parted(X), parted(y))

    def test_targets_in_memory_and_other_cuts(self):
        X, y = made()
        model = Ridge(tol=1e-10).fit(parted(X), y)
        other = Ridge(tol=1e-10).fit(parted(X), parted(y, PARTS - 2))
        np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-10)

    def test_columns_in_several_chunks_and_partitions_without_rows(self):
        import dask.array as da

        X, y = made()
        rows = da.from_array(X.toarray(), chunks=(1000, 7))
        kept = rows[:, 0] >= 0.0  # of unknown lengths
        empty = da.concatenate([rows[:500][rows[:500, 0] < -1.0], rows[kept]])
        targets = da.from_array(y, chunks=1000)
        targets = da.concatenate([targets[:500][rows[:500, 0] < -1.0], targets[kept]])
        model = LogisticRegression(tol=1e-6).fit(empty, targets)
        held = X.toarray()[:, 0] >= 0.0
        other = LogisticRegression(tol=1e-6).fit(X[held], y[held])
        np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-2)

    def test_weights_of_partitions_without_rows(self):
        X, y = made(60, 3, classes=1)
        held = np.arange(60) >= 20  # none of the first partition
        weight = np.linspace(0.5, 1.0, 60)
        rows = (parted(one, 3)[parted(held, 3)] for one in (X.toarray(), y, weight))
        model = Ridge().fit(*rows)
        expected = linear_model.Ridge().fit(X[held].toarray(), y[held], weight[held])
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-8)

    def test_a_data_frame(self):
        pytest.importorskip("pyarrow", reason="dask.dataframe needs pyarrow")
        import dask.dataframe as dd
        import pandas as pd

        X, y = made()
        frame = pd.DataFrame(X.toarray(), columns=[f"x{j}" for j in range(FEATURES)])
        frame["y"] = y
        frame = dd.from_pandas(frame, npartitions=PARTS)
        model = LogisticRegression(tol=1e-6).fit(frame.drop(columns="y"), frame["y"])
        other = LogisticRegression(tol=1e-6).fit(X, y)
        np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-2)
        assert model.feature_names_in_.tolist() == [f"x{j}" for j in range(FEATURES)]

    def test_names_of_columns_that_partitions_alone_have(self):
        X, y = made(200, 3, classes=1)
        rows = parted(X.toarray(), 2, lambda rows: framed(rows, "abc"))
        model = Ridge().fit(rows, parted(y, 2))
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
        with pytest.raises(ValueError, match="same order as they were in fit"):
            model.predict(framed(X.toarray(), "cba"))
        numbered = parted(X.toarray(), 2, lambda rows: framed(rows, [0, 1, 2]))
        assert not hasattr(Ridge().fit(numbered, parted(y, 2)), "feature_names_in_")

    def test_nothing_but_facts_sums_and_models_comes_to_the_client(self, monkeypatch):
        X, y = made()
        sizes = []

        def counted(client, future):
            found = clusters.fetch(client, future)
            found.add_done_callback(lambda done: sizes.append(len(pickle.dumps(done.result()))))
            return found

        monkeypatch.setattr("hogshare.partitioned.cluster_calls.fetch", counted)
        sgd(max_iter=1).fit(parted(X), parted(y))
        assert sizes and max(sizes) < X.data.nbytes / PARTS / 4


@NEEDS_DASK
@pytest.mark.usefixtures("client")
class TestRefusals:
    @pytest.mark.parametrize(
        ("settings", "told"),
        [
            ({"learning_rate": "auto"}, "learning_rate='auto'"),
            ({"loss": "hinge", "learning_rate": "pa1", "eta0": 1.0}, "learning_rate='pa1'"),
            ({"plane": "master"}, "private copies"),
            ({"plane": Shared(exchange=None)}, "private copies"),
            ({"barrier": BSP()}, "barrier"),
            ({"runtime": "threads"}, "runtime='threads'"),
            ({"n_jobs": -2}, "n_jobs=-2"),
        ],
    )
    def test_what_cannot_be_had_is_told_before_anybody_computes(self, settings, told):
        X, y = made(50)

        def load(rows):
            raise AssertionError("somebody computed")

        with pytest.raises(ValueError, match=f"{told}.* not supported with Dask"):
            sgd(**settings).fit(parted(X, 2, load), parted(y, 2))

    @pytest.mark.parametrize("names", ["abz", None, [0, 1, 2], [("a", 1), "b", "c"]])
    @pytest.mark.parametrize("model", [Ridge(), LogisticRegression(), sgd(), SGDRegressor()])
    def test_columns_by_other_names(self, model, names):
        X, y = np.arange(60.0).reshape(20, 3), np.arange(20) % 2

        def load(rows):
            first = rows[0, 0] == 0.0
            if names is None and not first:
                return rows
            return framed(rows, "abc" if first else names)

        with pytest.raises(ValueError, match=r"partition 1 of X are .* partition 0 'a'"):
            model.fit(parted(X, 2, load), parted(y, 2))

    @pytest.mark.parametrize("method", ["fit", "score"])
    def test_masked_arrays_in_memory_are_told_before_anybody_computes(self, method):
        X, y = made(50)
        model = sgd().fit(X, y)

        def load(rows):
            raise AssertionError("somebody computed")

        masked = np.ma.array(y, mask=np.arange(50) == 7)
        for name in ("y", "sample_weight"):
            with pytest.raises(ValueError, match=f"{name} is a masked array, and 1 of its values"):
                getattr(model, method)(parted(X, 2, load), **{"y": y, name: masked})

    @pytest.mark.parametrize("make", [sgd, LogisticRegression, SGDRegressor])
    @pytest.mark.parametrize("weigh", [False, True])
    def test_targets_in_two_columns(self, make, weigh):
        X, y = made(50)
        weight = parted(np.ones(50), 2) if weigh else None
        told = r"y should be a 1d array, got an array of shape \(50, 2\) instead"
        with pytest.raises(ValueError, match=told):
            make().fit(parted(X, 2), parted(np.column_stack([y, y]), 2), sample_weight=weight)

    def test_partial_fit(self):
        X, y = made(50)
        rows = parted(X, 2), parted(y, 2)
        with pytest.raises(ValueError, match="classes must be passed on the first call"):
            sgd().partial_fit(*rows)
        with pytest.raises(ValueError, match="y contains the label 1, which is not in classes="):
            sgd().partial_fit(*rows, classes=[0, 2])
        with pytest.raises(ValueError, match="average with partial_fit is not supported with Dask"):
            sgd(average=True).partial_fit(*rows, classes=[0, 1])
        model = sgd().partial_fit(*rows, classes=[0, 1])
        with pytest.raises(ValueError, match="X has 39 features, but SGDClassifier is expecting"):
            model.partial_fit(parted(X[:, 1:], 2), parted(y, 2))

    @pytest.mark.parametrize("model", [sgd(), LogisticRegression(), Ridge(), SGDRegressor()])
    def test_negative_weights_of_rows_and_of_classes(self, model):
        X, y = made(50)
        weight = np.where(np.arange(50) == 40, -1.0, 1.0)
        with pytest.raises(ValueError, match="sample_weight must contain a number, at least 0"):
            model.fit(parted(X, 2), parted(y, 2), sample_weight=parted(weight, 2))
        if hasattr(model, "class_weight"):
            model = type(model)(class_weight={0: -1.0, 1: 1.0})
            with pytest.raises(ValueError, match="class_weight must contain a number, at least 0"):
                model.fit(parted(X, 2), parted(y, 2))

    def test_other_estimators_say_what_they_cannot(self):
        X, y = (parted(one, 2) for one in made(50))
        for model, told in (
            (sgd(learning_rate="auto"), "learning_rate='auto'"),
            (Ridge(solver="svd"), "solver='svd'"),
        ):
            with pytest.raises(ValueError, match=f"{told}.* not supported with Dask"):
                model.fit(X, y)

    def test_bad_rows_are_told(self):
        X, y = made(60)
        bad = X.toarray()
        bad[50, 3] = np.nan
        with pytest.raises(ValueError, match="NaN"):
            sgd().fit(parted(bad, 3), parted(y, 3))
        with pytest.raises(ValueError, match="60 rows and y has 50"):
            sgd().fit(parted(X, 3), parted(y[:50], 3))
        with pytest.raises(ValueError, match="got 1 class"):
            sgd().fit(parted(X, 3), parted(np.ones(60), 3))
        with pytest.raises(ValueError, match="Unknown label type"):
            sgd().fit(parted(X, 3), parted(np.linspace(0, 1, 60), 3))
        with pytest.raises(TypeError, match="y must be a Dask collection"):
            sgd().fit(parted(X, 3), None)

    def test_a_loader_that_raises_is_told(self):
        def load(rows):
            raise OSError("no such file: part-3")

        X, y = made(60)
        with pytest.raises(RuntimeError, match="no such file: part-3"):
            sgd().fit(parted(X, 3, load), parted(y, 3))

    def test_steps_that_are_too_large_are_told(self):
        X, y = made(400, classes=1)
        model = SGDRegressor(learning_rate="constant", eta0=1e3, max_iter=5, tol=None)
        with pytest.warns(ConvergenceWarning, match=r"has diverged.* a smaller eta0 than 1000"):
            model.fit(parted(1e3 * X, 2), parted(y, 2))
        model.set_params(eta0=1e300)
        with pytest.raises(ValueError, match=r"under-/overflow.* a smaller eta0 than 1e\+300"):
            model.fit(parted(X, 2), parted(y, 2))


@NEEDS_DASK
def test_three_workers_have_the_optimum_of_one_machine():
    def fit(model, *rows):
        X, y, weight = (parted(one, 5) for one in rows)
        return model.fit(X, y, sample_weight=weight)

    with cluster(3):
        for name in optimum_cases.NAMES:
            optimum_cases.require_one_optimum(name, fit)


@NEEDS_DASK
def test_without_a_client_it_is_said_how_to_make_one():
    code = (
        "import dask.array as da, numpy as np\n"
        "from hogshare import Ridge\n"
        "X = da.ones((10, 2), chunks=5)\n"
        "try:\n    Ridge().fit(X, X[:, 0])\nexcept ValueError as error:\n    print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "client = Client()" in run.stdout


def test_without_dask_nothing_of_it_is_imported():
    code = "import sys, hogshare.estimators.partitioned_fits; print('dask' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


@NEEDS_DASK
@pytest.mark.parametrize("what", ["killed", "added"])
def test_workers_that_come_and_go_in_the_middle(what, monkeypatch):
    from distributed import Client, LocalCluster

    fork_workers()
    X, y = made()
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    n_workers = 2 if what == "killed" else 1
    with (
        warnings.catch_warnings(),
        LocalCluster(n_workers=n_workers, processes=True, **options) as own,
        Client(own) as there,
    ):
        warnings.simplefilter("ignore")
        epochs = 40

        def happens(epoch, value, model):
            """In the master's thread, while turns are on their way."""
            if epoch == 3 and what == "killed":
                os.kill(next(iter(own.workers.values())).process.pid, 9)
            elif epoch == 3:
                own.scale(2)
                there.wait_for_workers(2, timeout=LIMIT)

        monkeypatch.setattr("hogshare.estimators.partitioned_fits.say", happens)
        model = sgd(max_iter=epochs, verbose=1).fit(parted(X), parted(y))
        report = model.report_
        assert report.n_epochs == epochs and len(report.epoch_losses) == epochs
        assert there.status == "running"
        assert worse(X, y, model, sgd(max_iter=epochs).fit(X, y)) < 0.05
        assert len(report.workers) >= 2, "the one that came has done nothing"
        assert all(worker["blocks"] for worker in report.workers)
        if what == "killed":
            assert any("left during the fit" in note for note in report.notes)


@NEEDS_DASK
@pytest.mark.parametrize("seed", long_but(2, range(30)))
def test_fits_outlive_every_worker(seed):
    """Killed one after the other, or all at once, at any moment of a fit by totals or by steps."""
    from distributed import Client, LocalCluster

    fork_workers()
    rng = np.random.default_rng(seed)
    X, y = made()
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with (
        warnings.catch_warnings(),
        LocalCluster(n_workers=2, processes=True, **options) as own,
        Client(own),
    ):
        warnings.simplefilter("ignore")
        rows = parted(X), parted(y)

        def kill_all():
            for nanny in rng.permutation(list(own.workers.values())):
                if nanny.process is not None and nanny.process.pid:
                    os.kill(nanny.process.pid, 9)
                time.sleep(seed % 2 * rng.exponential(0.5))

        alone = linear_model.Ridge(alpha=0.1).fit(X.toarray(), y).coef_
        for fit in (
            lambda: sgd(max_iter=60).fit(*rows),
            lambda: Ridge(alpha=0.1).fit(*rows),
        ):
            killer = threading.Timer(rng.exponential(0.3), kill_all)
            killer.start()
            model = fit()
            killer.join()
        assert np.abs(model.coef_ - alone).max() < 1e-6


@NEEDS_DASK
@pytest.mark.parametrize("model", [sgd(max_iter=10**6), Ridge(solver="sparse_cg")])
def test_a_cluster_without_workers_is_given_up(model, monkeypatch):
    from distributed import Client, LocalCluster

    fork_workers()
    monkeypatch.setattr("hogshare.partitioned.partitioned_rows.WITHOUT_WORKERS_SECONDS", 0.5)
    X, y = made(200)
    options = {"processes": False, "dashboard_address": ":0", "silence_logs": 50}
    with LocalCluster(n_workers=1, **options) as own, Client(own):
        state = PartitionedRows.state

        def left(self, meaning):
            state(self, meaning)
            own.scale(0)

        monkeypatch.setattr(PartitionedRows, "state", left)
        with pytest.raises(RuntimeError, match="no workers for"):
            model.fit(parted(X, 2), parted(y, 2))
