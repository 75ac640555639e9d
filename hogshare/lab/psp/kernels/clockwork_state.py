"""The settings and arrays of a run on a virtual clock without a model; see `clockwork`."""

from typing import NamedTuple

import numpy as np

# ClockworkState.whole and .real: a worker's data for an event, on one cache line
CLOCK = 0
STATE = 1
LINK = 2  # the next worker in the same list, or -1
MARKER = 3  # throttled: generation of its arrival; fixed sample: leading members known to be near
DUE = 4  # the time of its event; while it waits in a list, of its next poll
ARRIVED_AT = 5  # when it completed its last block
WAITED = 6  # virtual seconds
SLOWNESS = 7
N_FIELDS = 8

# values of STATE
ABSENT = 0  # has not joined
COMPUTING = 1
WAITING = 2
GONE = 3  # has left, or is done

# kinds of events in the calendar, in their order at one moment
END = 0
POLL = 1

# kinds of recorded events
COMPLETED = 0
PASSED = 1
JOINED = 2
LEFT = 3

# ClockworkState.words
LIVE = 0  # workers in the barrier's world
LEAST = 1  # their least clock
MOST = 2  # the largest clock of any worker so far
FRONTIER = 3  # without a sample: the largest clock that passes, at most MOST
GENERATION = 4  # releases of the throttled barrier
ARRIVED = 5  # workers that have arrived since the last release
PENDING = 6  # workers in the calendar and the heap
HEAP = 7  # of these workers, the number in the heap
BUCKET = 8  # the bucket that has been reached, counted from time 0
RING = 9  # index of the ring's first poll
POLLS = 10  # polls in the ring
UPDATES = 11  # blocks completed
PASSES = 12
CHECKS = 13  # polls of the barrier: at a block's end, and each later one
CONTROL = 14  # clocks requested, summed over polls with a sample
CHANGE = 15  # index of the next join or leave
MARK = 16  # index of the next moment at which updates are recorded
RECORDED = 17
N_WORDS = 18


class ClockworkSettings(NamedTuple):
    """The constants of a run."""

    barrier: int  # a code of `hogshare.kernels.schedule.barrier_codes`
    sample: int
    staleness: int
    share: float
    reuses: int
    available: int
    code: int  # the law of block times; its numbers follow
    a: float
    b: float
    seed: int
    barrier_seed: int
    poll: float  # seconds between polls; 0: a waiting worker passes as soon as it may
    until: float
    blocks: int  # clock at which a worker is done; -1: never
    width: float  # virtual seconds of a bucket


class ClockworkState(NamedTuple):
    """The arrays of a run, which change."""

    whole: np.ndarray  # int64 [n, N_FIELDS], the integer fields
    real: np.ndarray  # float64 [n, N_FIELDS], the other fields: a view of the same memory
    joined: np.ndarray  # float64 [n]
    present: np.ndarray  # float64 [n], seconds between joining and leaving
    trace: np.ndarray  # float64, recorded block times of the law
    bucket: np.ndarray  # int64 [a power of two], first worker of each bucket's list
    heap_due: np.ndarray  # float64 [n]
    heap_rank: np.ndarray  # int64 [n], kind * n + worker
    ring_due: np.ndarray  # float64 [n], the ring's four arrays; empty if polls need no ring
    ring_worker: np.ndarray  # int32 [n]
    ring_clock: np.ndarray  # int32 [n]
    ring_stream: np.ndarray  # uint32 [n]
    members: np.ndarray  # int64 [n], live workers; the first of five arrays of fixed samples
    place: np.ndarray  # int64 [n], each worker's index in `members`
    fixed: np.ndarray  # int32 [n, sample], fixed samples; -1: unused
    watcher: np.ndarray  # int64 [n], first of the list of workers that wait for that worker, or -1
    swaps: np.ndarray  # int64 [sample + 1], scratch
    at_least: np.ndarray  # int64 [clocks], number of live workers with that clock or more
    first: np.ndarray  # int64 [clocks], first worker in the waiting list of that clock
    last: np.ndarray  # int64 [clocks], last worker in that list
    leads: np.ndarray  # int64 [clocks], passes with that lead over the least clock
    chance: np.ndarray  # float64 [clocks, 2], cached bounds on the chance that a sample passes
    chance_near: np.ndarray  # int64 [clocks, 3], their range of near workers, and the others
    change_time: np.ndarray  # float64, sorted; times of joins and leaves
    change_worker: np.ndarray  # int64
    change_kind: np.ndarray  # int64
    marks: np.ndarray  # float64, sorted
    marked: np.ndarray  # int64, updates until each mark
    record_time: np.ndarray  # float64; empty: nothing is recorded
    record_worker: np.ndarray  # int64
    record_kind: np.ndarray  # int64
    words: np.ndarray  # int64 [N_WORDS]
