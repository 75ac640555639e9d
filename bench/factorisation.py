"""Matrix factorisation against other libraries, on ratings of films.

Root mean squared error of 10,000 held-out ratings of MovieTweetings (100,000; predictions within 0
to 10), at everybody's default settings, and of biases alone; and seconds of the fit. Time to an
objective on ratings of known rank is raced by ``hogshare bench rivals --problem factorisation``.

The others: scikit-surprise's SVD, cornac's MF. implicit has no loss of ratings. Who is not
installed is left out, with a line that says so. Usage::

    HOGSHARE_DATA=FOLDER python bench/factorisation.py --json bench/results/factorisation.json
"""

from __future__ import annotations

import lzma
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import script

from hogshare import MatrixFactorization

HELD_OUT = 10_000
LOWEST, HIGHEST = 0.0, 10.0

Run = Callable[[int], dict[str, float]]


def ratings_of_films() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Users, items and ratings, and an order of them whose last are held out."""
    path = Path(os.environ["HOGSHARE_DATA"]) / "movietweetings_100k_ratings.dat.xz"
    with lzma.open(path, "rt") as lines:
        fields = np.array([line.split("::")[:3] for line in lines], dtype=np.int64)
    order = np.random.default_rng(0).permutation(len(fields))
    return fields[:, 0], fields[:, 1], fields[:, 2].astype(np.float64), order


def _padded(lines: np.ndarray) -> np.ndarray:
    """With a line of zeros for who is not known."""
    return np.concatenate([lines, np.zeros_like(lines[:1])])


def measure(options: Any) -> dict[str, Any]:
    """Errors and seconds of everybody."""
    users, items, ratings, order = ratings_of_films()
    train, test = order[:-HELD_OUT], order[-HELD_OUT:]

    def error(predicted: Any) -> float:
        within = np.clip(predicted, LOWEST, HIGHEST)
        return float(np.sqrt(np.mean((within - ratings[test]) ** 2)))

    def timed(fit: Callable[[], Any], predict: Callable[[], Any]) -> dict[str, float]:
        return {"seconds": script.seconds(fit), "error": error(predict())}

    def by_us(**settings: Any) -> Run:
        def fit(seed: int) -> dict[str, float]:
            model = MatrixFactorization(unknown="ignore", random_state=seed, **settings)
            return timed(
                lambda: model.fit(users[train], items[train], ratings[train]),
                lambda: model.predict(users[test], items[test]),
            )

        return fit

    def by_surprise(kind: str) -> Run:
        import surprise

        data = surprise.Dataset(surprise.Reader(rating_scale=(LOWEST, HIGHEST)))
        parts = users[train].tolist(), items[train].tolist(), ratings[train].tolist()
        data.raw_ratings = [(*triple, None) for triple in zip(*parts, strict=True)]
        trainset = data.construct_trainset(data.raw_ratings)
        pairs = list(zip(users[test].tolist(), items[test].tolist(), strict=True))

        def fit(seed: int) -> dict[str, float]:
            settings = {"random_state": seed} if kind == "SVD" else {"verbose": False}
            model = getattr(surprise, kind)(**settings)
            return timed(
                lambda: model.fit(trainset), lambda: [model.predict(*pair).est for pair in pairs]
            )

        return fit

    def by_cornac() -> Run:
        from cornac.data import Dataset
        from cornac.models import MF

        parts = users[train].tolist(), items[train].tolist(), ratings[train].tolist()
        data = Dataset.build(list(zip(*parts, strict=True)))
        unknown_user, unknown_item = data.num_users, data.num_items
        rows = [data.uid_map.get(u, unknown_user) for u in users[test].tolist()]
        columns = [data.iid_map.get(i, unknown_item) for i in items[test].tolist()]

        def fit(seed: int) -> dict[str, float]:
            model = MF(seed=seed)
            took = script.seconds(lambda: model.fit(data))
            b, P = _padded(model.u_biases), _padded(model.u_factors)
            c, Q = _padded(model.i_biases), _padded(model.i_factors)
            z = model.global_mean + b[rows] + c[columns]
            return {"seconds": took, "error": error(z + np.einsum("ij,ij->i", P[rows], Q[columns]))}

        return fit

    makers: dict[str, Callable[[], Run]] = {
        "hogshare, 1 worker": lambda: by_us(n_jobs=1),
        "hogshare, 2 threads": lambda: by_us(n_jobs=2, runtime="threads"),
        "hogshare, biases alone": lambda: by_us(n_jobs=1, n_factors=0),
        "surprise SVD": lambda: by_surprise("SVD"),
        "surprise BaselineOnly": lambda: by_surprise("BaselineOnly"),
        "cornac MF": by_cornac,
    }
    fits: dict[str, Run] = {}
    for name, make in makers.items():
        try:
            fits[name] = make()
        except ImportError as lacking:
            print(f"{name}: left out, {lacking}", flush=True)
    runs = script.in_rounds(fits, options.rounds)
    table: list[dict[str, Any]] = [
        {"who": "the mean", "seconds": None, "error": error(ratings[train].mean())},
        *({"who": name, **script.medians(found)} for name, found in runs.items()),
    ]
    script.show(table, "ratings of films")
    films = {"settings": {"rounds": options.rounds, "held out": HELD_OUT}, "table": table}
    return {"results": {**script.before(options).get("results", {}), "films": films}}


if __name__ == "__main__":
    script.run(__doc__, measure, rounds=5)
