"""Run by mpiexec: the contract of mailboxes between real ranks; broken twins break it.

Every rank posts to every other and reads from every other, in an order of steps of its own. Prints,
on rank 0, a line for each case: its name, and "kept" or "broken".
"""

import random
import time

import numpy as np
from mpi4py import MPI
from test_mailbox import (
    SIZE,
    Consumer,
    Edge,
    Interleaved,
    NoRoom,
    NumberFirst,
    TakenFirst,
    content,
)

from hogshare.kernels import layout
from hogshare.links import Link
from hogshare.runtimes.mpi.wire import Incoming, Line, Outgoing, Wire
from hogshare.shm.mailbox import mailbox_of, shapes
from hogshare.simulation import Network

SECONDS = 30.0  # of a case, after which it counts as broken
COMM = MPI.COMM_WORLD
BROKEN = 99  # tag of what a rank says that has found a promise broken
ME, RANKS = COMM.Get_rank(), COMM.Get_size()
ENDS = [(a, b) for a in range(RANKS) for b in range(RANKS) if a != b]


class TellsEarly(Incoming):
    """Tells the sender that a message is taken when it has come."""

    def poll(self):
        if self._arrived > self.told:
            self._tell(self._arrived)
        return super().poll()


class ArrivesFirst(Incoming):
    """Lets the reader have a message while its values are still on their way into the slot."""

    def _deliver(self, slot):
        before = self.wire.box.values[self.edge, slot].copy()
        super()._deliver(slot)
        self.wire.box.values[self.edge, slot] = before


class TellingEarly(Wire):
    ends = Outgoing, TellsEarly


class DeliveringFirst(Wire):
    ends = Outgoing, ArrivesFirst


def converse(queue, seed, edge=Edge, by=Wire, network=None, n=60):
    """Exchange `n` messages with every other rank; whether all that came was as it should be."""
    arrays = shapes(len(ENDS), queue, SIZE, SIZE)
    box = mailbox_of({name: np.zeros(shape, kind) for name, (shape, kind) in arrays.items()})
    comm = COMM.Dup()
    wire = by(comm, box, ENDS, network=network)
    rng = random.Random(seed * 100 + ME)
    out = [edge(box, k, wire) for k, (a, _) in enumerate(ENDS) if a == ME]
    consumers = [Consumer(edge(box, k, wire)) for k, (_, b) in enumerate(ENDS) if b == ME]
    sent, kept, deadline = [0] * len(out), True, time.monotonic() + SECONDS
    try:
        while min(sent) < n or min(c.rounds for c in consumers) < n:
            assert time.monotonic() < deadline, "nothing comes any more"
            assert not COMM.Iprobe(tag=BROKEN), "somebody else has found it broken"
            what, k = rng.randrange(12), rng.randrange(len(out))
            if what < 3 and sent[k] < n:
                values, places = content(sent[k] + 1)
                sent[k] += out[k].post(Interleaved(values, wire.poll), places, sent[k] + 1)
            elif what < 6:
                consumers[k].look()
            elif what == 6:
                consumers[k].take()
            else:
                wire.poll()
    except (AssertionError, ValueError, RuntimeError):
        kept = False
        for other in set(range(RANKS)) - {ME}:
            COMM.Isend(np.zeros(1), dest=other, tag=BROKEN).Free()
    # all agree, without a blocking call: who still waits for messages has to go on
    verdict, one = np.array([kept], np.int64), np.zeros(1, np.int64)
    request = comm.Iallreduce(verdict, one, MPI.MIN)
    while not request.Test() or (one[0] and not wire.is_quiet):
        wire.poll()
    ended = comm.Ibarrier()
    while not ended.Test():
        wire.poll()
    while COMM.Iprobe(tag=BROKEN):
        COMM.Recv(np.zeros(1), tag=BROKEN)
    if one[0]:
        others = [k for k in range(RANKS) if k != ME]
        assert {edge[1:] for edge in wire.traffic.edges} == {(ME, other) for other in others}
        assert wire.traffic.messages["mail"] == n * len(others)
        assert 0 < wire.traffic.messages["control"] <= n * len(others)
        wire.close()
    comm.Barrier()
    return bool(one[0])


def told(name, kept):
    if ME == 0:
        print(name, "kept" if kept else "broken", flush=True)


def late():
    """How much later than a link's time messages arrive, and how many in a second."""
    link = Link(latency=0.02, bandwidth=1e6)
    arrays = shapes(1, 8, 8, 25_000)
    box = mailbox_of({name: np.zeros(shape, kind) for name, (shape, kind) in arrays.items()})
    comm = COMM.Dup()
    wire = Wire(comm, box, [(0, 1)], network=Network(edges={(0, 1): link}))
    end, moments = Edge(box, 0, wire), []
    COMM.Barrier()
    began = time.monotonic()
    if ME == 0:
        for _ in range(4):
            assert end.post(np.zeros(12_500))  # 100 kB, a tenth of a second each
        while not end.all_taken:
            wire.poll()
    elif ME == 1:
        while len(moments) < 4:
            wire.poll()
            if end.poll() is not None:
                moments.append(time.monotonic() - began)
                end.take()
    ended = comm.Ibarrier()
    while not ended.Test() or not wire.is_quiet:
        wire.poll()
    if ME == 1:
        for k, moment in enumerate(moments):
            n_bytes = 100_000 * (k + 1)
            assert moment >= n_bytes / link.bandwidth + link.latency, moments
    wire.close()


def main():
    queues = (1, 3) if RANKS == 2 else (2,)
    for queue in queues:
        told(f"wire queue={queue}", converse(queue, queue))
    slow = Network(link=Link(latency=0.002, bandwidth=1e7))
    told("link", converse(2, 7, network=slow, n=20))
    if RANKS > 2:
        return
    late()
    for twin in (NumberFirst, TakenFirst, NoRoom):
        told(twin.__name__, converse(1, 5, edge=twin))
    for twin in (TellingEarly, DeliveringFirst):
        told(twin.__name__, converse(1, 6, by=twin))


if __name__ == "__main__":
    assert layout.H_ROUND == 6 and Line(Link()).send(10) == 0.0
    main()
