"""The race of factorisations: to a relative distance from the best training objective known.

Ratings are made, of known rank. Users have about as many ratings as each other, and items, so that
the penalty that others take for each rating is a ridge, up to sizes that P and Q may hand each
other: the objective is taken where those are best. A model is a pair of factors, float
[n_users, k] and [n_items, k].
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hogshare.lab.rivals.contestant import Contestant, Task
from hogshare.lab.rivals.discipline import Reference, above
from hogshare.problems.factorisation import factorisation
from hogshare.problems.params import Params
from hogshare.rules.steps import StepSize
from hogshare.solvers.solving import solve

Factors = tuple[np.ndarray, np.ndarray]
PENALTY = 0.02  # for each rating
RANK = 8
LONG = 60  # epochs, whose objective is taken for the best
BEST_STEP = 0.8
POWER = 0.75  # by which our steps fall


@dataclass(frozen=True)
class RatingsTask(Task):
    """Sizes, and the penalty for each rating and as a ridge."""

    n_ratings: int
    n_users: int
    n_items: int

    @property
    def alpha(self) -> float:
        """Of the ridge."""
        return float(PENALTY * self.n_ratings / np.sqrt(self.n_users * self.n_items))


class RatingsContestant(Contestant):
    """Who fits users and items, int [n_ratings, 2], and ratings."""

    task: RatingsTask


class RatingsRace:
    """Ratings of known rank.

    Parameters
    ----------
    users, items : ndarray of int of shape (n_ratings,)
    ratings : ndarray of shape (n_ratings,)
    """

    measure: ClassVar[str] = "a relative distance from the best training objective"

    def __init__(self, users: np.ndarray, items: np.ndarray, ratings: np.ndarray) -> None:
        self.X, self.y = np.column_stack([users, items]), ratings
        self.sizes = len(ratings), int(users.max()) + 1, int(items.max()) + 1
        self.what = f"{RANK} factors without biases, penalty {PENALTY:g} for each rating"

    def task(self, workers: int) -> RatingsTask:
        """Sizes."""
        return RatingsTask(workers, *self.sizes)

    def judge(self, model: Factors) -> float:
        """Mean loss and penalty, at the best sizes of P and Q that have this product."""
        P, Q = (part.astype(np.float64) for part in model)
        wrong = self.y - np.einsum("ij,ij->i", P[self.X[:, 0]], Q[self.X[:, 1]])
        penalty = self.task(1).alpha * np.linalg.norm(P) * np.linalg.norm(Q)
        found = float(0.5 * wrong @ wrong + penalty) / len(self.y)
        return found if np.isfinite(found) else float("inf")

    def find(self) -> Reference:
        """Many epochs of ours, with one worker."""
        began = time.perf_counter()
        problem = stated(self.X, self.y, self.task(1))
        model = descended(problem, BEST_STEP, LONG, 0, n_workers=1, runtime="caller")
        return Reference(
            self.judge(model), None, f"hogshare, {LONG} epochs", time.perf_counter() - began
        )

    def distance(self, value: float, lowest: float) -> float:
        """Relative."""
        return above(value, lowest)

    def settings(self) -> dict[str, Any]:
        """The penalty."""
        return {"penalty": PENALTY, "factors": RANK}

    def facts(self) -> dict[str, Any]:
        """Sizes."""
        names = "rows", "users", "items"
        return dict(zip(names, self.sizes, strict=True)) | {"dtype": str(self.y.dtype)}

    def at_start(self) -> float:
        """Of zeros."""
        return float(0.5 * np.mean(np.square(self.y)))


def stated(X: np.ndarray, y: np.ndarray, task: RatingsTask) -> Any:
    """The problem, as we have it."""
    settings: dict[str, Any] = {"n_factors": RANK, "biases": False, "alpha": task.alpha}
    return factorisation(X[:, 0], X[:, 1], y, **settings)


def descended(problem: Any, step: float, epochs: int, seed: int, **choices: Any) -> Factors:
    """Factors after so many epochs of steps that fall."""
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
