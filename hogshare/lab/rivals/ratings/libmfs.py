"""LIBMF, by its Python package."""

from __future__ import annotations

from typing import Any

import numpy as np

from hogshare.lab.rivals.contestant import Setting
from hogshare.lab.rivals.ratings.discipline import PENALTY, RANK, Factors, RatingsContestant


class LibMF(RatingsContestant):
    """Blocks of ratings that have no user and no item in common, with steps of its own kind."""

    name = "LIBMF"
    library = "libmf"

    def grid(self) -> list[Setting]:
        threads = sorted({1, self.task.workers})
        return [{"step": step, "threads": n} for step in (0.2, 0.1, 0.3) for n in threads]

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
