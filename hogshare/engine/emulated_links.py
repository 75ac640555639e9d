"""Links emulated between workers of one memory: the moment a message is due is written on it.

A token bucket and a delay line in user space (`hogshare.links.Line` between machines): what is sent
departs when the link has let the messages before it go, and the reader's end
(`hogshare.shm.mailbox.Edge`) does not see it before its latency is over.

Who writes: an edge's writer, whoever holds its centre's lock by then, `M_FREE` and the head's
`H_DUE`, before it sends; the caller `M_BEGAN`, while nobody works. Who reads: the writer `M_FREE`,
the reader `H_DUE` of what has been sent. All have one clock, `time.perf_counter_ns` of a machine.
Who frees: the owner of the mailbox. A writer that dies between the two leaves a link that is busy
for a message which never was.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from hogshare.kernels import layout
from hogshare.kernels.mail.edge_slots import Mailbox, slot_of
from hogshare.links.link import Link
from hogshare.shm.mailbox import AtOnce, mail_bytes


class Delayed(AtOnce):
    """A transport within one memory that takes as long as links do.

    links : of each edge
    value_bytes : of a value, as it is counted
    """

    def __init__(self, links: Sequence[Link], value_bytes: int) -> None:
        self._links, self._value_bytes = links, value_bytes

    def begin(self, box: Mailbox) -> None:
        """Count the seconds of the run from now."""
        box.counters[:, layout.M_BEGAN] = time.perf_counter_ns()
        box.counters[:, layout.M_FREE] = 0

    def has_mail(self, box: Mailbox) -> bool:
        """Whether a message is still to be seen."""
        return bool((box.heads[:, :, layout.H_DUE] > time.perf_counter_ns()).any())

    def send(self, box: Mailbox, edge: int) -> None:
        """Let the reader have the message when the link has let it through."""
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
        head[layout.H_DUE] = began + round(1e9 * (departs + link.latency))
        super().send(box, edge)
