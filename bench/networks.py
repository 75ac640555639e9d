"""Networks: seconds of a pass against scikit-learn's MLPClassifier and torch, on four data sets.

100 hidden units, relu, float32; momentum (Nesterov's, 0.9) and Adam:

- `mnist`: 20,000 images (19 % of the numbers are not zero), batches of 50 and 200;
- `a9a`: 32,561 rows of 123 columns of zeros and ones, dense, batches of 200;
- `20news`: word counts, CSR, batches of 200;
- `normal`: 20,000 rows of 100 columns without zeros, batches of 10 to 1,000.

A pass's seconds are the time of some additional passes, divided by their number, without the work
done once (checks, start, threads). hogshare runs with one worker, with two threads and with two
processes, which take the same steps, so that a pass is as good; scikit-learn and torch run with one
thread and with two, of which the better counts. Medians of the rounds, one contestant after
another. torch is left out if it is not installed, and has dense rows. Goal, for one worker: 2.5
times scikit-learn's best with `mnist` in batches of 50, 1.6 times in batches of 200, twice torch's;
3 times with `a9a`, 5 times with `20news`, and once with `normal`; for two workers 1.7 times one.
Usage::

    HOGSHARE_DATA=FOLDER python bench/networks.py --rounds 7 --json bench/results/networks.json
"""

from __future__ import annotations

import importlib.util
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import script
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_info, threadpool_limits

from hogshare import SGD, Adam, datasets, problems, solve

HIDDEN = 100
STEPS = {"sgd": 0.01, "adam": 0.001}
RULES: dict[str, Callable[[int], Any]] = {
    "sgd": lambda batch: SGD(batch=batch, momentum=0.9, nesterov=True),
    "adam": lambda batch: Adam(batch=batch),
}
WORKERS = {"one worker": (1, "caller"), "threads": (2, "threads"), "processes": (2, "processes")}


class Case(NamedTuple):
    """Rows, the sizes of mini-batches, and passes that are timed of ours and of the others."""

    load: Callable[[], tuple[Any, np.ndarray]]
    batches: tuple[int, ...]
    passes: tuple[int, int]


def pixels() -> tuple[np.ndarray, np.ndarray]:
    """Images from 0 to 1, and their digits."""
    X, y = datasets.load("mnist-digits", dtype="float32")
    return np.ascontiguousarray(X[:20_000] / np.float32(X.max())), y[:20_000]


def one_hot() -> tuple[np.ndarray, np.ndarray]:
    """Zeros and ones of a table, dense."""
    X, y = datasets.load("a9a", dtype="float32")
    return np.ascontiguousarray(X.toarray()), y


def words() -> tuple[Any, np.ndarray]:
    """Counts of words, sparse."""
    X, y = datasets.load("20news", dtype="float32")
    return sp.csr_array(X), y


def normal() -> tuple[np.ndarray, np.ndarray]:
    """Numbers without zeros."""
    draws = np.random.default_rng(0)
    X = draws.standard_normal((20_000, 100), dtype=np.float32)
    return X, (X @ draws.standard_normal((100, 10), dtype=np.float32)).argmax(axis=1)


CASES = {
    "mnist": Case(pixels, (50, 200), (6, 3)),
    "a9a": Case(one_hot, (200,), (6, 3)),
    "20news": Case(words, (200,), (2, 1)),
    "normal": Case(normal, (10, 50, 200, 1000), (6, 3)),
}


def ours(problem: Any, solver: str, batch: int, passes: int, who: str) -> float:
    """By `solve`: the run's own seconds."""
    n_workers, runtime = WORKERS[who]
    run = {"rule": RULES[solver](batch), "step": STEPS[solver], "stop": passes, "seed": 0}
    report = solve(problem, runtime=runtime, n_workers=n_workers, **run)
    return report.seconds["run"] / passes


def per_pass(run: Callable[[int], float], passes: int) -> float:
    """Seconds of a pass, of a run of so many."""
    return (run(1 + passes) - run(1)) / passes


