"""What brings messages between homes on a virtual clock: each is under way as long as a link takes.

Who writes: `send` and `arrive`, in the one thread of the simulation, the mailbox's words.
"""

from __future__ import annotations

from collections.abc import Callable

from hogshare.engine.homes import Homes
from hogshare.kernels import layout, mailbox
from hogshare.kernels.mailbox import Mailbox, slot_of
from hogshare.shm.mailbox import AT_ONCE
from hogshare.simulation.links import HEADER_BYTES, PLACE_BYTES, Network, Traffic


class Courier:
    """A transport (`hogshare.shm.mailbox.Transport`) by the links of a network.

    Messages of an edge arrive in the order in which they were sent: one waits for those before it.

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
        self._last = [0.0] * len(self._ends)  # when an edge's last message arrives
        self._value_bytes = homes.session.vector.w.dtype.itemsize
        homes.carry_by(self)

    def send(self, box: Mailbox, edge: int) -> None:
        """Let the message that has been written into the edge's next slot go on its way."""
        mailbox.send_next(box, edge)
        head = box.heads[edge, slot_of(box, box.counters[edge, layout.M_POSTED])]
        count, dense = int(head[layout.H_COUNT]), int(head[layout.H_DENSE])
        n_bytes = (count + dense) * self._value_bytes + count * PLACE_BYTES + HEADER_BYTES
        self._traffic.add("mail", n_bytes)
        now = self._now()
        under_way = self._network.between(*self._ends[edge]).seconds(n_bytes)
        self._last[edge] = max(now + under_way, self._last[edge])
        if self._last[edge] <= now:
            mailbox.deliver_next(box, edge)
        else:
            self._push(self._last[edge], edge)

    def arrive(self, edge: int) -> int:
        """Deliver the edge's next message; to whom."""
        mailbox.deliver_next(self._homes.session.mail.box, edge)
        return self._ends[edge][1]

    def let_loose(self) -> None:
        """The run is over: break the circle that leads back here."""
        self._homes.carry_by(AT_ONCE)
