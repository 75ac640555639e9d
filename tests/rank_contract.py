"""What every choice comes to on ranks, and whatever else a run can be asked for.

    python tests/rank_contract.py                     # grids: ok, refused or failed
    python tests/rank_contract.py apart --workers 2   # of one runtime, with so many workers a rank
    python tests/rank_contract.py apart --only "replicas x"    # of cases with this in their names

`test_contract_ranks.py` starts this file on several ranks, once for each runtime, and reads what
each case has come to: "ok", if on all ranks the promises hold; "refused: ..." with the sentence, if
all have raised the same ValueError before a session was made; "failed: ..." else. A case that hangs
ends the job, with the stacks of all threads.
"""

import argparse
import faulthandler
import functools
import hashlib
import json
import tempfile
import time
import traceback
import warnings
from collections import Counter

import numpy as np
import ranks
from contract import BARRIERS
from rank_cases import ALL_PLANES, CAPABILITIES, CASES, ESTIMATORS, QUOTED, World
from seams import Seams

from hogshare import MPI

SIZE = 2  # ranks
HANGS = 150.0  # seconds of a case, kernels that are compiled cold on a loaded machine included

RUNTIMES = {
    "threads": None,  # one process, which all others are compared with
    "memory": functools.partial(MPI, rows="all"),
    "apart": functools.partial(MPI, arena=False, rows="all"),
    "shards": functools.partial(MPI, arena=False, rows="shard"),
}


# -- a job


def local_outcome(case, world):
    """What a case comes to on this rank: how it ended, a digest, and whether a run had begun."""
    world.sessions = 0
    try:
        numbers = np.asarray(CASES[case](world), dtype=np.float64)
    except Exception as error:
        if not isinstance(error, ValueError) or world.sessions:
            lines = traceback.format_exception(error)
            place = [line.strip().splitlines()[0] for line in lines if "rank_cases.py" in line]
            sentence = f"failed: {type(error).__name__}: {error} [{'; '.join(place[-1:])}]"
            return sentence, "", world.sessions
        return f"refused: {error}", "", 0
    if not np.isfinite(numbers).all():
        return "failed: not all numbers are finite", "", 1
    return "ok", hashlib.sha256(numbers.tobytes()).hexdigest(), world.sessions


def common_outcome(found):
    """What a case comes to, of what it came to on each rank."""
    sentences, digests, sessions = zip(*found, strict=True)
    if len(set(sentences)) == 1:
        sentence = sentences[0]
        if sentence.startswith("refused") and any(sessions):
            return f"failed: refused after it had begun: {sentence}"
        return sentence if len(set(digests)) == 1 else "failed: ranks have different numbers"
    return "failed: " + " | ".join(f"rank {k}: {one}" for k, one in enumerate(sentences))


def do(cases, name, n_workers):
    """Do cases on all ranks, and print what they come to."""
    comm, world = made(name, n_workers)
    with Seams.for_now() as seams, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seams.loop.session = counting(world, seams.loop.session)
        for case in cases:
            faulthandler.dump_traceback_later(HANGS, exit=True)
            began = time.perf_counter()
            found = comm.allgather(local_outcome(case, world))
            if comm.rank == 0:
                seconds = round(time.perf_counter() - began, 3)
                line = {"case": case, "outcome": common_outcome(found), "seconds": seconds}
                print(json.dumps(line), flush=True)
        faulthandler.cancel_dump_traceback_later()


def made(name, n_workers):
    """The ranks of this job, and where it runs cases."""
    if name == "threads":
        return Alone, World(name, SIZE * n_workers, folder=tempfile.mkdtemp())
    from mpi4py import MPI as library

    comm = library.COMM_WORLD.Dup()
    folder = comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else None)
    runtime = RUNTIMES[name](start_timeout=20)
    return comm, World(runtime, n_workers, comm.rank, comm.size, name == "shards", folder)


class Alone:
    """The communicator of a process that has no other."""

    rank = 0

    @staticmethod
    def allgather(one):
        return [one]


def counting(world, make):
    def counted(session, *args, **kwargs):
        world.sessions += 1
        make(session, *args, **kwargs)

    return counted


def outcomes(name, n_workers, cases=tuple(CASES), seconds=600):
    """What cases come to in a job of two ranks, by name; and the job."""
    given = ["--job", "--workers", n_workers, name, "--cases", json.dumps(list(cases))]
    job = ranks.run(1 if name == "threads" else SIZE, __file__, *given, seconds=seconds)
    found = {line["case"]: line["outcome"] for line in ranks.told(job.stdout)}
    left = [case for case in cases if case not in found]
    if left and job.returncode:
        found[left[0]] = f"failed: it has ended the job: {job.stderr[-4000:]}"
    return found | {case: "failed: not run" for case in cases if case not in found}, job


# -- grids


def shown(outcome):
    return "ok" if outcome == "ok" else outcome.partition(":")[0]


def table(found):
    """Planes by barriers, and the rest in lines."""
    width = max(map(len, ALL_PLANES)) + 2
    yield " " * width + "".join(f"{barrier:>10}" for barrier in BARRIERS)
    for plane in ALL_PLANES:
        row = [found.get(f"{plane} x {barrier}", "-") for barrier in BARRIERS]
        yield f"{plane:{width}}" + "".join(f"{shown(one):>10}" for one in row)
    groups = {
        "of the 64 pairs": [f"{p} x {b}" for p in QUOTED for b in BARRIERS],
        "of all pairs": [f"{p} x {b}" for p in ALL_PLANES for b in BARRIERS],
        "of rules with problems": [case for case in CASES if " of " in case],
        "of estimators": list(ESTIMATORS),
    }
    for name, cases in groups.items():
        if there := [case for case in cases if case in found]:
            yield f"{sum(found[case] == 'ok' for case in there)} of {len(there)} {name}"
    everywhere = [
        {found.get(f"{name} on {plane}") for plane in planes} == {"ok"}
        for name, (_, planes) in CAPABILITIES.items()
    ]
    yield f"{sum(everywhere)} of {len(CAPABILITIES)} capabilities on the planes that have them"
    yield ""
    for case, outcome in found.items():
        if " x " not in case and outcome != "ok":
            yield f"{case}: {outcome[:160]}"
    yield ""
    for case, outcome in found.items():
        if outcome.startswith("failed"):
            yield f"FAILED {case}: {outcome[:600]}"
    said = Counter(one for one in found.values() if one.startswith("refused"))
    for sentence, count in said.most_common():
        yield f"{count} x {sentence}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runtimes", nargs="*", default=list(RUNTIMES), help=", ".join(RUNTIMES))
    parser.add_argument("--workers", type=int, default=1, help="of each rank")
    parser.add_argument("--only", default="", help="a part of the names of cases")
    parser.add_argument("--json", action="store_true", help="a line for each case")
    parser.add_argument("--job", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--cases", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        do(json.loads(given.cases), given.runtimes[0], given.workers)
        return
    cases = [case for case in CASES if given.only in case]
    for name in given.runtimes:
        began = time.perf_counter()
        found, _ = outcomes(name, given.workers, cases)
        seconds = time.perf_counter() - began
        print(f"\n{name}: {SIZE} ranks with {given.workers} each, {seconds:.0f} s")
        lines = map(json.dumps, found.items()) if given.json else table(found)
        print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
