"""Identifiers on a ring: a point's owner, and the number of hops to this owner by fingers.

A worker with identifier i owns the points after its predecessor's identifier, up to i. It knows its
neighbours on the ring. It also knows its fingers: for each power of two, the owner of the point at
that distance. At each hop a message takes the longest finger that does not pass its point. When the
point's owner is the next worker on the ring, the last hop goes to this worker.

            0
          .   .        9's fingers, of 16 points: owners of 10, 11, 13 and 1,
       13       3      that is 11, 11, 13 and 3.
        |       |      A message from 9 to point 2: the longest finger that does not
       11       |      pass 2 is 13; from 13 it is 0; then 3, the owner of point 2,
          9 . .        is the next worker: 3 hops.

Source: Stoica et al., "Chord", SIGCOMM 2001. Departure: fingers are always right. When a worker
joins or leaves, all workers that have a finger on it know this at once.

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
    """Return, for each message, the number of hops until it reaches its point's owner.

    Parameters
    ----------
    identifiers : ndarray of shape (n_workers,), int64
        The workers' identifiers, sorted.
    bits : int
        Number of bits of an identifier.
    senders : ndarray of shape (n_messages,), int64
        Places of the senders in `identifiers`.
    points : ndarray of shape (n_messages,), int64
        The points to which the messages go.

    Returns
    -------
    ndarray of shape (n_messages,), int64
        Numbers of hops; 0 if the sender owns the point.

    Notes
    -----
    All messages are routed at once: first by the longest fingers, then by the next shorter ones,
    and so on. After a hop over 2^i points, less than 2^i points are left, so a message uses no
    finger length twice.
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
