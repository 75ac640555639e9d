"""Identifiers on a ring: who owns a point, and how far it is there by fingers.

A worker with identifier i owns the points from behind its predecessor up to i. It knows its
neighbours on the ring and, for each power of two, the owner of the point that far ahead: its
fingers. A message goes by the longest finger that does not pass over the point, until the point's
owner is next.

            0
          .   .        9's fingers, of 16 points: owners of 10, 11, 13 and 1,
       13       3      that is 11, 11, 13 and 3.
        |       |      A message from 9 to point 2: the finger 13 is the longest that
       11       |      does not pass over it; from there 0 is, and 2's owner, 3, is
          9 . .        next: 3 hops.

Source: Stoica et al., "Chord", SIGCOMM 2001, with fingers that are always right: who joins or
leaves is known to all who point there at once.

`identifiers` are int64, sorted, all different, from 0 to 2^bits - 1; workers are named by their
places in that order here.
"""

from __future__ import annotations

import numpy as np


def owners(identifiers: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Places of the points' owners."""
    return np.searchsorted(identifiers, points) % len(identifiers)


def zones(identifiers: np.ndarray, bits: int) -> np.ndarray:
    """How many points each worker owns; their sum is 2^bits."""
    behind = np.roll(identifiers, 1)
    own = (identifiers - behind) % (1 << bits)
    return own if len(own) > 1 else np.array([1 << bits])


def inhabitants(identifiers: np.ndarray, bits: int, starts: np.ndarray, length: int) -> np.ndarray:
    """How many workers there are in the arcs of that length from those points on."""
    ends = starts + length
    wrapped = ends >> bits
    last = np.searchsorted(identifiers, ends - (wrapped << bits)) + wrapped * len(identifiers)
    return last - np.searchsorted(identifiers, starts)


def hops(identifiers: np.ndarray, bits: int, senders: np.ndarray, points: np.ndarray) -> np.ndarray:
    """How many times messages are handed on until they are with the owners of their points.

    Parameters
    ----------
    identifiers : ndarray of shape (n_workers,), int64
    bits : int
    senders : ndarray of shape (n_messages,), int64
        Places.
    points : ndarray of shape (n_messages,), int64

    Returns
    -------
    ndarray of shape (n_messages,), int64
        0 where the sender owns the point.

    Notes
    -----
    All messages at once, by one finger after the other from the longest on: behind a hop over
    2^i points less than 2^i are left to go, so that no finger is used twice.
    """
    ring = 1 << bits
    goals = owners(identifiers, points)
    before = (goals - 1) % len(identifiers)
    at = senders.copy()
    made = (at != goals).astype(np.int64)  # the last hop, to the owner
    going = np.flatnonzero((at != goals) & (at != before))
    for i in range(bits - 1, -1, -1):
        if not len(going):
            break
        here = identifiers[at[going]]
        finger = owners(identifiers, (here + (1 << i)) % ring)
        ahead = (identifiers[finger] - here) % ring
        hop = (ahead > 0) & (ahead < (points[going] - here) % ring)
        at[going[hop]] = finger[hop]
        made[going[hop]] += 1
        going = going[at[going] != before[going]]
    return made
