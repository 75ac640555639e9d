"""A million workers behind a barrier, 40 blocks each: seconds and memory.

Each run is a separate process on one core, so its memory is that of the run: the largest resident
set, with Python, NumPy and Numba. Kernels are compiled, or loaded, before the clock is started.
Barriers without a sample let workers pass at the exact moment, without polls. Goal: `pbsp:10` in
under 60 s and 4 GiB on two cores. Usage::

    python bench/million.py --repeats 3 --json bench/results/million.json
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

import script

from hogshare import barriers
from hogshare.lab.harness.settings import Setting
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


def measure(options: Any) -> dict[str, Any] | None:
    """Every barrier, each run by a process of its own."""
    if options.one:
        found = run(options.one, options.workers, options.blocks, options.poll)
        print(json.dumps(found))
        return None
    settings = {name: getattr(options, name) for name in ("workers", "blocks", "poll")}
    sizes = [f"--{name}={value}" for name, value in settings.items()]

    def alone(name: str) -> dict[str, Any]:
        command = [sys.executable, __file__, f"--one={name}", *sizes]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    contestants = {name: lambda k, name=name: alone(name) for name in options.barriers}
    runs = script.in_rounds(contestants, options.repeats, warm=False)
    taken = ("seconds", "cpu_seconds", "resident_gib")
    # what runs count is the same in all
    results = [
        found[0] | {key: statistics.median(one[key] for one in found) for key in taken}
        for found in runs.values()
    ]
    script.show(results, f"{options.workers:,} workers")
    more = {"barriers": list(options.barriers), "repeats": options.repeats}
    return {"settings": settings | more, "results": results}


if __name__ == "__main__":
    cases = Setting("barriers", "", CASES, several=True)
    sizes = {"workers": 1_000_000, "blocks": 40, "poll": 0.05}
    script.run(__doc__, measure, cases, **sizes, repeats=3, one="")
