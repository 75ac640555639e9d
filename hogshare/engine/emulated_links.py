"""Links emulated between workers that share one memory: a message's head has its due time.

Each link is a token bucket and a delay line in user space. (For links between machines see
`hogshare.links.Line`.) A message departs after the link's earlier messages have departed. The
edge's reader (`hogshare.shm.mailbox.Edge`) sees the message only after the link's latency.

Writers: an edge's writer, which has taken its centre's lock, writes `M_FREE` and the head's `H_DUE`
before it sends. The caller writes `M_BEGAN` while no worker works. Readers: the edge's writer reads
`M_FREE`, and the edge's reader reads `H_DUE` of sent messages. Writers and readers use the same
clock, the machine's `time.perf_counter_ns`. Freeing: the mailbox's owner. If a writer dies between
these writes and the send, the link stays busy for the time of a message that was never sent.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from hogshare.kernels import layout
from hogshare.kernels.mail.edge_slots import Mailbox, slot_of
from hogshare.links.link import Link
from hogshare.shm.mailbox import AtOnce, mail_bytes


class Delayed(AtOnce):
    """A transport within one memory, with the delays of emulated links.

    links : the link of each edge
    value_bytes : number of bytes of a value, which decides how long a message takes
    """

    def __init__(self, links: Sequence[Link], value_bytes: int) -> None:
        self._links, self._value_bytes = links, value_bytes

    def begin(self, box: Mailbox) -> None:
        """Begin the run's time now, with every link free."""
        box.counters[:, layout.M_BEGAN] = time.perf_counter_ns()
        box.counters[:, layout.M_FREE] = 0

    def has_mail(self, box: Mailbox) -> bool:
        """Whether a message is under way: its due time has not come."""
        return bool((box.heads[:, :, layout.H_DUE] > time.perf_counter_ns()).any())

    def send(self, box: Mailbox, edge: int) -> None:
        """Send the message; it is due for the reader after the link's delay and latency."""
        counters, link = box.counters[edge], self._links[edge]
        slot = slot_of(box, counters[layout.M_POSTED] + 1)
        head = box.heads[edge, slot]
        n_bytes = mail_bytes(
            head.item(layout.H_COUNT), head.item(layout.H_DENSE), self._value_bytes
        )
        began = counters.item(layout.M_BEGAN)
        now, free = time.perf_counter_ns() - began, counters.item(layout.M_FREE)
        departs = link.departs(1e-9 * max(now, free), n_bytes)
        counters[layout.M_FREE] = round(1e9 * departs)
        # stored before the send, because the reader may read the head after the send
        head[layout.H_DUE] = began + round(1e9 * (departs + link.latency))
        super().send(box, edge)
