"""Interrupts a fit at every call and every return of its thread: a script for `test_interrupts`.

    python interrupting.py KIND no|some|every SECONDS

A real signal is raised, so that it is held where the fit holds it. "some" are the first call and
return of each function of this package, and the first and last of those of `threading` and
`concurrent.futures`, which take locks. Then so many seconds of a storm: a thread that sends signals
at random moments to fits of some milliseconds. After a fit another one has to work, NumPy warns of
what it warned of before, and of a checkpoint there is the old or the new one and nothing else.
Prints what was found as JSON; a fit that hangs ends the script with all threads' tracebacks.
"""

import collections
import faulthandler
import gc
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np

from hogshare import (
    BSP,
    SAGA,
    SDCA,
    Checkpoint,
    LogisticRegression,
    LogisticRegressionCV,
    Master,
    Plane,
    Shared,
    Simulator,
    Stop,
    problems,
    solve,
)
from hogshare.runtimes import crew, pool

DEADLINE = 60.0  # seconds for two fits of some milliseconds
PAUSES = 0.001, 0.003, 0.01  # seconds between two signals of a storm, on the average, in turn
LOOKS = 64  # fits of a storm between two counts of what there is

X = np.random.default_rng(0).standard_normal((300, 6))
PROBLEM = problems.linear(X, X[:, 0] > 0.0, alpha=0.01)
WARNED_OF = np.geterr()


def distance(w, rows, out):
    """A gradient of the user's: to the mean of the rows."""
    out += len(rows) * w - X[rows].sum(axis=0)
    return 0.5 * float(((w - X[rows]) ** 2).sum())


class Apart(Plane):
    """A plane of the user's: each worker alone, and the mean of all at the end."""

    def after_block(self, home):
        pass


BY_GRADIENT = problems.user(distance, n_rows=len(X), n_params=X.shape[1])
KINDS = {
    "caller": {"runtime": "caller", "n_workers": 1},
    "threads": {"runtime": "threads"},
    "told": {"runtime": "threads", "on_epoch": lambda *_: False},
    "looked at": {"runtime": "threads", "rule": SAGA(), "stop": Stop(epochs=9, gradient=0.0)},
    "confirmed": {"runtime": "threads", "rule": SDCA(), "stop": Stop(epochs=9, tol=0.5)},
    "behind a barrier": {"runtime": "threads", "barrier": lambda table, me: True},
    "rounds": {"runtime": "threads", "barrier": BSP()},
    "master": {"runtime": "threads", "plane": Master()},
    "traced": {"runtime": "threads", "trace": 2, "gradients": True},
    "recorded": {"runtime": "threads", "plane": Shared(exchange=None), "record": True},
    "saved by the caller": {
        "runtime": "caller",
        "n_workers": 1,
        "checkpoint": Checkpoint("run.npz", epochs=2),
    },
    "saved": {"runtime": "threads", "checkpoint": Checkpoint("run.npz", epochs=2)},
    "simulated": {"runtime": Simulator(), "n_workers": 3},
    "a gradient of the user's": {
        "problem": BY_GRADIENT,
        "runtime": "threads",
        "step": 0.001,
        "barrier": BSP(),
    },
    "a plane of the user's": {"runtime": "threads", "plane": Apart()},
    "processes": {"runtime": "processes"},
    "processes and a master": {"runtime": "processes", "plane": Master()},
    "processes, saved": {"runtime": "processes", "checkpoint": Checkpoint("run.npz", epochs=2)},
}
ESTIMATORS = {
    "an estimator": LogisticRegression(n_jobs=2, random_state=0),
    "an estimator that compares": LogisticRegressionCV(Cs=2, cv=2, n_jobs=2, random_state=0),
}


def fit(kind):
    """Fit; how many epochs."""
    if kind in ESTIMATORS:
        return int(np.max(ESTIMATORS[kind].fit(X, X[:, 0] > 0.0).n_iter_))
    run = {"problem": PROBLEM, "n_workers": 2, "seed": 0, "stop": Stop(epochs=4), **KINDS[kind]}
    return solve(**run).n_epochs


def counted(kind):
    """Calls and returns in a fit: of each function, by event, how many."""
    seen = collections.Counter()

    def note(frame, event, _):
        if event in ("call", "return"):
            seen[frame.f_code.co_filename, frame.f_code.co_qualname, event] += 1

    sys.setprofile(note)
    try:
        fit(kind)
    finally:
        sys.setprofile(None)
    return seen


def interrupted_at(kind, place, number):
    """Fit, interrupted at that call or return; whether that was met, and the interrupt came out."""
    left = number

    def interrupt(frame, event, _):
        nonlocal left
        code = frame.f_code
        if (code.co_filename, code.co_qualname, event) == place:
            left -= 1
            if left == 0:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGINT)

    try:
        sys.setprofile(interrupt)
        fit(kind)
    except KeyboardInterrupt:
        return True, True
    finally:
        sys.setprofile(None)
    return left <= 0, False


