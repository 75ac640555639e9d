"""What is tried on ranks: each case is a call that all make, which has to keep its promises.

A case is a function of a `World`. It is called on every rank, raises if anything is not as
promised, and returns numbers that have to be the same on all. `rank_contract.py` calls them.
"""

import dataclasses
import functools
from pathlib import Path

import numpy as np
from contract import (
    BARRIERS,
    ITEMS,
    PLANES,
    PROBLEMS,
    RATINGS,
    RULES,
    USERS,
    WORDS,
    D,
    N,
    X,
    Y,
    first_objective,
    step_for,
    words,
)

from hogshare import (
    BSP,
    SAGA,
    SGD,
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
    Simulator,
    StepSize,
    Stop,
    problems,
    replay,
    solve,
)

EPOCHS = 4
SHARE = 0.4  # of what one worker gains in as many epochs, which any run gains at least
SHARES = {"homes": 0.02}  # whose means are with homes that may stand still, where nobody waits
LEADS = {"bsp": 0, "ssp": 1, "own": 2}  # blocks that a worker is ahead, at most
WEIGHT = 1.0 + np.arange(N) % 3
TARGET = X @ np.arange(1.0, D + 1.0)


class Gossip(Plane):
    """Each worker sends its vector around a circle, and goes on from the mean of two."""

    is_by_mail = True

    def edges(self, n_workers):
        return [(k, (k + 1) % n_workers) for k in range(n_workers)]

    def after_block(self, home):
        home.post((home.me + 1) % home.n_workers, home.read())
        sender = (home.me - 1) % home.n_workers
        if (message := home.mail(sender)) is not None:
            home.write(0.5 * (home.read() + message.values))
            home.take(sender)


MORE_PLANES = {
    "damped": Master(gradients=2, damped=True),
    "in step": Replicas(every=16, sync="bsp"),
    "at once": Replicas(every=16, sync="async"),
    "claimed": Replicas(every=16, rows="claimed"),
    "gossip": Gossip(),
}
ALL_PLANES = {**PLANES, **MORE_PLANES}
del ALL_PLANES["grid"]  # whose workers share one memory, and no more is to be said of it
# those of the table that is quoted: with all barriers 64 pairs
QUOTED = ("shared", "lock-free", "master", "homes", "replicas", "in step", "at once", "mirrors")
ALL_PROBLEMS = {
    **PROBLEMS,
    "weighted": lambda rows: problems.linear(
        X[rows], Y[rows], sample_weight=WEIGHT[rows], alpha=0.01
    ),
}
STATED = ("linear", "sparse", "columns", "class", "network", "factorisation", "topics")
DONE_BY = ("sgd", "descent", "adam", "saga", "sdca", "momentum")
ON, AND_ON = ("shared", "replicas"), ("master", "mirrors")


# -- where cases run


