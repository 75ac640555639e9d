"""Matrix factorisation against other libraries, on ratings of films.

Root mean squared error of 10,000 held-out ratings of MovieTweetings (100,000; predictions within 0
to 10), at the default settings of each library, and of biases alone; and seconds of the fit. The
race to an objective on ratings of known rank is ``hogshare bench rivals --problem factorisation``.

The rivals are scikit-surprise's SVD and cornac's MF. implicit has no loss of ratings. A library
that is not installed is left out, with a line that says so.

With ``--threads`` instead: milliseconds of an epoch and of a whole fit by one thread and by two, on
the grid and without locks, of 1,000,000 ratings of known rank and of all of MovieTweetings. Whole
fits have ``alpha=5``, without the short fits that choose a penalty. Usage::

    HOGSHARE_DATA=FOLDER python bench/factorisation.py --json bench/results/factorisation.json
    HOGSHARE_DATA=FOLDER python bench/factorisation.py --threads --json RESULT
"""

from __future__ import annotations

import itertools
import lzma
import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import script

from hogshare import Grid, MatrixFactorization, Shared, problems, solve
from hogshare.estimators.vocabulary import distinct

HELD_OUT = 10_000
LOWEST, HIGHEST = 0.0, 10.0
N_RATINGS, N_USERS, N_ITEMS, RANK = 1_000_000, 10_000, 5_000, 8  # of a set of known rank
FACTORS, EPOCHS, ALPHA = (8, 32, 64), 20, 5.0
PLANES = {"grid": Grid(), "no locks": Shared(exchange=None)}

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


def ratings_of_known_rank() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Users, items and ratings that factors explain, but for noise."""
    rng = np.random.default_rng(0)
    users, items = rng.integers(N_USERS, size=N_RATINGS), rng.integers(N_ITEMS, size=N_RATINGS)
    P, Q = rng.normal(size=(N_USERS, RANK)), rng.normal(size=(N_ITEMS, RANK))
    explained = (P[users] * Q[items]).sum(axis=1) / np.sqrt(RANK)
    return users, items, explained + 0.5 * rng.normal(size=N_RATINGS) + 3.0


def measure_threads(options: Any) -> dict[str, Any]:
    """Milliseconds of an epoch and of a fit, by one thread and by two."""
    sets = {"known rank": ratings_of_known_rank(), "films": ratings_of_films()[:3]}
    table: list[dict[str, Any]] = []
    for name, (users, items, ratings) in sets.items():
        lines = [distinct(ids)[1] for ids in (users, items)]
        for k in FACTORS:
            problem = problems.factorisation(*lines, ratings, n_factors=k, alpha=ALPHA)
            runs: dict[Any, Run] = {}
            for plane, workers in itertools.product(PLANES, (1, 2)):
                chosen = {"plane": PLANES[plane], "runtime": "threads"}

                def epoch(
                    seed: int, problem: Any = problem, n: int = workers, of: Any = chosen
                ) -> dict[str, float]:
                    run = {**of, "step": 0.02, "stop": EPOCHS, "shuffle": False, "seed": seed}
                    return {"ms": 1e3 * solve(problem, n_workers=n, **run).seconds["run"] / EPOCHS}

                def fit(
                    seed: int,
                    ids: Any = (users, items, ratings),
                    n: int = workers,
                    k: int = k,
                    of: Any = chosen,
                ) -> dict[str, float]:
                    settings = {**of, "n_jobs": n, "alpha": ALPHA, "max_iter": EPOCHS}
                    model = MatrixFactorization(k, random_state=seed, **settings)
                    return {"ms": 1e3 * script.seconds(lambda: model.fit(*ids))}

                runs["epoch", plane, workers], runs["fit", plane, workers] = epoch, fit
            found = script.in_rounds(runs, options.rounds)
            for plane, what in itertools.product(PLANES, ("epoch", "fit")):
                one, two = ([run["ms"] for run in found[what, plane, n]] for n in (1, 2))
                row = {"ratings": name, "factors": k, "plane": plane, "of": what}
                row |= {"1 thread, ms": statistics.median(one)}
                row |= {"2 threads, ms": statistics.median(two)}
                row |= {"gain": script.median_ratio(one, two), "of quickest": min(one) / min(two)}
                table.append(row)
    script.show(table, "one thread and two")
    settings = {"rounds": options.rounds, "epochs": EPOCHS, "alpha": ALPHA}
    threads = {"settings": settings, "table": table}
    return {"results": {**script.before(options).get("results", {}), "threads": threads}}


def measure(options: Any) -> dict[str, Any]:
    """Errors and seconds of everybody; with ``--threads`` those of one and of two."""
    return measure_threads(options) if options.threads else measure_everybody(options)


def measure_everybody(options: Any) -> dict[str, Any]:
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
    script.run(__doc__, measure, rounds=5, threads=False)
