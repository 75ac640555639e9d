"""Networks: seconds per pass over MNIST, beside scikit-learn's MLPClassifier and torch.

784-100-10 with relu, softmax, mini-batches of 50 and of 200, momentum (Nesterov's, 0.9) and Adam,
one thread of BLAS for each worker, float32. A pass's seconds are those of `PASSES` more passes,
divided: what is done once (checks, start, threads) is not in it. Ours with one worker; with two,
as threads and as processes, with copies and on one vector, where a pass is both workers'. Medians
of the rounds, everybody in turn. Asked: one worker at least 2.5 times scikit-learn's; two workers
at least 1.7 times one.

`products` is BLAS alone: the five products of a mini-batch's matrices, by `numpy.dot`, which nobody
who calls the same library is below. Usage::

    HOGSHARE_DATA=FOLDER python bench/networks.py --json bench/results/networks.json
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import script
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_info, threadpool_limits

from hogshare import SGD, Adam, Shared, datasets, problems, solve

HIDDEN = 100
PASSES = 3
BATCHES = (50, 200)
STEPS = {"sgd": 0.01, "adam": 0.001}
RULES: dict[str, Callable[[int], Any]] = {
    "sgd": lambda batch: SGD(batch=batch, momentum=0.9, nesterov=True),
    "adam": lambda batch: Adam(batch=batch),
}
WORKERS = {
    "one worker": (1, "caller", Shared()),
    "two threads, copies": (2, "threads", Shared()),
    "two threads, one vector": (2, "threads", Shared(exchange=None)),
    "two processes, copies": (2, "processes", Shared()),
    "two processes, one vector": (2, "processes", Shared(exchange=None)),
}


def pixels() -> tuple[np.ndarray, np.ndarray]:
    """Images from 0 to 1, and their digits."""
    X, y = datasets.load("mnist-digits", dtype="float32")
    return np.ascontiguousarray(X / np.float32(X.max())), y


def per_pass(run: Callable[[int], float]) -> float:
    """Seconds of a pass, of a run of so many."""
    return (run(1 + PASSES) - run(1)) / PASSES


def ours(problem: Any, solver: str, batch: int, who: str) -> float:
    """By `solve`: the run's own seconds."""
    n_workers, runtime, plane = WORKERS[who]
    rule, step = RULES[solver](batch), STEPS[solver]
    report = solve(
        problem,
        rule=rule,
        step=step,
        plane=plane,
        runtime=runtime,
        n_workers=n_workers,
        stop=PASSES,
        seed=0,
    )
    return report.seconds["run"] / PASSES


def theirs(rows: Any, solver: str, batch: int) -> float:
    """By scikit-learn."""

    def run(passes: int) -> float:
        settings = {"solver": solver, "batch_size": batch, "learning_rate_init": STEPS[solver]}
        model = MLPClassifier((HIDDEN,), max_iter=passes, random_state=0, **settings)
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(*rows)
        return time.perf_counter() - began

    return per_pass(run)


def torchs(rows: Any, solver: str, batch: int) -> float:
    """By torch, from tensors in memory."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    X, y = map(torch.from_numpy, rows)
    linear = torch.nn.Linear
    module = torch.nn.Sequential(linear(784, HIDDEN), torch.nn.ReLU(), linear(HIDDEN, 10))
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

    return per_pass(run)


def products(n_rows: int, batch: int) -> float:
    """By BLAS alone, from rows that are there already."""
    draws = np.random.default_rng(0)
    x, h, p, first, second = (
        draws.random(shape, dtype=np.float32)
        for shape in ((batch, 784), (batch, HIDDEN), (batch, 10), (784, HIDDEN), (HIDDEN, 10))
    )
    of_first, of_second, back, out = map(np.empty_like, (first, second, h, p))
    began = time.perf_counter()
    for _ in range(n_rows // batch):
        np.dot(x, first, out=h)
        np.dot(h, second, out=out)
        np.dot(h.T, p, out=of_second)
        np.dot(p, second.T, out=back)
        np.dot(x.T, back, out=of_first)
    return time.perf_counter() - began


def measure(options: Any) -> dict[str, Any]:
    """Seconds per pass of everybody."""
    rows = pixels()
    problem = problems.network(*rows, (HIDDEN,))
    contestants: dict[tuple[int, str, str], Callable[[int], float]] = {}
    for batch in BATCHES:
        contestants[batch, "-", "products"] = lambda k, b=batch: products(problem.n_rows, b)
        for solver in RULES:
            for who in WORKERS:
                contestants[batch, solver, who] = lambda k, s=solver, b=batch, w=who: ours(
                    problem, s, b, w
                )
            for who, run in (("scikit-learn", theirs), ("torch", torchs)):
                contestants[batch, solver, who] = lambda k, s=solver, b=batch, r=run: r(rows, s, b)
    for who in WORKERS:
        ours(problem, "sgd", 1000, who)  # kernels, threads and processes are there
    with threadpool_limits(limits=1):
        taken = script.in_rounds(contestants, options.rounds, warm=False)
    table = []
    for (batch, solver, who), seconds in taken.items():
        median = statistics.median(seconds)
        base = statistics.median(taken.get((batch, solver, "one worker"), seconds))
        cell = {"batch": batch, "solver": solver, "who": who, "seconds a pass": median}
        table.append({**cell, "of one worker's": median / base})
    script.show(table, "seconds of a pass")
    libraries = [
        {"version": one["version"], "architecture": one["architecture"]}
        for one in threadpool_info()
        if one["user_api"] == "blas"
    ]
    settings = {"rounds": options.rounds, "passes": PASSES, "hidden": HIDDEN, "blas": libraries}
    return {"settings": settings, "results": table}


if __name__ == "__main__":
    script.run(__doc__, measure, rounds=3)
