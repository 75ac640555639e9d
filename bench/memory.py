"""The memory that a fit adds: proportional set size of this process and all its children.

A CSR matrix of float32 (1 GB by default) is fitted with two workers; a thread samples the sum of
the proportional set sizes ten times a second, at moments when they do not change. Goal: at most
1.15 X + 300 MB for private rows and worker processes, at most 300 MB for shared or mapped rows, and
with threads. Usage::

    python bench/memory.py --gigabytes 1 --json bench/results/memory.json
"""

from __future__ import annotations

import gc
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import scipy.sparse as sp
import script

from hogshare import Stop, problems, share, solve

PER_ROW = 100
N_FEATURES = 50_000


def make(gigabytes: float) -> tuple[sp.csr_matrix, np.ndarray]:
    """Rows of 100 values in 8 bytes each (value and index)."""
    rng = np.random.default_rng(0)
    n_rows = int(gigabytes * 1e9 / (8 * PER_ROW))
    columns = rng.integers(0, N_FEATURES // PER_ROW, (n_rows, PER_ROW), dtype=np.int32)
    columns += np.arange(0, N_FEATURES, N_FEATURES // PER_ROW, dtype=np.int32)
    values = np.full(columns.size, 0.1, np.float32)
    indptr = np.arange(0, columns.size + 1, PER_ROW)
    if indptr[-1] < 2**31:
        indptr = indptr.astype(np.int32)
    X = sp.csr_matrix((values, columns.reshape(-1), indptr), shape=(n_rows, N_FEATURES))
    return X, rng.integers(0, 2, n_rows)


def proportional() -> int | None:
    """Proportional set sizes of this process and its descendants, in bytes; None while they move.

    Of pages that another process comes to share between two readings half would be counted twice.
    """
    me = psutil.Process()
    sizes = [_of(process.pid) for process in [me, *me.children(recursive=True)]]
    return sum(sizes) if abs(_of(me.pid) - sizes[0]) < 0.01 * sizes[0] else None


def _of(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0  # it has ended
    return next(int(x.split()[1]) for x in text.splitlines() if x.startswith("Pss:")) * 1024


class Peak:
    """Largest proportional set size while the block runs, less that before it."""

    def __enter__(self) -> Peak:
        gc.collect()
        before = proportional()
        assert before is not None, "nothing runs yet"
        self.before = self.largest = before
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            self._look()

    def _look(self) -> None:
        self.largest = max(self.largest, proportional() or 0)

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        self._thread.join()
        self._look()
        self.rise = self.largest - self.before


def touched(X: sp.csr_matrix) -> sp.csr_matrix:
    """The same matrix, every page of which has been read: until then it does not count as here."""
    for part in (X.data, X.indices, X.indptr):
        part.sum()
    return X


def mapped(X: sp.csr_matrix, folder: Path) -> sp.csr_matrix:
    """The same matrix over memory maps."""
    parts = []
    for name in ("data", "indices", "indptr"):
        np.save(folder / f"{name}.npy", getattr(X, name))
        parts.append(np.load(folder / f"{name}.npy", mmap_mode="r"))
    return sp.csr_matrix(tuple(parts), shape=X.shape, copy=False)


def measure(options: Any) -> dict[str, Any]:
    """Every kind of rows and runtime."""
    X, y = make(options.gigabytes)
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    solve(problems.linear(X[:1000], y[:1000]), stop=Stop(epochs=1), runtime="threads", n_workers=2)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for name, rows, runtime, share_of_X in (
            ("private", lambda: X, "threads", 0.0),
            ("private", lambda: X, "processes", 1.15),
            ("mapped", lambda: mapped(X, Path(folder)), "threads", 0.0),
            ("shared", lambda: share(X), "processes", 0.0),
        ):
            ready = touched(rows())
            with Peak() as peak:
                began = time.perf_counter()
                problem = problems.linear(ready, y)
                report = solve(
                    problem, stop=Stop(epochs=options.epochs), runtime=runtime, n_workers=2
                )
                seconds = time.perf_counter() - began
            allowed = share_of_X * size + 300e6
            line = {
                "rows": name,
                "runtime": runtime,
                "X, MB": size / 1e6,
                "rise, MB": peak.rise / 1e6,
                "allowed, MB": allowed / 1e6,
                "seconds": seconds,
                "rows per worker": [w["rows"] for w in report.workers],
            }
            results.append(line)
            print(line, flush=True)
            del ready, problem, report
    return {"results": results}


if __name__ == "__main__":
    script.run(__doc__, measure, gigabytes=1.0, epochs=3)
