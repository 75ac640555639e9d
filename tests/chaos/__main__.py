"""Runs of whatever goes together while something goes wrong, from a seed.

    python tests/chaos --seconds 120
    python tests/chaos --seed 7 --case 31        # one of them again

A case is a problem, a rule, a plane, a barrier and a runtime of `test_contract`'s tables, and an
event of `events`. It has to end within `PATIENCE` seconds: with a model that is better than the
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

PATIENCE = 90.0  # seconds of a case: kernels may have to be compiled


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--case", type=int, default=None)
    parser.add_argument("--within", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.seed is None:
        args.seed = random.SystemRandom().randrange(1_000_000)
    return cases_of(args) if args.within else watch(args)


def watch(args):
    """Have a process run cases, and tell how it ended; the exit status."""
    print(f"chaos: seed {args.seed}", flush=True)
    command = [sys.executable, "-W", "ignore", str(HERE), "--within", "--seed", str(args.seed)]
    command += ["--seconds", str(args.seconds)]
    command += [] if args.case is None else ["--case", str(args.case)]
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
        cases = told.read().splitlines() or ["case 0: starting"]
    if process.returncode:
        number = cases[-1].split()[1].rstrip(":")
        print(f"chaos: ended by {process.returncode}: {cases[-1]}")
        print(f"again: python tests/chaos --seed {args.seed} --case {number}")
        return 1
    print(f"chaos: {len(cases)} cases, nothing wrong")
    return 0


def cases_of(args):
    """Run cases until the time is over, or one; a case that hangs ends the process."""
    from case import Case

    deadline = time.monotonic() + args.seconds
    for number in itertools.count() if args.case is None else [args.case]:
        if number != args.case and time.monotonic() > deadline:
            break
        case = Case(args.seed, number)
        print(f"case {number}: {case}", flush=True)
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        case.run()
    faulthandler.cancel_dump_traceback_later()
    return 0


if __name__ == "__main__":
    sys.exit(main())
