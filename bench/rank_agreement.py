"""Ranks that share no memory against one worker at the same epochs: the ratio of the objectives.

For each data set and rule, with rows of each rank's own, even and uneven: the ratio after 10
epochs, median, smallest and largest over paired seeds. Two threads a rank are twice as many
workers. Usage::

    mpiexec -n 2 python -m mpi4py bench/rank_agreement.py --data-home FOLDER --json FILE
"""

from __future__ import annotations

from typing import Any

import numpy as np
import script
from ranks import COMM, RANK, SIZE, meet

from hogshare import MPI, datasets, problems, solve
from hogshare.rules.automatic_rule import automatic_rule
from hogshare.solvers import outcome

DATA = ("a9a", "covtype-20k", "ijcnn1", "imdb", "zipf")
EPOCHS = 10


def shares(n: int, uneven: bool) -> np.ndarray:
    """The rows of this rank, in an order of the set's own: a tenth are rank 0's, or as many."""
    rows = np.random.default_rng(0).permutation(n)
    if not uneven:
        return np.sort(rows[RANK::SIZE])
    cuts = np.linspace(0.1 * n, n, SIZE).astype(int)
    return np.sort(rows[cuts[RANK - 1] if RANK else 0 : cuts[RANK]])


def compare(X: Any, y: np.ndarray, rule: str, loss: str, seeds: int) -> dict[str, float]:
    """One line of the table."""
    whole = problems.linear(X, y, loss=loss, alpha=1.0 / len(y))
    settled: Any = automatic_rule(whole) if rule == "auto" else rule
    runs: dict[str, list[float]] = {}
    for seed in range(seeds):
        meet()
        one = None
        if RANK == 0:
            report = solve(whole, rule=settled, stop=EPOCHS, seed=seed, runtime="caller")
            one = whole.objective(report.model.coef, report.model.intercept)
        one = COMM.bcast(one)
        for name, uneven, threads in (("even", 0, 1), ("a tenth", 1, 1), ("two threads", 0, 2)):
            mine = shares(len(y), bool(uneven))
            part = problems.linear(X[mine], y[mine], loss=loss, alpha=1.0 / len(y))
            run = {"rule": settled, "stop": EPOCHS, "seed": seed}
            report = solve(part, runtime=MPI(arena=False), n_workers=threads, **run)
            reached = whole.objective(report.model.coef, report.model.intercept)
            runs.setdefault(name, []).append(reached / one)
    found = {}
    for name, ratios in runs.items():
        found[name] = float(np.median(ratios))
        found[f"{name}, smallest"], found[f"{name}, largest"] = min(ratios), max(ratios)
    return found


def measure(options: Any) -> dict[str, Any] | None:
    """Every set and rule; rank 0 has the results."""
    results: dict[str, Any] = {"machine": outcome.machine(), "ranks": SIZE}
    for name in options.data:
        X, y = datasets.load(name, data_home=options.data_home)
        for rule in options.rules:
            for loss in ("log_loss", "hinge") if rule == "sgd" else ("log_loss",):
                key = f"{name} {rule} {loss}"
                results[key] = compare(X.astype(np.float32), y, rule, loss, options.seeds)
                if RANK == 0:
                    script.show([results[key]], key)
    return results if RANK == 0 else None


if __name__ == "__main__":
    script.run(__doc__, measure, script.HOME, data=DATA, rules=("sgd", "auto"), seeds=5)
