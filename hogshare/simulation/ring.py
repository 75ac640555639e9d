"""Identifiers on a ring: a point's owner, and the number of hops to it by fingers.

A worker with identifier i owns the points after its predecessor's identifier, up to i. It knows its
neighbours on the ring. It also knows its fingers: for each power of two, the owner of the point at
that distance. At each hop a message takes the longest finger that does not pass the point, until
the point's owner is the next worker.

            0
          .   .        9's fingers, of 16 points: owners of 10, 11, 13 and 1,
       13       3      that is 11, 11, 13 and 3.
        |       |      A message from 9 to point 2: the finger 13 is the longest that
       11       |      does not pass it; from 13 the finger 0 is, and 2's owner, 3,
          9 . .        is next: 3 hops.

Source: Stoica et al., "Chord", SIGCOMM 2001. Departure: fingers are always right, because all
workers with a finger on a worker know at once of its join or leave.

`identifiers` are int64, sorted, all different, from 0 to 2^bits - 1. This file numbers workers by
their places in `identifiers`.
"""

from __future__ import annotations

import numpy as np


def owners(identifiers: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the place of each point's owner."""
    # points after the last identifier belong to the first worker
    return np.searchsorted(identifiers, points) % len(identifiers)


def zones(identifiers: np.ndarray, bits: int) -> np.ndarray:
    """Return the number of points that each worker owns; they sum to 2^bits."""
    behind = np.roll(identifiers, 1)
    own = (identifiers - behind) % (1 << bits)
    # a single worker is its own predecessor, and owns the whole ring
    return own if len(own) > 1 else np.array([1 << bits])


def inhabitants(identifiers: np.ndarray, bits: int, starts: np.ndarray, length: int) -> np.ndarray:
    """Return the number of workers in each arc of `length` points that begins at `starts`."""
    ends = starts + length
    wrapped = ends >> bits  # an arc beyond the ring's last point continues at 0
    last = np.searchsorted(identifiers, ends - (wrapped << bits)) + wrapped * len(identifiers)
    return last - np.searchsorted(identifiers, starts)


def hops(identifiers: np.ndarray, bits: int, senders: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return each message's number of hops until it reaches its point's owner.

    Parameters
    ----------
    identifiers : ndarray of shape (n_workers,), int64
    bits : int
    senders : ndarray of shape (n_messages,), int64
        Places of the senders.
    points : ndarray of shape (n_messages,), int64

    Returns
    -------
    ndarray of shape (n_messages,), int64
        0 if the sender owns the point.

    Notes
    -----
    All messages are routed at once, one finger length after another, from the longest. After a hop
    over 2^i points less than 2^i points are left, so no finger is used twice.
    """
    ring = 1 << bits
    goals = owners(identifiers, points)
    before = (goals - 1) % len(identifiers)  # this worker knows that the owner is next
    at = senders.copy()
    made = (at != goals).astype(np.int64)  # the last hop, to the owner
    going = np.flatnonzero((at != goals) & (at != before))
    for i in range(bits - 1, -1, -1):
        if not len(going):
            break
        position = identifiers[at[going]]
        finger = owners(identifiers, (position + (1 << i)) % ring)
        ahead = (identifiers[finger] - position) % ring
        hop = (ahead > 0) & (ahead < (points[going] - position) % ring)
        at[going[hop]] = finger[hop]
        made[going[hop]] += 1
        going = going[at[going] != before[going]]
    return made
