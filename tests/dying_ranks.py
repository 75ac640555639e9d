"""A run of ranks of which some are killed: `test_deaths.py` starts it, and reads a line of each.

mpiexec --with-ft ulfm -n 3 python -m mpi4py dying_ranks.py '{"plane": "Shared()", "dies": ...}'
"""

import json
import os
import signal
import sys
import threading
import time
import warnings

import numpy as np
from mpi4py import MPI as library

from hogshare import MPI, Mirrors, Replicas, Shared, Stop, problems, solve  # noqa: F401
from hogshare.runtimes.mpi.channel import Channel
from hogshare.runtimes.mpi.survivors import RankDied, Survivors

ROWS, COLUMNS, EPOCHS = 1200, 10, 80
rank, size = library.COMM_WORLD.rank, library.COMM_WORLD.size


def rows():
    draws = np.random.default_rng(0)
    X = draws.standard_normal((ROWS, COLUMNS))
    return X, np.sign(X @ draws.standard_normal(COLUMNS) + draws.standard_normal(ROWS))


def die():
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def after(seconds):
    time.sleep(seconds)
    die()


def dies_at(owner, name, number, counts=lambda self: True):
    """Have this process die in a call of a method, the so-manyth of those that count."""
    method, left = getattr(owner, name), [number]

    def counted(self, *arguments):
        left[0] -= counts(self)
        if left[0] == 0:
            die()
        return method(self, *arguments)

    setattr(owner, name, counted)


def dies(when, number):
    """Have this process die once all have begun.

    when : "seconds" after that; at the so-manyth "message", or "meeting" of all, or once a result
        of one is on its way to the first of the others; or at the so-manyth when the run is over
    """
    begin = Survivors.begin

    def begins(self):
        begin(self)
        if when == "seconds":
            threading.Thread(target=after, args=(number,), daemon=True).start()
        elif when == "message":
            dies_at(Channel, "_send", number)
        elif when == "meeting":
            dies_at(Survivors, "together", number)
        elif when == "report":
            dies_at(Survivors, "together", number, lambda survivors: survivors.is_over)
        else:
            results_of(self.call, number)

    Survivors.begin = begins


def results_of(call, number):
    post, left = call.post, [2 * number]

    def posts(to, kind, content=None):
        left[0] -= 1
        if left[0] == 0:
            call.talk.flush(0.1)
            die()
        post(to, kind, content)

    call.post = posts


def value(problem, report):
    return problem.objective(report.model.coef, report.model.intercept)


def main():
    case = json.loads(sys.argv[1])
    if str(rank) in case["dies"]:
        dies(*case["dies"][str(rank)])
    X, y = rows()
    part = problems.linear(X[rank::size], y[rank::size], alpha=1e-3)
    how = {name: eval(text) for name, text in case.get("how", {}).items()}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = solve(
            part,
            plane=eval(case["plane"]),
            runtime=MPI(arena=False, survive=True),
            **{"n_workers": 1, "stop": EPOCHS, "seed": 0, **how},
        )
    lost = report.settings.get("lost_ranks", [])
    mine = np.concatenate([np.arange(k, ROWS, size) for k in range(size) if k not in lost])
    left = problems.linear(X[mine], y[mine], alpha=1e-3)
    alone = solve(left, stop=EPOCHS, seed=0, n_workers=1)
    found = {
        "rank": rank,
        "lost": lost,
        "warned": [str(one.message) for one in caught if issubclass(one.category, RankDied)],
        "files": [str(one.message) for one in caught if "checkpoint" in str(one.message)],
        "notes": report.notes,
        "epochs": report.n_epochs,
        "coef": report.model.coef.sum(),
        "times": value(left, report) / value(left, alone),
        "workers": [worker["worker"] for worker in report.workers],
    }
    if report.trace is not None:
        found["traced"] = report.trace.objective[-1] / value(left, report)
    print(json.dumps(found), flush=True)


main()
