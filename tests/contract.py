"""The members of every kind of choice, and what does not go together: tables of the contracts.

Who adds a problem, a rule, a plane or a barrier adds a row to its table here; runtimes are in
`test_contract.py`, and ranks of MPI in `rank_contract.py`.
"""

import numba
import numpy as np
import scipy.sparse as sp

from hogshare import (
    ASP,
    BSP,
    PBSP,
    PSSP,
    SAGA,
    SDCA,
    SGD,
    SSP,
    Adam,
    Fraction,
    Grid,
    Master,
    Mirrors,
    Plane,
    Replicas,
    Rule,
    Shared,
    StepSize,
    Throttled,
    Until,
    problems,
)

N, D = 240, 5
ALL = slice(None)
DRAWS = np.random.default_rng(0)
X = DRAWS.standard_normal((N, D))
Y = (X @ np.arange(1.0, D + 1.0) + 0.5 * DRAWS.standard_normal(N) > 0.0).astype(int)
MANY = np.argmax(X[:, :3], axis=1)
SIGN = 2.0 * Y - 1.0
USERS, ITEMS = np.arange(N) % 12, np.arange(N) // 12
RATINGS = 3.0 + DRAWS.standard_normal(N)
WORDS = DRAWS.poisson(np.where(np.arange(2 * D) // D == Y[:, np.newaxis], 2.0, 0.2))


def by_numpy(w, rows, out):
    x, s = X[rows], SIGN[rows]
    margin = s * (x @ w)
    out += x.T @ (-s / (1.0 + np.exp(margin))) + 0.01 * len(rows) * w
    return np.logaddexp(0.0, -margin).sum() + 0.005 * len(rows) * (w @ w)


@numba.njit(nogil=True)
def by_numba(w, rows, out):
    loss = 0.0
    for r in rows:
        margin = SIGN[r] * (X[r] * w).sum()
        out += -SIGN[r] / (1.0 + np.exp(margin)) * X[r] + 0.01 * w
        loss += np.log1p(np.exp(-margin)) + 0.005 * (w * w).sum()
    return loss


def by_places(w, rows, out):
    """Distances from a target along one coordinate for each row."""
    places = rows % D
    np.add.at(out, places, w[places] - 1.0)
    return 0.5 * np.square(w[places] - 1.0).sum(), np.unique(places)


class Median(problems.GradientProblem):
    """Where the smoothed distances to some points are least."""

    def __init__(self, points):
        self.points = points
        self.n_rows, self.n_params = points.shape

    def gradient(self, w, rows, out):
        away = w - self.points[rows]
        far = np.sqrt(np.square(away).sum(axis=1) + 0.01)
        out += (away / far[:, None]).sum(axis=0)
        return far.sum()


class Steps(Median):
    """The same, with a pass of its own."""

    def advance(self, w, rows, eta):
        loss = 0.0
        for row in rows:
            away = w - self.points[row]
            far = np.sqrt(away @ away + 0.01)
            w -= eta / far * away
            loss += far
        return loss


class SignSGD(Rule):
    """Steps by the gradient's sign."""

    def step(self, gradient, eta):
        np.sign(gradient, out=gradient)
        gradient *= eta


class Momentum(Rule):
    """Steps that go on, each worker's own, in the direction of its last."""

    def state(self, n_params):
        return {"velocity": ((n_params,), "float64")}

    def step(self, gradient, eta, state):
        state["velocity"] *= 0.5
        state["velocity"] += eta * gradient
        gradient[:] = state["velocity"]


class Averaged(Plane):
    """Homes that go on from their mean every other block."""

    def arrays(self, n_params, n_workers):
        return {"last": ((n_workers, n_params), "float64"), "seen": ((n_workers,), "int64")}

    def after_block(self, home):
        if home.blocks % 2 == 0:
            last, seen = home.arrays["last"], home.arrays["seen"]
            last[home.me], seen[home.me] = home.read(), 1
            home.write(last[seen > 0].mean(axis=0))


class Ring(Plane):
    """Homes that go on from their neighbours' mean of the same round, for which they wait."""

    def arrays(self, n_params, n_workers):
        return {"rounds": ((2, n_workers), "int64"), "last": ((2, n_workers, n_params), "float64")}

    def after_block(self, home):
        rounds, last, now = home.arrays["rounds"], home.arrays["last"], home.clock
        around = sorted({(home.me + k) % home.n_workers for k in (-1, 0, 1)})
        last[now % 2, home.me] = home.read()
        rounds[now % 2, home.me] = now
        yield Until(lambda: (home.table.gone | (rounds.max(axis=0) >= now))[around].all())
        there = [k for k in around if rounds[now % 2, k] == now]
        home.write(last[now % 2, there].mean(axis=0))


# of all rows, or of some, as a rank has them; those whose gradient knows its rows are of all
PROBLEMS = {
    "linear": lambda rows=ALL: problems.linear(X[rows], Y[rows], alpha=0.01),
    "sparse": lambda rows=ALL: problems.linear(
        sp.csr_array(X * (X > 0.0))[rows], Y[rows], alpha=0.01
    ),
    "columns": lambda rows=ALL: problems.linear(
        X[rows], MANY[rows], loss="multinomial", alpha=0.01
    ),
    "numpy": lambda: problems.user(by_numpy, N, D),
    "numba": lambda: problems.user(by_numba, N, D),
    "places": lambda: problems.user(by_places, N, D),
    "class": lambda rows=ALL: Median(X[rows] + 1.0),
    "network": lambda rows=ALL: problems.network(
        X[rows], Y[rows], (4,), activation="tanh", alpha=0.01
    ),
    "pass": lambda rows=ALL: Steps(X[rows] + 1.0),
    "factorisation": lambda rows=ALL: problems.factorisation(
        USERS[rows], ITEMS[rows], RATINGS[rows], n_factors=2
    ),
    "topics": lambda rows=ALL: problems.topics(WORDS[rows], 2, random_state=0),
}
RULES = {
    "sgd": SGD(),
    "batch": SGD(batch=8),
    "average": SGD(average=True),
    "descent": SGD(batch=8, momentum=0.5, nesterov=True, weight_decay=1e-3, clip=50.0),
    "adam": Adam(batch=8),
    "sdca": SDCA(),
    "saga": SAGA(),
    "sign": SignSGD(),
    "momentum": Momentum(),
}
PLANES = {
    "shared": Shared(),
    "lock-free": Shared(exchange=None),
    "grid": Grid(),
    "master": Master(),
    "homes": Averaged(),
    "ring": Ring(),
    "replicas": Replicas(every=16),
    "mirrors": Mirrors(2, every=16),
    "direct": Mirrors(2, Shared(exchange=None), every=16),
}
BARRIERS = {
    "asp": ASP(),
    "bsp": BSP(),
    "ssp": SSP(1),
    "pbsp": PBSP(1),
    "pssp": PSSP(1, 1),
    "fraction": Fraction(0.5, 2),
    "throttled": Throttled(2),
    "own": lambda table, me: table.clock[me] <= table.clock[table.in_run].min() + 2,
}

HOMES = ("homes", "ring", "replicas", "mirrors", "direct")
WITH_ROWS = ("linear", "sparse", "columns")
BY_GRADIENT = [name for name in PROBLEMS if name not in WITH_ROWS]

# What does not go together, and a word of the sentence that says so.
REFUSED = {
    ("rule", "problem"): {
        ("sdca", "columns"): "couples",
        **{(r, p): "remembers" for r in ("sdca", "saga") for p in BY_GRADIENT},
        **{
            (r, p): "makes steps of gradients"
            for r in ("sign", "momentum", "adam")
            for p in WITH_ROWS
        },
        **{("descent", p): "by a gradient" for p in WITH_ROWS},
        **{
            (r, "topics"): "would change them"
            for r in ("average", "sign", "momentum", "descent", "adam")
        },
    },
    ("rule", "plane"): {
        ("sdca", "lock-free"): "private copies",
        ("average", "direct"): "counts every change",
        **{(r, p): "shared vector" for r in ("sdca", "saga") for p in ("master", *HOMES)},
    },
    ("problem", "plane"): {
        (k, "grid"): "rows are in cells" for k in PROBLEMS if k != "factorisation"
    },
    ("rule", "problem", "plane"): {
        **{("batch", k, p): "batch=1" for k in WITH_ROWS for p in ("shared", *HOMES[:-1])},
        **{
            (r, "factorisation", "grid"): "takes other steps"
            for r in ("batch", "average", "descent", "adam", "sign", "momentum", "sdca", "saga")
        },
    },
    ("plane", "barrier"): {(p, "throttled"): "throttled release" for p in ("mirrors", "direct")},
    ("rule", "plane", "runtime"): {("saga", "lock-free", "simulator"): "Simulator"},
}


def words(chosen):
    """What the sentence that refuses this may say; empty if it has to run."""
    return [
        rows[tuple(chosen[kind] for kind in kinds)]
        for kinds, rows in REFUSED.items()
        if tuple(chosen[kind] for kind in kinds) in rows
    ]


def step_for(problem):
    """A step size; None where the problem says its steps itself."""
    says = not problem.has_rows and problem.has_steps
    return None if says else StepSize("constant", 0.005)


def first_objective(problem):
    if problem.has_rows:
        shape = problem.n_columns, problem.n_features
        return problem.objective(np.zeros(shape), np.zeros(problem.n_columns))
    return problem.objective(problem.start())
