"""The response time to Ctrl-C, for every estimator's fit, and for fits by scikit-learn's solvers.

A fit of some seconds is interrupted at five moments, one fit after another in a process. Measured:
seconds from the signal until the caller has the `KeyboardInterrupt` (for networks, as in
scikit-learn, the model so far and a warning); the slowest of these together with the time that the
process takes to end; whether the rows are unchanged, and whether a process or a working thread is
left. Usage::

    python bench/interrupts.py --json bench/results/interrupts.json
    python bench/interrupts.py --only Ridge,Lasso --moments 0.5
"""

from __future__ import annotations

import contextlib
import json
import select
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import script

import hogshare
from hogshare import datasets

TEAMS: dict[str, dict[str, Any]] = {
    "1": {"n_jobs": 1},
    "2 threads": {"n_jobs": 2, "runtime": "threads"},
    "2 processes": {"n_jobs": 2, "runtime": "processes"},
}
THREADS = {"2 threads": TEAMS["2 threads"]}  # of twins, whose other teams run the same code
EITHER = {"1": {"n_jobs": 1}, "2": {"n_jobs": 2}}  # where scikit-learn's solvers are left to choose
ALONE = {"1": {"n_jobs": 1}}
TROUBLE = ("missed", "busy after", "rows changed", "processes left", "exit code")
ATTEMPTS = 3
LONGEST = 120.0  # seconds of a fit, or of the answer to a signal


