"""The race of alternating least squares over all pairs, to the best known training objective.

As in implicit's alternating least squares, a given pair of user and item has the target 1 and a
weight. All other pairs have the target 0 and the weight 1. A model is two matrices of factors,
float of shapes (n_users, k) and (n_items, k).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from hogshare.lab.rivals.contestant import Contestant, RaceTask, Setting
from hogshare.lab.rivals.discipline import Discipline, Reference
from hogshare.optimum.alternation import Alternation, Penalty, usual_penalty

Factors = tuple[np.ndarray, np.ndarray]
RANK, EXTRA = 64, 5.0  # factors, and the weight of a pair in excess of 1
LONG = 60  # sweeps of the reference
SEED = 0


@dataclass(frozen=True)
class PairsTask(RaceTask):
    """The task of a contestant: the strength of the penalty on factors."""

    alpha: float


class PairsRace(Discipline):
    """The discipline of given pairs of users and items.

    Parameters
    ----------
    users, items : ndarray of int of shape (n_pairs,)
    """

    measure = "a relative distance from the best training objective"
    what = f"{RANK} factors without biases, a pair weighs {1 + EXTRA:g}"

    def __init__(self, users: np.ndarray, items: np.ndarray) -> None:
        ones = np.ones(len(users), np.float32)
        shape = int(users.max()) + 1, int(items.max()) + 1
        self.X = sp.csr_matrix((ones, (users, items)), shape=shape)
        self.X.sum_duplicates()
        self.X.data[:] = 1.0
        self.y = None
        counts = np.diff(self.X.indptr), np.bincount(self.X.indices, minlength=shape[1])
        self.alpha = usual_penalty(counts, EXTRA)
        self.settings = {"alpha": self.alpha, "factors": RANK, "weight": 1 + EXTRA}
        self.facts: dict[str, Any] = {"rows": int(self.X.nnz), "users": shape[0], "items": shape[1]}
        self.facts["dtype"] = str(self.X.dtype)

    def task(self, workers: int) -> PairsTask:
        return PairsTask(workers, self.alpha)

    def judge(self, model: Factors) -> float:
        """Return the sum of squares over all pairs plus the penalty, divided by the given pairs."""
        P, Q = (part.astype(np.float64) for part in model)
        met = self.X.tocoo()
        z = np.einsum("ij,ij->i", P[met.row], Q[met.col])
        of_all = float(((P.T @ P) * (Q.T @ Q)).sum())
        of_met = float(((1.0 + EXTRA) * np.square(1.0 - z) - np.square(z)).sum())
        penalty = self.alpha * float(np.square(P).sum() + np.square(Q).sum())
        found = 0.5 * (of_all + of_met + penalty) / self.X.nnz
        return found if np.isfinite(found) else float("inf")

    def find(self) -> Reference:
        """Compute the reference by many sweeps of hogshare's alternating least squares."""
        began = time.perf_counter()
        penalty = Penalty(self.alpha, 0.0)
        extras = sp.csr_array(EXTRA * self.X)
        sweeps = Alternation(extras, RANK, False, penalty, seed=SEED, dtype=np.float64)
        for _ in range(LONG):
            sweeps.sweep()
        P, Q = sweeps.lines
        seconds = time.perf_counter() - began
        return Reference(self.judge((P, Q)), None, f"hogshare, {LONG} sweeps", seconds)

    def at_start(self) -> float:
        return 0.5 * (1.0 + EXTRA)


class PairsContestant(Contestant):
    """A contestant that fits a sparse matrix of users by items, whose entries are the pairs."""

    task: PairsTask
    unit: ClassVar[str] = "iterations"


class HogshareAlternation(PairsContestant):
    """`hogshare.MatrixFactorization` on the pairs of the matrix."""

    name = "hogshare als"
    library = "hogshare"

    def prepare(self, X: Any, y: Any) -> Any:
        return X

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        from hogshare.estimators.factorisation import MatrixFactorization

        model = MatrixFactorization(
            RANK,
            biases=False,
            solver="als",
            confidence=EXTRA,
            alpha=self.task.alpha,
            max_iter=int(budget),
            random_state=seed,
            n_jobs=self.task.workers,
        )
        return model.fit(prepared)

    def model(self, fitted: Any) -> Factors:
        return fitted.user_factors_, fitted.item_factors_


class ImplicitAlternation(PairsContestant):
    """implicit's alternating least squares, with or without conjugate gradients."""

    name = "implicit als"
    library = "implicit"

    def prepare(self, X: Any, y: Any) -> Any:
        from implicit.als import AlternatingLeastSquares

        return AlternatingLeastSquares, X

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        kind, X = prepared
        model = kind(
            factors=RANK,
            regularization=self.task.alpha,
            alpha=1.0 + EXTRA,
            iterations=int(budget),
            num_threads=self.task.workers,
            random_state=seed,
        )
        model.fit(X, show_progress=False)
        return model

    def model(self, fitted: Any) -> Factors:
        return fitted.user_factors, fitted.item_factors


CONTESTANTS = (HogshareAlternation, ImplicitAlternation)
