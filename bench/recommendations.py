"""Lists of the best items from pairs alone, against implicit: quality and speed.

Recall and NDCG of the first 20 on a fifth of the pairs of each user with at least ten, at the
default settings of each library, on films (MovieTweetings, without its ratings), on a synthetic log
with popular items, and on words of documents (20 newsgroups, words in 10 to 599 of 3,000
documents): five seeds of the split and of the fit, with the standard error of the mean over them.
Seconds of a sweep of alternating least squares with 64 factors and of lists of ten for 10,000
users, each with two threads, alternating.

implicit gets its threads by its own parameter, and BLAS one thread each, as it advises. A library
that is not installed is left out, with a line that says so. Usage::

    HOGSHARE_DATA=FOLDER python bench/recommendations.py --json bench/results/recommendations.json
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import lzma
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import script
from threadpoolctl import threadpool_limits

from hogshare import MatrixFactorization, datasets
from hogshare.metrics import ndcg_at_k, recall_at_k

K, THREADS = 20, 2
REST = 0.5  # seconds between runs
SEEDS = range(5)
FEWEST, SHARE = 10, 0.2  # pairs of a user of whom some are held out, and how many of them

Lists = Callable[[np.ndarray], list[list[int]]]


def films() -> tuple[np.ndarray, np.ndarray]:
    """Who has rated which film."""
    path = Path(os.environ["HOGSHARE_DATA"]) / "movietweetings_100k_ratings.dat.xz"
    with lzma.open(path, "rt") as lines:
        fields = np.array([line.split("::")[:2] for line in lines], dtype=np.int64)
    return fields[:, 0], fields[:, 1]


def log() -> tuple[np.ndarray, np.ndarray]:
    """A made log."""
    users, items, _ = datasets.clicks()
    return users, items


def words() -> tuple[np.ndarray, np.ndarray]:
    """Which words are in which document."""
    found = np.load(Path(os.environ["HOGSHARE_DATA"]) / "20news_train_counts.npz")
    parts = found["data"], found["indices"].astype(np.int32), found["indptr"]
    counts = sp.csr_array(parts, shape=tuple(found["shape"]))[:3000]
    documents = np.bincount(counts.indices, minlength=counts.shape[1])
    within = counts[:, np.flatnonzero((documents >= 10) & (documents < 600))].tocoo()
    return within.row.astype(np.int64), within.col.astype(np.int64)


SETS = {"films": films, "log": log, "words": words}


def divided(users: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Places of the pairs to fit, and of those that are held out."""
    counts = np.bincount(users)
    order = np.random.default_rng(seed).permutation(len(users))
    order = order[np.argsort(users[order], kind="stable")]
    within = np.arange(len(users)) - (np.cumsum(counts) - counts)[users[order]]
    n_held_out = np.where(counts >= FEWEST, (SHARE * counts).astype(int), 0)
    held = within < n_held_out[users[order]]
    return np.sort(order[~held]), np.sort(order[held])


def by_us(seed: int, matrix: sp.csr_matrix, **settings: Any) -> Lists:
    """Lists of ours; users and items are numbers of the matrix's rows and columns."""
    users, items = matrix.nonzero()
    model = MatrixFactorization(random_state=seed, n_jobs=THREADS, **settings).fit(users, items)
    return lambda asked: [[item for item, _ in one] for one in model.recommend(asked, K)]


def by_implicit(kind: str, seed: int, matrix: sp.csr_matrix) -> Lists:
    """Lists of implicit's."""
    import implicit

    kinds = {
        "als": implicit.als.AlternatingLeastSquares,
        "bpr": implicit.bpr.BayesianPersonalizedRanking,
    }
    model = kinds[kind](random_state=seed, num_threads=THREADS)
    model.fit(matrix, show_progress=False)
    return lambda asked: model.recommend(asked, matrix[asked], N=K)[0].tolist()


CONTESTANTS: dict[str, Callable[[int, sp.csr_matrix], Lists]] = {
    "hogshare": by_us,
    "hogshare bpr": lambda seed, matrix: by_us(seed, matrix, loss="bpr"),
    "hogshare logistic": lambda seed, matrix: by_us(seed, matrix, loss="logistic"),
    "implicit als": lambda seed, matrix: by_implicit("als", seed, matrix),
    "implicit bpr": lambda seed, matrix: by_implicit("bpr", seed, matrix),
}