class World:
    """Where cases run: on this rank, with the others.

    runtime : as `solve` has it
    n_workers : of this rank
    rank, size : its place
    is_cut : whether a rank has rows of its own
    folder : one for all ranks
    """

    def __init__(self, runtime, n_workers, rank=0, size=1, is_cut=False, folder=None):
        self.runtime, self.n_workers, self.rank, self.folder = runtime, n_workers, rank, folder
        self.total = size * n_workers
        self.rows = np.arange(N)
        if is_cut:  # some of each class, user and item
            self.rows = np.random.default_rng(1).permutation(N)[rank::size]
        self.sessions = 0  # that were made in this call

    def solved(self, name, *, gains=SHARE, **settings):
        """Solve a problem, whose report has to be as promised."""
        self.sessions = 0
        problem = ALL_PROBLEMS[name](self.rows)
        rule = settings.get("rule", SGD())
        if not rule.remembers:
            settings.setdefault("step", step_for(problem))
        run = {"seed": 0, "stop": EPOCHS, "n_workers": self.n_workers, **settings}
        report = solve(problem, runtime=self.runtime, **run)
        assert report.n_workers == len(report.workers) == self.total, report.n_workers
        if run["stop"] == EPOCHS and "resume" not in run:
            assert report.n_epochs == EPOCHS, report.n_epochs
            seen = sum(worker["rows"] for worker in report.workers)
            assert seen == EPOCHS * N, f"{seen} rows"
        start, reached = start_of(name), objective_of(name, report.model)
        n_epochs = report.n_epochs
        if settings["plane"].has_homes:  # of which the mean goes on as one of them does
            n_epochs = max(1, n_epochs // self.total)
        one = by_one(name, rule, settings.get("step"), n_epochs)
        assert np.isfinite(reached), reached
        wanted = start - gains * (start - one)
        assert reached <= wanted, f"from {start} to {reached}, where one worker comes to {one}"
        assert report.to_json() and str(report)
        return report

    def estimator(self, kind, **settings):
        """An estimator that is fitted by the workers of all ranks."""
        chosen = {"random_state": 0, "n_jobs": self.n_workers, "runtime": self.runtime}
        return kind(**chosen, **settings)

    def part(self, array):
        """What this rank has of an array."""
        return array[self.rows]

    def fitted(self, estimator, *given, method="fit", **more):
        """The same estimator, after a method that fits it to the rows of all ranks."""
        self.sessions = 0
        by_row = {k: self.part(v) for k, v in more.items() if isinstance(v, np.ndarray)}
        return getattr(estimator, method)(*map(self.part, given), **{**more, **by_row})


def numbers_of(model):
    """What a model is made of."""
    parts = (model.params,) if hasattr(model, "params") else (model.coef, model.intercept)
    return np.concatenate([np.ravel(part) for part in parts])


def objective_of(name, model):
    return whole(name).objective_at(model)


@functools.cache
def whole(name):
    return ALL_PROBLEMS[name](np.arange(N))


@functools.cache
def start_of(name):
    return first_objective(whole(name))


@functools.cache
def by_one(name, rule, step, n_epochs):
    """What one worker comes to, on one vector."""
    report = solve(whole(name), runtime="caller", rule=rule, step=step, stop=n_epochs, seed=0)
    return objective_of(name, report.model)


# -- cases: each is called on every rank, raises if anything is not as promised, and returns numbers
# that have to be the same on all


def pair(world, plane, barrier):
    """A plane with a barrier."""
    chosen = {"plane": ALL_PLANES[plane], "barrier": BARRIERS[barrier]}
    report = world.solved("linear", gains=SHARES.get(plane, SHARE), trace=1, **chosen)
    ahead = max(worker["largest_lead"] or 0 for worker in report.workers)
    assert ahead <= LEADS.get(barrier, ahead), f"a worker was {ahead} blocks ahead"
    assert report.objective < start_of("linear")
    return numbers_of(report.model)


def ruled(world, rule, problem, plane):
    """A rule with a problem, on a plane."""
    return numbers_of(world.solved(problem, rule=RULES[rule], plane=ALL_PLANES[plane]).model)


def checkpoint(world, plane):
    file = Path(world.folder) / f"{plane}.npz"
    report = world.solved("linear", plane=ALL_PLANES[plane], checkpoint=file)
    assert file.stat().st_size > 0
    return numbers_of(report.model)


def resume(world, plane):
    file = Path(world.folder) / f"{plane} to go on with.npz"
    world.solved("linear", plane=ALL_PLANES[plane], checkpoint=file, stop=2)
    report = world.solved("linear", plane=ALL_PLANES[plane], resume=file)
    assert report.n_epochs == EPOCHS and any("resumed after 2" in note for note in report.notes)
    return numbers_of(report.model)


def record(world, plane):
    report = world.solved("linear", plane=ALL_PLANES[plane], record=True)
    assert report.recording is not None
    return numbers_of(report.model)


def replayed(world, plane):
    report = world.solved("linear", plane=ALL_PLANES[plane], record=True)
    found, ours = numbers_of(replay(whole("linear"), report)), numbers_of(report.model)
    exact = ALL_PLANES[plane].has_master
    np.testing.assert_allclose(found, ours, rtol=0.0 if exact else 0.5, atol=0 if exact else 0.05)
    return ours


def trace(world, plane, snapshots):
    report = world.solved("linear", plane=ALL_PLANES[plane], trace=snapshots, gradients=True)
    curve = report.trace
    # every so many whole blocks; of what workers complete at once there may be one snapshot
    assert EPOCHS * (snapshots - 1) < len(curve.objective), curve.epochs
    assert len(curve.objective) <= EPOCHS * (snapshots + 1) + 2, curve.epochs
    assert (np.diff(curve.epochs) > 0.0).all(), curve.epochs
    assert EPOCHS - 1 / snapshots < curve.epochs[-1] <= EPOCHS, curve.epochs
    np.testing.assert_allclose(curve.objective[0], start_of("linear"))
    gained = curve.objective[0] - objective_of("linear", report.model)
    assert curve.objective[-1] < curve.objective[0] - 0.5 * gained
    assert curve.squared_gradient[-1] < curve.squared_gradient[0]
    return curve.objective


def validation(world, plane):
    held_out = (np.arange(N) % 5 == 0)[world.rows]
    stop = Stop(epochs=50, tol=1e-3, patience=2, validation=held_out)
    report = world.solved("linear", plane=ALL_PLANES[plane], stop=stop)
    assert report.converged and report.n_epochs < 50, report.stop_reason
    return [report.n_epochs, *numbers_of(report.model)]


def checked(world, plane, **criterion):
    """A run that ends where evaluations of the model say so."""
    rule = SAGA() if plane == "shared" else SGD()
    step = None if plane == "shared" else StepSize("constant", 0.005)
    stop = Stop(epochs=300, **criterion)
    report = world.solved("linear", plane=ALL_PLANES[plane], rule=rule, step=step, stop=stop)
    assert report.converged, report.stop_reason
    for name, least in criterion.items():
        assert report.checks[-1][name] <= least
    found = [report.checks[-1]["objective"]]
    near = 0.01 if plane == "mirrors" else 1e-6  # mail that was under way comes in at the end
    np.testing.assert_allclose(found, objective_of("linear", report.model), rtol=near)
    return found


def confirmed(world, plane):
    stop = Stop(epochs=300, tol=1e-5, confirm=True)
    report = world.solved("linear", plane=ALL_PLANES[plane], rule=SAGA(), stop=stop)
    assert report.converged, report.stop_reason
    return [report.n_epochs, *numbers_of(report.model)]


def ended_by_losses(world, plane):
    report = world.solved("linear", plane=ALL_PLANES[plane], stop=Stop(epochs=300, tol=1e-3))
    assert report.converged and len(report.epoch_losses) == report.n_epochs < 300
    assert report.epoch_losses[-1] < report.epoch_losses[0], report.epoch_losses
    return report.epoch_losses


def weighted(world, plane):
    return numbers_of(world.solved("weighted", plane=ALL_PLANES[plane]).model)


def heard(world, plane):
    told = []

    def hear(epoch, snapshot):
        told.append(epoch)
        return epoch == 2 and objective_of("linear", snapshot()) < start_of("linear")

    report = world.solved("linear", plane=ALL_PLANES[plane], stop=10_000, on_epoch=hear)
    assert told == [1, 2] or (world.rank and not told), told
    assert 2 <= report.n_epochs < 10_000
    return numbers_of(report.model)


def started(world, plane):
    first = world.solved("linear", plane=ALL_PLANES[plane], stop=2)
    report = world.solved("linear", plane=ALL_PLANES[plane], stop=2, start=first.model)
    assert report.model.t == 1 + 4 * N, report.model.t
    reached, before = (objective_of("linear", one.model) for one in (report, first))
    assert reached < before, f"{before} and then {reached}"
    return numbers_of(report.model)


def straggling(world, plane):
    report = world.solved("linear", plane=ALL_PLANES[plane], stragglers="cds:0.6")
    assert report.settings["stragglers"]
    return numbers_of(report.model)


def averaged(world, plane):
    report = world.solved("linear", plane=ALL_PLANES[plane], rule=SGD(average=True))
    mean = dataclasses.replace(
        report.model, coef=report.model.average_coef, intercept=report.model.average_intercept
    )
    assert objective_of("linear", mean) < 0.9 * start_of("linear")
    return numbers_of(mean)


def seeded(world, plane):
    """Bits of as many threads, where all workers have all rows; else as `docs/ranks.md` says."""
    own = ALL_PLANES[plane]
    if plane == "mirrors":
        own = Mirrors(world.total, every=16, fold="sum", clock_difference=0)
    run = {"plane": own, "barrier": None if plane == "replicas" else BSP()}
    found = [numbers_of(world.solved("linear", **run, stop=3).model) for _ in range(2)]
    if len(world.rows) < N and plane not in ("replicas", "mirrors"):
        return found[0]  # sites that have rows of their own are not in step
    if len(world.rows) == N:
        run |= {"runtime": "threads", "n_workers": world.total, "step": step_for(whole("linear"))}
        found.append(numbers_of(solve(whole("linear"), seed=0, stop=3, **run).model))
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
    return found[0]


def again(world, plane):
    """On a virtual clock, by the report."""
    own = {"replicas": Replicas(), "mirrors": Mirrors(2)}.get(plane, ALL_PLANES[plane])
    report = world.solved("linear", plane=own, trace=1)
    goal = start_of("linear") - SHARE * (start_of("linear") - report.objective)
    block, _ = report.again.pace(whole("linear"), world.total, 1)
    way = Simulator(seed=0), block, 20
    assert report.again.epochs_to(goal, whole("linear"), world.total, *way) is not None
    return [goal]


CAPABILITIES = {
    "checkpoint": (checkpoint, ON),
    "resume": (resume, ON),
    "record": (record, ("lock-free", "master")),
    "replay": (replayed, ("lock-free", "master")),
    "trace=1": (functools.partial(trace, snapshots=1), ON),
    "trace=4": (functools.partial(trace, snapshots=4), ON),
    "validation": (validation, ON),
    "gradient": (functools.partial(checked, gradient=0.05), ON),
    "gap": (functools.partial(checked, gap=0.05), ON),
    "confirm": (confirmed, ("shared",)),
    "tol": (ended_by_losses, ON),
    "weights": (weighted, ON),
    "on_epoch": (heard, ON),
    "start": (started, ON),
    "stragglers": (straggling, ON),
    "average": (averaged, ON),
    "seed": (seeded, ON),
    "again": (again, ON),
}


# -- estimators


def scored(model, rows, y, least=0.85):
    score = model.score(rows, y)
    assert score > least, score
    return np.ravel(model.coefs_[0] if hasattr(model, "coefs_") else model.coef_)


def classifier(world, kind, **settings):
    return scored(world.fitted(world.estimator(kind, **settings), X, Y), X, Y)


def regressor(world, kind, **settings):
    return scored(world.fitted(world.estimator(kind, **settings), X, TARGET), X, TARGET)


def warm_started(world):
    model = world.estimator(SGDClassifier, warm_start=True, **SGD_SETTINGS)
    first = world.fitted(model, X, Y).coef_
    again = world.fitted(model, X, Y).coef_
    assert np.abs(again - first).max() > 0.0
    return scored(model, X, Y)


def by_parts(world):
    model = world.estimator(SGDClassifier, loss="log_loss")
    for k in range(3):
        world.fitted(model, X, Y, method="partial_fit", classes=[0, 1])
        assert model.t_ == 1.0 + (k + 1) * N, model.t_
    return scored(model, X, Y)


def with_weights(world):
    model = world.estimator(SGDClassifier, **SGD_SETTINGS)
    return scored(world.fitted(model, X, Y, sample_weight=WEIGHT), X, Y)


def taste(world):
    model = world.estimator(MatrixFactorization, n_factors=2, max_iter=20)
    world.fitted(model, USERS, ITEMS, RATINGS)
    away = model.predict(USERS, ITEMS) - RATINGS
    assert (away @ away) < ((RATINGS - RATINGS.mean()) ** 2).sum()
    return np.ravel(model.user_factors_)


def topics(world):
    settings = {"learning_method": "online", "max_iter": 4, "n_components": 2}
    model = world.fitted(world.estimator(LatentDirichletAllocation, **settings), WORDS)
    about = model.transform(WORDS).argmax(axis=1)
    assert max((about == Y).mean(), (about != Y).mean()) > 0.7
    return np.ravel(model.components_)


SGD_SETTINGS = {"loss": "log_loss", "max_iter": 10, "tol": None}
MLP_SETTINGS = {
    "hidden_layer_sizes": (8,),
    "max_iter": 20,
    "learning_rate_init": 0.02,
    "batch_size": 16,
    "tol": 0.0,
}
ESTIMATORS = {
    "SGDClassifier": functools.partial(classifier, kind=SGDClassifier, **SGD_SETTINGS),
    "early stopping": functools.partial(
        classifier, kind=SGDClassifier, loss="log_loss", early_stopping=True
    ),
    "warm start": warm_started,
    "partial_fit": by_parts,
    "sample_weight": with_weights,
    "LogisticRegression": functools.partial(classifier, kind=LogisticRegression),
    "Ridge": functools.partial(regressor, kind=Ridge),
    "Lasso": functools.partial(regressor, kind=Lasso, alpha=0.01),
    "MLPClassifier": functools.partial(classifier, kind=MLPClassifier, **MLP_SETTINGS),
    "MatrixFactorization": taste,
    "topics": topics,
}


def is_possible(rule, problem, plane):
    """Whether these go together in one process."""
    chosen = {"rule": rule, "problem": problem, "plane": plane}
    return not words({**chosen, "barrier": "asp", "runtime": "threads"})


CASES = {
    **{
        f"{plane} x {barrier}": functools.partial(pair, plane=plane, barrier=barrier)
        for plane in ALL_PLANES
        for barrier in BARRIERS
    },
    **{
        f"{rule} of {problem} on {plane}": functools.partial(
            ruled, rule=rule, problem=problem, plane=plane
        )
        for plane in ON
        for problem in STATED
        for rule in DONE_BY
        if is_possible(rule, problem, plane)
    },
    **{
        f"{name} on {plane}": functools.partial(function, plane=plane)
        for name, (function, planes) in CAPABILITIES.items()
        for plane in (*planes, *(AND_ON if planes is ON else ()))
    },
    **ESTIMATORS,
}
