"""The connection between the sites of a run: messages of bytes, in order between any two sites.

    any thread: post -> queue | poll: queue -> Isend ... Improbe, Irecv -> in order -> handler

No thread waits within MPI: a blocked receive takes a core, and nothing arrives at a rank that does
not call MPI. Instead one thread of each rank polls (MPI_THREAD_FUNNELED is enough), and sleeps
between polls.

**Order.** Messages from one site to another are delivered in posting order. So news of a worker
that are posted after its changes arrive after these changes. An emulated link (`Line`) delays a
message. Messages of other lines may then overtake the delayed message; messages without a line wait
for all earlier messages.

**Credits** limit posting: MPI buffers messages that have not been received yet, so a site posts
only a few messages before it gets an answer.

**Silence.** A site has failed if no message of any kind has come from it for SILENT_SECONDS. Its
process is then halted, or its link is down; MPI reports neither. A site that has sent no message
for a second sends a beat. A site that is about to stop polling announces this (`pause`).

**The end.** Sites that end a run wait for each other at a barrier. After the barrier, each site has
received and answered the others' messages. Then each site *parts*: it sends its last message. When
all sites have parted, no message is under way. An aborted run leaves messages unreceived. Its
communicator is never freed, because MPI may reuse the communicator's number.

Writers: `post` writes the queue, from any thread; the polling thread writes everything else. A
message is copied once, when it is posted; a handler gets a view of the buffer that MPI has filled.
A buffer under way lives until MPI has released it. `close` frees the channel.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from hogshare.links.link import Line
from hogshare.links.traffic import Traffic
from hogshare.runtimes.mpi import door
from hogshare.runtimes.mpi.calls import RankFailed
from hogshare.runtimes.mpi.door import library

EVERY_SECONDS, SILENT_SECONDS = 1.0, 30.0
NAP_SECONDS = 0.0005
BEAT, PAUSE, PART, GATHER, SPREAD = range(5)  # the channel's own kinds; others begin after them
FIRST_KIND = SPREAD + 1
KIND, LINE, UNDER_WAY = range(3)  # fields of a message's head
HEAD_BYTES = 24
NO_LINE = -1
SPREADS = 0  # the site whose array `spread` sends

Wait = Callable[[Callable[[], bool]], None]  # polls until its argument returns True
Handler = Callable[[int, np.ndarray], None]  # its arguments: the sender, and the bytes, to own


class Living(Protocol):
    """An exchange between surviving ranks, which works even if a rank dies during the exchange.

    wait : the channel's `wait`, which also moves the run's messages; None outside a run
    """

    def together(self, part: Any, wait: Wait | None = None) -> dict[int, Any]:
        """Return each rank's part, by rank, in the order of ranks; all ranks must call it."""
        ...

    def of_first(self, make: Callable[[], Any], wait: Wait | None = None) -> Any:
        """Return the first surviving rank's result on each rank."""
        ...


class Posted(NamedTuple):
    """A message to be sent; its head still lacks the time on its link."""

    to: int
    buffer: np.ndarray
    counted: str
    link: Line | None


class DelayedMessage(NamedTuple):
    """A received message that may not be delivered before its due time."""

    due: float
    kind: int
    line: int
    content: np.ndarray


