"""Delivery of messages on a virtual clock: from workers to the master, and between homes.

Writers: (1) a worker's quantum posts its mail to the master: it raises POSTED
(`hogshare.kernels.schedule.master_quanta`). `VirtualMaster.serve` and `has_written` take this mail
and write the model. (2) For mail between homes, `Courier.send`, `show` and `arrive` write the
mailbox's counters, slots and registers. The simulation has one thread, so stores are plain.
Freeing: the session's owner.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from hogshare.engine.homes import Homes
from hogshare.engine.loop import Compute, loop_of
from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.kernels.mail import edge_slots, register
from hogshare.kernels.mail.edge_slots import Mailbox, slot_of
from hogshare.kernels.schedule import replay
from hogshare.links.link import Line
from hogshare.links.run_links import Network
from hogshare.shm.mailbox import AT_ONCE, mail_bytes


class VirtualMaster:
    """The master of a simulated run, which takes each message at its virtual time.

    If `write_seconds` is 0, the master's loop takes a message as soon as `notice` finds it.
    Otherwise messages queue in the order of their posting. The master writes one message at a time;
    the model contains a message when its writing ends.

    write_seconds : virtual seconds in which the master writes a message
    push : ``push(seconds, 0)`` adds an event to the simulation's queue, at this virtual time: the
        end of the writing of the first queued message
    """

    def __init__(
        self, session: Session, write_seconds: float, push: Callable[[float, int], None]
    ) -> None:
        self._session, self._counters = session, session.mail.box.counters
        self._seconds, self._push = write_seconds, push
        self._loop = loop_of(session, session.settings.n_workers)
        self._reply: object = None
        self._over = False
        self._line: deque[int] = deque()
        # messages of each worker, queued ones included
        self._posted = [0] * session.settings.n_workers

    @property
    def is_writing(self) -> bool:
        """Whether messages are queued."""
        return bool(self._line)

    def notice(self, me: int, now: float) -> bool:
        """Take or queue the messages that worker `me` has posted since the last call.

        The worker's own quantum has posted them: it has raised POSTED (`post` in
        `hogshare.kernels.schedule.master_quanta`). The simulation must call this method whenever
        the worker's loop has stopped at a request or has ended, and after the worker has left or
        died.

        Return True if the master has run, so that messages are taken. Return False if there is no
        new message, or if new messages are queued; `has_written` takes queued messages later.
        """
        mailed = int(self._counters[me, layout.M_POSTED])
        if mailed == self._posted[me]:
            return False
        if self._seconds == 0.0:
            self._posted[me] = mailed
            self.serve()
            return True
        if not self._line:
            self._push(now + self._seconds, 0)
        self._line.extend([me] * (mailed - self._posted[me]))
        self._posted[me] = mailed
        return False

    def has_written(self, now: float) -> int:
        """Take the first queued message, whose writing has ended; return the worker that posted it.

        This changes the model. If more messages are queued, the writing of the next one begins.
        Call it only at the event that `push` has added.
        """
        worker = self._line.popleft()
        s = self._session
        replay.take_again(s.plan, s.schedule, s.vector, s.mail, worker)
        if self._line:
            self._push(now + self._seconds, 0)
        return worker

    def serve(self) -> None:
        """Run the master's loop, which takes mail and writes the model, until it waits or ends."""
        if self._over:
            return
        try:
            while isinstance(wish := self._loop.send(self._reply), Compute):
                self._reply = wish.call(), 0
            self._reply = 0
        except StopIteration:
            self._over = True


class Courier:
    """A transport (`hogshare.shm.mailbox.Transport`) over the links of a network, or of the plane.

    An edge's messages arrive in the order in which they were sent. A message departs when the
    edge's earlier messages have departed, at the link's bandwidth. It arrives one latency later.

    now : returns the virtual time in seconds
    push : ``push(seconds, edge)`` adds an event to the simulation's queue: the arrival of a message
    """

    def __init__(
        self,
        homes: Homes,
        network: Network,
        now: Callable[[], float],
        push: Callable[[float, int], None],
    ) -> None:
        self._homes, self._network = homes, network
        self._now, self._push = now, push
        self._ends = list(homes.edges)
        self._lines = [Line(network.link, now) for _ in self._ends]
        self._of_plane = homes.links
        self._last = [0.0] * len(self._ends)  # when an edge's last message arrives
        # by edge: messages under way to a register
        self._shown: list[deque[tuple[int, np.ndarray, np.ndarray]]] = [deque() for _ in self._ends]
        self._value_bytes = homes.session.vector.w.dtype.itemsize
        homes.carry_by(self)

    def send(self, box: Mailbox, edge: int) -> None:
        """Send the message that has been written into the edge's next slot."""
        edge_slots.send_next(box, edge)
        head = box.heads[edge, slot_of(box, box.counters[edge, layout.M_POSTED])]
        count, dense = int(head[layout.H_COUNT]), int(head[layout.H_DENSE])
        if self._has_arrived(edge, count, dense):
            edge_slots.deliver_next(box, edge)

    def show(
        self, box: Mailbox, edge: int, round: int, places: np.ndarray, values: np.ndarray
    ) -> None:
        """Send a copied message, which overwrites the edge's previous message when it arrives."""
        self._shown[edge].append((round, places.copy(), values.copy()))
        count = len(places)
        if self._has_arrived(edge, count, 0 if count else len(values)):
            self.arrive(edge)

    def _has_arrived(self, edge: int, count: int, dense: int) -> bool:
        """Send a message over the edge's link; return whether it arrives at once."""
        n_bytes = mail_bytes(count, dense, self._value_bytes)
        now, line = self._now(), self._lines[edge]
        of_plane = self._of_plane
        line.link = of_plane[edge] if of_plane else self._network.between(*self._homes.ends(edge))
        # max: if the link has become faster, a message must not overtake the one before
        self._last[edge] = max(now + line.send(n_bytes), self._last[edge])
        if self._last[edge] <= now:
            return True
        self._push(self._last[edge], edge)
        return False

    def arrive(self, edge: int) -> int:
        """Deliver the edge's next message; return the home that receives it."""
        box = self._homes.session.mail.box
        if self._shown[edge]:
            register.write(box, edge, *self._shown[edge].popleft())
        else:
            edge_slots.deliver_next(box, edge)
        return self._homes.ends(edge)[1]

    def release(self) -> None:
        """Break the reference cycle through this object, when the run is over."""
        self._homes.carry_by(AT_ONCE)
