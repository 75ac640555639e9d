"""Matrix factorisation against other libraries: to the same objective, and on ratings of films.

`rank`: seconds until the training objective is within 1 % of the best that anybody finds, on
1,000,000 noisy ratings of known rank (20,000 users, 5,000 items, 8 factors, no biases, float32),
with the penalty that each of the others takes for each rating (0.02). Users have about as many
ratings as each other, and items, so that this is a ridge, up to sizes that P and Q may hand each
other: the objective is taken where those are best. Every contestant fits from scratch, for the
fewest of some numbers of epochs that do, with its best step of a grid, which is searched before.
Seconds are of the whole fit: from arrays of numbers, or, of those that want ratings in lists or
data sets of their own, from these.

`films`: root mean squared error of 10,000 held-out ratings of MovieTweetings (100,000; predictions
within 0 to 10), at everybody's default settings, and of biases alone; and seconds of the fit.

The others: scikit-surprise's SVD, cornac's MF, LIBMF. implicit has no loss of ratings. Who is not
installed is left out, and told. Usage::

    HOGSHARE_DATA=FOLDER python bench/factorisation.py --json bench/results/factorisation.json
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from summaries import store

from hogshare import BSP, Master, MatrixFactorization, Shared, StepSize, problems, solve
from hogshare.problems import Params

USERS, ITEMS, RATINGS, RANK, NOISE = 20_000, 5_000, 1_000_000, 8, 0.3
PENALTY = 0.02  # for each rating
EPOCHS = (6, 8, 10, 12, 14, 17, 20, 25, 30, 40)
WITHIN = 1.01
POWER = 0.75  # by which our steps fall
HELD_OUT = 10_000
LOWEST, HIGHEST = 0.0, 10.0

Factors = tuple[np.ndarray, np.ndarray]
Fit = Callable[[float, int, int], tuple[float, Factors]]


# -- a set of known rank -------------------------------------------------------------------------


class KnownRank:
    """Ratings, and how good factors are."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.users = rng.integers(USERS, size=RATINGS)
        self.items = rng.integers(ITEMS, size=RATINGS)
        P = rng.normal(size=(USERS, RANK))
        Q = rng.normal(size=(ITEMS, RANK)) / np.sqrt(RANK)
        self.ratings = (P[self.users] * Q[self.items]).sum(axis=1)
        self.ratings += NOISE * rng.normal(size=RATINGS)
        self.alpha = PENALTY * RATINGS / np.sqrt(USERS * ITEMS)

    def objective(self, factors: Factors) -> float:
        """Mean loss and penalty, at the best sizes of P and Q that have this product."""
        P, Q = (part.astype(np.float64) for part in factors)
        wrong = self.ratings - np.einsum("ij,ij->i", P[self.users], Q[self.items])
        penalty = self.alpha * np.linalg.norm(P) * np.linalg.norm(Q)
        found = float(0.5 * wrong @ wrong + penalty) / RATINGS
        return found if np.isfinite(found) else np.inf

    def by_us(self, plane: Any, n_workers: int, runtime: str, barrier: Any = None) -> Fit:
        def fit(step: float, epochs: int, seed: int) -> tuple[float, Factors]:
            began = time.perf_counter()
            problem = problems.factorisation(
                self.users,
                self.items,
                self.ratings,
                n_factors=RANK,
                biases=False,
                alpha=self.alpha,
            )
            first = step / problem.sharpness * RATINGS**POWER
            report = solve(
                problem,
                plane=plane,
                barrier=barrier,
                n_workers=n_workers,
                runtime=runtime,
                step=StepSize("invscaling", first, POWER),
                stop=epochs,
                shuffle=False,
                seed=seed,
                start=Params(problem.start(seed), float(RATINGS)),
            )
            took = time.perf_counter() - began
            _, P, _, Q = problem.split(report.model.params)
            return took, (P, Q)

        return fit

    def by_surprise(self) -> Fit:
        from surprise import SVD, Dataset, Reader

        reader = Reader(rating_scale=(float(self.ratings.min()), float(self.ratings.max())))
        triples = zip(self.users.tolist(), self.items.tolist(), self.ratings.tolist(), strict=True)
        data = Dataset(reader)
        data.raw_ratings = [(*triple, None) for triple in triples]
        train = data.construct_trainset(data.raw_ratings)
        inner = [
            np.array([train.to_inner_uid(u) for u in range(USERS)]),
            np.array([train.to_inner_iid(i) for i in range(ITEMS)]),
        ]

        def fit(step: float, epochs: int, seed: int) -> tuple[float, Factors]:
            model = SVD(RANK, epochs, False, lr_all=step, reg_all=PENALTY, random_state=seed)
            began = time.perf_counter()
            model.fit(train)
            return time.perf_counter() - began, (model.pu[inner[0]], model.qi[inner[1]])

        return fit

    def by_cornac(self, threads: int) -> Fit:
        from cornac.data import Dataset
        from cornac.models import MF

        ids = self.users.tolist(), self.items.tolist(), self.ratings.tolist()
        data = Dataset.build(list(zip(*ids, strict=True)))
        users = np.array([data.uid_map[u] for u in range(USERS)])
        items = np.array([data.iid_map[i] for i in range(ITEMS)])
        settings = {"use_bias": False, "lambda_reg": PENALTY, "num_threads": threads}

        def fit(step: float, epochs: int, seed: int) -> tuple[float, Factors]:
            model = MF(k=RANK, max_iter=epochs, learning_rate=step, seed=seed, **settings)
            began = time.perf_counter()
            model.fit(data)
            took = time.perf_counter() - began
            return took, (model.u_factors[users], model.i_factors[items])

        return fit

    def by_libmf(self, threads: int) -> Fit:
        from libmf import mf

        triples = np.column_stack([self.users, self.items, self.ratings])
        settings = {"lambda_p1": 0.0, "lambda_q1": 0.0, "quiet": True, "nr_threads": threads}

        def fit(step: float, epochs: int, seed: int) -> tuple[float, Factors]:
            strengths = {"lambda_p2": PENALTY, "lambda_q2": PENALTY}
            model = mf.MF(k=RANK, nr_iters=epochs, eta=step, **strengths, **settings)
            began = time.perf_counter()
            model.fit(triples)
            took = time.perf_counter() - began
            found = model.model
            P = np.ctypeslib.as_array(found.P, (found.m, found.k)).copy()
            return took, (P, np.ctypeslib.as_array(found.Q, (found.n, found.k)).copy())

        return fit

    def contestants(self) -> dict[str, tuple[Callable[[], Fit], tuple[float, ...]]]:
        """Who fits, and the steps of their grids."""
        ours, theirs = (0.6, 0.8, 1.0), (0.01, 0.02, 0.04)
        one = Shared(exchange=None)
        return {
            "hogshare, 1 worker": (lambda: self.by_us(one, 1, "caller"), ours),
            "hogshare, 2 threads, one vector": (lambda: self.by_us(one, 2, "threads"), ours),
            "hogshare, 2 threads, private copies": (
                lambda: self.by_us(Shared(), 2, "threads"),
                ours,
            ),
            "hogshare, 2 threads, copies behind BSP": (
                lambda: self.by_us(Shared(), 2, "threads", BSP()),
                ours,
            ),
            "hogshare, 2 threads, master": (lambda: self.by_us(Master(), 2, "threads"), ours),
            "LIBMF, 1 thread": (lambda: self.by_libmf(1), (0.1, 0.2, 0.3)),
            "LIBMF, 2 threads": (lambda: self.by_libmf(2), (0.1, 0.2, 0.3)),
            "cornac MF, 1 thread": (lambda: self.by_cornac(1), theirs),
            "cornac MF, 2 threads": (lambda: self.by_cornac(2), theirs),
            "surprise SVD": (self.by_surprise, theirs),
        }


