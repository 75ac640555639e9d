"""The race of factorisations, to a relative distance from the best known training objective.

The ratings are synthetic, of known rank. All users have about the same number of ratings, and all
items have about the same number. The penalty per rating of other libraries is therefore a ridge
penalty, except for a scale that one factor may gain and the other lose. The objective is computed
at the best scale. A model is two matrices of factors P and Q, float of shapes (n_users, k) and
(n_items, k).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hogshare.barriers import BSP
from hogshare.lab.rivals.contestant import Contestant, RaceTask, Setting
from hogshare.lab.rivals.discipline import Discipline, Reference
from hogshare.planes.grid import Grid
from hogshare.planes.master import Master
from hogshare.planes.shared import Shared
from hogshare.problems.factorisation import factorisation
from hogshare.problems.params import Params
from hogshare.rules.steps import StepSize
from hogshare.solvers.solver import solve

Factors = tuple[np.ndarray, np.ndarray]
PENALTY = 0.02  # for each rating
RANK = 8
LONG = 60  # epochs of the reference
BEST_STEP = 0.8
POWER = 0.75  # exponent by which hogshare's steps fall
CONSTANT_STEPS = (0.02, 0.015, 0.03)  # of plain descent


@dataclass(frozen=True)
class RatingsTask(RaceTask):
    """The task of a contestant: the sizes of the data, and the penalty per rating."""

    n_ratings: int
    n_users: int
    n_items: int

    @property
    def alpha(self) -> float:
        """Strength of the same penalty as a ridge penalty."""
        return float(PENALTY * self.n_ratings / np.sqrt(self.n_users * self.n_items))


class RatingsRace(Discipline):
    """The discipline of ratings of known rank.

    Parameters
    ----------
    users, items : ndarray of int of shape (n_ratings,)
    ratings : ndarray of shape (n_ratings,)
    """

    measure = "a relative distance from the best training objective"
    what = f"{RANK} factors without biases, penalty {PENALTY:g} for each rating"

    def __init__(self, users: np.ndarray, items: np.ndarray, ratings: np.ndarray) -> None:
        self.X, self.y = np.column_stack([users, items]), ratings
        self.sizes = len(ratings), int(users.max()) + 1, int(items.max()) + 1
        self.settings = {"penalty": PENALTY, "factors": RANK}
        names = "rows", "users", "items"
        self.facts = dict(zip(names, self.sizes, strict=True)) | {"dtype": str(ratings.dtype)}

    def task(self, workers: int) -> RatingsTask:
        return RatingsTask(workers, *self.sizes)

    def judge(self, model: Factors) -> float:
        """Return mean loss plus penalty, at the best scale of P and Q with the same product."""
        P, Q = (part.astype(np.float64) for part in model)
        wrong = self.y - np.einsum("ij,ij->i", P[self.X[:, 0]], Q[self.X[:, 1]])
        penalty = self.task(1).alpha * np.linalg.norm(P) * np.linalg.norm(Q)
        found = float(0.5 * wrong @ wrong + penalty) / len(self.y)
        return found if np.isfinite(found) else float("inf")

    def find(self) -> Reference:
        """Compute the reference by many epochs of hogshare with one worker."""
        began = time.perf_counter()
        problem = stated(self.X, self.y, self.task(1))
        model = descended(problem, BEST_STEP, LONG, 0, n_workers=1, runtime="caller")
        return Reference(
            self.judge(model), None, f"hogshare, {LONG} epochs", time.perf_counter() - began
        )

    def at_start(self) -> float:
        return float(0.5 * np.mean(np.square(self.y)))


def stated(X: np.ndarray, y: np.ndarray, task: RatingsTask) -> Any:
    """Return the problem of hogshare on these ratings."""
    settings: dict[str, Any] = {"n_factors": RANK, "biases": False, "alpha": task.alpha}
    return factorisation(X[:, 0], X[:, 1], y, **settings)


def descended(problem: Any, step: float, epochs: int, seed: int, **choices: Any) -> Factors:
    """Return the factors after `epochs` epochs with decreasing steps."""
    n = problem.n_rows
    report = solve(
        problem,
        step=StepSize("invscaling", step / problem.sharpness * n**POWER, POWER),
        stop=epochs,
        shuffle=False,
        seed=seed,
        start=Params(problem.start(seed), float(n)),
        **choices,
    )
    _, P, _, Q = problem.split(report.model.params)
    return P, Q


class RatingsContestant(Contestant):
    """A contestant that fits ratings, whose users and items are int of shape (n_ratings, 2)."""

    task: RatingsTask
    steps: ClassVar[tuple[float, ...]] = CONSTANT_STEPS
    threaded: ClassVar[bool] = True  # whether the number of threads is a setting

    def grid(self) -> list[Setting]:
        if not self.threaded:
            return [{"step": step} for step in self.steps]
        threads = sorted({1, self.task.workers})
        return [{"step": step, "threads": n} for step in self.steps for n in threads]


class HogshareDescent(RatingsContestant):
    """`hogshare.solve` in threads, on one vector without locks: an application of Hogwild!."""

    name = "hogshare exchange=None"
    library = "hogshare"
    steps = (0.8, 0.6, 1.0)
    threaded = False
    choices: ClassVar[dict[str, Any]] = {"plane": Shared(exchange=None)}

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        crew: dict[str, Any] = {"n_workers": self.task.workers, "runtime": "threads"}
        if self.task.workers == 1:
            crew["runtime"] = "caller"
        problem = stated(prepared[0], prepared[1], self.task)
        return descended(problem, setting["step"], int(budget), seed, **crew, **self.choices)


class LibMF(RatingsContestant):
    """LIBMF: threads take blocks of ratings without a common user or item, with its own steps."""

    name = "LIBMF"
    library = "libmf"
    steps = (0.2, 0.1, 0.3)

    def prepare(self, X: Any, y: Any) -> Any:
        from libmf import mf

        return mf, np.column_stack([X, y])

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        mf, triples = prepared
        model = mf.MF(
            k=RANK,
            nr_iters=int(budget),
            eta=setting["step"],
            lambda_p1=0.0,
            lambda_q1=0.0,
            lambda_p2=PENALTY,
            lambda_q2=PENALTY,
            nr_threads=setting["threads"],
            quiet=True,
        )
        model.fit(triples)
        return model

    def model(self, fitted: Any) -> Factors:
        found = fitted.model
        P = np.ctypeslib.as_array(found.P, (found.m, found.k)).copy()
        return P, np.ctypeslib.as_array(found.Q, (found.n, found.k)).copy()


class CornacMF(RatingsContestant):
    """cornac: plain descent with a constant step, on its own data set; threads write one model."""

    name = "cornac MF"
    library = "cornac"

    def prepare(self, X: Any, y: Any) -> Any:
        from cornac.data import Dataset
        from cornac.models import MF

        triples = zip(*X.T.tolist(), y.tolist(), strict=True)
        data = Dataset.build(list(triples))
        users = np.array([data.uid_map.get(u, 0) for u in range(self.task.n_users)])
        items = np.array([data.iid_map.get(i, 0) for i in range(self.task.n_items)])
        return MF, data, users, items

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        kind, data, users, items = prepared
        model = kind(
            k=RANK,
            max_iter=int(budget),
            learning_rate=setting["step"],
            lambda_reg=PENALTY,
            use_bias=False,
            num_threads=setting["threads"],
            seed=seed,
        )
        model.fit(data)
        return model, users, items

    def model(self, fitted: Any) -> Factors:
        model, users, items = fitted
        return model.u_factors[users], model.i_factors[items]


class SurpriseSVD(RatingsContestant):
    """Surprise: plain descent with a constant step, on its own data set, in one thread."""

    name = "surprise SVD"
    library = "scikit-surprise"
    threaded = False

    def prepare(self, X: Any, y: Any) -> Any:
        from surprise import SVD, Dataset, Reader

        data = Dataset(Reader(rating_scale=(float(y.min()), float(y.max()))))
        data.raw_ratings = [
            (*pair, r, None) for *pair, r in zip(*X.T.tolist(), y.tolist(), strict=True)
        ]
        train = data.construct_trainset(data.raw_ratings)
        known = train._raw2inner_id_users, train._raw2inner_id_items
        sizes = self.task.n_users, self.task.n_items
        places = [
            np.array([inner.get(k, 0) for k in range(n)])
            for inner, n in zip(known, sizes, strict=True)
        ]
        return SVD, train, *places

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        kind, train, users, items = prepared
        steps = {"lr_all": setting["step"], "reg_all": PENALTY}
        model = kind(RANK, int(budget), False, random_state=seed, **steps)
        return model.fit(train), users, items

    def model(self, fitted: Any) -> Factors:
        model, users, items = fitted
        return model.pu[users], model.qi[items]


class ImplicitALS(RatingsContestant):
    """implicit, which does not race: its models are for clicks, and have no loss of ratings."""

    name = "implicit ALS"
    library = "implicit"

    def refusal(self) -> str:
        return "its models are for clicks, without a loss of ratings: use --problem preferences"


CONTESTANTS = (
    HogshareDescent.called("hogshare grid", choices={"plane": Grid()}),
    HogshareDescent,
    HogshareDescent.called("hogshare private copies", choices={"plane": Shared()}),
    HogshareDescent.called(
        "hogshare copies behind BSP", choices={"plane": Shared(), "barrier": BSP()}
    ),
    HogshareDescent.called("hogshare master", choices={"plane": Master()}),
    LibMF,
    CornacMF,
    SurpriseSVD,
    ImplicitALS,
)
