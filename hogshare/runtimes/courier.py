"""What brings messages between homes on a virtual clock: each is under way as long as a link takes.

Who writes: `send` and `arrive`, in the one thread of the simulation, the mailbox's words.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from hogshare.engine.homes import Homes
from hogshare.kernels import board, layout, mailbox
from hogshare.kernels.mailbox import Mailbox, slot_of
from hogshare.links.link import Line
from hogshare.links.network import Network, Traffic
from hogshare.shm.mailbox import AT_ONCE, mail_bytes


class Courier:
    """A transport (`hogshare.shm.mailbox.Transport`) by the links of a network, or of the plane.

    Messages of an edge arrive in the order in which they were sent: one departs when those before
    it have, at the link's bandwidth, and arrives a latency later.

    Parameters
    ----------
    homes : Homes
    network : Network
    traffic : Traffic
        Where messages are counted, when they are sent.
    now : callable
        The virtual seconds.
    push : callable
        ``push(seconds, edge)`` puts an arrival into the queue.
    """

    def __init__(
        self,
        homes: Homes,
        network: Network,
        traffic: Traffic,
        now: Callable[[], float],
        push: Callable[[float, int], None],
    ) -> None:
        self._homes, self._network = homes, network
        self._traffic, self._now, self._push = traffic, now, push
        self._ends = list(homes.edges)
        self._lines = [Line(network.link, now) for _ in self._ends]
        self._of_plane = homes.links
        self._last = [0.0] * len(self._ends)  # when an edge's last message arrives
        # of edges that are boards: what is under way
        self._shown: list[deque[tuple[int, np.ndarray, np.ndarray]]] = [deque() for _ in self._ends]
        self._value_bytes = homes.session.vector.w.dtype.itemsize
        homes.carry_by(self)

    def send(self, box: Mailbox, edge: int) -> None:
        """Let the message that has been written into the edge's next slot go on its way."""
        mailbox.send_next(box, edge)
        head = box.heads[edge, slot_of(box, box.counters[edge, layout.M_POSTED])]
        count, dense = int(head[layout.H_COUNT]), int(head[layout.H_DENSE])
        if self._is_there(edge, count, dense):
            mailbox.deliver_next(box, edge)

    def show(
        self, box: Mailbox, edge: int, round: int, places: np.ndarray, values: np.ndarray
    ) -> None:
        """The same with a message that is written over the last when it arrives."""
        self._shown[edge].append((round, places.copy(), values.copy()))
        count = len(places)
        if self._is_there(edge, count, 0 if count else len(values)):
            self.arrive(edge)

    def _is_there(self, edge: int, count: int, dense: int) -> bool:
        """Send it on its way; whether it has arrived."""
        n_bytes = mail_bytes(count, dense, self._value_bytes)
        self._traffic.add("mail", n_bytes)
        now, line = self._now(), self._lines[edge]
        of_plane = self._of_plane
        line.link = of_plane[edge] if of_plane else self._network.between(*self.ends(edge))
        self._last[edge] = max(now + line.send(n_bytes), self._last[edge])
        if self._last[edge] <= now:
            return True
        self._push(self._last[edge], edge)
        return False

    def ends(self, edge: int) -> tuple[int, int]:
        """Who sends along an edge, and to whom: as the plane has it by now."""
        return self._homes.ends(edge)

    def arrive(self, edge: int) -> int:
        """Deliver the edge's next message; to whom."""
        box = self._homes.session.mail.box
        if self._shown[edge]:
            board.write(box, edge, *self._shown[edge].popleft())
        else:
            mailbox.deliver_next(box, edge)
        return self.ends(edge)[1]

    def let_loose(self) -> None:
        """The run is over: break the circle that leads back here."""
        self._homes.carry_by(AT_ONCE)