def installed(contestants: dict[str, Any]) -> Iterator[tuple[str, Fit, tuple[float, ...]]]:
    """Those whose library is there."""
    for name, (make, steps) in contestants.items():
        try:
            yield name, make(), steps
        except ImportError as error:
            print(f"{name:40} left out: {error}", flush=True)


def rank(rounds: int) -> dict[str, Any]:
    """Every contestant's best step and fewest epochs, then all of them in turn."""
    known = KnownRank()
    fits, found = {}, {}
    for name, fit, steps in installed(known.contestants()):
        fits[name] = fit
        fit(steps[0], 1, 0)  # compiles
        for step in steps:
            for epochs in EPOCHS:
                _, factors = fit(step, epochs, 0)
                found[name, step, epochs] = known.objective(factors)
            least = min(found[name, step, epochs] for epochs in EPOCHS)
            print(f"{name:40} step {step:5}  {least:.5f}", flush=True)
    best = min(found.values())
    chosen: dict[str, tuple[int, float]] = {}
    for (name, step, epochs), objective in found.items():
        if objective <= WITHIN * best:
            chosen[name] = min(chosen.get(name, (epochs, step)), (epochs, step))
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in chosen}
    for seed in range(rounds):
        for name, (epochs, step) in chosen.items():
            took, factors = fits[name](step, epochs, seed)
            runs[name].append((took, known.objective(factors)))
    table: list[dict[str, Any]] = []
    for name in fits:
        least = min(objective for (whose, *_), objective in found.items() if whose == name)
        cell: dict[str, Any] = {"who": name, "seconds": None, "least objective": least}
        if name in chosen:
            epochs, step = chosen[name]
            seconds = [took for took, _ in runs[name]]
            reached = statistics.median(objective for _, objective in runs[name])
            cell |= {"seconds": statistics.median(seconds), "fewest seconds": min(seconds)}
            cell |= {"epochs": epochs, "step": step, "objective": reached}
        table.append(cell)
    told = {"rounds": rounds, "penalty": PENALTY, "within": WITHIN, "epochs tried": EPOCHS}
    return {"settings": told, "best objective": best, "table": table}


# -- ratings of films ----------------------------------------------------------------------------


