"""The time of messages between ranks, measured as in a run: both ranks sleep between polls.

    rank 0: a message -> another rank: the same message back

Writer and reader: each rank's thread that polls its channel.
"""

from __future__ import annotations

import statistics
import time
from typing import NamedTuple

import numpy as np

from hogshare.runtimes.mpi.channel import FIRST_KIND, NAP_SECONDS, Channel

ASK, ANSWER, OVER = range(FIRST_KIND, FIRST_KIND + 3)
SHORT, LONG, LONGEST = 64, 1 << 20, 1 << 26  # bytes
MANY, SOME = 30, 5  # round trips, after a first one
ENOUGH_SECONDS = 0.02  # a round trip of many naps: its bytes take most of this time
MOST_RANKS = 8  # largest number of ranks that are measured


class Way(NamedTuple):
    """The measured connection between rank 0 and another one.

    latency : seconds that a short message takes one way
    bandwidth : bytes per second, one way
    """

    rank: int
    latency: float
    bandwidth: float


def ways(channel: Channel) -> list[Way]:
    """Measure the ways from rank 0 to other ranks; all ranks must call this.

    Return the ways on rank 0, in the order of ranks, for at most `MOST_RANKS` ranks. On other ranks
    return an empty list.
    """
    others = np.unique(np.linspace(1, channel.size - 1, MOST_RANKS).round().astype(int)).tolist()
    come: list[int] = []
    channel.on(ASK, lambda sender, content: channel.post(sender, ANSWER, [content], ""))
    for kind in (ANSWER, OVER):
        channel.on(kind, lambda sender, content: come.append(sender))
    found = []
    if channel.me == 0:
        found = [_way(channel, rank, come) for rank in others]
        for rank in channel.others:
            channel.post(rank, OVER, counted="")
    else:
        channel.wait(lambda: bool(come))
    channel.part()
    return found


def way_of(rank: int, short: float, long: float, n_bytes: int) -> Way:
    """Return the way to a rank, computed from the round trips of a short and a long message.

    rank : the other rank
    short : seconds of the short message's round trip
    long : seconds of the long message's round trip
    n_bytes : the length of the long message

    Examples
    --------
    >>> from hogshare.runtimes.mpi.round_trips import way_of
    >>> way_of(1, short=0.002, long=0.006, n_bytes=2_000_064)
    Way(rank=1, latency=0.001, bandwidth=1000000000.0)
    """
    beyond = max(long - short, NAP_SECONDS / 10.0)  # because of naps, both may take equally long
    return Way(rank, short / 2.0, 2.0 * (n_bytes - SHORT) / beyond)


def _way(channel: Channel, rank: int, come: list[int]) -> Way:
    short, long, n_bytes = _seconds(channel, rank, come, SHORT, MANY), 0.0, LONG // 4
    while n_bytes < LONGEST and long < ENOUGH_SECONDS:
        n_bytes *= 4
        long = _seconds(channel, rank, come, n_bytes, SOME)
    return way_of(rank, short, long, n_bytes)


def _seconds(channel: Channel, rank: int, come: list[int], n_bytes: int, count: int) -> float:
    """Return the median seconds of `count` round trips."""
    times, sent = [], np.ones(n_bytes, np.uint8)
    for _ in range(count + 1):
        come.clear()
        began = time.perf_counter()
        channel.post(rank, ASK, [sent], "")
        channel.wait(lambda: bool(come))
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])
