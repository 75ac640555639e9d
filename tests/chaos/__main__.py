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
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]

PATIENCE = 90.0  # seconds of a case: kernels may have to be compiled
STARTING = 120.0  # and of the first


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
    """Have a process run cases, and end it where one takes too long; the exit status."""
    print(f"chaos: seed {args.seed}", flush=True)
    command = [sys.executable, "-W", "ignore", str(HERE), "--within", "--seed", str(args.seed)]
    command += ["--seconds", str(args.seconds)]
    command += [] if args.case is None else ["--case", str(args.case)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    lines = queue.SimpleQueue()
    reader = threading.Thread(target=lambda: [*map(lines.put, process.stdout), lines.put("")])
    reader.start()
    case, cases, patience = "case 0: starting", 0, STARTING
    try:
        while line := lines.get(timeout=patience):
            case, cases, patience = line.strip(), cases + 1, PATIENCE
    except queue.Empty:
        process.send_signal(signal.SIGUSR1)  # it tells where its threads are
        time.sleep(3.0)
        return tell(f"hangs: {case}", args, case)
    finally:
        if process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # and all that it has started
        process.wait()
        reader.join()
    if process.returncode:
        return tell(f"ended by {process.returncode}: {case}", args, case)
    print(f"chaos: {cases} cases, nothing wrong")
    return 0


def tell(what, args, case):
    """Say what is wrong, and how to have it again."""
    print(f"chaos: {what}\n{again(args, case)}", flush=True)
    return 1


def again(args, line):
    """The command that repeats the case of a line."""
    words = line.split()
    case = words[1].rstrip(":") if words[:1] == ["case"] else "0"
    return f"again: python tests/chaos --seed {args.seed} --case {case}"


def cases_of(args):
    """Run cases until the time is over."""
    import faulthandler

    from case import Case

    faulthandler.register(signal.SIGUSR1, all_threads=True)
    if args.case is not None:
        print(f"case {args.case}: {(case := Case(args.seed, args.case))}", flush=True)
        case.run()
        return 0
    deadline, number = time.monotonic() + args.seconds, 0
    while time.monotonic() < deadline:
        print(f"case {number}: {(case := Case(args.seed, number))}", flush=True)
        case.run()
        number += 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
