"""Interrupts a fit at every call and every return of its thread: a script for `test_interrupts`.

    python interrupting.py KIND some|every SECONDS

A real signal is raised, so that it is held where the fit holds it. "some" are the first call and
return of each function of this package, and the first and last of those of `threading` and
`concurrent.futures`, which take locks. Then so many seconds of a storm: a thread that sends signals
at random moments to fits of some milliseconds. After a fit another one has to work.
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
import threading
import time
import warnings
from pathlib import Path

import numpy as np

from hogshare import BSP, SAGA, Stop, problems, solve
from hogshare.runtimes import crew, pool

DEADLINE = 60.0  # seconds for two fits of some milliseconds

X = np.random.default_rng(0).standard_normal((300, 6))
PROBLEM = problems.linear(X, X[:, 0] > 0.0, alpha=0.01)
KINDS = {
    "threads": {"runtime": "threads"},
    "told": {"runtime": "threads", "on_epoch": lambda *_: False},
    "looked at": {"runtime": "threads", "rule": SAGA(), "stop": Stop(epochs=9, gradient=0.0)},
    "behind a barrier": {"runtime": "threads", "barrier": lambda table, me: True},
    "rounds": {"runtime": "threads", "barrier": BSP()},
    "processes": {"runtime": "processes"},
}


def fit(kind):
    return solve(PROBLEM, **{"n_workers": 2, "seed": 0, "stop": Stop(epochs=4), **KINDS[kind]})


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
    assert not fits or fit(kind).n_epochs >= 4, what
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, what


def descriptors():
    """What this process has open, by kind."""
    found = collections.Counter()
    for link in Path("/proc/self/fd").iterdir():
        try:
            found[os.readlink(link).partition(":")[0]] += 1
        except OSError:
            continue  # the folder's own
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
    """Send signals at random moments; how many were sent, and how many fits they ended."""
    sent, came, inside = 0, 0, False
    over, main = threading.Event(), threading.main_thread().ident
    random.seed(0)

    def handler(number, frame):
        if inside:  # the storm is over otherwise, or in the loop below
            raise KeyboardInterrupt

    def send():
        nonlocal sent
        while not over.is_set():
            time.sleep(random.expovariate(1000.0))
            signal.pthread_kill(main, signal.SIGINT)
            sent += 1

    sender = threading.Thread(target=send)
    before = signal.signal(signal.SIGINT, handler)
    sender.start()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        faulthandler.dump_traceback_later(DEADLINE, exit=True)
        try:
            try:
                inside = True
                fit(kind)
            finally:
                inside = False
        except KeyboardInterrupt:
            came += 1
    over.set()
    sender.join()
    signal.signal(signal.SIGINT, before)
    check(kind, "a storm")
    return {"sent": sent, "ended": came}


def main(kind, how, seconds):
    # an interrupt in a destructor, which no code can be rid of, is told of and goes no further
    sys.unraisablehook = lambda args: None
    warnings.simplefilter("ignore")
    for _ in range(3):
        fit(kind)
    gc.collect()
    before, threads = descriptors(), threading.active_count()
    found = walk(kind, how == "every")
    found["storm"] = storm(kind, float(seconds))
    faulthandler.cancel_dump_traceback_later()
    gc.collect()
    found["threads"] = threading.active_count() - threads
    left = descriptors()
    left.subtract(before)
    print(json.dumps(found | {"open": {k: n for k, n in left.items() if n}}))


if __name__ == "__main__":
    main(*sys.argv[1:])
