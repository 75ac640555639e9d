"""Measurement of the machine's constants: about a second, once the loops are compiled.

Every constant except one is a median over repeats. So other programs change the constant only if
they run for most of the measurement. The exception is the time to wake a thread: it is measured
between the other measurements, and the constant is the lower quartile of these times. The reason is
that the cores of a virtual machine are slow for up to two seconds at a stretch, and that waking a
thread then takes two or three times as long.

Writers: threads that measure together are bound to one core each, and start at a barrier. They
share only data that they read; each writes a vector of its own. Two measurements hand over a word
from thread to thread, and one of the two also a vector. This word and this vector have one writer
at a time: the thread whose number is in the word.
"""

from __future__ import annotations

import functools
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from hogshare.kernels.jit import announcements
from hogshare.kernels.jit import probe as loops
from hogshare.kernels.rows.sums import total
from hogshare.runtimes.choice import usable_workers
from hogshare.runtimes.core_placement import CorePlacement
from hogshare.runtimes.pool import pool
from hogshare.system.machine import Machine

REPEATS = 31
FEATURES = 47_236  # number of features of rcv1
WIDTH = 67  # nonzeros in a row of rcv1
INDICES = WIDTH << 12  # number of random indices; repeats do no harm, as rows are streamed
LINE_VALUES = 16  # float32 values in a cache line
BIG_BYTES = 1 << 26  # more than any core's own cache
MOST_BYTES = 1 << 28  # streamed by many threads together
EPOCH_VALUES = 1 << 22  # read in a millisecond, a short epoch
DENSE_FEATURES = 54  # number of features of covtype
DENSE_ROWS = 1 << 16
CHASE_STEPS = 20_000
HAND_OVERS = 1_000
PATIENCE_SECONDS = 60.0  # for threads to start

T = TypeVar("T")