def theirs(rows: Any, solver: str, batch: int, passes: int, threads: int) -> float:
    """By scikit-learn."""

    def run(passes: int) -> float:
        settings = {"solver": solver, "batch_size": batch, "learning_rate_init": STEPS[solver]}
        model = MLPClassifier((HIDDEN,), max_iter=passes, random_state=0, **settings)
        began = time.perf_counter()
        with warnings.catch_warnings(), threadpool_limits(limits=threads):
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(*rows)
        return time.perf_counter() - began

    return per_pass(run, passes)


def torchs(rows: Any, solver: str, batch: int, passes: int, threads: int) -> float:
    """By torch, from tensors in memory."""
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    X, y = torch.from_numpy(rows[0]), torch.from_numpy(np.unique(rows[1], return_inverse=True)[1])
    linear = torch.nn.Linear
    ends = X.shape[1], int(y.max()) + 1
    module = torch.nn.Sequential(linear(ends[0], HIDDEN), torch.nn.ReLU(), linear(HIDDEN, ends[1]))
    optimiser: Any
    if solver == "adam":
        optimiser = torch.optim.Adam(module.parameters(), lr=STEPS[solver])
    else:
        settings = {"lr": STEPS[solver], "momentum": 0.9, "nesterov": True}
        optimiser = torch.optim.SGD(module.parameters(), **settings)

    def run(passes: int) -> float:
        began = time.perf_counter()
        for _ in range(passes):
            for part in torch.randperm(len(X)).split(batch):
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(module(X[part]), y[part]).backward()
                optimiser.step()
        return time.perf_counter() - began

    return per_pass(run, passes)


def contestants(name: str) -> dict[Any, Callable[[int], float]]:
    """Everybody on a set."""
    case = CASES[name]
    found: dict[Any, Callable[[int], float]] = {}
    rows = case.load()
    problem = problems.network(*rows, (HIDDEN,))
    others: dict[str, Callable[..., float]] = {"scikit-learn": theirs}
    if importlib.util.find_spec("torch") and not sp.issparse(rows[0]):
        others["torch"] = torchs
    for batch in case.batches:
        for solver in RULES:
            run = solver, batch
            for who in WORKERS:
                found[name, batch, solver, who] = partial(_ours, problem, *run, case.passes[0], who)
            for who, other in others.items():
                for n in (1, 2):
                    label = f"{who}, {n} thread{'s' * (n > 1)}"
                    of_other = other, rows, *run, case.passes[1], n
                    found[name, batch, solver, label] = partial(_others, *of_other)
    for who in WORKERS:
        ours(problem, "sgd", case.batches[-1], 1, who)  # kernels, threads and processes are there
    return found


def _ours(problem: Any, solver: str, batch: int, passes: int, who: str, _: int) -> float:
    return ours(problem, solver, batch, passes, who)


def _others(other: Callable[..., float], rows: Any, *run: Any) -> float:
    return other(rows, *run[:-1])


def measure(options: Any) -> dict[str, Any]:
    """Seconds of a pass of everybody."""
    table: list[dict[str, Any]] = []
    for name in options.cases:
        taken = script.in_rounds(contestants(name), options.rounds, warm=False)
        medians = {key: statistics.median(seconds) for key, seconds in taken.items()}
        for (_, batch, solver, who), median in medians.items():
            one = medians[name, batch, solver, "one worker"]
            cell = {"rows": name, "batch": batch, "solver": solver, "who": who}
            table.append({**cell, "seconds a pass": median, "of one worker's": median / one})
    script.show(table, "seconds of a pass")
    libraries = [
        {"version": one["version"], "architecture": one["architecture"]}
        for one in threadpool_info()
        if one["user_api"] == "blas"
    ]
    settings = {"rounds": options.rounds, "hidden": HIDDEN, "blas": libraries}
    return {"settings": settings, "results": table}


if __name__ == "__main__":
    script.run(__doc__, measure, rounds=7, cases=tuple(CASES))
