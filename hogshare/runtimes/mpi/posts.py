"""The mailboxes between machines: of each, one edge to the owner of the global vector and one back.

Two kinds of mail go on edges of their own, so that what is short never waits for what is long:
vectors ("model", an answer of the owner's; "update", an offer) and words ("control": what epochs
have come to, and what has been decided). Machine 0 has the owner beside it: its edges are in one
memory.

Who writes: the machine its edge to the owner, the owner the edge back, each in the rank's thread
that talks to the others. Who frees: `close`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hogshare.links.network import Network
from hogshare.runtimes.mpi.assembly import Pool
from hogshare.runtimes.mpi.beats import Beats
from hogshare.runtimes.mpi.channel import EdgeTraffic
from hogshare.runtimes.mpi.wire import Wire
from hogshare.shm.mailbox import AT_ONCE, PLACE_BYTES, Edge, Message, mailbox_of, shapes

OWNER = 0  # its rank
QUEUE = 2  # messages of an edge that may be under way


class Post(NamedTuple):
    """The edges of one machine.

    offers, answers : of vectors, to the owner and back
    reports, decisions : of words
    """

    offers: Edge
    answers: Edge
    reports: Edge
    decisions: Edge


def send(
    edge: Edge, values: np.ndarray, places: np.ndarray | None, tail: np.ndarray, round_: int
) -> bool:
    """Post values of a vector, and a tail of numbers that follow it."""
    if places is not None:
        places = np.concatenate([places, np.zeros(len(tail), np.int64)])
    return edge.post(np.concatenate([values, tail]), places, round_)


def parts(message: Message, tail: int) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """A message's places, values, and the tail of so many numbers."""
    n = len(message.values) - tail
    places = None if message.places is None else message.places[:n]
    return places, message.values[:n], message.values[n:]


def most_places(size: int, value_bytes: int) -> int:
    """Values that are sent with their places, at most: all of them without are shorter then."""
    return size * value_bytes // (value_bytes + PLACE_BYTES)


class Posts:
    """All edges that begin or end at this rank.

    size : numbers of a vector
    tail : numbers that follow those of a vector in a message, at most
    words : numbers of a report or of a decision, at most
    values : {"float64", "float32"}; as they are sent
    network : links between machines besides the real ones
    """

    def __init__(
        self, pool: Pool, size: int, tail: int, words: int, values: str, network: Network
    ) -> None:
        self.me, self.n_machines = pool.me, pool.size
        self.traffic = EdgeTraffic()
        self.places = most_places(size, np.dtype(values).itemsize)
        machines = range(self.n_machines) if self.me == OWNER else [self.me]
        self.comms: list[Any] = []
        self._wires: list[Wire] = []
        lines = []
        for first, second, n_places, n_values, kind in (
            ("update", "model", self.places + tail, size + tail, values),
            ("control", "control", 0, words, "float64"),
        ):
            ends = [(k, OWNER) for k in machines] + [(OWNER, k) for k in machines]
            kinds = [first] * len(machines) + [second] * len(machines)
            arrays = shapes(len(ends), QUEUE, n_places, n_values)
            box = mailbox_of({name: np.zeros(one, of) for name, (one, of) in arrays.items()})
            self.comms.append(pool.copy_of_comm())
            wire = Wire(self.comms[-1], box, ends, kinds, self.traffic, kind, network)
            self._wires.append(wire)
            by = [AT_ONCE if sender == to else wire for sender, to in ends]
            lines.append([Edge(box, k, by[k]) for k in range(len(ends))])
        self.comms.append(pool.copy_of_comm())
        others = [k for k in machines if k != OWNER] if self.me == OWNER else [OWNER]
        self.beats = Beats(self.comms[-1], others)
        n = len(machines)
        edges = [lines[0][:n], lines[0][n:], lines[1][:n], lines[1][n:]]
        self.of = {k: Post(*(edge[at] for edge in edges)) for at, k in enumerate(machines)}

    def poll(self) -> bool:
        """Move what can be moved; whether anything has been.

        Raises RankFailed if a rank is silent for too long.
        """
        self.beats.poll()
        moved = [wire.poll() for wire in self._wires]
        return any(moved)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing of this rank's is under way."""
        return all(wire.is_quiet for wire in self._wires)

    def close(self) -> None:
        """Give everything back but the communicators; nobody sends anything more."""
        self.beats.close()
        for wire in self._wires:
            wire.close()