def quality() -> list[dict[str, Any]]:
    """How good everybody's lists are."""
    table: list[dict[str, Any]] = []
    for name, made in SETS.items():
        users, items = (np.unique(part, return_inverse=True)[1] for part in made())
        shape = users.max() + 1, items.max() + 1
        for who, contestant in CONTESTANTS.items():
            found, seconds = [], []
            for seed in SEEDS:
                fit, test = divided(users, seed)
                ones = np.ones(len(fit), np.float32)
                matrix = sp.csr_matrix((ones, (users[fit], items[fit])), shape=shape)
                began = time.perf_counter()
                try:
                    lists = contestant(seed, matrix)
                except ImportError as lacking:
                    print(f"{who}: left out, {lacking}", flush=True)
                    break
                seconds.append(time.perf_counter() - began)
                asked = np.unique(users[test])
                liked: list[list[int]] = [[] for _ in asked]
                for place, item in zip(
                    np.searchsorted(asked, users[test]), items[test], strict=True
                ):
                    liked[place].append(int(item))
                answers = lists(asked)
                found.append((recall_at_k(answers, liked, K), ndcg_at_k(answers, liked, K)))
            if not found:
                continue
            of_seeds = np.array(found)
            errors = of_seeds.std(axis=0, ddof=1) / np.sqrt(len(found))
            row = {"set": name, "who": who, "recall": of_seeds[:, 0].mean(), "±": errors[0]}
            row |= {"ndcg": of_seeds[:, 1].mean(), "± ": errors[1]}
            table.append({**row, "seconds": float(np.median(seconds))})
            script.show([table[-1]], f"{name}, {who}")
    return table


def speed(rounds: int) -> list[dict[str, Any]]:
    """Seconds of a sweep with 64 factors, and of lists for 10,000 users."""
    import implicit

    from hogshare.optimum.alternation import Alternation, Penalty
    from hogshare.runtimes.pool import each_by

    rng = np.random.default_rng(0)
    users, items = rng.integers(20_000, size=1_000_000), rng.integers(5_000, size=1_000_000)
    matrix = sp.csr_matrix((np.ones(len(users), np.float32), (users, items)))
    matrix.data[:] = 1.0

    settings: dict[str, Any] = {"seed": 0, "each": each_by(THREADS), "n_threads": THREADS}
    sweeps = Alternation(sp.csr_array(5.0 * matrix), 64, False, Penalty(30.0, 1.0), **settings)
    own = MatrixFactorization(random_state=0, max_iter=3, n_jobs=THREADS)
    own.fit(*matrix.nonzero())
    theirs = implicit.als.AlternatingLeastSquares(factors=64, iterations=3, num_threads=THREADS)
    theirs.fit(matrix, show_progress=False)
    asked = np.arange(10_000)

    def of_implicit(iterations: int) -> float:
        model = implicit.als.AlternatingLeastSquares(
            factors=64, iterations=iterations, num_threads=THREADS, random_state=0
        )
        return script.seconds(lambda: model.fit(matrix, show_progress=False))

    def of_own_lists() -> float:
        with threadpool_limits(THREADS):
            return script.seconds(lambda: own.recommend(asked, 10))

    def of_their_lists() -> float:
        with threadpool_limits(THREADS):
            return script.seconds(lambda: theirs.recommend(asked, matrix[asked], N=10))

    runs: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, run in (
            ("hogshare, a sweep", lambda: script.seconds(sweeps.sweep)),
            ("implicit, a sweep", lambda: (of_implicit(4) - of_implicit(1)) / 3.0),
            ("hogshare, lists", of_own_lists),
            ("implicit, lists", of_their_lists),
        ):
            # OpenMP's threads spin on after implicit's calls, on the others' cores
            time.sleep(REST)
            runs.setdefault(name, []).append(run())
    table = [{"what": name, "seconds": float(np.median(of))} for name, of in runs.items()]
    script.show(table, "1,000,000 pairs of 20,000 users and 5,000 items, two threads")
    return table


def measure(options: Any) -> dict[str, Any]:
    """Both tables."""
    results: dict[str, Any] = {"quality": quality()}
    try:
        results["speed"] = speed(options.rounds)
    except ImportError as lacking:
        print(f"speed: left out, {lacking}", flush=True)
    return {"results": results}


if __name__ == "__main__":
    script.run(__doc__, measure, rounds=7)
