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
from hogshare.links import Line, Link
from hogshare.runtimes.mpi.channel import HEAD_BYTES, NO_LINE, Channel, DelayedMessage
from hogshare.runtimes.mpi.mail import FIRST_KIND_OF_RUN, MailTransport
from hogshare.shm.mailbox import RegisterEdge, mailbox_of, shapes
from hogshare.simulation import Network

SECONDS = 30.0  # of a case, after which it counts as broken
COMM = MPI.COMM_WORLD
BROKEN = 99  # tag of what a rank says that has found a promise broken
ME, RANKS = COMM.Get_rank(), COMM.Get_size()
ENDS = [(a, b) for a in range(RANKS) for b in range(RANKS) if a != b]


class TellingEarly(MailTransport):
    """Tells the sender that a message is taken when it has come."""

    def _take_in(self, sender, content):
        super()._take_in(sender, content)
        edge = int(content[:8].view(np.int64)[0])
        self._acknowledge(edge, int(self.box.counters[edge, layout.M_ARRIVED]))


class DeliveringFirst(MailTransport):
    """Lets the reader have a message while its values are still on their way into the slot."""

    def _take_in(self, sender, content):
        before = self.box.values.copy()
        super()._take_in(sender, content)
        self.box.values[:] = before


class Overtaking(Channel):
    """Hands out the newest message first."""

    def _take(self, peer, buffer):
        kind, line, _ = buffer[:HEAD_BYTES].view(np.int64).tolist()
        peer.late.append(DelayedMessage(0.0, kind, line, buffer[HEAD_BYTES:]))
        peer.due = lambda now: [peer.late.pop() for _ in range(len(peer.late))]


def converse(queue, seed, edge=Edge, by=MailTransport, over=Channel, network=None, n=60):
    """Exchange `n` messages with every other rank; whether all that came was as it should be."""
    arrays = shapes(len(ENDS), queue, SIZE, SIZE)
    box = mailbox_of({name: np.zeros(shape, kind) for name, (shape, kind) in arrays.items()})
    comm = COMM.Dup()
    channel = over(comm, watch=lambda: None)
    links = [None if network is None else network.between(*ends) for ends in ENDS]
    wire = by(channel, box, ENDS, links)
    channel.work = wire.poll
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
                sent[k] += out[k].post(Interleaved(values, channel.poll), places, sent[k] + 1)
            elif what < 6:
                consumers[k].look()
            elif what == 6:
                consumers[k].take()
            else:
                channel.poll()
    except (AssertionError, ValueError, RuntimeError):
        kept = False
        for other in set(range(RANKS)) - {ME}:
            COMM.Isend(np.zeros(1), dest=other, tag=BROKEN).Free()
    # all agree, without a blocking call: who still waits for messages has to go on
    verdict, one = np.array([kept], np.int64), np.zeros(1, np.int64)
    request = COMM.Iallreduce(verdict, one, MPI.MIN)
    while not request.Test():
        channel.poll()
    ended = COMM.Ibarrier()
    while not ended.Test():
        channel.poll()
    while COMM.Iprobe(tag=BROKEN):
        COMM.Recv(np.zeros(1), tag=BROKEN)
    if one[0]:
        channel.part()
        others = [k for k in range(RANKS) if k != ME]
        traffic = channel.traffic.as_dict()
        for kind in ("mail", "control"):
            assert set(traffic[kind]["edges"]) == {f"{ME} to {other}" for other in others}
        assert traffic["mail"]["messages"] == n * len(others)
        assert 0 < traffic["control"]["messages"] <= n * len(others)
    channel.close()
    COMM.Barrier()
    return bool(one[0])


def told(name, kept):
    if ME == 0:
        print(name, "kept" if kept else "broken", flush=True)


def late():
    """How much later than a link's time messages arrive, and how many in a second."""
    link = Link(latency=0.02, bandwidth=1e6)
    arrays = shapes(1, 8, 8, 25_000)
    box = mailbox_of({name: np.zeros(shape, kind) for name, (shape, kind) in arrays.items()})
    channel = Channel(COMM.Dup(), watch=lambda: None)
    wire = MailTransport(channel, box, [(0, 1)], [link])
    channel.work = wire.poll
    end, moments = Edge(box, 0, wire), []
    COMM.Barrier()
    began = time.monotonic()
    if ME == 0:
        for _ in range(4):
            assert end.post(np.full(12_500, 0.1))  # no float32: 100 kB, a tenth of a second each
        channel.wait(lambda: end.all_taken)
    elif ME == 1:
        while len(moments) < 4:
            channel.poll()
            if end.poll() is not None:
                moments.append(time.monotonic() - began)
                end.take()
    channel.part()
    if ME == 1:
        for k, moment in enumerate(moments):
            n_bytes = 100_000 * (k + 1)
            assert moment >= n_bytes / link.bandwidth + link.latency, moments
    channel.close()


