"""scikit-surprise's SVD, from its own data set."""

from __future__ import annotations

from typing import Any

import numpy as np

from hogshare.lab.rivals.contestant import Setting
from hogshare.lab.rivals.ratings.discipline import PENALTY, RANK, Factors, RatingsContestant


class SurpriseSVD(RatingsContestant):
    """Plain descent with a constant step, in one thread."""

    name = "surprise SVD"
    library = "scikit-surprise"

    def grid(self) -> list[Setting]:
        return [{"step": step} for step in (0.02, 0.015, 0.03)]

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
