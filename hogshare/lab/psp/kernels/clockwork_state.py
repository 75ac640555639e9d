"""What a run on a virtual clock without a model is made of; see `clockwork`."""

from typing import NamedTuple

import numpy as np

# World.whole and World.real: all that an event needs of a worker, on one cache line
CLOCK = 0
STATE = 1
LINK = 2  # the next worker in the list that it is in, or -1
MARKER = 3  # throttled: the generation in which it came; held sample: members that need no look
DUE = 4  # the time of its event; while it waits in a list, of its next look
ARRIVED_AT = 5  # when it completed its last block
WAITED = 6  # virtual seconds
SLOWNESS = 7
N_FIELDS = 8

# values of STATE
ABSENT = 0  # has not joined
COMPUTING = 1
WAITING = 2
GONE = 3  # has left, or is done

# kinds of events in the calendar, in the order in which they happen at one moment
END = 0
POLL = 1

# kinds of recorded events
COMPLETED = 0
PASSED = 1
JOINED = 2
LEFT = 3

# World.words
LIVE = 0  # workers in the barrier's world
LEAST = 1  # their least clock
MOST = 2  # the largest clock that anybody has had
FRONTIER = 3  # without a sample: the largest clock that passes, at most MOST
GENERATION = 4  # releases of the throttled barrier
ARRIVED = 5  # who has come to it since the last
PENDING = 6  # workers in the calendar and the heap
HEAP = 7  # of which in the heap
BUCKET = 8  # the bucket that has been reached, counted from time 0
RING = 9  # where the first look of the ring is
POLLS = 10  # looks in the ring
UPDATES = 11  # blocks completed
PASSES = 12
CHECKS = 13  # looks at the barrier: at a block's end, and each later one
CONTROL = 14  # workers asked for their clock, summed over looks with a sample
CHANGE = 15  # the next of who joins or leaves
MARK = 16  # the next of the moments at which updates are noted
RECORDED = 17
N_WORDS = 18


class ClockworkSettings(NamedTuple):
    """What does not change in a run."""

    barrier: int  # as `hogshare.kernels.schedule.barrier_codes` has them
    sample: int
    staleness: int
    share: float
    hold: int
    available: int
    code: int  # of the law of block times, with its numbers
    a: float
    b: float
    seed: int
    barrier_seed: int
    poll: float  # between looks; 0: who waits passes at the moment from which it may
    until: float
    blocks: int  # after which a worker is done; -1: never
    width: float  # virtual seconds of a bucket


class ClockworkState(NamedTuple):
    """What does."""

    whole: np.ndarray  # int64 [n, N_FIELDS], the fields that are whole numbers
    real: np.ndarray  # float64 [n, N_FIELDS], the others: the same memory
    joined: np.ndarray  # float64 [n]
    present: np.ndarray  # float64 [n], seconds in the world, of those who have left
    trace: np.ndarray  # float64, of the law
    bucket: np.ndarray  # int64 [a power of two], first worker of each bucket's list
    heap_due: np.ndarray  # float64 [n]
    heap_rank: np.ndarray  # int64 [n], kind * n + worker
    ring_due: np.ndarray  # float64 [n], the four of the ring; empty if nobody looks through it
    ring_worker: np.ndarray  # int32 [n]
    ring_clock: np.ndarray  # int32 [n]
    ring_stream: np.ndarray  # uint32 [n]
    members: np.ndarray  # int64 [n], who is in the world; the five of held samples
    place: np.ndarray  # int64 [n], where in `members`
    held: np.ndarray  # int32 [n, sample]
    watcher: np.ndarray  # int64 [n], first of those who wait for that worker, or -1
    swaps: np.ndarray  # int64 [sample + 1], scratch
    at_least: np.ndarray  # int64 [clocks], how many in the world have that clock or more
    first: np.ndarray  # int64 [clocks], who waits with that clock: the list's first and last
    last: np.ndarray  # int64 [clocks]
    leads: np.ndarray  # int64 [clocks], passes with that lead over the least clock
    chance: np.ndarray  # float64 [clocks, 2], that a sample lets that clock pass: from, to
    chance_near: np.ndarray  # int64 [clocks, 3], for so many near, from, to, of so many others
    change_time: np.ndarray  # float64, sorted; who joins or leaves when
    change_worker: np.ndarray  # int64
    change_kind: np.ndarray  # int64
    marks: np.ndarray  # float64, sorted
    marked: np.ndarray  # int64, updates until then
    record_time: np.ndarray  # float64; empty: nothing is recorded
    record_worker: np.ndarray  # int64
    record_kind: np.ndarray  # int64
    words: np.ndarray  # int64 [N_WORDS]