def normal(n_rows: int, n_features: int, n_targets: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Dense rows, and numbers that they say something of."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_features)) + 0.3 * rng.standard_normal((n_rows, 1))
    y = X @ rng.standard_normal((n_features, n_targets)) + rng.standard_normal((n_rows, n_targets))
    return X, y[:, 0] if n_targets == 1 else y


def labelled(n_rows: int, n_features: int, n_classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Dense rows, and classes of which no model is sure."""
    X, score = normal(n_rows, n_features, n_classes if n_classes > 2 else 1)
    noise = np.random.default_rng(1).standard_normal(score.shape) * score.std()
    score = score + noise
    return X, np.argmax(score, axis=1) if n_classes > 2 else (score > 0.0).astype(int)


def words(n_rows: int) -> tuple[Any, np.ndarray]:
    """Sparse rows and two classes."""
    return datasets.zipf_classification(n_rows, 20_000)


def counts(n_rows: int) -> tuple[Any]:
    """Counts of words in documents."""
    X = sp.csr_array(words(n_rows)[0])
    X.data = np.ceil(np.abs(X.data) / np.abs(X.data).mean())
    return (X,)


def stars(n_ratings: int) -> tuple[Any, ...]:
    """Ratings."""
    return datasets.known_rank(n_ratings, n_users=20_000, n_items=5_000, rank=8)


# Estimator, its settings, the rows, and who fits it. They last 5 s and more on two cores.
Case = tuple[str, dict[str, Any], Callable[[], tuple[Any, ...]], dict[str, dict[str, Any]]]
CASES: dict[str, Case] = {}


def case(
    name: str,
    rows: Callable[[], tuple[Any, ...]],
    teams: dict[str, dict[str, Any]],
    **settings: Any,
) -> None:
    """Enter a case, whose name begins with the estimator's."""
    CASES[name] = name.split()[0], settings, rows, teams


case("SGDClassifier", lambda: words(100_000), TEAMS, loss="log_loss", tol=None, max_iter=400)
case("SGDRegressor", lambda: normal(100_000, 50), TEAMS, tol=None, max_iter=1_200)
for how, rows in {
    "dense": lambda: labelled(100_000, 100),
    "sparse": lambda: words(100_000),
}.items():
    settings: dict[str, Any] = {"solver": "saga", "C": 1e6, "tol": 1e-15, "max_iter": 400}
    case(f"LogisticRegression {how}", rows, TEAMS, **settings)
CV = {"l1_ratios": (0,), "scoring": "neg_log_loss", "use_legacy_attributes": False}
case("LogisticRegressionCV", lambda: labelled(50_000, 50), TEAMS, tol=1e-9, **CV)
SAGA = {"solver": "saga", "tol": 1e-15, "max_iter": 200}
case("Ridge saga", lambda: normal(20_000, 1_000), TEAMS, **SAGA)
case("RidgeClassifier saga", lambda: labelled(20_000, 1_000), THREADS, **SAGA)
case("Lasso wide", lambda: normal(20_000, 1_000), TEAMS, alpha=1e-3, tol=1e-15, max_iter=100)
case("ElasticNet wide", lambda: normal(20_000, 1_000), THREADS, alpha=1e-3, tol=1e-15, max_iter=100)
case("MLPClassifier adam", lambda: labelled(20_000, 100, 5), TEAMS, max_iter=100, tol=0.0)
case("MLPRegressor", lambda: normal(20_000, 100), THREADS, max_iter=100, tol=0.0)
case("MatrixFactorization ratings", lambda: stars(1_000_000), TEAMS, n_factors=32, max_iter=150)
case("LatentDirichletAllocation batch", lambda: counts(4_000), TEAMS, n_components=20, max_iter=16)

# what scikit-learn, SciPy or Newton's method does
case("Ridge auto", lambda: normal(400_000, 400), EITHER)
case("Ridge cholesky", lambda: normal(8_000, 5_000), ALONE, solver="cholesky")
case("Ridge more features", lambda: normal(5_000, 8_000), ALONE, solver="cholesky")
case("Ridge svd", lambda: normal(3_600, 1_800), ALONE, solver="svd")
case("RidgeClassifier cholesky", lambda: labelled(8_000, 5_000), ALONE, solver="cholesky")
case("RidgeClassifier svd", lambda: labelled(3_600, 1_800), ALONE, solver="svd")
for solver in ("lsqr", "sparse_cg"):
    iterations = {"solver": solver, "tol": 1e-15, "max_iter": 300}
    case(f"Ridge {solver}", lambda: normal(40_000, 2_500), ALONE, **iterations)
case("Ridge positive", lambda: normal(30_000, 2_000), ALONE, positive=True, tol=1e-15)
CD = {"runtime": "auto", "tol": 1e-15, "alpha": 1e-4}
case("Lasso few", lambda: normal(200_000, 200), EITHER, **CD, max_iter=100)
case("Lasso precompute", lambda: normal(8_000, 4_000), ALONE, **CD, precompute=True, max_iter=80)
case("Lasso positive", lambda: normal(100_000, 500), ALONE, **CD, positive=True, max_iter=80)
case("Lasso 10 targets", lambda: normal(20_000, 200, 10), ALONE, **CD, max_iter=100)
case("ElasticNet few", lambda: normal(200_000, 200), ALONE, **CD, max_iter=100)
NEWTON = {"C": 1e4, "tol": 1e-13}
for name, rows in {
    "newton-cholesky": lambda: labelled(60_000, 1_500),
    "newton-cg": lambda: labelled(15_000, 600, 4),
}.items():
    case(f"LogisticRegression {name}", rows, EITHER, solver=name, **NEWTON)
case("LogisticRegression classes", lambda: labelled(100_000, 200, 5), EITHER, tol=1e-12)
case("MLPClassifier lbfgs", lambda: labelled(40_000, 200, 5), ALONE, solver="lbfgs", tol=0.0)
PAIRS = {"n_factors": 128, "max_iter": 60}
case(
    "MatrixFactorization pairs",
    lambda: datasets.clicks(300_000, 10_000, 3_000)[:2],
    EITHER,
    **PAIRS,
)
ONLINE = {"learning_method": "online", "n_components": 20, "max_iter": 16}
case("LatentDirichletAllocation online", lambda: counts(4_000), EITHER, **ONLINE)


def arrays_of(part: Any) -> Iterator[np.ndarray]:
    """The arrays of a matrix or of an array."""
    yield from (part.data, part.indices, part.indptr) if sp.issparse(part) else (part,)


def busy_threads() -> int:
    """Threads of this process that run or are about to, but for this one."""
    found = 0
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            state = (thread / "stat").read_text().rpartition(")")[2].split()[0]
            found += state == "R" and int(thread.name) != threading.get_native_id()
    return found


def fit_often(name: str, team: str) -> None:
    """What a process of its own does: fit when it is asked to, and print what has come of it."""
    kind, settings, rows, teams = CASES[name]
    data = rows()
    before = [array.copy() for part in data for array in arrays_of(part)]
    while sys.stdin.readline():
        estimator = getattr(hogshare, kind)(**{"random_state": 0, **settings, **teams[team]})
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("begun", flush=True)
        began, answered = time.monotonic(), None
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                estimator.fit(*data)
            took = time.monotonic() - began
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # of one that comes too late
            if any("interrupted" in str(one.message) for one in said):  # as networks answer it
                answered = began + took
        except KeyboardInterrupt:
            answered = time.monotonic()
            took = answered - began
        after = [array for part in data for array in arrays_of(part)]
        same = all(map(np.array_equal, before, after))
        deadline = time.monotonic() + 1.0  # workers that share cores take a moment to stop
        while (busy := busy_threads()) and time.monotonic() < deadline:
            time.sleep(0.01)
        found = {"answered": answered, "took": took, "same": same, "busy": busy}
        print(json.dumps(found), flush=True)


def left_of(session: int) -> list[str]:
    """Processes of a session that are there still."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(stat.parent.name)
    return found


class Fits:
    """A process that fits when it is asked to."""

    def __init__(self, name: str, team: str) -> None:
        self.what = f"{name}, {team}"
        command = [sys.executable, __file__, "--child", name, team]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, start_new_session=True
        )

    def fit(self, after: float | None = None) -> dict[str, Any]:
        """One fit, interrupted so many seconds after it began; without, to its end.

        Returns what came of it: ``answer`` is None if it was over before.
        """
        process = self.process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("fit\n")
        process.stdin.flush()
        if process.stdout.readline() != "begun\n":
            raise RuntimeError(f"{self.what}: the fit could not begin")
        limit = threading.Timer(LONGEST, process.kill)
        limit.start()
        # what comes before is of a fit that was over before its moment
        if after is not None and not select.select([process.stdout], [], [], after)[0]:
            process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        line = process.stdout.readline()
        limit.cancel()
        if not line:
            raise RuntimeError(f"{self.what}: no answer within {LONGEST:g} s")
        found: dict[str, Any] = json.loads(line)
        answered = found["answered"]
        found["answer"] = None if answered is None else answered - sent
        return found

    def end(self) -> dict[str, Any]:
        """Seconds that the process takes to end, and what it leaves."""
        assert self.process.stdin is not None
        began = time.monotonic()
        self.process.stdin.close()
        self.process.wait()
        ended = time.monotonic() - began
        deadline = time.monotonic() + 5.0  # workers see by themselves that nobody is left
        while (orphans := left_of(self.process.pid)) and time.monotonic() < deadline:
            time.sleep(0.02)
        return {
            "exit": ended,
            "processes left": len(orphans),
            "exit code": self.process.returncode,
        }


def interrupted(name: str, team: str, moments: tuple[float, ...]) -> dict[str, Any]:
    """A row of the table: one case, at all moments."""
    fits = Fits(name, team)
    try:
        whole = min(fits.fit()["took"], fits.fit()["took"])  # the first loads kernels
        runs = []
        for moment in moments:
            for _ in range(ATTEMPTS):  # others on the machine make fits longer, and shorter again
                if (run := fits.fit(moment * whole))["answer"] is not None:
                    break
                whole = min(whole, run["took"])
            runs.append(run)
        ended = fits.end()
    finally:
        fits.process.kill()
        fits.process.wait()
    answers = [run["answer"] for run in runs]
    slowest = max((answer for answer in answers if answer is not None), default=0.0)
    return {
        "fit": name,
        "workers": team,
        "seconds": whole,
        "answers": answers,
        "slowest": slowest,
        "missed": sum(answer is None for answer in answers),
        "busy after": max(run["busy"] for run in runs),
        "rows changed": sum(not run["same"] for run in runs),
        **ended,
        "slowest end": slowest + ended["exit"],
    }


def measure(options: Any) -> Iterator[dict[str, Any]]:
    """Every case by every team; of those that are left out the file has what it had."""
    known = {(row["fit"], row["workers"]): row for row in script.before(options).get("table", [])}
    for name, (_, _, _, teams) in CASES.items():
        if options.only and not any(name.startswith(one) for one in options.only):
            continue
        for team in teams:
            try:
                row = interrupted(name, team, options.moments)
            except RuntimeError as error:
                print(error, flush=True)
                continue
            known[name, team] = row
            print(
                f"{name:34} {team:12} {row['seconds']:6.1f} s;",
                *("    -" if one is None else f"{one:5.2f}" for one in row["answers"]),
                f"; ended {row['slowest end']:5.2f}",
                *(f"; {key}: {row[key]}" for key in TROUBLE if row[key]),
                flush=True,
            )
            cases = ((name, team) for name, (*_, teams) in CASES.items() for team in teams)
            table = [known[case] for case in cases if case in known]
            yield {"moments": list(options.moments), "table": table}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        fit_often(*sys.argv[2:4])
    else:
        script.run(__doc__, measure, only=("",), moments=(0.05, 0.25, 0.5, 0.75, 0.95))
