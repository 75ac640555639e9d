"""The time to a first result: importing hogshare and fitting 1,000 rows in a fresh process.

Each round starts two processes, one after another: one imports Numba and scikit-learn and makes the
first call of a trivial cached kernel, the other imports hogshare and fits. The difference is
hogshare's own. Also measured: the time until the second fit's worker processes compute. Usage::

    python bench/first_result.py
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import script

TRIVIAL = """
import numba, numpy as np, sklearn.linear_model
@numba.njit(cache=True, nogil=True)
def total(x):
    s = 0.0
    for v in x:
        s += v
    return s
"""

BASE = (
    "import sys; sys.path.insert(0, {folder!r}); import trivial; trivial.total(trivial.np.ones(9))"
)

FIT = """
import numpy as np, hogshare
rng = np.random.default_rng(0)
X, y = rng.standard_normal((1000, 20)), np.arange(1000) % 2
hogshare.SGDClassifier(random_state=0, runtime="caller").fit(X, y)
"""

SECOND = """
import numpy as np, time, warnings
from hogshare import problems, solve, Stop
rng = np.random.default_rng(0)
X, y = rng.standard_normal((400_000, 20)), np.arange(400_000) % 2
p = problems.linear(X, y)
started = []
for _ in range(4):
    a = time.perf_counter()
    report = solve(p, n_workers=2, runtime="processes", stop=Stop(epochs=60))
    joined = report.workers[1]["joined_seconds"]
    started.append(joined)
print(*started)
"""


# A package that was installed has its bytecode beside it; a clone has it from the first import on,
# unless the environment forbids that: then every process would compile all of hogshare's source.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def run(code: str) -> str:
    """What a fresh interpreter prints that runs `code`."""
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    return done.stdout.strip()


def measure(options: Any) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "trivial.py").write_text(TRIVIAL)
        base = BASE.format(folder=folder)
        codes = {"numba, scikit-learn and a trivial kernel": base, "hogshare and a fit": FIT}
        calls = {n: lambda k, c=c: script.seconds(lambda: run(c)) for n, c in codes.items()}
        found = script.in_rounds(calls, options.rounds)
    for name, taken in found.items():
        print(f"{name}: {statistics.median(taken):.3f} s")
    extra = statistics.median(b - a for a, b in zip(*found.values(), strict=True))
    print(f"difference, median of pairs: {extra:.3f} s")
    print("seconds until the second process joined, fit by fit:", run(SECOND))


if __name__ == "__main__":
    script.run(__doc__, measure, rounds=9)