def in_order(over=Channel):
    """Words come behind the mail that they count, whatever links the mail goes over."""
    channel, kept = over(COMM.Dup(), watch=lambda: None), [True]
    seen = dict.fromkeys(channel.others, 0)
    link = Line(Link(latency=0.005, bandwidth=1e7))
    mail, word = FIRST_KIND_OF_RUN, FIRST_KIND_OF_RUN + 1

    def see(sender, content):
        seen[sender] += 1

    def count(sender, content):
        kept[0] &= seen[sender] >= int(content.view(np.int64)[0])

    channel.on(mail, see)

    channel.on(word, count)
    for k in range(20):
        for to in channel.others:
            lined = (k % 2, link) if k % 3 else (NO_LINE, None)
            channel.post(to, mail, [np.array([k]), np.zeros(1000 * k)], "mail", *lined)
            channel.post(to, word, [np.array([k + 1])])
    channel.part()
    kept[0] &= set(seen.values()) == {20}
    channel.close()
    return bool(COMM.allreduce(kept[0], MPI.LAND))


def answers():
    """Who parts answers all that was posted before others part; arrays are the caller's at once."""
    channel, kept, came = Channel(COMM.Dup(), watch=lambda: None), [True], []
    ask, answer = FIRST_KIND_OF_RUN, FIRST_KIND_OF_RUN + 1

    def see(sender, content):
        kept[0] &= bool((content.view(np.float32) == np.arange(50_000)).all())
        channel.post(sender, answer, [content[:4]])

    channel.on(ask, see)
    channel.on(answer, lambda sender, content: came.append(sender))
    values = np.arange(50_000, dtype=np.float32)
    for to in [*channel.others, ME] * 3:
        channel.post(to, ask, [values[:1], values[1:]])
    values[:] = -1.0
    if ME == 0:
        time.sleep(0.05)
    spread = channel.spread(np.array([float(ME), 7.0])).view(np.float64)
    kept[0] &= spread.tolist() == [0.0, 7.0]
    kept[0] &= channel.gathered(np.array([ME])).tolist() == [[k] for k in range(RANKS)]
    channel.part()
    kept[0] &= sorted(came) == sorted(list(range(RANKS)) * 3)
    kept[0] &= COMM.Iprobe() is False and not channel.is_moving
    channel.close()
    return bool(COMM.allreduce(kept[0], MPI.LAND))


def boards():
    """The newest message comes, whole, and none comes twice."""
    arrays = shapes(len(ENDS), 2, SIZE, SIZE)
    box = mailbox_of({name: np.zeros(shape, kind) for name, (shape, kind) in arrays.items()})
    channel = Channel(COMM.Dup(), watch=lambda: None)
    mail = MailTransport(channel, box, ENDS, [None] * len(ENDS), are_registers=True)
    channel.work = mail.poll
    ends = [RegisterEdge(box, k, mail) for k in range(len(ENDS))]
    last, came, kept = 200, dict.fromkeys(range(len(ENDS)), 0), True
    deadline = time.monotonic() + SECONDS
    shown = 0
    while shown < last or any(came[k] < last for k, (_, to) in enumerate(ENDS) if to == ME):
        assert time.monotonic() < deadline
        shown += shown < last
        for k, (sender, to) in enumerate(ENDS):
            if sender == ME and shown <= last:
                ends[k].show(np.full(SIZE, float(shown)), None, shown)
            elif to == ME:
                _, message = ends[k].see(came[k])
                if message is not None:
                    kept &= message.round > came[k] and (message.values == message.round).all()
                    came[k] = message.round
        channel.poll()
    channel.gathered(np.zeros(1))
    mail.is_over = True
    channel.part()
    kept &= not mail._is_under_way.any()
    kept &= channel.traffic.as_dict()["mail"]["messages"] <= last * len(channel.others)
    channel.close()
    return bool(COMM.allreduce(kept, MPI.LAND))


def main():
    queues = (1, 3) if RANKS == 2 else (2,)
    for queue in queues:
        told(f"wire queue={queue}", converse(queue, queue))
    slow = Network(link=Link(latency=0.002, bandwidth=1e7))
    told("link", converse(2, 7, network=slow, n=20))
    told("in order", in_order())
    told("boards", boards())
    told("answers", answers())
    if RANKS > 2:
        return
    late()
    for twin in (NumberFirst, TakenFirst, NoRoom):
        told(twin.__name__, converse(1, 5, edge=twin))
    for twin in (TellingEarly, DeliveringFirst):
        told(twin.__name__, converse(1, 6, by=twin))
    told("Overtaking", in_order(over=Overtaking))


if __name__ == "__main__":
    assert Line(Link()).send(10) == 0.0
    main()
