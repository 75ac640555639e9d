"""cornac's MF, from its own data set."""

from __future__ import annotations

from typing import Any

import numpy as np

from hogshare.lab.rivals.contestant import Setting
from hogshare.lab.rivals.ratings.discipline import PENALTY, RANK, Factors, RatingsContestant


class CornacMF(RatingsContestant):
    """Plain descent with a constant step; threads write one model."""

    name = "cornac MF"
    library = "cornac"

    def grid(self) -> list[Setting]:
        threads = sorted({1, self.task.workers})
        return [{"step": step, "threads": n} for step in (0.02, 0.015, 0.03) for n in threads]

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
