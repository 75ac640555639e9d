"""Runs of whatever goes together while something goes wrong, from a seed.

    python tests/chaos --seconds 120
    python tests/chaos --long                    # an hour
    python tests/chaos --seed 0 --cases 40       # so many, however long they take: as CI does
    python tests/chaos --seed 7 --case 31        # one of them again
    python tests/chaos --seed 7 --first 20       # it and what follows, for what others have left

A case is a problem, a rule, a plane, a barrier and a runtime of the contract's tables, and some
of `events`. It has to end within `PATIENCE` seconds: with a model that is better than the
start, with the sentence that refuses it, or with what the event makes of it. Then nothing may be
left: no thread, no descriptor, no child, no file in /dev/shm. The first that does otherwise ends
the driver with status 1 and the line that repeats it.

Cases run one after the other in a process of their own, so that one that hangs is seen, told of
with the stacks of its threads, and ended.
"""

import argparse
import contextlib
import faulthandler
import itertools
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]

PATIENCE = 300.0  # seconds of a case: kernels may have to be compiled, on a machine that is busy
LONG_SECONDS = 3600.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=120.0, help="begin no case after them")
    parser.add_argument("--cases", type=int, default=None, help="run so many instead")
    parser.add_argument("--long", "--soak", action="store_true", help="go on for an hour")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--case", type=int, default=None, help="run this one alone")
    parser.add_argument("--first", type=int, default=0, help="begin with this one")
    parser.add_argument("--within", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.long:
        args.seconds = LONG_SECONDS
    if args.seed is None:
        args.seed = random.SystemRandom().randrange(1_000_000)
    return cases_of(args) if args.within else watch(args)


def watch(args):
    """Have a process run cases, and tell how it ended; the exit status."""
    print(f"chaos: seed {args.seed}", flush=True)
    command = [sys.executable, "-W", "ignore", str(HERE), "--within", "--seed", str(args.seed)]
    command += ["--seconds", str(args.seconds), "--first", str(args.first)]
    for name in ("case", "cases"):
        given = getattr(args, name)
        command += [] if given is None else [f"--{name}", str(given)]
    # a file and no pipe, whose end would be that of the last process it has started
    with tempfile.TemporaryFile("w+") as told:
        process = subprocess.Popen(command, stdout=told, start_new_session=True)
        try:
            process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        told.seek(0)
        cases = told.read().splitlines()
    if process.returncode:
        last = cases[-1] if cases else f"case {args.case or args.first}: starting"
        number = last.split()[1].rstrip(":")
        print(f"chaos: ended by {process.returncode}: {last}")
        print(f"again: python tests/chaos --seed {args.seed} --case {number}")
        return 1
    print(f"chaos: {len(cases)} cases, nothing wrong")
    return 0


def cases_of(args):
    """Run cases until the time is over, or one; a case that hangs ends the process."""
    from case import Case

    numbers, deadline = itertools.count(args.first), time.monotonic() + args.seconds
    if args.case is not None or args.cases is not None:
        first = args.first if args.case is None else args.case
        numbers, deadline = range(first, first + (args.cases or 1)), math.inf
    for number in numbers:
        if time.monotonic() > deadline:
            break
        case = Case(args.seed, number)
        print(f"case {number}: {case}", flush=True)
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        case.run()
    faulthandler.cancel_dump_traceback_later()
    return 0


if __name__ == "__main__":
    sys.exit(main())
