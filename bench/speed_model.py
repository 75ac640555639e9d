"""The time of a row and an exchange: predicted by the machine's constants, and measured.

Plain descent, log loss with l2, float32: the model of `docs/performance.md`, with the constants of
a probe in the same process, which the runs use too; nothing is fitted to the runs. Measured are
further epochs: a run of many epochs less one of two, over their difference, without start and end.
One worker, as many threads as cores, and as many on one vector without locks, alternating; medians
of the rounds with quartiles. Usage::

    python bench/speed_model.py --data-home FOLDER --json bench/results/speed_model.json
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import script

from hogshare import Shared, Stop, datasets, problems, solve
from hogshare.lab.prediction.costs import exchange_seconds
from hogshare.planes.shared import LINE_BYTES, descent_interval
from hogshare.problems.linear.row_arrays import windows
from hogshare.runtimes import machine_probe
from hogshare.runtimes.choice import usable_workers
from hogshare.system import machine
from hogshare.system.machine import Machine

DATA = ("a9a", "ijcnn1", "imdb", "zipf", "covtype-20k", "mnist")
ONE_VECTOR = "threads, one vector without locks"
WARM_EPOCHS = 2
VALUES = 30_000_000  # of the further epochs of one run
ORDERED_BYTES = 12  # of a row besides its values: its label, and its place in the order
START_BYTES = 8  # of a sparse row, besides: where it begins


@dataclass(frozen=True)
class Row:
    """What a row moves and takes; times in ns."""

    values: float
    bytes: float
    lines: float
    alone: float
    together: float  # while all cores do the same

    @classmethod
    def of(cls, problem: Any, known: Machine) -> Row:
        """By the machine's constants."""
        values = problem.nnz / problem.n_rows
        each = problem.dtype.itemsize + (4 if problem.is_sparse else 0)
        size = values * each + ORDERED_BYTES + (START_BYTES if problem.is_sparse else 0)
        window, _ = windows(problem.rows, problem.n_rows)  # 0 where rows fit in the caches
        misses = known.miss_ns / window if window else 0.0
        alone = together = known.dense_value_ns
        if problem.is_sparse:
            alone, together = known.sparse_value_ns, known.sparse_value_many_ns
        besides = known.row_ns + misses
        # columns and values; a stretch that begins anywhere lies on a line more than it fills
        stretches = 2 if problem.is_sparse else 1
        lines = stretches + values * each / LINE_BYTES
        return cls(values, size, lines, besides + values * alone, besides + values * together)


def lines_of_model(problem: Any) -> float:
    """Cache lines of the model that a row reads and writes; mean of some rows."""
    per_line = int(LINE_BYTES) // problem.dtype.itemsize
    if not problem.is_sparse:
        return -(-problem.n_features // per_line)
    starts, columns = problem.rows.indptr, problem.rows.indices
    some = range(0, problem.n_rows, max(1, problem.n_rows // 1000))
    return statistics.fmean(
        np.unique(columns[starts[k] : starts[k + 1]] // per_line).size for k in some
    )


def further_ns(problem: Any, n_workers: int, epochs: int, **plan: Any) -> float:
    """Per row and epoch, of the epochs after the first two."""
    plan["runtime"] = "caller" if n_workers == 1 else "threads"
    ends = []
    for n_epochs in (WARM_EPOCHS, WARM_EPOCHS + epochs):
        stop = Stop(epochs=n_epochs, tol=None)
        report = solve(problem, stop=stop, seed=0, n_workers=n_workers, **plan)
        ends.append(report.seconds["run"])
    return (ends[1] - ends[0]) / (epochs * problem.n_rows) * 1e9


def compare(problem: Any, known: Machine, n_workers: int, rounds: int) -> dict[str, Any]:
    """Predicted and measured, per row."""
    row = Row.of(problem, known)
    size = problem.n_features * problem.n_columns
    exchange = 1e9 * exchange_seconds(size, problem.dtype.itemsize)

    def interval(n: int) -> int:
        return descent_interval(problem, 0.0, problem.n_rows, n)

    own = row.together + exchange / interval(n_workers)
    predicted = {"one worker": row.alone, "threads": own / n_workers}
    epochs = max(9, round(VALUES / problem.nnz))
    one_vector = {"plane": Shared(exchange=None)}
    contestants = {
        "one worker": lambda k: further_ns(problem, 1, epochs),
        "threads": lambda k: further_ns(problem, n_workers, epochs),
        ONE_VECTOR: lambda k: further_ns(problem, n_workers, epochs // 3, **one_vector),
    }
    measured = script.in_rounds(contestants, rounds)
    lines = lines_of_model(problem)
    more = statistics.median(
        n_workers * (shared - own)
        for shared, own in zip(measured[ONE_VECTOR], measured["threads"], strict=True)
    )
    return {
        "threads": n_workers,
        "values per row": row.values,
        "bytes per row": row.bytes,
        "cache lines per row": row.lines,
        "stream alone, ns per row": row.bytes / known.stream_gb_per_second,
        "rows between exchanges": interval(n_workers),
        "exchange, us": exchange / 1e3,
        "exchanges, share of a worker's time": exchange / interval(n_workers) / own,
        "ns per row": {
            name: {
                "predicted": predicted.get(name),
                "measured": statistics.median(times),
                "quartiles": [float(q) for q in np.quantile(times, (0.25, 0.75))],
                "measured, per value": statistics.median(times) / row.values,
            }
            for name, times in measured.items()
        },
        "speedup": {
            "predicted": predicted["one worker"] / predicted["threads"],
            "measured": script.median_ratio(measured["one worker"], measured["threads"]),
        },
        "predicted speedup, cores that share nothing": {
            n: n * row.alone / (row.alone + exchange / interval(n)) for n in (2, 4, 8, 16)
        },
        "lines of the model per row": lines,
        "ns more per row and worker, one vector": more,
        "the same per line of the model": more / lines,
    }


def measure(options: Any) -> dict[str, Any]:
    """Every set, by the constants of a probe."""
    known, cores = machine_probe.probe(), usable_workers(-1)
    with tempfile.TemporaryDirectory() as folder:  # for these runs alone, and for `costs`
        os.environ["HOGSHARE_MACHINE"] = str(Path(folder) / "machine.json")
        machine.store(known)
        machine.load()  # which is cached from now on
    results: dict[str, Any] = {"probe": known.constants()}
    for name in options.data:
        X, y = datasets.load(name, data_home=options.data_home)
        problem = problems.linear(X.astype(np.float32), y, loss="log_loss", alpha=1.0 / len(y))
        results[name] = compare(problem, known, max(2, cores), options.rounds)
        print(name, json.dumps(results[name], indent=1), flush=True)
    return results


if __name__ == "__main__":
    script.run(__doc__, measure, script.HOME, data=DATA, rounds=9)