def probe(repeats: int = REPEATS) -> Machine:
    """Measure this machine.

    repeats : number of times that each loop runs

    If only one core is usable, the constants that need a second core have their default values.
    """
    _prepare()
    n_threads = usable_workers(-1)
    rng = np.random.default_rng(0)
    big = np.ones(min(MOST_BYTES, n_threads * BIG_BYTES) // 4, np.float32)
    drawn = rng.integers(0, FEATURES, INDICES, dtype=np.uint32)
    columns = np.resize(drawn, big.size // 2)  # with as many values of it: `big.nbytes` in all
    measures: dict[str, Callable[[], float]] = {
        "sparse_value_ns": lambda: _sparse_value_ns(columns[: BIG_BYTES // 8], big, repeats // 2),
        "stream_gb_per_second": lambda: _stream_gb_per_second(big[: BIG_BYTES // 4], repeats),
        "dense_value_ns": lambda: _dense_value_ns(big, repeats),
        "miss_ns": lambda: _miss_ns(rng, repeats),
    }
    if n_threads > 1:
        measures |= {
            "sparse_value_many_ns": lambda: _all_at_once_ns(n_threads, columns, big, repeats),
            "hand_over_ns": lambda: _hand_over_ns(repeats),
            "line_transfer_ns": lambda: _line_transfer_ns(2 * repeats),
        }
    constants, wakes = {}, []
    for name, measure in measures.items():
        constants[name] = measure()
        wakes += _thread_wakes_ns(big[:EPOCH_VALUES], 1 + repeats // 3)
    constants["thread_wake_ns"] = statistics.quantiles(wakes, n=4)[0]
    return Machine(**constants, measured=tuple(constants))


@announcements.block("the probe")
def _prepare() -> None:
    values = np.zeros(1, np.float32)
    total(values)
    loops.overwrite(values, 0.0)
    loops.sparse_rows(values, np.zeros(1, np.uint32), values, 1, 0.0)
    loops.dense_rows(values, values.reshape(1, 1), 0.0)
    loops.chase(np.zeros(1, np.int64), 0, 1)
    loops.hand_over(_word(), 0, 1, 1)


def _times(call: Callable[[], Any], repeats: int) -> list[int]:
    times = []
    for _ in range(repeats):
        begin = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - begin)
    return times


def _median_ns(call: Callable[[], Any], repeats: int) -> float:
    return float(statistics.median(_times(call, repeats)))


def _stream_gb_per_second(values: np.ndarray, repeats: int) -> float:
    return values.nbytes / _median_ns(lambda: total(values), repeats)


def _dense_value_ns(values: np.ndarray, repeats: int) -> float:
    v = np.zeros(DENSE_FEATURES, np.float32)
    rows = values[: DENSE_ROWS * DENSE_FEATURES].reshape(-1, DENSE_FEATURES)
    return _median_ns(lambda: loops.dense_rows(v, rows, 0.5), repeats) / rows.size


def _sparse_value_ns(columns: np.ndarray, values: np.ndarray, repeats: int) -> float:
    w, values = np.zeros(FEATURES, np.float32), values[: columns.size]
    call = functools.partial(loops.sparse_rows, w, columns, values, WIDTH, 0.5)
    return _median_ns(call, max(1, repeats)) / columns.size


def _miss_ns(rng: np.random.Generator, repeats: int) -> float:
    """Follow a closed path that visits the cache lines of 64 MB in random order."""
    step = 8  # int64 values in a cache line
    n_lines = BIG_BYTES // 64
    order = step * rng.permutation(n_lines)
    path = np.zeros(step * n_lines, np.int64)
    path[order] = np.roll(order, -1)
    position = 0

    def go_on() -> None:
        nonlocal position
        position = loops.chase(path, position, CHASE_STEPS)

    return _median_ns(go_on, repeats) / CHASE_STEPS


def _thread_wakes_ns(values: np.ndarray, repeats: int) -> list[int]:
    """Measure the time until a thread of the pool begins on another core.

    The calling thread computes before and after each measurement. Runs wake their workers in the
    same way. If the other core has slept for long, waking takes twice as long; all other work on
    this core takes twice as long, too.
    """
    placement = CorePlacement(2)

    def wake_some(me: int) -> list[int]:
        placement.bind(me)
        times = []
        for _ in range(repeats):
            total(values)
            begin = time.perf_counter_ns()
            task = pool().submit_to(placement.other_cores(1), time.perf_counter_ns)
            total(values)
            times.append(task.result() - begin)
        pool().submit(placement.leave, 1).result()
        return times

    (times,) = _together(1, wake_some)
    return times


def _all_at_once_ns(n_threads: int, columns: np.ndarray, big: np.ndarray, repeats: int) -> float:
    """Measure the time for a sparse value in each of many threads that read at once."""
    size = columns.size // n_threads

    def descend(me: int) -> float:
        mine = slice(me * size, (me + 1) * size)
        return _sparse_value_ns(columns[mine], big[mine], repeats // 2)

    return statistics.median(_together(n_threads, descend))


def _hand_over_ns(repeats: int) -> float:
    words = [_word() for _ in range(repeats)]

    def alternate(me: int) -> list[int]:
        fresh = iter(words)
        return _times(lambda: loops.hand_over(next(fresh), me, 2, HAND_OVERS), repeats)

    first, _ = _together(2, alternate)
    return statistics.median(first) / (2 * HAND_OVERS)


def _line_transfer_ns(repeats: int) -> float:
    """Measure the transfer of a cache line from a writing to a reading thread.

    After each write the writer spins, because a worker in a fit is as busy.
    """
    vector = np.zeros(FEATURES, np.float32)
    word = _word()

    def pass_on(step: int) -> None:
        loops.hand_over(word, step, 1, 1)

    def write_or_read(me: int) -> list[int]:
        times = []
        for step in range(2 * me, 4 * repeats, 4):
            pass_on(step)
            if me == 0:
                loops.overwrite(vector, 1.0)
            else:
                times += _times(lambda: total(vector), 1)
            pass_on(step + 1)
        return times

    _, times = _together(2, write_or_read)
    return statistics.median(times) / (FEATURES / LINE_VALUES)


def _together(n_threads: int, work: Callable[[int], T]) -> list[T]:
    barrier = threading.Barrier(n_threads, timeout=PATIENCE_SECONDS)
    placement = CorePlacement(n_threads)

    def run(me: int) -> T:
        placement.bind(me)
        barrier.wait()
        return work(me)

    with ThreadPoolExecutor(n_threads, thread_name_prefix="hogshare-probe") as threads:
        return list(threads.map(run, range(n_threads)))


def _word() -> np.ndarray:
    """Return a word for two threads that has its cache line to itself."""
    return np.zeros(24, np.int64)[8:16]
