"""What ranks check of themselves; `test_mpi.py` starts this file on several, and reads it.

Every check is called on every rank, in one order. One that fails says so, and the next comes.
"""

import pickle
import sys
import warnings
from operator import add

import numpy as np
import pandas as pd
import scipy.sparse as sp
from mpi4py import MPI as library
from ranks import report_on
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from traffic_checks import Ring, messages, sums_agree

from hogshare import (
    BSP,
    MPI,
    PBSP,
    SGD,
    SSP,
    AsyncContext,
    Fraction,
    Lasso,
    LatentDirichletAllocation,
    LogisticRegression,
    Master,
    MatrixFactorization,
    Mirrors,
    MLPClassifier,
    Plane,
    Replicas,
    Ridge,
    SGDClassifier,
    Shared,
    StepSize,
    Stop,
    Throttled,
    asgd,
    datasets,
    problems,
    shard,
    solve,
)
from hogshare.simulation import Link
from hogshare.tasks.results import TaskError

COMM = library.COMM_WORLD
RANK, SIZE = COMM.rank, COMM.size
X, Y = load_breast_cancer(return_X_y=True)
X = scale(X)
PROBLEM = problems.linear(X, Y, alpha=0.01)
ALL = MPI(rows="all", start_timeout=30)
SHARDS = MPI(start_timeout=30)
MINE = slice(RANK * len(X) // SIZE, (RANK + 1) * len(X) // SIZE)


def same_bits(report, other):
    return np.array_equal(report.model.coef, other.model.coef) and np.array_equal(
        report.model.intercept, other.model.intercept
    )


def on_all(value):
    """Whether a value is the same on all ranks."""
    return len(set(COMM.allgather(value))) == 1


def refused(kind, function):
    """What a call says that is refused; None if it is not."""
    try:
        function()
    except kind as error:
        return str(error)
    return None


def check_bits_of_processes_and_threads():
    """Rounds have one order, whoever runs the workers."""
    for plane, rules in {Shared(): ("sgd", "saga", "sdca"), Master(2): ("sgd",)}.items():
        for rule in rules:
            run = {"rule": rule, "plane": plane, "barrier": BSP(), "stop": 4, "seed": 3}
            report = solve(PROBLEM, runtime=ALL, **run)
            assert on_all(report.model.coef.tobytes()), (plane, rule)
            for runtime in ("threads", "processes") if RANK == 0 else ():
                other = solve(PROBLEM, runtime=runtime, n_workers=SIZE, **run)
                assert same_bits(report, other), (plane, rule, runtime)


def check_one_rank_is_the_serial_run():
    if SIZE > 1:
        return
    for plane in (Shared(), Shared(exchange=None), Master(1)):
        report = solve(PROBLEM, runtime="mpi", plane=plane, stop=3, seed=0)
        assert same_bits(report, solve(PROBLEM, runtime="caller", plane=plane, stop=3, seed=0))
        assert report.runtime == "caller" and "one MPI rank" in report.notes[-1]
    report = solve(PROBLEM, runtime="mpi", n_workers=2, stop=3, seed=0)
    assert report.runtime == "threads" and len(report.workers) == 2


def check_shards_are_the_whole():
    """In the order of the ranks."""
    run = {"barrier": BSP(), "stop": 4, "seed": 3}
    report = solve(problems.linear(X[MINE], Y[MINE], alpha=0.01), runtime=SHARDS, **run)
    assert same_bits(report, solve(PROBLEM, runtime=ALL, **run))
    assert SIZE == 1 or report.settings["ranks"] == SIZE


def check_shards_of_sparse_rows_with_weights_and_classes():
    import scipy.sparse as sp

    labels = np.array(["a", "b", "c", "d"])[np.argmax(X[:, :4], axis=1)]
    weight = 1.0 + (np.arange(len(X)) % 3 == 0)
    rows = sp.csr_array(np.where(np.abs(X) > 1.0, X, 0.0))
    run = {"barrier": BSP(), "stop": 2, "seed": 3, "runtime": SHARDS}
    settings = {"loss": "log_loss", "alpha": 0.01}
    mine = np.arange(len(X))[MINE]
    if RANK == SIZE - 1 and SIZE > 1:
        mine = mine[labels[mine] != "a"]  # which this shard lacks
    weighs = weight[mine] if RANK == 0 else None  # the others' are ones
    part = problems.linear(rows[mine], labels[mine], sample_weight=weighs, **settings)
    report = solve(part, **run)
    everybody = np.concatenate(COMM.allgather(mine))
    first = len(COMM.bcast(mine))
    weight = np.where(np.arange(len(everybody)) < first, weight[everybody], 1.0)
    whole = problems.linear(rows[everybody], labels[everybody], sample_weight=weight, **settings)
    other = solve(whole, barrier=BSP(), stop=2, seed=3, runtime=MPI(rows="all"))
    assert report.model.coef.shape == (4, X.shape[1])
    assert same_bits(report, other)


def check_the_same_rows_as_shards_warn():
    if SIZE == 1:
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        solve(PROBLEM, runtime=SHARDS, stop=1, seed=0)
    assert any("All" in str(one.message) and "same rows" in str(one.message) for one in caught)


def check_validation_of_shards():
    rows = np.arange(len(X)) % 5 == 0
    stop = Stop(epochs=4, tol=1e-3, patience=2, validation=rows[MINE])
    report = solve(
        problems.linear(X[MINE], Y[MINE]), runtime=SHARDS, stop=stop, seed=0, barrier="bsp"
    )
    whole = Stop(epochs=4, tol=1e-3, patience=2, validation=rows)
    assert same_bits(
        report, solve(problems.linear(X, Y), runtime=ALL, stop=whole, seed=0, barrier="bsp")
    )


def check_several_workers_of_a_rank():
    report = solve(PROBLEM, runtime=ALL, n_workers=2, barrier=BSP(), stop=2, seed=0)
    assert len(report.workers) == 2 * SIZE
    if RANK == 0:
        other = solve(PROBLEM, runtime="threads", n_workers=2 * SIZE, barrier=BSP(), stop=2, seed=0)
        assert same_bits(report, other)
    assert len({one["pid"] for one in report.workers}) == SIZE


def check_all_cores_are_divided():
    import os

    report = solve(PROBLEM, runtime=ALL, n_workers=-1, stop=2, seed=0)
    assert len(report.workers) <= max(SIZE, os.cpu_count() or 1)


def check_the_optimum_by_every_rule():
    for rule in ("saga", "sdca"):
        stop = Stop(epochs=300, gradient=1e-6)
        report = solve(PROBLEM, rule=rule, runtime=ALL, stop=stop, seed=0)
        assert report.converged and report.checks[-1]["gradient"] <= 1e-6


def check_lock_free_and_lagging():
    start = PROBLEM.objective(np.zeros((1, X.shape[1])), np.zeros(1))
    for settings in ({"plane": Shared(exchange=None)}, {"barrier": SSP(2)}, {"barrier": "pbsp:1"}):
        report = solve(PROBLEM, runtime=ALL, stop=5, seed=0, trace=1, **settings)
        assert report.objective < 0.5 * start, settings


class Averaged(Plane):
    """Homes that go on from their mean after every block."""

    def arrays(self, n_params, n_workers):
        return {"last": ((n_workers, n_params), "float64"), "seen": ((n_workers,), "int64")}

    def after_block(self, home):
        last, seen = home.arrays["last"], home.arrays["seen"]
        last[home.me], seen[home.me] = home.read(), 1
        home.write(last[seen > 0].mean(axis=0))


def check_what_is_the_users_needs_no_pickling():
    """Functions inside of functions: a gradient, a barrier and a plane."""
    points = X[:64, :3]

    def gradient(w, rows, out):
        away = w - points[rows]
        out += away.sum(axis=0)
        return 0.5 * np.square(away).sum()

    def always(table, me):
        return True

    problem = problems.user(gradient, len(points), 3)
    run = {"step": StepSize("constant", 0.01), "stop": 40, "seed": 0}
    report = solve(problem, runtime=ALL, barrier=always, **run)
    assert np.allclose(report.model.params, points.mean(axis=0), atol=0.05)
    report = solve(problem, runtime=ALL, barrier=BSP(), **run)
    other = solve(problem, runtime="threads", n_workers=SIZE, barrier=BSP(), **run)
    assert np.array_equal(report.model.params, other.model.params)
    report = solve(problem, runtime=ALL, plane=Averaged(), barrier=BSP(), **run)
    other = solve(
        problem, runtime="threads", n_workers=SIZE, plane=Averaged(), barrier=BSP(), **run
    )
    assert np.array_equal(report.model.params, other.model.params)
    text = refused(ValueError, lambda: solve(problem, runtime=SHARDS, **run))
    assert SIZE == 1 or "MPI(rows='all')" in text


def check_epochs_are_told_on_rank_0():
    heard = []

    def hear(epoch, snapshot):
        heard.append(epoch)
        return epoch == 2

    report = solve(PROBLEM, runtime=ALL, stop=1_000_000, seed=0, on_epoch=hear)
    assert report.n_epochs < 1_000_000
    assert heard == ([1, 2] if RANK == 0 else [])


def check_a_seed_is_shared():
    report = solve(PROBLEM, runtime=ALL, stop=1, barrier=BSP())
    assert on_all(report.model.coef.tobytes())
    state = np.random.RandomState(RANK)
    report = solve(PROBLEM, runtime=ALL, stop=1, barrier=BSP(), seed=state)
    assert on_all(report.model.coef.tobytes())


def check_who_differs_is_told_to_all():
    if SIZE == 1:
        return
    last = RANK == SIZE - 1
    tries = {
        "step": lambda: solve(PROBLEM, runtime=ALL, step=0.1 + last, stop=1),
        "rule": lambda: solve(PROBLEM, runtime=ALL, rule="saga" if last else "sgd", stop=1),
        "barrier": lambda: solve(PROBLEM, runtime=ALL, barrier="bsp" if last else "asp", stop=1),
        "seed": lambda: solve(PROBLEM, runtime=ALL, seed=int(last), stop=1),
        "data of the problem": lambda: solve(
            problems.linear(X + 1.0 if last else X, Y), runtime=ALL, stop=1
        ),
        "dtype of the problem": lambda: solve(
            problems.linear(X[MINE].astype("float32" if last else "float64"), Y[MINE]),
            runtime=SHARDS,
            stop=1,
        ),
        "rows of MPI": lambda: solve(PROBLEM, runtime=MPI(rows="shard" if last else "all"), stop=1),
        "start": lambda: solve(PROBLEM, runtime=ALL, stop=1, start=_model(1.0 if last else 0.0)),
    }
    for what, call in tries.items():
        text = refused(ValueError, call)
        assert text is not None and on_all(text), (what, text)
        assert what in text and f"rank {SIZE - 1}" in text, text


def _model(value):
    from hogshare import Model

    return Model(np.full((1, X.shape[1]), value), np.zeros(1))


def check_errors_of_one_rank_reach_all():
    class Odd(RuntimeError):
        pass

    def gradient(w, rows, out):
        if RANK == SIZE - 1 and w.any():
            raise Odd("of the last rank")
        out += w - 1.0
        return float(np.square(w - 1.0).sum())

    problem = problems.user(gradient, 64, 3)
    text = refused(
        RuntimeError,
        lambda: solve(problem, runtime=ALL, stop=50, step=0.01, block=4, barrier=BSP()),
    )
    assert text is not None and "of the last rank" in text
    squares = problems.linear(X, Y.astype(float), loss="squared_error")
    text = refused(ValueError, lambda: solve(squares, runtime=ALL, step=1e300, stop=5))
    assert text is not None and "overflow" in text and on_all(text)


def check_bad_settings_on_all():
    assert "rows must be" in refused(ValueError, lambda: MPI(rows="some"))
    assert "start_timeout" in refused(ValueError, lambda: MPI(start_timeout=0))
    assert "n_workers" in refused(ValueError, lambda: solve(PROBLEM, runtime=ALL, n_workers=0))


def check_replicas_have_the_bits_of_the_clock():
    """Whole reduces on ranks, as many of each as there are rows and epochs."""
    plane = Replicas("root", every=1)
    run = {"plane": plane, "seed": 5, "stop": max(1, 18 // SIZE), "step": 1e-3}
    ours = solve(PROBLEM, runtime=ALL, **run)
    clock = solve(PROBLEM, runtime="simulator", n_workers=SIZE, **run)
    assert same_bits(ours, clock) and on_all(ours.to_json())
    if SIZE > 1:
        assert ours.reduces.whole_share == 1.0 and not ours.reduces.left_out
        assert (ours.consistency == clock.consistency).all()


def check_mirrors_in_step_have_the_bits_of_the_clock():
    plane = Mirrors(SIZE, threshold=0.1, every=10)
    run = {"plane": plane, "seed": 5, "stop": 3, "step": 1e-3}
    ours = solve(PROBLEM, runtime=ALL, **run)
    clock = solve(PROBLEM, runtime="simulator", n_workers=SIZE, **run)
    assert same_bits(ours, clock) and on_all(ours.to_json())
    far = Mirrors(SIZE, threshold=0.1, every=10, clock_difference=0, links="10x:5ms")
    late = solve(PROBLEM, runtime=ALL, **{**run, "plane": far})
    assert same_bits(late, clock)
    direct = Mirrors(SIZE, Shared(exchange=None), threshold=0.1, every=10)
    first, last = (solve(PROBLEM, runtime=ALL, **{**run, "plane": direct}) for _ in range(2))
    assert same_bits(first, last)
    if SIZE > 1:
        assert ours.exchanges.n_centres == SIZE and 0.0 < ours.exchanges.significant_share < 1.0
        assert late.run_seconds >= 5e-3 * (late.exchanges.clocks.min() - 1)


def check_a_communicator_of_ones_own():
    part = COMM.Split(RANK % 2)
    report = solve(PROBLEM, runtime=MPI(part, rows="all"), stop=2, seed=0, barrier=BSP())
    assert len(report.workers) == part.size
    # messages of one's own meet none of ours
    to = (RANK + 1) % SIZE
    request = COMM.isend("mine", to)
    solve(PROBLEM, runtime=ALL, stop=1, seed=0)
    assert COMM.recv() == "mine"
    request.wait()


def check_checkpoints():
    import tempfile
    from pathlib import Path

    folder = COMM.bcast(tempfile.mkdtemp() if RANK == 0 else None)
    file = Path(folder) / "run.npz"
    run = {"runtime": ALL, "rule": "saga", "barrier": BSP(), "seed": 0}
    whole = solve(PROBLEM, stop=6, **run)
    solve(PROBLEM, stop=3, checkpoint=str(file), **run)
    report = solve(PROBLEM, stop=6, resume=str(file), **run)
    assert report.n_epochs == 6 and on_all(report.model.coef.tobytes())
    assert np.isclose(report.model.coef, whole.model.coef, atol=0.05).all()
    text = refused(
        ValueError, lambda: solve(PROBLEM, stop=6, resume=str(file), **{**run, "seed": 1})
    )
    assert "seed" in text


# -- estimators: each rank gives its rows

NAMES = np.where(Y == 1, "good", "bad")
SORTED = np.argsort(Y, kind="stable")  # so that parts lack a class
HAS = SORTED[MINE]
DRAWN = np.random.default_rng(0).standard_normal((len(X), 3))


def alike(estimator):
    """Whether an estimator came out the same on all ranks."""
    return on_all(pickle.dumps([getattr(estimator, name) for name in ("coef_", "n_iter_")]))


def check_estimators_are_those_of_all_rows():
    """Behind BSP as by as many threads, with labels that no rank has all of."""
    settings = {"barrier": "bsp", "random_state": 1, "class_weight": "balanced"}
    kinds = {
        SGDClassifier: {"loss": "log_loss", "early_stopping": True, **settings},
        LogisticRegression: {"solver": "saga", "max_iter": 50, **settings},
    }
    for kind, given in kinds.items():
        ours = kind(runtime=SHARDS, **given).fit(X[HAS], NAMES[HAS])
        assert list(ours.classes_) == ["bad", "good"] and alike(ours)
        runtime = "caller" if SIZE == 1 else "threads"
        other = kind(runtime=runtime, n_jobs=SIZE, **given).fit(X[SORTED], NAMES[SORTED])
        np.testing.assert_allclose(ours.coef_, other.coef_, rtol=1e-9)
        assert ours.get_params()["runtime"] is SHARDS and ours.n_jobs is None


def check_numbers_and_sparse_rows():
    z = X @ np.arange(30.0)
    for rows in (X, sp.csr_array(X), pd.DataFrame(X, columns=[f"c{k}" for k in range(30)])):
        mine = rows.iloc[MINE] if hasattr(rows, "iloc") else rows[MINE]
        ours = Ridge(runtime="mpi", random_state=0).fit(mine, z[MINE])
        assert on_all(ours.coef_.tobytes())
        assert ours.score(rows, z) > 0.999
        assert hasattr(ours, "feature_names_in_") == hasattr(rows, "iloc")


def check_partial_fit_goes_on():
    ours = SGDClassifier(loss="log_loss", runtime="mpi", random_state=0)
    for k in range(3):
        ours.partial_fit(X[HAS], NAMES[HAS], classes=["bad", "good"])
        assert ours.t_ == 1.0 + (k + 1) * len(X) and on_all(ours.coef_.tobytes())
    assert ours.score(X, NAMES) > 0.9


def check_a_shard_may_be_empty():
    rows = HAS if SIZE == 1 or RANK != 1 else HAS[:0]
    ours = LogisticRegression(runtime="mpi").fit(X[rows], NAMES[rows])
    assert on_all(ours.coef_.tobytes()) and len(ours.classes_) == 2


def check_networks_ratings_and_topics():
    rows, labels = load_digits(return_X_y=True)
    rows, labels = shard(rows / 16.0, labels)
    network = MLPClassifier((20,), max_iter=30, tol=0.0, runtime="mpi", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network.fit(rows, labels)
    assert on_all(network.coefs_[0].tobytes()) and network.score(rows, labels) > 0.8
    assert on_all(tuple(network.loss_curve_)) and len(network.loss_curve_) == 30
    users, items = (np.arange(600) * step % n for step, n in ((7, 23), (5, 11)))
    ratings = (users % 3 + items % 2).astype(float)
    mine = [f"u{k}" for k in shard(users)], shard(items), shard(ratings)
    taste = MatrixFactorization(n_factors=2, runtime="mpi", random_state=0, max_iter=50).fit(*mine)
    assert len(taste.users_) == 23 and on_all(taste.user_factors_.tobytes())
    topics = LatentDirichletAllocation(
        3, learning_method="online", max_iter=2, runtime="mpi", random_state=0
    ).fit((16 * rows).astype(int))
    assert on_all(topics.components_.tobytes())


def check_what_does_not_fit_is_told_on_all():
    def fitted(rows, **settings):
        return lambda: LogisticRegression(runtime="mpi", **settings).fit(rows, NAMES[MINE])

    gaps = X[MINE].copy()
    gaps[0, 0] = np.nan if RANK == SIZE - 1 else 0.0
    text = refused(ValueError, fitted(gaps))
    assert "NaN" in text and on_all(text)
    if SIZE > 1:
        text = refused(ValueError, fitted(X[MINE][:, : 30 - (RANK == 1)]))
        assert "(30,) on rank 0, and (29,) on rank 1" in text and on_all(text)
        text = refused(ValueError, fitted(X[MINE], C=1.0 + RANK))
        assert "C is 1.0 on rank 0, and 2.0 on rank 1" in text and on_all(text)
        whole = LogisticRegression(runtime=ALL)
        text = refused(ValueError, lambda: whole.fit(X + RANK, NAMES))
        assert "not those of rank 0" in text and on_all(text)
        assert not hasattr(whole, "coef_")


def check_columns_go_by_name():
    """Another order is brought into that of rank 0; other names are refused."""
    if SIZE == 1:
        return
    rows, last = pd.DataFrame(DRAWN[MINE], columns=list("abc")), RANK == SIZE - 1
    mine = rows.rename(columns={"c": "d"}) if last else rows
    text = refused(ValueError, lambda: Ridge(runtime=SHARDS).fit(mine, Y[MINE]))
    assert text is not None and on_all(text), text
    assert "'d'" in text and f"rank {SIZE - 1}" in text, text
    one = rows @ [1.0, 2.0, 3.0]
    targets = pd.DataFrame({"one": one, "two": 2.0 * one})
    mine = rows[list("cba")] if last else rows
    theirs = targets[["two", "one"]] if last else targets
    model = Ridge(1e-9, runtime=SHARDS, random_state=0).fit(mine, theirs)
    assert list(model.feature_names_in_) == list("abc")
    np.testing.assert_allclose(model.coef_, [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]], rtol=1e-3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Ridge(runtime=SHARDS).fit(rows.to_numpy() if last else rows, Y[MINE])
    assert RANK or any("has column names on rank 0" in str(one.message) for one in caught)


def check_what_one_rank_refuses_all_refuse_and_the_next_call_is_clean():
    """Parameters, rows, and problems that are stated before a call; in a loop that goes on."""
    if SIZE == 1:
        return
    last = RANK == SIZE - 1
    weights = np.array([1.0, -2.0, 3.0])

    def fit(kind, y, **settings):
        # behind a barrier ranks advance alike, however loaded the machine is
        chosen = {"random_state": 0, "barrier": BSP(), **settings}
        return kind(runtime=SHARDS, **chosen).fit(DRAWN[MINE], y).coef_

    def stated(y, **settings):
        problem = problems.linear(DRAWN[MINE], y, loss="squared_error", **settings)
        return solve(
            problem, rule="saga", barrier=BSP(), stop=30, seed=0, runtime=SHARDS
        ).model.coef

    labels = Y[MINE]
    tries = {
        "alpha of a fit": (lambda y, bad: fit(Ridge, y, alpha=-1.0 if bad else 1e-9), 1),
        "random_state": (
            lambda y, bad: fit(Ridge, y, alpha=1e-9, random_state="odd" if bad else 0),
            1,
        ),
        "plane": (lambda y, bad: fit(SGDClassifier, labels, plane="odd" if bad else "shared"), 0),
        "loss": (lambda y, bad: fit(SGDClassifier, labels, loss="odd" if bad else "hinge"), 0),
        "class_weight": (
            lambda y, bad: fit(LogisticRegression, labels, class_weight="odd" if bad else None),
            0,
        ),
        "gaps": (lambda y, bad: fit(Ridge, np.where(bad, np.nan, y), alpha=1e-9), 1),
        "lengths": (lambda y, bad: fit(Ridge, y[: len(y) - bad], alpha=1e-9), 1),
        "alpha of a problem": (lambda y, bad: stated(y, alpha=-1.0 if bad else 1e-9), 1),
        "a part": (lambda y, bad: stated(shard(y, place=9 if bad else 0, of=1), alpha=1e-9), 1),
    }
    for what, (call, is_exact) in tries.items():
        found = []
        for step in (1.0, 10.0):
            try:
                found.append(call(step * (DRAWN[MINE] @ weights), last and step == 1.0))
            except ValueError as error:
                found.append(str(error))
        assert isinstance(found[0], str) and not isinstance(found[1], str), (what, found)
        assert (
            f"rank {SIZE - 1}" in found[0]
            or (last and "of a problem" in what)
            or (last and what == "a part")
        ), (what, found)
        assert on_all(np.asarray(found[1]).tobytes()), what
        if is_exact:
            np.testing.assert_allclose(np.ravel(found[1]), 10.0 * weights, rtol=1e-3)


def check_calls_of_several_lines_are_no_pair():
    """A rank that has left out a call makes the next one, of other rows, from another line."""
    if SIZE == 1:
        return
    if RANK == 0:
        text = refused(ValueError, lambda: solve(PROBLEM, runtime=ALL, stop=1))
    else:
        text = refused(ValueError, lambda: solve(PROBLEM, runtime=ALL, stop=1))
    assert text is not None and "the line of the call" in text and "rank 1" in text, text
    assert solve(PROBLEM, runtime=ALL, stop=1).n_epochs == 1


def check_a_late_rank_is_in_the_next_call_again():
    """Who waited in vain has made that call; on a communicator that nobody has used, too."""
    if SIZE == 1:
        return
    short = MPI(COMM.Dup(), rows="all", start_timeout=0.3)
    for runtime in (short, short):
        if RANK == 0:
            assert refused(TimeoutError, lambda r=runtime: _solved(r)) is not None
        COMM.Barrier()
        if RANK:
            assert refused(TimeoutError, lambda r=runtime: _solved(r)) is not None
        COMM.Barrier()
    long = MPI(short.comm, rows="all", start_timeout=30)
    assert on_all(_solved(long).model.coef.tobytes())


def _solved(runtime):
    return solve(PROBLEM, runtime=runtime, stop=1, seed=0, barrier=BSP())


def check_estimators_of_a_communicator_of_ones_own():
    """Copies of an estimator have the same one, which cannot be copied itself."""
    for part in (COMM.Dup(), COMM.Split(RANK % 2)):
        model = clone(LogisticRegression(runtime=MPI(part))).fit(X[MINE], Y[MINE])
        assert model.runtime.comm is part and hasattr(model, "coef_")
        assert len(set(part.allgather(model.coef_.tobytes()))) == 1
        clone(model)


def check_advice_is_a_way_out():
    if SIZE == 1:
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Lasso(1e-9, runtime=SHARDS, max_iter=1, tol=1e-12).fit(X[MINE], X[MINE] @ np.ones(30))
        LogisticRegression(runtime=SHARDS, max_iter=1, tol=1e-12).fit(X[MINE], Y[MINE])
    warned = [str(one.message) for one in caught if "did not converge" in str(one.message)]
    assert len(warned) == (2 if RANK == 0 else 0), warned
    assert not any("runtime" in text for text in warned), warned


def check_clone_and_pipeline():
    model = make_pipeline(StandardScaler().fit(X), SGDClassifier(runtime=SHARDS, random_state=0))
    # the scaler was fitted to all rows on every rank; within the pipeline it would see a part
    model = clone(model[-1]).fit(model[0].transform(X[HAS]), NAMES[HAS])
    assert alike(model) and model.score(scale(X), NAMES) > 0.9


# -- ranks that share no memory

ACROSS, APART_ALL = MPI(arena=False), MPI(arena=False, rows="all")
PART = problems.linear(X[MINE], Y[MINE], alpha=0.01)


def check_apart_one_rank_is_the_serial_run():
    if SIZE > 1:
        return
    for rule in ("sgd", "saga", "sdca"):
        ours = solve(PART, rule=rule, runtime=ACROSS, stop=5, seed=2)
        assert same_bits(ours, solve(PROBLEM, rule=rule, runtime="caller", stop=5, seed=2))


def check_apart_all_come_to_the_optimum():
    best = solve(PROBLEM, rule="saga", runtime="caller", stop=Stop(epochs=3000, gradient=1e-9))
    least = PROBLEM.objective(best.model.coef, best.model.intercept)
    for rule, epochs in (("saga", 300), ("sdca", 100)):
        for problem, runtime in ((PART, ACROSS), (PROBLEM, APART_ALL)):
            ours = solve(problem, rule=rule, runtime=runtime, stop=epochs, seed=1)
            assert on_all(ours.model.coef.tobytes())
            reached = PROBLEM.objective(ours.model.coef, ours.model.intercept)
            assert reached <= least + 1e-6, (rule, runtime.rows, reached - least)


def check_apart_saga_settles_on_shards_of_any_size():
    draw = np.random.default_rng(0)
    rows = draw.standard_normal((4000, 10))
    labels = np.sign(rows @ draw.standard_normal(10) + draw.standard_normal(4000))
    whole = problems.linear(rows, labels, alpha=1e-2)
    best = solve(whole, rule="saga", runtime="caller", stop=Stop(epochs=300, gradient=1e-12))
    least = whole.objective(best.model.coef, best.model.intercept)

    def settled(report):
        return int(np.argmax(np.asarray(report.trace.objective) < (1.0 + 1e-8) * least))

    run = {"rule": "saga", "stop": 30, "seed": 0, "trace": 1}
    alone = settled(solve(whole, runtime="caller", **run))
    for first in (4000 // SIZE, 400):  # rows of rank 0
        cuts = [0, *np.linspace(first, 4000, SIZE).astype(int)] if SIZE > 1 else [0, 4000]
        mine = slice(cuts[RANK], cuts[RANK + 1])
        part = problems.linear(rows[mine], labels[mine], alpha=1e-2)
        report = solve(part, runtime=ACROSS, **run)
        assert 0 < settled(report) <= 2 * alone, (first, settled(report), alone)


def check_apart_the_report_is_one():
    run = {"runtime": ACROSS, "n_workers": 2, "stop": 6, "seed": 0}
    report = solve(PART, **run)
    assert on_all(report.to_json()) and report.n_workers == 2 * SIZE
    if SIZE > 1:
        assert [one["worker"] for one in report.workers] == list(range(2 * SIZE))
        assert sum(one["rows"] for one in report.workers) == 6 * len(X)
        assert report.problem["rows"] == len(X) and report.problem["nonzeros"] == X.size
        assert len(report.turns) == 2 * SIZE
        assert report.staleness.sum() == sum(one["pushes"] for one in report.workers)
        assert set(report.traffic) == {"model", "update", "control", "meeting"}
        for kind in ("model", "update"):
            edges = report.traffic[kind]["edges"]
            assert sum(edge["bytes"] for edge in edges.values()) == report.traffic[kind]["bytes"]
        assert any("exchanged messages" in note for note in report.notes)
        assert report.model.t == 1 + 6 * len(X)
        notes = solve(PART, plane=Shared(exchange=None), **run).notes
        assert any("lock-free within a rank" in note for note in notes)


def check_apart_labels_are_united():
    rows = SORTED[MINE]
    extra = np.arange(2) if RANK == 0 else np.arange(len(Y) - 2, len(Y))  # so that there are two
    rows = np.concatenate([rows, SORTED[extra]])
    digits, numbers = load_digits(return_X_y=True)
    if SIZE > 1:  # each rank lacks some of ten classes
        has = np.flatnonzero(numbers % SIZE != RANK)
        many = problems.linear(digits[has] / 16.0, numbers[has], alpha=1e-3)
        # so many that ranks hear each other on the way, however slow their messages are
        report = solve(many, runtime=ACROSS, stop=12, seed=0)
        assert report.model.coef.shape[0] == 10 and on_all(report.model.coef.tobytes())
        scores = digits / 16.0 @ report.model.coef.T + report.model.intercept
        assert (scores.argmax(axis=1) == numbers).mean() > 0.85


def check_apart_stops_are_decided_once():
    report = solve(PART, runtime=ACROSS, stop=Stop(epochs=500, tol=1e-3), seed=0)
    assert on_all((report.n_epochs, report.stop_reason)) and report.converged

    def hear(epoch, snapshot):
        return epoch == 3 and RANK == 0

    report = solve(PART, runtime=ACROSS, stop=500, on_epoch=hear)
    assert on_all(report.n_epochs) and report.n_epochs == 3
    for plane in (None, Replicas("ring", every=16)):
        told = []
        run = {"runtime": ACROSS, "plane": plane, "stop": 3}
        report = solve(PART, on_epoch=lambda epoch, _, told=told: told.append(epoch), **run)
        assert told == [1, 2, 3] and report.n_epochs == 3


def check_apart_a_link_is_as_slow_as_it_says():
    if SIZE == 1:
        return
    slow = MPI(arena=False, link=Link(latency=0.05))
    late = solve(PART, runtime=slow, stop=3, seed=0).run_seconds
    fast = min(solve(PART, runtime=ACROSS, stop=3, seed=0).run_seconds for _ in range(3))
    # an epoch's end waits for one message; the rest of a run overlaps with what is on its way
    assert late > max(fast, 3 * 0.05) and on_all(late), (fast, late)


def check_apart_replicas_have_the_bits_of_the_clock():
    if SIZE == 1:
        return
    digits, numbers = load_digits(return_X_y=True)
    network = problems.network(digits[:600] / 16.0, numbers[:600], (5,))
    text, labels = datasets.zipf_classification(n_samples=8000, n_features=2000)
    words = problems.linear(text, labels, alpha=1e-4)  # whose order is of windows
    tries = (
        (PROBLEM, Replicas("ring", every=16), {"step": 1e-3}),
        (PROBLEM, Replicas("root", every=16, send="change"), {}),
        (PROBLEM, Replicas("all", every=16, weights="push-sum"), {"trace": 1}),
        (PROBLEM, Replicas("one-peer", queue=2), {}),
        (words, Replicas("root", every=500), {"n_workers": 1}),
        (network, Replicas("ring"), {"step": 0.01, "rule": "adam"}),
    )
    for problem, plane, more in tries:
        run = {"plane": plane, "seed": 5, "stop": 3, "n_workers": 2, **more}
        ours = solve(problem, runtime=APART_ALL, **run)
        run["n_workers"] *= SIZE
        clock = solve(problem, runtime="simulator", **run)
        values = [getattr(one.model, "coef", None) for one in (ours, clock)]
        if problem is network:
            values = [np.concatenate(list(map(np.ravel, m.model.coefs))) for m in (ours, clock)]
        assert np.array_equal(*values), (plane, np.abs(np.subtract(*values)).max())
        assert on_all(ours.to_json()) and ours.n_epochs == clock.n_epochs
        assert ours.reduces.whole_share == 1.0 and not ours.reduces.left_out
        assert (ours.consistency == clock.consistency).all()
        assert ours.reduces.bytes == clock.reduces.bytes
        assert {"whole", "sparse"} & set(ours.traffic)


def check_traffic_has_one_shape_on_every_plane():
    planes = {
        "shared": (Shared(), set()),
        "master": (Master(), {"model", "update"}),
        "replicas": (Replicas("ring", every=16), {"whole", "sparse"}),
        "mirrors": (Mirrors(SIZE, every=16), {"update", "barrier", "clock"}),
        "one's own": (Ring(), {"mail"}),
    }
    run = {"block": 8, "stop": 2, "step": 0.01, "seed": 0, "n_workers": 1}
    of_ranks = {"update", "model", "block", "control", "progress", "meeting"}
    for name, (plane, kinds) in planes.items():
        for runtime, barrier in ((ALL, "asp"), (APART_ALL, "asp"), (APART_ALL, "bsp")):
            if SIZE == 1 and name == "mirrors":
                continue
            report = solve(PROBLEM, plane=plane, runtime=runtime, barrier=barrier, **run)
            traffic = report.traffic
            sums_agree(traffic)
            assert on_all(report.to_json())
            if SIZE == 1 or runtime is ALL:
                assert set(traffic) <= kinds, (name, set(traffic))
                continue
            assert set(traffic) <= kinds | of_ranks, (name, set(traffic))
            is_in_step = "block" in traffic
            assert is_in_step == (barrier == "bsp" and name != "mirrors"), (name, set(traffic))
            if is_in_step:
                continue
            if name == "shared":
                assert messages(traffic, "update") > 0
            elif name == "master":  # rank 0 has it
                blocks = sum(worker["blocks"] for worker in report.workers[1:])
                assert messages(traffic, "update") == blocks and messages(traffic, "model") > 0
            elif name == "one's own":
                assert messages(traffic, "mail") == COMM.allreduce(int(plane.sent[RANK].sum()))
            else:  # a worker a rank: all that it sends goes over the network
                own = report.reduces if name == "replicas" else report.exchanges
                for kind in kinds:
                    sent = traffic.get(kind, {"messages": 0, "edges": {}})
                    assert sent["messages"] == own.traffic[kind]["messages"], (name, kind)
                    assert set(sent["edges"]) <= set(own.traffic[kind]["edges"]), (name, kind)


def at_first(residual, value, t):
    return np.full(len(residual), t == 1)


def a_tenth(residual, value, t):
    return np.abs(residual) > 0.1 * np.abs(value)


def check_apart_centres_in_step_have_the_bits_of_the_clock():
    if SIZE == 1:
        return
    # weights would go by the curvature of a rank's own rows
    in_step = {"fold": "sum", "clock_difference": 0, "every": 10}
    plane = Mirrors(SIZE, threshold=0.1, **in_step)
    run = {"plane": plane, "seed": 5, "stop": 3, "step": 1e-3}
    ours = solve(PROBLEM, runtime=APART_ALL, **run)
    clock = solve(PROBLEM, runtime="simulator", n_workers=SIZE, **run)
    assert same_bits(ours, clock) and on_all(ours.to_json())
    assert ours.exchanges.to_dict()["clocks"] == clock.exchanges.to_dict()["clocks"]
    assert 0.0 < ours.exchanges.significant_share < 1.0
    alone = {**run, "plane": Mirrors(SIZE, significance=at_first, **in_step)}  # the rest is flushed
    flushed = solve(PROBLEM, runtime=APART_ALL, **alone)
    assert same_bits(flushed, solve(PROBLEM, runtime="simulator", n_workers=SIZE, **alone))
    far = Mirrors(SIZE, threshold=0.1, **in_step, links="10x:5ms")
    late = solve(PROBLEM, runtime=APART_ALL, **{**run, "plane": far})
    assert same_bits(late, clock)
    assert late.run_seconds >= 5e-3 * (late.exchanges.clocks.min() - 1)
    by_mpi = MPI(arena=False, rows="all", link=Link(latency=5e-3))
    late = solve(PROBLEM, runtime=by_mpi, **run)
    assert same_bits(late, clock)
    assert late.run_seconds >= 5e-3 * (late.exchanges.clocks.min() - 1)


def check_apart_a_centre_may_be_at_several_ranks():
    """Its parts send each other every change, and the first of them what matters to the others."""
    if SIZE == 1:
        return
    own = 2 if SIZE == 2 else 1
    # of each worker, of which there is one in each part; the part of each; the first of each centre
    centres, parts, first = [0, 1, 0, 2], [0, 2, 1, 3], [0, 2, 3]
    if SIZE > 2:
        centres, parts, first = [0] * (SIZE - 1) + [1], list(range(SIZE)), [0, SIZE - 1]
    settings = {"fold": "sum", "clock_difference": 0, "every": 10, "threshold": 0.1}
    run = {"seed": 5, "stop": 3, "step": 1e-3}
    where = {"runtime": APART_ALL, "n_workers": own}
    ours = solve(PROBLEM, plane=Mirrors(centres, **settings), **where, **run)
    found, between = ours.exchanges, [(a, b) for a in set(centres) for b in set(centres) if a != b]
    assert on_all(ours.to_json()) and found.groups.tolist() == centres
    assert found.edges == [(0, 0), *between] and 0.0 < found.significant_share < 1.0
    assert found.sent[0, 0].all() and found.bytes == found.sent[1:, :, 1].sum()
    of_first = [p not in first or p == 0 for p in range(len(parts))]  # of centre 0
    graph = np.outer(of_first, of_first)
    graph[np.ix_(first, first)] = True
    np.fill_diagonal(graph, False)
    every = {**settings, "threshold": 0.0}
    ours = solve(PROBLEM, plane=Mirrors(centres, **every), **where, **run)
    clock = Mirrors(parts, graph=graph, **every)
    other = solve(PROBLEM, runtime="simulator", n_workers=len(parts), plane=clock, **run)
    assert same_bits(ours, other)
    late = solve(PROBLEM, plane=Mirrors(centres, links="10x:5ms", **settings), **where, **run)
    assert on_all(late.model.coef.tobytes()) and late.run_seconds >= 0.02
    crossed = [k % 2 for k in range(2 * SIZE)]  # both centres are at all ranks
    plane = Mirrors(crossed, every=8, significance=a_tenth)
    both = solve(PROBLEM, runtime=APART_ALL, n_workers=2, plane=plane, seed=1, stop=40)
    alone = solve(PROBLEM, runtime="caller", seed=1, stop=40)
    reached, least = (PROBLEM.objective(r.model.coef, r.model.intercept) for r in (both, alone))
    assert both.exchanges.n_centres == 2 and reached < least + 0.02, reached - least


def check_apart_centres_of_several_workers():
    """Workers of a centre share its memory, and a barrier; what is under way at the end is kept."""
    if SIZE == 1:
        return
    centres = [rank for rank in range(SIZE) for _ in range(2)]
    best = solve(PROBLEM, rule="saga", runtime="caller", stop=Stop(epochs=3000, gradient=1e-9))
    least = PROBLEM.objective(best.model.coef, best.model.intercept)
    for inside, more in (
        (Shared(), {"clock_difference": 3}),
        (Shared(exchange=None), {"threshold": 0.05}),
        (Shared(), {"clock_difference": float("inf"), "soft": 0.001}),
    ):
        plane = Mirrors(centres, inside, every=8, **more)
        run = {"plane": plane, "n_workers": 2, "stop": 120, "seed": 1, "barrier": SSP(2)}
        ours = solve(PROBLEM, runtime=APART_ALL, **run)
        assert on_all(ours.to_json()) and ours.exchanges.n_centres == SIZE
        reached = PROBLEM.objective(ours.model.coef, ours.model.intercept)
        assert reached < least + 0.02, (inside, more, reached - least)
        assert ours.exchanges.disagreement >= 0.0 and np.isfinite(ours.exchanges.waits).all()


class Alone(Plane):
    """Nobody tells anybody anything."""

    def after_block(self, home):
        pass


class Gossip(Plane):
    """Each worker sends its vector around a circle, and goes on from the mean of two."""

    is_by_mail = True

    def edges(self, n_workers):
        return [(k, (k + 1) % n_workers) for k in range(n_workers)]

    def arrays(self, n_params, n_workers):
        return {"taken": ((n_workers,), "int64")}

    def owners(self, n_workers):
        return {"taken": np.arange(n_workers)}

    def after_block(self, home):
        home.post((home.me + 1) % home.n_workers, home.read())
        sender = (home.me - 1) % home.n_workers
        if (message := home.mail(sender)) is not None:
            home.write(0.5 * (home.read() + message.values))
            home.take(sender)
            home.arrays["taken"][home.me] += 1

    def account(self, arrays, n_workers):
        assert arrays["taken"].all(), arrays["taken"]


def check_apart_a_plane_of_ones_own():
    if SIZE == 1:
        return
    report = solve(PART, runtime=ACROSS, plane=Gossip(), n_workers=2, stop=20, seed=0, block=8)
    assert on_all(report.to_json())
    reached = PROBLEM.objective(report.model.coef, report.model.intercept)
    assert reached < 0.4, reached


def check_apart_an_average_begins_after_rows_of_all_ranks():
    """Not after as many of a rank's own, which an epoch may not have."""
    average, n = 400, len(X)
    squares = problems.linear(DRAWN, DRAWN @ [1.0, 2.0, 3.0], loss="squared_error", alpha=1e-6)
    run = {"rule": SGD(average=average), "stop": 1, "step": StepSize("constant", 0.05), "seed": 0}
    for plane in (None, Replicas("ring")):
        if SIZE == 1 and plane is not None:
            continue
        model = solve(squares, runtime=APART_ALL, plane=plane, **run).model
        assert on_all(model.average_coef.tobytes()) and model.t == 1 + n
        # the mean of iterates near the solution, not of a start at zero, nor of none
        np.testing.assert_allclose(np.ravel(model.average_coef), [1.0, 2.0, 3.0], rtol=0.05)


def check_apart_homes_stop_together():
    """With rows of one's own, of which some have more: by a caller, a criterion, an error."""
    if SIZE == 1:
        return
    uneven = slice(None, 100) if RANK == 0 else slice(100 + RANK - 1, None, SIZE - 1)
    part = problems.linear(X[uneven], Y[uneven], alpha=0.01)
    run = {"runtime": ACROSS, "plane": Replicas("ring", every=16), "seed": 0}
    heard = []

    def hear(epoch, snapshot):
        heard.append(snapshot().coef.tobytes())
        return epoch == 3 and RANK == SIZE - 1

    report = solve(part, stop=500, on_epoch=hear, **run)
    assert on_all(report.n_epochs) and report.n_epochs == 3
    assert on_all(tuple(heard)) and len(heard) == 3
    report = solve(part, stop=Stop(epochs=500, tol=1e-3), trace=1, **run)
    assert on_all(report.to_json()) and report.converged
    assert report.trace.objective[-1] < 0.12
    average = solve(part, rule=SGD(average=True), stop=20, step=StepSize("constant", 0.01), **run)
    assert on_all(average.to_json())
    assert PROBLEM.objective(average.model.coef, average.model.intercept) < 0.15

    def fail(epoch, snapshot):
        if RANK == SIZE - 1 and epoch == 2:
            raise RuntimeError("of the last rank")

    text = refused(RuntimeError, lambda: solve(part, stop=10_000, on_epoch=fail, **run))
    assert text is not None and "of the last rank" in text
    steep = problems.network(X, Y, (3,), activation="relu")
    beyond = {**run, "runtime": APART_ALL, "stop": 50, "step": 1e100}
    text = refused(ValueError, lambda: solve(steep, **beyond))
    assert text is not None and "Floating-point under-" in text and on_all(text), text
    assert solve(part, stop=2, **run).n_epochs == 2


def check_apart_vectors_are_brought_where_somebody_looks():
    if SIZE == 1:
        return
    network = problems.network(X, Y, (30,))
    run = {"plane": Mirrors(SIZE), "runtime": APART_ALL, "seed": 0, "step": 0.01}
    sizes = [
        solve(network, stop=Stop(epochs=epochs, tol=tol), **run).traffic["meeting"]["bytes"]
        for epochs, tol in ((2, None), (6, None), (6, 0.0))
    ]
    assert sizes[1] - sizes[0] < 8 * network.n_params < sizes[2] - sizes[1], sizes


def check_apart_what_is_not_there_is_refused():
    if SIZE == 1:
        return
    tries = {
        "a problem by a gradient on Shared": lambda: solve(
            problems.network(X, Y, (3,)), runtime=APART_ALL, stop=1, step=0.1, barrier="asp"
        ),
        "Alone with is_by_mail=False": lambda: solve(PART, runtime=ACROSS, plane=Alone(), stop=2),
    }
    for words, call in tries.items():
        text = refused(ValueError, call)
        assert text is not None and words in text and on_all(text), (words, text)
    assert refused(TypeError, lambda: MPI(link=0.1)).startswith("link must be")


def check_apart_barriers_hold():
    def near(table, me):
        return table.clock[me] - table.clock[table.in_run].min(initial=table.clock[me]) <= 1

    barriers = {BSP(): 0, SSP(2): 2, near: 1, PBSP(2): None, Fraction(0.5, 1): None}
    zero = PROBLEM.objective(np.zeros((1, X.shape[1])), np.zeros(1))
    planes = (
        *(Shared(), Shared(exchange=None), Master(2)),
        *(Replicas(sync=sync) for sync in ("notify-ack", "bsp", "async")),
        *(Mirrors(SIZE), Mirrors(SIZE, inside=Shared(exchange=None))),
    )
    for plane in planes:
        for barrier, most in {**barriers, Throttled(SIZE): None}.items():
            if isinstance(plane, Mirrors) and isinstance(barrier, Throttled):
                continue
            run = {"plane": plane, "barrier": barrier, "block": 16, "stop": 3, "step": 0.01}
            report = solve(PROBLEM, runtime=APART_ALL, n_workers=2, seed=0, **run)
            leads = [worker["largest_lead"] for worker in report.workers]
            assert most is None or max(leads) <= most, (plane, barrier, leads)
            assert report.n_epochs == 3 and on_all(report.model.coef.tobytes()), (plane, barrier)
            assert PROBLEM.objective_at(report.model) < 0.5 * zero, (plane, barrier)


def check_apart_nobody_waits_for_a_board_that_was_sent():
    """One that is read between its count and its sending is not sent again, nor waited for."""
    run = {"plane": Replicas(sync="async", every=8), "barrier": SSP(1), "stop": 2, "step": 0.01}
    for seed in range(20):
        assert solve(PROBLEM, runtime=APART_ALL, n_workers=2, seed=seed, **run).n_epochs == 2


def check_apart_one_master_has_all_mail():
    run = {"n_workers": 2, "step": 0.01, "seed": 0}
    optimum = solve(PROBLEM, rule="saga", stop=60, seed=0).model
    best, start = PROBLEM.objective_at(optimum), np.log(2.0)
    planes = (Master(), Master(3), Master(2, cutoff=4, damped=True))
    for plane, rule in [*((plane, SGD()) for plane in planes), (Master(), SGD(batch=8, average=1))]:
        for runtime, problem in ((ACROSS, PART), (APART_ALL, PROBLEM)):
            report = solve(problem, plane=plane, rule=rule, runtime=runtime, stop=8, trace=1, **run)
            assert on_all((report.model.coef.tobytes(), report.model.intercept.tobytes()))
            assert report.objective - best < 0.1 * (start - best), (plane, rule, runtime)
            rows = sum(worker["rows"] for worker in report.workers)
            assert rows == 8 * len(X) and len(report.workers) == 2 * SIZE
            pushes = [worker["pushes"] for worker in report.workers]
            dropped = [worker["dropped"] for worker in report.workers]
            blocks = [worker["blocks"] for worker in report.workers]
            assert np.array_equal(np.add(pushes, dropped), blocks), (plane, pushes, blocks)
            assert sum(report.ages) == report.mail["messages"] == sum(blocks)
            if plane.cutoff is not None:
                assert sum(dropped) == sum(report.ages[plane.cutoff + 1 :])
            if SIZE > 1:
                assert report.traffic["update"]["messages"] == sum(blocks[2:])
    report = solve(PART, plane="master", runtime=ACROSS, stop=Stop(epochs=500, tol=1e-3), **run)
    assert report.converged and on_all(report.n_epochs)
    report = solve(
        PART,
        plane="master",
        runtime=ACROSS,
        stop=9,
        on_epoch=lambda epoch, model: epoch == 3,
        **run,
    )
    if SIZE > 1:  # on one the next epoch may be over when the caller is heard
        assert report.n_epochs == 3 and report.stop_reason == "the caller asked for it"
    digits, classes = load_digits(return_X_y=True)
    network = problems.network(digits / 16.0, classes, (8,))
    run = {"plane": "master", "rule": SGD(batch=20), "barrier": "ssp:1", "stop": 3, "step": 0.05}
    report = solve(network, runtime=APART_ALL, seed=0, **run)
    assert report.epoch_losses[-1] < 0.7 * report.epoch_losses[0] and on_all(report.n_epochs)


def check_apart_an_error_of_one_rank_reaches_all():
    if SIZE == 1:
        return

    def hear(epoch, snapshot):
        if RANK == SIZE - 1 and epoch == 2:
            raise RuntimeError("of the last rank")

    text = refused(RuntimeError, lambda: solve(PART, runtime=ACROSS, stop=10_000, on_epoch=hear))
    assert text is not None and "of the last rank" in text
    assert solve(PART, runtime=ACROSS, stop=2).n_epochs == 2
    # before the run, where the others wait for all
    odd = {"resume": "no.npz"} if RANK == 0 else {}
    text = refused(OSError, lambda: solve(PART, runtime=ACROSS, stop=2, **odd))
    assert text is not None and "no.npz" in text and "on rank 0" in text
    assert solve(PART, runtime=ACROSS, plane="replicas", stop=2).n_epochs == 2


# -- tasks


def gradient(rows, w):
    A, b = rows
    return A.T @ (A @ w - b)


def one_after_another(workers, n_workers, rounds=12):
    """Tasks whose order is fixed, so that wherever they run they come to the same bits."""
    rows, w = np.random.default_rng(0), np.zeros(3)
    A = rows.standard_normal((60, 3))
    with AsyncContext(workers, n_workers=n_workers, seed=1) as ac:
        if not ac.leads:
            return None
        points = ac.parallelize(A, A @ [1.0, 2.0, 3.0], partitions=4)
        for _ in range(rounds):
            points.sample(0.5).map(gradient, ac.broadcast(w)).reduce(add)
            for result in sorted(ac.collect_all(), key=lambda one: one.worker):
                w = w - 0.1 * result.value / result.n_samples
    return w


def check_tasks_on_ranks_come_to_the_bits_of_threads():
    if SIZE == 1:
        text = refused(ValueError, lambda: AsyncContext("mpi"))
        assert "at least two ranks" in text and "mpiexec" in text
        return
    found = one_after_another("mpi", None)
    if RANK == 0:
        assert np.array_equal(found, one_after_another("threads", SIZE - 1))
    else:
        assert found is None


class OnlyGoes(Exception):
    """Can be pickled, and not unpickled."""

    def __init__(self, row, why):
        super().__init__(f"{row}: {why}")


def check_tasks_of_loaders_errors_and_values_that_cannot_be_sent():
    if SIZE == 1:
        return
    with AsyncContext(MPI(start_timeout=30)) as ac:
        if ac.leads:
            made = [lambda p=p: np.full((p + 2, 2), float(p)) for p in range(SIZE)]
            points = ac.parallelize(loaders=made)
            points.map(lambda rows: rows.sum()).reduce(add)
            assert sum(one.value for one in ac.collect_all()) == sum(
                2 * p * (p + 2) for p in range(SIZE)
            )
            for function, words in {
                lambda rows: 1 / 0: "ZeroDivisionError",
                lambda rows: (x for x in ()): "cannot be sent",
                lambda rows: OnlyGoes(3, "of no use"): "cannot be unpickled by the caller",
            }.items():
                points.map(function).reduce(lambda one, other: one)
                told = []
                while ac.has_next() or ac.stat.available_workers < ac.n_workers:
                    told.append(refused(TaskError, ac.collect))
                assert told and all(words in text for text in told), told
        else:
            text = refused(RuntimeError, lambda: ac.parallelize(X))
            assert "if ac.leads" in text
    text = refused(RuntimeError, lambda: ac.parallelize(X))
    assert ("closed" if RANK == 0 else "ac.leads") in text


def check_tasks_what_the_leader_raises_all_raise():
    if SIZE == 1:
        return

    def bad():
        with AsyncContext("mpi") as ac:
            if ac.leads:
                raise KeyError("of the block")

    assert "of the block" in refused(KeyError, bad)
    text = refused(ValueError, lambda: one_after_another("mpi", SIZE))
    assert "Start at least" in text and on_all(text)


def check_methods_on_tasks_give_all_ranks_one_report():
    if SIZE == 1:
        return
    report = asgd(PROBLEM, workers="mpi", epochs=3, trace=1)
    assert report.settings["runtime"] == "mpi" and report.settings["n_workers"] == SIZE - 1
    assert on_all(report.model.coef.tobytes())
    assert report.objective < 0.5 * report.trace.objective[0]
    text = refused(ValueError, lambda: asgd(PROBLEM, workers="mpi", epochs=-1))
    assert "epochs" in text and on_all(text)


CHECKS = {name: thing for name, thing in list(globals().items()) if name.startswith("check_")}

if __name__ == "__main__":
    report_on(
        {name: CHECKS[name] for name in sys.argv[1:] or CHECKS}, RANK, together=lambda: on_all(True)
    )