def films() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Users, items and ratings, and an order of them whose last are held out."""
    path = Path(os.environ["HOGSHARE_DATA"]) / "movietweetings_100k_ratings.dat.xz"
    with lzma.open(path, "rt") as lines:
        fields = np.array([line.split("::")[:3] for line in lines], dtype=np.int64)
    order = np.random.default_rng(0).permutation(len(fields))
    return fields[:, 0], fields[:, 1], fields[:, 2].astype(np.float64), order


def of_films(rounds: int) -> dict[str, Any]:
    """Errors and seconds of everybody, in turn."""
    users, items, ratings, order = films()
    train, test = order[:-HELD_OUT], order[-HELD_OUT:]

    def error(predicted: Any) -> float:
        within = np.clip(predicted, LOWEST, HIGHEST)
        return float(np.sqrt(np.mean((within - ratings[test]) ** 2)))

    def by_us(**settings: Any) -> Callable[[int], tuple[float, float]]:
        def fit(seed: int) -> tuple[float, float]:
            model = MatrixFactorization(unknown="ignore", random_state=seed, **settings)
            began = time.perf_counter()
            model.fit(users[train], items[train], ratings[train])
            took = time.perf_counter() - began
            return took, error(model.predict(users[test], items[test]))

        return fit

    def by_surprise(kind: str) -> Callable[[int], tuple[float, float]]:
        import surprise

        data = surprise.Dataset(surprise.Reader(rating_scale=(LOWEST, HIGHEST)))
        parts = users[train].tolist(), items[train].tolist(), ratings[train].tolist()
        data.raw_ratings = [(*triple, None) for triple in zip(*parts, strict=True)]
        trainset = data.construct_trainset(data.raw_ratings)
        pairs = list(zip(users[test].tolist(), items[test].tolist(), strict=True))

        def fit(seed: int) -> tuple[float, float]:
            settings = {"random_state": seed} if kind == "SVD" else {"verbose": False}
            model = getattr(surprise, kind)(**settings)
            began = time.perf_counter()
            model.fit(trainset)
            took = time.perf_counter() - began
            return took, error([model.predict(*pair).est for pair in pairs])

        return fit

    def by_cornac() -> Callable[[int], tuple[float, float]]:
        from cornac.data import Dataset
        from cornac.models import MF

        parts = users[train].tolist(), items[train].tolist(), ratings[train].tolist()
        data = Dataset.build(list(zip(*parts, strict=True)))
        unknown_user, unknown_item = data.num_users, data.num_items
        rows = [data.uid_map.get(u, unknown_user) for u in users[test].tolist()]
        columns = [data.iid_map.get(i, unknown_item) for i in items[test].tolist()]

        def fit(seed: int) -> tuple[float, float]:
            model = MF(seed=seed)
            began = time.perf_counter()
            model.fit(data)
            took = time.perf_counter() - began
            b, P = _padded(model.u_biases), _padded(model.u_factors)
            c, Q = _padded(model.i_biases), _padded(model.i_factors)
            z = model.global_mean + b[rows] + c[columns]
            return took, error(z + np.einsum("ij,ij->i", P[rows], Q[columns]))

        return fit

    contestants: dict[str, Callable[[], Callable[[int], tuple[float, float]]]] = {
        "hogshare, 1 worker": lambda: by_us(n_jobs=1),
        "hogshare, 2 threads": lambda: by_us(n_jobs=2, runtime="threads"),
        "hogshare, biases alone": lambda: by_us(n_jobs=1, n_factors=0),
        "surprise SVD": lambda: by_surprise("SVD"),
        "surprise BaselineOnly": lambda: by_surprise("BaselineOnly"),
        "cornac MF": by_cornac,
    }
    table: list[dict[str, Any]] = [
        {"who": "the mean", "seconds": None, "error": error(ratings[train].mean())}
    ]
    fits = {}
    for name, make in contestants.items():
        try:
            fits[name] = make()
        except ImportError as lacking:
            print(f"{name:40} left out: {lacking}", flush=True)
            continue
        fits[name](0)  # compiles
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in fits}
    for seed in range(rounds):
        for name, fit in fits.items():
            runs[name].append(fit(seed))
    for name, found in runs.items():
        seconds, errors = zip(*found, strict=True)
        cell = {"who": name, "seconds": statistics.median(seconds)}
        table.append(cell | {"error": statistics.median(errors)})
    return {"settings": {"rounds": rounds, "held out": HELD_OUT}, "table": table}


def _padded(lines: np.ndarray) -> np.ndarray:
    """With a line of zeros for who is not known."""
    return np.concatenate([lines, np.zeros_like(lines[:1])])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default="rank,films")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of the others' imports
    parts = {"rank": rank, "films": of_films}
    results: dict[str, Any] = {}
    if options.json and options.json.exists():
        results = json.loads(options.json.read_text(encoding="utf-8"))["results"]
    for name in options.parts.split(","):
        results[name] = parts[name](options.rounds)
        for cell in results[name]["table"]:
            words = (f"{v:.4f}" if isinstance(v, float) else f"{v}" for v in cell.values())
            print(f"{name:6}", *(f"{word:>12}" for word in words), flush=True)
        if options.json:
            store(options.json, {"results": results})


if __name__ == "__main__":
    main()
