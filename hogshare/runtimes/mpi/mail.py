"""A mailbox's transport over a channel: messages of edges from site to site, and acknowledgements.

    writer's thread:  post -> POSTED                          POSTED <- TAKEN: the writer's site
    poll:             slot -> channel ... channel -> slot, ARRIVED: the reader's site

Every site has a mailbox of its own with all edges. `send` only raises POSTED, and `show` only
writes the register; the polling thread moves the messages.

Credits: a slot is reused only when the reader's TAKEN has come back for its message. So at most
`queue` messages of an edge are under way. TAKEN is a running count: one acknowledgement may cover
many messages.

After a death, a plane may move an empty edge from the dead reader to a reader at any site. Messages
are numbered. The new reader has had none of the earlier messages, so it continues from the first
number that it gets. Messages to dead readers count as taken.

Readers do not acknowledge registers (`hogshare.kernels.mail.register`). The next value of a
register is sent once the previously sent value is in the reader's register. If a writer has written
several values by then, only the newest value is sent.

Writers: `poll` and the channel's handlers write TAKEN at the sender's site. At the reader's site,
they write the slots, ARRIVED, POSTED and the registers. For outgoing edges, `send` writes POSTED,
and `show` writes the register. Freeing: the channel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.mail import edge_slots, register
from hogshare.kernels.mail.edge_slots import Mailbox, slot_of
from hogshare.links.link import Line, Link
from hogshare.runtimes.mpi.channel import FIRST_KIND, NO_LINE, Channel
from hogshare.system.interrupts import errstate

MAIL, REGISTER, TAKEN = range(FIRST_KIND, FIRST_KIND + 3)
FIRST_KIND_OF_RUN = TAKEN + 1  # the first kind of messages that are not mail
COUNTERS = [layout.M_POSTED, layout.M_ARRIVED, layout.M_TAKEN]
HEAD = slice(layout.H_NUMBER, layout.H_ROUND + 1)  # the fields of a slot's header that are sent
N_OWN = 4  # fields before them: edge, number of places, values without a place, bytes of a value
WORDS = N_OWN + HEAD.stop - HEAD.start
FARTHEST_PLACE = 2**31  # the limit of places that fit in four bytes


class MailTransport:
    """The edges of a mailbox that begin or end at this site.

    channel : the channel of this site; this transport sets three of its handlers
    box : this site's own mailbox
    ends : the sending and the reading site of each edge. This transport skips an edge from a site
        to itself, unless `reader` is given: such an edge has both ends in one memory.
    links : the emulated link of each edge between two sites, or None
    kind_of : returns a message's kind in the traffic, from three arguments: the message's round,
        its number of values with a place, and its number of values without a place
    are_registers : whether messages are overwritten, and not acknowledged
    reader : returns the current reading site of an edge, if edges may move; None if edges do not
        move
    """

    def __init__(
        self,
        channel: Channel,
        box: Mailbox,
        ends: Sequence[tuple[int, int]],
        links: Sequence[Link | None],
        kind_of: Callable[[int, int, int], str] = lambda *_: "mail",
        are_registers: bool = False,
        reader: Callable[[int], int] | None = None,
    ) -> None:
        self.channel, self.box, self.are_registers, self._kind_of = (
            channel,
            box,
            are_registers,
            kind_of,
        )
        self._ends, me = ends, channel.me
        self._reader = reader
        far = [k for k, (sender, to) in enumerate(ends) if reader is not None or sender != to]
        self.outgoing = np.array([k for k in far if ends[k][0] == me], np.int64)
        may_end = [k for k in far if ends[k][1] == me or reader is not None]
        self.incoming = np.array([k for k in may_end if ends[k][0] != me], np.int64)
        self._dead: set[int] = set()
        self._lines = {k: [Line(link), Line(link)] for k, link in enumerate(links) if link}
        capacity = box.places.shape[2]
        self._places_type = np.dtype("int32" if capacity < FARTHEST_PLACE else "int64")
        n = len(ends)
        # Number of messages sent; for registers, POSTED when they were sent. Not zero at first: a
        # run may continue with a new channel.
        self._sent = box.counters[:, layout.M_POSTED].copy()
        self._acknowledged = box.counters[:, layout.M_TAKEN].copy()  # TAKEN as the sender knows it
        self._rounds = np.zeros(n, np.int64)  # for registers: the last sent round
        self._is_under_way = np.zeros(n, bool)  # for registers
        n_dense = box.values.shape[2] - capacity
        self._places, self._values = np.empty(capacity, np.int64), np.empty(n_dense)
        self.is_over = False  # if True, registers are no longer sent
        channel.on(MAIL, self._take_in)
        channel.on(REGISTER, self._write_register)
        channel.on(TAKEN, self._note_taken)

    def send(self, box: Mailbox, edge: int) -> None:
        """Post the message that has been written into the edge's next slot."""
        if self._reader is None or self._reader(edge) != self.channel.me:
            edge_slots.send_next(box, edge)
            return
        counters = box.counters[edge]
        # earlier messages have been read, by this site's reader or by the edge's earlier reader
        counters[layout.M_ARRIVED] = counters[layout.M_POSTED]
        edge_slots.send_next(box, edge)
        edge_slots.deliver_next(box, edge)

    def show(
        self, box: Mailbox, edge: int, round: int, places: np.ndarray, values: np.ndarray
    ) -> None:
        """Overwrite the register with a message."""
        register.write(box, edge, round, places, values)

    def poll(self) -> bool:
        """Send pending messages and acknowledgements; return whether there were any."""
        counters, moved = self.box.counters, False
        posted = counters[self.outgoing, layout.M_POSTED]
        for k in self.outgoing[posted > self._sent[self.outgoing]]:
            if self._reader is not None and self._is_settled(int(k)):
                continue
            moved |= self._send_register(int(k)) if self.are_registers else self._send_mail(int(k))
        if not self.are_registers:
            taken = counters[self.incoming, layout.M_TAKEN]
            for k in self.incoming[taken > self._acknowledged[self.incoming]]:
                number = int(edge_slots.counter_of(self.box, int(k), layout.M_TAKEN))
                self._acknowledge(int(k), number)
                moved = True
        return moved

    @property
    def has_sent_all(self) -> bool:
        """Whether all local messages have been sent or overwritten."""
        posted = self.box.counters[self.outgoing, layout.M_POSTED]
        return bool((posted == self._sent[self.outgoing]).all())

    def bury(self, site: int) -> None:
        """Count all messages to a dead site as taken."""
        self._dead.add(site)
        for k in self.outgoing:
            if self._site_of(int(k)) == site:
                self._is_under_way[k] = False
                self._is_settled(int(k))

    def _is_settled(self, edge: int) -> bool:
        """Whether an edge ends in this memory, or at a dead site, whose messages count as taken."""
        posted = int(edge_slots.counter_of(self.box, edge, layout.M_POSTED))
        to = self._site_of(edge)  # read last: an edge moves only once all is taken
        if to != self.channel.me and to not in self._dead:
            return False
        self._sent[edge] = posted
        if to in self._dead and not self.are_registers:
            edge_slots.taken_up_to(self.box, edge, posted)
        return True

    def _site_of(self, edge: int) -> int:
        return self._ends[edge][1] if self._reader is None else self._reader(edge)

    # -- the sending end

    def _send_mail(self, edge: int) -> bool:
        box = self.box
        posted = int(edge_slots.counter_of(box, edge, layout.M_POSTED))
        for number in range(int(self._sent[edge]) + 1, posted + 1):
            slot, first = slot_of(box, number), box.places.shape[2]
            head = box.heads[edge, slot, HEAD].copy()
            head[layout.H_NUMBER] = number
            count, dense = int(head[layout.H_COUNT]), int(head[layout.H_DENSE])
            values = box.values[edge, slot]
            parts = values[:count], values[first : first + dense]
            self._post(MAIL, edge, head, box.places[edge, slot, :count], parts, dense)
        self._sent[edge] = posted
        return True

    def _send_register(self, edge: int) -> bool:
        if self._is_under_way[edge] or self.is_over:
            return False
        posted = int(edge_slots.counter_of(self.box, edge, layout.M_POSTED))
        found = register.read(self.box, edge, self._rounds[edge], self._places, self._values)
        state, round_, count, dense = (int(one) for one in found)
        if state == register.NOTHING:  # sent already, if written between a count's read and its own
            self._sent[edge] = posted
        if state != register.WHOLE:
            return False
        head = np.zeros(HEAD.stop - HEAD.start, np.int64)
        head[layout.H_ROUND] = round_
        values = self._values[: max(count, dense)]
        self._post(REGISTER, edge, head, self._places[:count], [values], dense)
        self._sent[edge], self._rounds[edge], self._is_under_way[edge] = posted, round_, True
        return True

    def _post(
        self,
        kind: int,
        edge: int,
        head: np.ndarray,
        places: np.ndarray,
        values: Sequence[np.ndarray],
        dense: int,
    ) -> None:
        # values that are exact in float32, as planes round for float32 rows, are sent in four bytes
        with errstate(over="ignore"):
            short = [part.astype(np.float32) for part in values]
        # compare bits: places announced in values are not numbers; as floats they may be tiny
        same = (
            (one.astype(np.float64).view(np.int64) == part.view(np.int64)).all()
            for one, part in zip(short, values, strict=True)
        )
        if all(same):
            values = short
        n_bytes = values[0].itemsize if values else 8
        words = np.array([edge, len(places), dense, n_bytes], np.int64)
        parts = words, head, places.astype(self._places_type), *values
        line = self._line(edge, 0)
        counted = self._kind_of(int(head[layout.H_ROUND]), len(places), dense)
        self.channel.post(self._site_of(edge), kind, parts, counted, *line)

    def _line(self, edge: int, back: int) -> tuple[int, Line | None]:
        if edge not in self._lines:
            return NO_LINE, None
        return 2 * edge + back, self._lines[edge][back]

    def _note_taken(self, sender: int, content: np.ndarray) -> None:
        edge, number = (int(word) for word in content.view(np.int64))
        if self.are_registers:
            self._is_under_way[edge] = False
        else:
            edge_slots.taken_up_to(self.box, edge, number)

    # -- the reading end

    def _take_in(self, sender: int, content: np.ndarray) -> None:
        edge, head, places, values, dense = self._parts(content)
        box = self.box
        if self._reader is not None:
            before = int(head[layout.H_NUMBER]) - 1
            # earlier readers of a moved edge have read the earlier messages
            if edge_slots.counter_of(box, edge, layout.M_ARRIVED) < before:
                box.counters[edge, COUNTERS] = self._acknowledged[edge] = before
        slot = slot_of(box, int(edge_slots.counter_of(box, edge, layout.M_ARRIVED)) + 1)
        count, first = len(places), box.places.shape[2]
        box.places[edge, slot, :count] = places
        box.values[edge, slot, :count] = values[:count]
        box.values[edge, slot, first : first + dense] = values[count:]
        after_number = slice(layout.H_NUMBER + 1, HEAD.stop)
        box.heads[edge, slot, after_number] = head[after_number]
        box.heads[edge, slot, layout.H_FOOTER] = head[layout.H_ROUND]  # only this thread writes it
        box.counters[edge, layout.M_POSTED] += 1  # before a death is reported: see `SiteNews`
        edge_slots.deliver_next(box, edge)

    def _write_register(self, sender: int, content: np.ndarray) -> None:
        edge, head, places, values, _ = self._parts(content)
        where = places.astype(np.int64)
        whole = values.astype(np.float64)
        register.write(self.box, edge, int(head[layout.H_ROUND]), where, whole)
        self._acknowledge(edge, 0)

    def _acknowledge(self, edge: int, number: int) -> None:
        words = np.array([edge, number], np.int64)
        self._acknowledged[edge] = number
        self.channel.post(self._ends[edge][0], TAKEN, [words], "control", *self._line(edge, 1))

    def _parts(self, content: np.ndarray) -> tuple[int, np.ndarray, np.ndarray, np.ndarray, int]:
        """Return edge, head, places, values, and the number of values without a place."""
        words = content[: 8 * WORDS].view(np.int64)
        edge, count, dense, n_bytes = (int(word) for word in words[:N_OWN])
        end = 8 * WORDS + count * self._places_type.itemsize
        places = content[8 * WORDS : end].view(self._places_type)
        values = content[end:].view(np.float32 if n_bytes == 4 else np.float64)
        return edge, words[N_OWN:], places, values, dense