def check(kind, what, fits=True):
    """Nobody is left in the run, and the next one works."""
    members = list(crew.current_crew()._hired)
    assert not members, f"{len(members)} members are nobody's after {what}"
    deadline = time.monotonic() + DEADLINE / 2
    while pool.pool()._unfinished:
        assert time.monotonic() < deadline, f"a thread is in the run after {what}"
        time.sleep(0.0005)
    assert not fits or fit(kind) >= 1, what
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, what
    assert np.geterr() == WARNED_OF, f"NumPy's warnings are others after {what}"
    if "checkpoint" in KINDS.get(kind, ()):
        Checkpoint("run.npz").model()
        assert os.listdir() == ["run.npz"], f"{os.listdir()} is left after {what}"


def holdings():
    """What this process has open and mapped, by kind, its threads, and processes of its own."""
    found = collections.Counter()
    for link in Path("/proc/self/fd").iterdir():
        try:
            found[os.readlink(link).partition(":")[0]] += 1
        except OSError:
            continue  # the folder's own
    found["mapped"] = Path("/proc/self/maps").read_text().count("memfd:hogshare")
    found["threads"] = threading.active_count()
    found["processes"] = descendants()
    return found


def descendants():
    """Processes that this one has started, and those that they have."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has left
    found, left = 0, [os.getpid()]
    while left:
        children = [process for process, parent in parents.items() if parent == left[-1]]
        found += len(children)
        left[-1:] = children
    return found


def chosen(place, most):
    """Which of a function's calls or returns, of so many."""
    path = Path(place[0])
    if path.name == "threading.py" or path.parent.name == "futures":
        return sorted({1, most})
    return [1] if "hogshare" in path.parts else []


def walk(kind, every):
    """Interrupt at all the places; which interrupts were sent, and came out."""
    sent, came, lost = 0, 0, []
    gc.disable()
    for place, most in sorted(counted(kind).items()):
        for number in range(1, most + 1) if every else chosen(place, most):
            faulthandler.dump_traceback_later(DEADLINE, exit=True)
            was_sent, was_met = interrupted_at(kind, place, number)
            sent += was_sent
            came += was_met
            if was_sent and not was_met:
                lost.append([Path(place[0]).name, *place[1:], number])
            check(kind, (place, number), every or sent % 10 == 0)
            if sent % 10 == 0:
                gc.collect()  # here only: an interrupt in a destructor goes no further
    gc.enable()
    return {"sent": sent, "came": came, "lost": lost}


def storm(kind, seconds):
    """Send signals at random moments; how many, how many fits they ended, and the most there was.

    Of each kind of what `holdings` knows, in the midst of it.
    """
    sent, came, fits, inside = 0, 0, 0, False
    over, main = threading.Event(), threading.main_thread().ident
    most = collections.Counter()
    random.seed(0)

    def handler(number, frame):
        if inside:  # the storm is over otherwise, or in the loop below
            raise KeyboardInterrupt

    def send():
        nonlocal sent
        while not over.is_set():
            pause = PAUSES[int(time.monotonic()) % len(PAUSES)]
            time.sleep(random.expovariate(1.0 / pause))
            signal.pthread_kill(main, signal.SIGINT)
            sent += 1

    sender = threading.Thread(target=send)
    before = signal.signal(signal.SIGINT, handler)
    sender.start()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        faulthandler.dump_traceback_later(DEADLINE, exit=True)
        fits += 1
        try:
            try:
                inside = True
                fit(kind)
            finally:
                inside = False
        except KeyboardInterrupt:
            came += 1
        if fits % LOOKS == 0:
            most |= holdings()
    over.set()
    sender.join()
    signal.signal(signal.SIGINT, before)
    check(kind, "a storm")
    return {"sent": sent, "fits": fits, "ended": came, "most": most}


def left_of(kind, before):
    """What there is more of than before, when those that are about to leave have left."""
    deadline = time.monotonic() + DEADLINE / 2
    while True:
        gc.collect()
        left = holdings()
        left.subtract(before)
        more = {name: n for name, n in left.items() if n > 0}
        if not more.keys() - {"threads", "processes"} or time.monotonic() > deadline:
            return more
        time.sleep(0.05)


def main(kind, how, seconds):
    # an interrupt in a destructor, which no code can be rid of, is told of and goes no further
    sys.unraisablehook = lambda args: None
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for _ in range(3):
            fit(kind)
        gc.collect()
        before = holdings()
        found = {} if how == "no" else walk(kind, how == "every")
        if float(seconds):
            found["storm"] = storm(kind, float(seconds))
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps(found | {"before": before, "left": left_of(kind, before)}))
        os.chdir("/")


if __name__ == "__main__":
    main(*sys.argv[1:])