class Peer:
    """The state of the connection to another site, at this site."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.coming: deque[tuple[Any, np.ndarray]] = deque()
        self.late: list[DelayedMessage] = []
        self.gathered: deque[np.ndarray] = deque()
        self.spread: deque[np.ndarray] = deque()
        self.spoken = 0.0  # when the last message was sent to it
        self.heard: float | None = None  # when its last message came; None: it may be silent
        self.has_parted = False

    def due(self, now: float) -> list[DelayedMessage]:
        """Remove and return the messages that are due, in posting order."""
        found: list[DelayedMessage] = []
        left: list[DelayedMessage] = []
        lines: set[int] = set()
        for one in self.late:
            is_first = not left if one.line == NO_LINE else one.line not in lines
            if one.due <= now and is_first and NO_LINE not in lines:
                found.append(one)
            else:
                left.append(one)
                lines.add(one.line)
        self.late = left
        return found


class Channel:
    """A site's messages to and from the other sites.

    comm : a communicator that only this channel uses; `close` frees it
    watch : called while this site waits; raises an error if another site has failed
    traffic : counts messages when they are sent
    living : the exchange of sites that continue without dead sites; None if all sites must survive
    """

    def __init__(
        self,
        comm: Any,
        watch: Callable[[], Any],
        traffic: Traffic | None = None,
        living: Living | None = None,
    ) -> None:
        self.comm, self.watch, self.traffic = comm, watch, traffic or Traffic()
        self._living = living
        self.bury: Callable[[int], None] = lambda site: None  # further work for a dead site
        self.me, self.size = comm.Get_rank(), comm.Get_size()
        self.deliver: Callable[[], None] = lambda: None  # delivers interrupts while waiting
        self.work: Callable[[], bool] = lambda: False  # further work at every poll
        self._library = library()
        self._status = self._library.Status()
        self._handlers: dict[int, Handler] = {}
        self._queue: deque[Posted] = deque()
        self._going: list[tuple[Any, np.ndarray, int]] = []
        self._peers = {k: Peer(k) for k in range(self.size) if k != self.me}
        self._beats_at = 0.0
        self._has_parted = False  # if True, this site sends nothing more
        self.is_over = False  # whether all sites have parted

    @property
    def others(self) -> list[int]:
        """The numbers of all other sites that have not died."""
        return list(self._peers)

    def on(self, kind: int, handler: Handler) -> None:
        """Set the handler of a kind of messages; the polling thread calls it."""
        self._handlers[kind] = handler

    def post(
        self,
        to: int,
        kind: int,
        parts: Sequence[np.ndarray] = (),
        counted: str = "control",
        line: int = NO_LINE,
        link: Line | None = None,
    ) -> None:
        """Queue a message of concatenated arrays, without waiting; any thread may call this.

        The arrays are copied. The polling thread sends the message at its next `poll` or `flush`.

        to : the receiving site
        kind : the message's kind, which selects the receiver's handler
        counted : the message's kind in the traffic; if "", the message is not counted
        line : the number of an emulated line to that site
        link : the emulated line itself
        """
        assert not self._has_parted, "nothing is posted after the last message"
        at = HEAD_BYTES
        buffer = np.empty(at + sum(part.nbytes for part in parts), np.uint8)
        head = buffer[:HEAD_BYTES].view(np.int64)
        head[KIND], head[LINE], head[UNDER_WAY] = kind, line, 0
        for part in parts:
            if part.size:
                end = at + part.nbytes
                buffer[at:end].view(part.dtype)[:] = part.reshape(-1)
                at = end
        self._queue.append(Posted(to, buffer, counted, link))

    def poll(self) -> bool:
        """Send and receive messages, and do other pending work; return whether anything was done.

        Only the polling thread may call this. It calls the handlers of received messages.

        Raises RankFailed if a site is silent for more than SILENT_SECONDS.
        """
        moved = self.work()
        if self._living is None:
            return self._poll() | moved
        self._bury()
        try:
            return self._poll() | moved
        except Exception as error:  # its site has died since the last poll
            if not door.is_death(error):
                raise
            return True

    def _poll(self) -> bool:
        self._beat()
        moved = self.flush()
        if self._going:
            self._going = [one for one in self._going if not one[0].Test()]
        return self._receive() | moved

    def _bury(self) -> None:
        """Drop sites that have died, and all messages from and to them."""
        for site in door.died(self.comm):
            if (peer := self._peers.pop(site, None)) is not None:
                _never_freed.append((peer, [one for one in self._going if one[2] == site]))
                self._going = [one for one in self._going if one[2] != site]
                self.bury(site)

    def flush(self) -> bool:
        """Send all posted messages, in the polling thread; return whether there were any."""
        moved = bool(self._queue)
        while self._queue:
            self._send(self._queue.popleft())
        return moved

    @property
    def is_moving(self) -> bool:
        """Whether a message under way needs this thread."""
        return bool(self._going) or any(peer.coming for peer in self._peers.values())

    def wait(self, ready: Callable[[], bool]) -> None:
        """Poll until `ready` returns True, and sleep between polls."""
        began = time.perf_counter()
        while not ready():
            if not self.poll():
                self.deliver()
                self.watch()
                is_soon = time.perf_counter() - began < 4 * NAP_SECONDS
                time.sleep(0.1 * NAP_SECONDS if is_soon else NAP_SECONDS)

    def gathered(self, numbers: np.ndarray) -> np.ndarray:
        """Return all sites' arrays, in the order of sites; all sites must call it.

        numbers : float64 array, of the same shape on all sites

        When this returns, all messages that other sites have posted before they called it are
        delivered.
        """
        own = np.ascontiguousarray(numbers, np.float64)
        parts = self.gathered_bytes(own.reshape(-1).view(np.uint8))
        return np.stack([part.view(np.float64).reshape(own.shape) for part in parts])

    def gathered_bytes(self, own: np.ndarray) -> list[np.ndarray]:
        """Return all sites' bytes, in the order of sites; lengths may differ (collective)."""
        return list(self.gathered_by_site(own).values())

    def gathered_by_site(self, own: np.ndarray) -> dict[int, np.ndarray]:
        """Return surviving sites' bytes by site, in the order of sites (collective)."""
        peers, living = self._peers, self._living
        for to in peers:  # survivors exchange parts by `living`; these messages ensure the order
            self.post(to, GATHER, [own] if living is None else [], "meeting")
        found = dict.fromkeys(range(self.size), own)
        if living is not None:
            found = living.together(_as_bytes(own), self.wait)
            self._count("meeting", found, _as_bytes(own))
        self.wait(lambda: all(peers[k].gathered for k in found if k in peers))
        parts = {k: peers[k].gathered.popleft() for k in found if k in peers}
        return found | parts if living is None else found

    def spread(self, own: np.ndarray, counted: str = "meeting") -> np.ndarray:
        """Return the first site's array, as bytes, on each site (collective); ignore the others."""
        if self._living is not None:
            return np.asarray(self._living.of_first(lambda: _as_bytes(own), self.wait))
        if self.me != SPREADS:
            brought = self._peers[SPREADS].spread
            self.wait(lambda: bool(brought))
            return brought.popleft()
        for to in self._peers:
            self.post(to, SPREAD, [own], counted)
        self.flush()
        return _as_bytes(own)

    def pause(self) -> None:
        """Announce that this site will stop polling, for any length of time."""
        for to in () if self._has_parted else self._peers:
            self.post(to, PAUSE, counted="")
        self.flush()

    def part(self) -> None:
        """Send the last message to all sites, and wait for theirs; all sites must call it.

        This begins with a barrier, after which all earlier messages have been answered. `work` is
        called until the barrier, because other sites may wait for its result. A site that has
        called this method must post no message that needs an answer. When the method returns, no
        message is under way.
        """
        self.gathered(np.zeros(0))
        self.work = lambda: False
        for to in self._peers:
            self.post(to, PART, counted="")
        self._has_parted = True
        self.wait(lambda: all(peer.has_parted for peer in self._peers.values()))
        self.wait(lambda: not (self._queue or self._going))
        self.is_over = True

    def close(self) -> None:
        """Free the communicator, unless the run was aborted."""
        if self.is_over and len(self._peers) == self.size - 1:
            self.comm.Free()
        else:
            _never_freed.append((self.comm, self._going, self._peers))

    # -- within

    def _count(self, kind: str, found: Mapping[int, np.ndarray], own: np.ndarray) -> None:
        """Count the messages to the first site, or its messages to all."""
        first, *others = found
        sent = sum(map(len, found.values())) if first == self.me else len(own)
        for to in others if first == self.me else [first]:
            self.traffic.add(kind, self.me, to, sent)

    def _beat(self) -> None:
        now = time.monotonic()
        if now < self._beats_at or self.is_over:
            return
        self._beats_at = now + 0.1 * EVERY_SECONDS
        for peer in self._peers.values():
            if now - peer.spoken > EVERY_SECONDS and not self._has_parted:
                self.post(peer.rank, BEAT, counted="")
            if peer.heard is not None and now - peer.heard > SILENT_SECONDS:
                raise RankFailed(
                    f"Rank {peer.rank} has not been heard of for {SILENT_SECONDS:g} seconds: its "
                    "process is halted, or the link to its machine is down."
                )

    def _send(self, message: Posted) -> None:
        to, buffer, counted, link = message
        if link is not None:
            buffer[8 * UNDER_WAY : HEAD_BYTES].view(np.float64)[0] = link.send(len(buffer))
        if counted:
            self.traffic.add(counted, self.me, to, len(buffer))
        if to == self.me:
            self._hand_out(to, int(buffer[:8].view(np.int64)[0]), buffer[HEAD_BYTES:])
        elif to in self._peers:  # otherwise it has died
            self._peers[to].spoken = time.monotonic()
            try:
                request = self.comm.Isend([buffer, self._library.BYTE], dest=to)
            except Exception as error:  # it has died since the last poll
                if self._living is None or not door.is_death(error):
                    raise
                return
            self._going.append((request, buffer, to))

    def _receive(self) -> bool:
        any_site, any_tag, status = self._library.ANY_SOURCE, self._library.ANY_TAG, self._status
        moved = False
        while (message := self.comm.Improbe(any_site, any_tag, status)) is not None:
            buffer = np.empty(status.Get_count(self._library.BYTE), np.uint8)
            request = message.Irecv([buffer, self._library.BYTE])
            if (peer := self._peers.get(status.Get_source())) is not None:
                peer.coming.append((request, buffer))
        for peer in self._peers.values():
            while peer.coming and peer.coming[0][0].Test():
                self._take(peer, peer.coming.popleft()[1])
                moved = True
            for one in peer.due(time.monotonic()) if peer.late else ():
                self._hand_out(peer.rank, one.kind, one.content)
                moved = True
        return moved

    def _take(self, peer: Peer, buffer: np.ndarray) -> None:
        """Deliver a received message, or queue it after delayed messages."""
        kind, line, late = buffer[:HEAD_BYTES].view(np.int64).tolist()
        peer.heard = None if kind in (PAUSE, PART) else time.monotonic()
        if late or peer.late:
            seconds = float(buffer[8 * UNDER_WAY : HEAD_BYTES].view(np.float64)[0])
            due = time.monotonic() + seconds
            peer.late.append(DelayedMessage(due, kind, line, buffer[HEAD_BYTES:]))
        else:
            self._hand_out(peer.rank, kind, buffer[HEAD_BYTES:])

    def _hand_out(self, sender: int, kind: int, content: np.ndarray) -> None:
        if kind == GATHER:
            self._peers[sender].gathered.append(content)
        elif kind == SPREAD:
            self._peers[sender].spread.append(content)
        elif kind == PART:
            self._peers[sender].has_parted = True
        elif kind >= FIRST_KIND:
            self._handlers[kind](sender, content)


def _as_bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


_never_freed: list[Any] = []  # sends of aborted runs: MPI may still read their buffers
