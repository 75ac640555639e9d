"""A fit on a memory-mapped file larger than memory: whether it ends, and its memory meanwhile.

The file is dense float32, by default twice the available memory. Most of it is a hole, so it takes
little disk space, but every page of it is read like any other. Goal: peak anonymous and shared
memory below a quarter of the file. Usage::

    python bench/out_of_core.py --json bench/results/out_of_core.json
"""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import script

from hogshare import SGDClassifier
from hogshare.lab.harness.settings import Setting
from hogshare.system import memory

WIDTH = 1024
FILLED = 100_000  # rows that are not a hole


def held() -> int:
    """Anonymous and shared memory of this process, in bytes."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    wanted = ("Pss_Anon:", "Pss_Shmem:")
    return sum(int(x.split()[1]) for x in lines if x.startswith(wanted)) * 1024


def measure(options: Any) -> dict[str, Any]:
    """One fit."""
    available = memory.free(swap=False) or 0
    n_rows = int(options.times_memory * available / (4 * WIDTH))
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        file = Path(folder) / "rows.npy"
        X = np.lib.format.open_memmap(file, "w+", np.float32, (n_rows, WIDTH))
        rng = np.random.default_rng(0)
        y = np.zeros(n_rows, np.int8)
        y[: n_rows // 2] = 1
        places = np.linspace(0, n_rows - 1, FILLED).astype(int)
        for part in np.array_split(places, 100):
            values = rng.standard_normal((len(part), WIDTH), dtype=np.float32)
            X[part] = values + 0.2 * (2.0 * y[part, None] - 1.0)
        del X
        X = np.load(file, mmap_mode="r")
        peak, stop = [held()], threading.Event()

        def watch() -> None:
            while not stop.wait(0.5):
                peak.append(held())

        watcher = threading.Thread(target=watch)
        watcher.start()
        start = time.perf_counter()
        model = SGDClassifier(
            "log_loss", max_iter=1, tol=None, n_jobs=-1, random_state=0, shuffle=True
        ).fit(X, y)
        seconds = time.perf_counter() - start
        stop.set()
        watcher.join()
        result = {
            "file, GB": n_rows * WIDTH * 4 / 1e9,
            "available memory, GB": available / 1e9,
            "seconds": seconds,
            "peak anonymous and shared memory, GB": max(peak) / 1e9,
            "accuracy on filled rows": model.score(X[places[::50]], y[places[::50]]),
            "workers": model.report_.settings["n_workers"],
        }
    print(result)
    return result


if __name__ == "__main__":
    folder = Setting("folder", "where the file is written")
    script.run(__doc__, measure, folder, times_memory=2.0)
