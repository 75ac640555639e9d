"""A rank that raises at each step of a call: `test_mpi_steps.py` starts this on several ranks.

A step is the first call of each function of the package that this rank's thread goes through in a
call. For each step, on the first and on the last rank: the call raises on all ranks or on none, the
error names the rank that it comes from, and the next call is as if nothing had been.
"""

import faulthandler
import json
import sys
import traceback
from pathlib import Path

import numpy as np
from mpi4py import MPI as library

import hogshare
from hogshare import MPI, Replicas, Ridge, problems, solve
from hogshare.runtimes.mpi.calls import Call

COMM = library.COMM_WORLD
RANK, SIZE = COMM.rank, COMM.size
PACKAGE = str(Path(hogshare.__file__).parent)
DRAWS = np.random.default_rng(0)
X = DRAWS.standard_normal((60, 3))
Y = X @ [1.0, -2.0, 3.0]
MINE = slice(RANK * 60 // SIZE, (RANK + 1) * 60 // SIZE)
MEETS = MPI._meet.__code__  # the first step of a call: before it no other rank is in one
PARTING = {Call.end.__code__, Call.fail.__code__}  # by then the others may have gone on


class Injected(RuntimeError):
    """The error of a step."""


class Steps:
    """The functions that a call goes through; one of them raises.

    Parameters
    ----------
    raises : int or None
        Which, in the order in which they are first called.
    """

    def __init__(self, raises=None):
        self.raises, self.seen, self.is_over, self.has_begun = raises, {}, False, False

    def __enter__(self):
        sys.setprofile(self.step)
        return self

    def __exit__(self, *error):
        sys.setprofile(None)

    def step(self, frame, event, argument):
        code = frame.f_code
        if event != "call" or self.is_over or not code.co_filename.startswith(PACKAGE):
            return
        self.has_begun = self.has_begun or code is MEETS
        if not self.has_begun:
            return
        if code in PARTING:
            self.is_over = True
        elif code not in self.seen and code.co_name[0] != "<":
            self.seen[code] = f"{Path(code.co_filename).name}:{code.co_qualname}"
            if len(self.seen) - 1 == self.raises:
                self.is_over = True
                raise Injected("of a step")


def fitted(runtime):
    """An estimator's fit."""
    return lambda: Ridge(1e-6, runtime=runtime, random_state=0).fit(X[MINE], Y[MINE]).coef_


def solved(runtime, **settings):
    """A call of `solve`, of a problem that is stated for it."""

    def call():
        rows = X[MINE] if runtime.rows == "shard" else X
        targets = Y[MINE] if runtime.rows == "shard" else Y
        problem = problems.linear(rows, targets, loss="squared_error", alpha=1e-6)
        return solve(problem, runtime=runtime, stop=3, step=0.05, seed=0, **settings).model.coef

    return call


CALLS = {
    "fit": fitted(MPI(start_timeout=20)),
    "solve": solved(MPI(start_timeout=20)),
    "across sites": solved(MPI(arena=False, start_timeout=20)),
    "replicas": solved(MPI(arena=False, rows="all", start_timeout=20), plane=Replicas("ring")),
    "in step": solved(MPI(arena=False, rows="all", start_timeout=20), barrier="bsp"),
}


def steps_of(call):
    """How many steps a call has on each rank, and what they are called."""
    call()
    with Steps() as steps:
        call()
    return COMM.allgather(list(steps.seen.values()))


def tried(call, place, step):
    """What comes of a call in which one rank raises; None: nothing is wrong."""
    wrong, found = None, None
    with Steps(step if place == RANK else None) as steps:
        try:
            call()
        except Injected as error:
            found = str(error)
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
    del steps
    outcomes = COMM.allgather(found)
    if (None in outcomes) != (outcomes == [None] * SIZE):
        wrong = f"not all ranks have raised: {outcomes}"
    others = [outcome for rank, outcome in enumerate(outcomes) if rank != place]
    if wrong is None and None not in outcomes and not all(f"ank {place}" in o for o in others):
        wrong = f"the rank is not named: {outcomes}"
    try:
        got = COMM.allgather(np.asarray(call()).round(1).tobytes())
        if len(set(got)) > 1:
            wrong = "the next call differs between ranks"
    except Exception:
        wrong = f"{wrong} the next call: {traceback.format_exc()[-1500:]}"
    return next(filter(None, COMM.allgather(wrong)), None)


if __name__ == "__main__":
    faulthandler.dump_traceback_later(float(sys.argv[2]), exit=True)
    call, every = CALLS[sys.argv[1]], int(sys.argv[3])
    names = steps_of(call)
    for place in sorted({0, SIZE - 1}):
        for step in range(0, len(names[place]), every):
            wrong = tried(call, place, step)
            if RANK == 0:
                outcome = {"rank": place, "step": names[place][step], "wrong": wrong}
                print(json.dumps(outcome), flush=True)
