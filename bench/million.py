"""A million workers behind a barrier, 40 blocks each: seconds and memory.

Each run is a process of its own on one core, so that memory is that of the run: the largest
resident set, with Python, NumPy and Numba. Kernels are compiled, or loaded, before the clock is
started. Barriers without a sample let workers pass at the very moment, without looks in between.
Asked: `pbsp:10` in under 60 s and 4 GiB on two cores. Usage::

    python bench/million.py --repeats 3 --json bench/results/million.json
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

from summaries import store

from hogshare import barriers
from hogshare.simulation import progress

CASES = ("pbsp:10", "pssp:10,4", "bsp", "ssp:4", "asp")


def run(name: str, n_workers: int, blocks: int, poll: float) -> dict[str, Any]:
    """Simulate once, in this process."""
    barrier = barriers.parse(name)
    sampled = getattr(barrier, "sample", None) is not None
    settings = {"blocks": blocks, "poll": poll if sampled else None}
    progress(barrier, 100, **settings)
    begin, cpu = time.perf_counter(), time.process_time()
    done = progress(barrier, n_workers, **settings)
    return {
        "barrier": name,
        "seconds": time.perf_counter() - begin,
        "cpu_seconds": time.process_time() - cpu,
        "resident_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "virtual_seconds": done.seconds,
        "updates": done.updates,
        "checks": done.checks,
    }


def medians(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The first of several runs, which count the same, with the medians of what they took."""
    taken = ("seconds", "cpu_seconds", "resident_gib")
    return runs[0] | {key: statistics.median(one[key] for one in runs) for key in taken}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=1_000_000)
    parser.add_argument("--blocks", type=int, default=40)
    parser.add_argument("--poll", type=float, default=0.05)
    parser.add_argument("--barriers", nargs="+", default=list(CASES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", default=None)
    parser.add_argument("--one", help=argparse.SUPPRESS)  # the barrier of this process
    options = parser.parse_args()
    if options.one:
        print(json.dumps(run(options.one, options.workers, options.blocks, options.poll)))
        return
    sizes = [f"--{name}={getattr(options, name)}" for name in ("workers", "blocks", "poll")]
    runs: list[dict[str, Any]] = []
    for _ in range(options.repeats):
        for name in options.barriers:
            command = [sys.executable, __file__, f"--one={name}", *sizes]
            told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            runs.append(json.loads(told))
    results = [medians([one for one in runs if one["barrier"] == b]) for b in options.barriers]
    for line in results:
        print(
            f"{line['barrier']}: {line['seconds']:.1f} s ({line['cpu_seconds']:.1f} s of one "
            f"core), {line['resident_gib']:.2f} GiB; {line['checks']:,} checks, "
            f"{line['virtual_seconds']:.1f} virtual seconds"
        )
    if options.json:
        settings = {
            key: value for key, value in vars(options).items() if key not in ("json", "one")
        }
        store(options.json, {"settings": settings, "results": results})


if __name__ == "__main__":
    main()
