"""One worker's part in a stochastic reduce: post, wait, average (ASAP, sections 3 and 4).

    post round t to the out-neighbours, when they have acknowledged round t - queue   (NOTIFY)
    wait for round t of all in-neighbours, and average it with the own vector         (reduce)
    acknowledge each message                                                           (ACK)

In each round, a worker sends before it waits, so a cycle of workers cannot deadlock. The worker
with the least round always proceeds: its out-neighbours have acknowledged its messages, and its
in-neighbours have reached its round or can send.

Writers: worker `me` writes its own rows of the plane's arrays, and the sender of an edge writes the
edge's rows, `to` included. Each row has only one writer. Readers: all workers read `rounds` (the
barrier), an edge's readers read `to`, and the caller reads the remaining arrays after the run.
Freeing: the session's owner.

A worker that is gone, or whose message was late, is left out: no worker waits for this worker. The
survivors' graph is `topology.without`. Each survivor moves its edges from a dead reader to a new
reader, once these edges are empty. The new reader waits for such an edge only after the edge's
first message.

If a worker's in-neighbours are rounds ahead, the worker has been left out. The worker then
continues with the round of its in-neighbours. Workers that wait for this worker now wait for the
new round. Therefore (1) this worker sends its message again with the new round, and (2) if it could
not send a message because an edge had no capacity, it sends the message while it waits, as soon as
the edge has capacity. Without either rule, workers that wait for each other in different rounds
would wait for ever, because a waiting worker is never left out (`tests/models/reduce.pml`, twins
SILENT and FORGETS).

With push-sum, a worker has a mass y besides its vector z, and represents the product y z. A message
also has a vector and a mass. The message's mass is a share of its sender's mass. Only steps change
the sum of the products y z over workers and messages. The sum of the masses never changes. A reduce
first divides a worker's steps by its mass, which gives the steps of all workers the same weight.
(This is the subgradient-push of Nedic and Olshevsky 2015, equations (4) and (5), whose steps are
taken on x = y z.) Mass that is not sent stays with its sender. A message that is late for its round
counts in the next round.
"""

from __future__ import annotations

import functools
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hogshare import topology
from hogshare.kernels.exchange import reduce_rounds
from hogshare.kernels.mail import register
from hogshare.planes import intervals
from hogshare.planes.replicas.reduces import (
    ACKNOWLEDGEMENT,
    BARRIER,
    BYTES,
    LATE,
    MESSAGE,
    MESSAGES,
    MISSING,
    SPARSE,
    TORN,
    UNSENT,
    WHOLE,
)
from hogshare.planes.wait_condition import Until
from hogshare.shm.mailbox import AT_ONCE, HEADER_BYTES, PLACE_BYTES, mail_bytes, places_pay

if TYPE_CHECKING:
    from hogshare.shm.mailbox import Edge, Message

NEVER = 1 << 62  # a round that does not come
FOR_THE_FIRST_TIME, AGAIN = range(2)  # why an edge has yet to send its message in a round
NO_PLACES = np.empty(0, np.int64)
SEEN_BEFORE_LIMIT = 5  # rounds that a worker must have timed before it leaves another worker out
LEAST_SHARE = 0.1  # steps are divided by at least this share of the graph's least mass
MOST_PASSES = 1000  # most passes over the cycle of graphs until masses converge


class GraphRound(NamedTuple):
    """A worker's part in one graph of the cycle.

    to : the workers to which it sends
    weights : array of shape (n_workers,), this worker's weights of the workers' vectors; with
        push-sum, the share of this worker's mass that goes to each worker
    """

    to: list[int]
    weights: np.ndarray


@functools.lru_cache(maxsize=64)
def survivors(graph: bytes, n: int, dead: tuple[int, ...], kind: str) -> tuple[Any, Any]:
    """Return the graph without dead workers, and its weights; cached for all workers of a process.

    graph : bytes of a bool array of shape (n, n)
    """
    left = topology.without(np.frombuffer(graph, bool).reshape(n, n), dead)
    return left, topology.mixing_weights(left, kind)


def least_mass(cycle: Sequence[np.ndarray]) -> float:
    """Return the least mass of any worker in any round.

    The weights must be column stochastic. Masses begin at one.
    """
    masses = np.ones(len(cycle[0]))
    least = 1.0
    for _ in range(MOST_PASSES):
        before = masses
        for weights in cycle:
            masses = weights @ masses
            least = min(least, float(masses.min()))
        if np.allclose(masses, before, rtol=1e-6, atol=0.0):
            break
    return least


def whole(values: np.ndarray, places: np.ndarray | None, n: int) -> np.ndarray:
    """Return a message's values as a vector of n numbers."""
    if places is None:
        return values
    vector = np.zeros(n)
    vector[places] = values
    return vector


class ReduceSettings(NamedTuple):
    """A plane's settings for one worker.

    graphs : a graph for each round, used in rotation
    weights : the weights of each graph
    mends : kind of weights for the survivors' graph
    sync, send, fold, every, patience : see `Replicas`
    edges : sender and reader of each mailbox
    """

    graphs: Sequence[np.ndarray]
    weights: Sequence[np.ndarray]
    mends: str
    is_push_sum: bool
    sync: str
    send: str
    fold: str
    every: str | int
    patience: float | None
    least_patience: float
    edges: list[tuple[int, int]]


class Reducer:
    """Worker `me`'s part in all reduces of a run."""

    def __init__(self, home: Any, settings: ReduceSettings) -> None:
        self.home, self.settings, self.me = home, settings, home.me
        self.arrays = home.arrays
        self.graph_rounds = [
            GraphRound(np.flatnonzero(graph[self.me]).tolist(), weights[self.me])
            for graph, weights in zip(settings.graphs, settings.weights, strict=True)
        ]
        self.out = [k for k, (sender, _) in enumerate(settings.edges) if sender == self.me]
        self.opened = {k for k, (_, to) in enumerate(settings.edges) if to == self.me}
        self.senders = [sender for sender, _ in settings.edges]
        self.dead: tuple[int, ...] = ()
        self.last = 0  # completed blocks at its last reduce
        self.ahead = 0  # rounds ahead of its own count, after it had been left out
        self.seen = dict.fromkeys(range(len(settings.edges)), 0)  # register rounds used so far
        self.times = np.zeros(3)  # of its rounds' seconds: count, mean, squared deviations' sum
        self.ended: float | None = None  # when its last reduce ended
        self.in_vain = 0.0  # seconds of this round's waits that have met their limit
        self.heard: dict[int, np.ndarray] = {}  # in-neighbours' vectors, with send="change"
        self.base: np.ndarray | None = None  # its own vector as its out-neighbours have it
        self.owed: dict[int, np.ndarray] = {}  # changes that an edge has not sent yet
        self.extra: np.ndarray | float = 0.0  # changes that came too late for their round
        self.message: tuple[np.ndarray, np.ndarray | None] = np.empty(0), None  # of this round
        self.unsent: dict[int, int] = {}  # edges that wait for capacity to send `message`, and why
        self.share = self.given = 0.0  # mass of one message, and of all messages of this round
        self.late: list[np.ndarray] = []  # messages with a mass that came after their round
        # with push-sum, the vector at which the steps since the last reduce began
        self.begun = home.read() if settings.is_push_sum else np.empty(0)
        self.least = LEAST_SHARE * least_mass(settings.weights) if settings.is_push_sum else 0.0
        if settings.send == "change":
            self.base = self._first()
        self.round = self._round()

    def _round(self) -> reduce_rounds.Round | None:
        """Return the kernel's fixed data for every round, or None if this run needs Python code."""
        home, s, part = self.home, self.settings, self.graph_rounds[0]
        is_plain = s.sync == "notify-ack" and s.send == "model" and not s.is_push_sum
        at_once = all(box.transport is AT_ONCE for box in home.boxes) and not home.links
        if not (is_plain and at_once) or len(self.graph_rounds) > 1 or home.averages:
            return None
        into = self._incoming(part)
        weights = [part.weights[self.me], *(part.weights[self.senders[k]] for k in into)]
        self.live, self.vector = home.live(), np.zeros(len(home.read()))
        return reduce_rounds.Round(
            out=np.array([k for k, _ in self._outgoing(part)], np.int64),
            into=np.array(into, np.int64),
            shares=topology.mended(np.array(weights)),
            item=home.value_bytes,
            header=HEADER_BYTES,
            place_bytes=PLACE_BYTES,
        )

    def _reduce_by_kernel(self, now: int) -> int:
        """Reduce as far as kernels can; return `reduce_rounds.DONE`, `POSTED` or `NOTHING`."""
        if self.round is None or self.ahead or self.dead:
            return reduce_rounds.NOTHING
        home, arrays, me = self.home, self.arrays, self.me
        table, suspects = home.progress, arrays["suspects"][me]
        more = now, self.vector, arrays["sent"], arrays["waits"][me], home.spin_ns
        return int(reduce_rounds.reduce(home.box, self.round, self.live, table, suspects, *more))

    def _first(self) -> np.ndarray:
        """Return the vector with which all workers begin; it is the base of the first changes."""
        return np.asarray(self.arrays["first"]).copy()

    # -- when

    def is_due(self) -> int:
        """Return the round of the reduce that is due after this block; 0 if no reduce is due."""
        home = self.home
        done, in_epoch = home.share
        per = intervals.blocks_of(self.settings.every, home.block_rows, in_epoch)
        if not in_epoch:
            # after a pause all clocks are equal, and blocks are not: the last round may have had
            # fewer blocks than workers
            done = home.clock if home.is_ordered else home.blocks
            return done // per if done % per == 0 else 0
        if done == self.last:
            return 0  # the block belonged to a worker that is gone
        self.last = done
        epoch, place = divmod(done - 1, in_epoch)
        if (place + 1) % per and place + 1 < in_epoch:
            return 0
        return epoch * -(-in_epoch // per) + -(-(place + 1) // per)

    # -- a reduce

    def reduce(self, count: int) -> Generator[Until, bool, None]:
        """Post, wait and average; `count` is the round that follows from the worker's blocks."""
        home, s = self.home, self.settings
        now = count + self.ahead
        done = self._reduce_by_kernel(now)
        if done == reduce_rounds.DONE:
            assert self.round is not None
            self._note_reduce(now, len(self.round.into))
            return
        self._poll_for_deaths()
        part = self._part(now)
        if s.is_push_sum:
            self._weigh_steps()
        vector = home.read()
        values = vector.astype(np.float64)
        own, message = values, self._message(part, values)
        if s.sync == "notify-ack":
            self.message, self.unsent = message, {}
            if done == reduce_rounds.NOTHING:
                yield from self._post(part, now, *message)
            used, now = yield from self._collect(now)
            part = self._part(now)  # a worker may have died meanwhile
        else:
            used = yield from self._exchange(part, now, *message)
        self._average(part, vector, own, used)
        # acknowledged only after the average: `used` are views of the senders' slots
        for edge, _ in used if s.sync == "notify-ack" else ():
            home.boxes[edge].take()
        self.ahead = now - count
        self._note_reduce(now, len(used))

    def _note_reduce(self, now: int, n_used: int) -> None:
        arrays, me = self.arrays, self.me
        arrays["rounds"][me] = now
        arrays["reduces"][me] += 1
        arrays["used"][me, min(n_used, arrays["used"].shape[1] - 1)] += 1
        self._note_end(self.home.now())

    def _weigh_steps(self) -> None:
        """Divide the steps since the last reduce by the mass.

        A worker without in-neighbours sends its mass away and receives no mass, so its divided
        steps would grow without bound. Therefore the divisor is at least a tenth of the graph's
        least mass.
        """
        mass = self.arrays["mass"][self.me]
        if mass != 1.0:
            values = self.home.read()
            steps = (values - self.begun) / max(mass, self.least)
            self.home.write((self.begun + steps).astype(values.dtype))

    def _message(
        self, part: GraphRound, values: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the shorter message: all values, or the nonzero values with their places."""
        if self.base is not None:
            change = values - self.base
            self.base = values.copy() if self.settings.fold == "sum" else self.base + change
            values = change
        if self.settings.is_push_sum:
            self.share, self.given = self.arrays["mass"][self.me] * part.weights[self.me], 0.0
            values = np.append(values, self.share)
        places = np.flatnonzero(values)
        if len(places) and places_pay(len(places), len(values), self.home.value_bytes):
            return values[places], places
        return values, None

    def _outgoing(self, part: GraphRound) -> list[tuple[int, int]]:
        """Return the edges that send a message in this round, and their readers."""
        to = self.arrays["to"]
        return [(k, int(to[k]) - 1) for k in self.out if int(to[k]) - 1 in part.to]

    def _post(
        self, part: GraphRound, now: int, values: np.ndarray, places: np.ndarray | None
    ) -> Generator[Until, bool, None]:
        boxes, suspects = self.home.boxes, self.arrays["suspects"][self.me]
        left, outgoing = [], self._outgoing(part)
        if self.base is not None:
            for edge in set(self.out) - {edge for edge, _ in outgoing}:
                self._owe_change(edge, values, places)  # stored until a round uses this edge
        for edge, to in outgoing:
            if boxes[edge].has_capacity:
                suspects[to] = 0
                self._send(edge, values, places, now)
            elif suspects[to] or self.home.table.gone[to]:
                self._owe(edge, values, places)
            else:
                left.append((edge, to))
        while left:
            self._drop_late(now)

            def has_capacity(left: list[tuple[int, int]] = left) -> bool:
                gone = self.home.table.gone
                return (
                    self._has_news()
                    or self._has_capacity_for_unsent()
                    or any(boxes[edge].has_capacity or gone[to] for edge, to in left)
                    or self._has_late(now)
                )

            came = yield from self._wait(has_capacity, ACKNOWLEDGEMENT)
            self._poll_for_deaths()
            part, gone = self._part(now), self.home.table.gone
            self._send_unsent(part, now)
            late = [] if came else [to for _, to in left if self._leave_out(to)]
            for edge, to in list(left):
                if int(self.arrays["to"][edge]) - 1 != to:
                    self._count(UNSENT)  # the edge has moved: its new reader is owed all changes
                elif boxes[edge].has_capacity:
                    self._send(edge, values, places, now)
                elif gone[to] or to in late or to not in part.to:
                    self._owe(edge, values, places)
                else:
                    continue
                left.remove((edge, to))

    def _owe(self, edge: int, values: np.ndarray, places: np.ndarray | None) -> None:
        """Store a message to send it later in this round; a change is sent with the next change."""
        self._count(UNSENT)
        self.unsent[edge] = FOR_THE_FIRST_TIME
        self._owe_change(edge, values, places)

    def _owe_change(self, edge: int, values: np.ndarray, places: np.ndarray | None) -> None:
        if self.base is not None:
            n = len(self.base)
            self.owed[edge] = self.owed.get(edge, 0.0) + whole(values, places, n)

    def _has_capacity_for_unsent(self) -> bool:
        """Whether an edge has capacity for an unsent message of this round."""
        return any(self.home.boxes[edge].has_capacity for edge in self.unsent)

    def _send_unsent(self, part: GraphRound, now: int) -> None:
        """Send this round's unsent messages along the edges that have capacity now."""
        if not self.unsent:
            return
        outgoing = dict(self._outgoing(part))
        self.unsent = {edge: why for edge, why in self.unsent.items() if edge in outgoing}
        for edge in [edge for edge in self.unsent if self.home.boxes[edge].has_capacity]:
            why = self.unsent.pop(edge)
            if why == FOR_THE_FIRST_TIME:
                self._count(UNSENT, -1)
            values, places = self.message
            if self.base is not None:
                values, places = np.empty(0), NO_PLACES  # the change is owed, or was sent
            elif self.settings.is_push_sum and why == AGAIN:
                values = whole(values, places, len(self.home.read()) + 1).copy()
                values[-1], places = 0.0, None  # its mass was sent
            self.arrays["suspects"][self.me, outgoing[edge]] = 0
            self._send(edge, values, places, now)

    def _send(self, edge: int, values: np.ndarray, places: np.ndarray | None, now: int) -> None:
        if self.settings.is_push_sum:
            self.given += float(values[-1])
        if edge in self.owed:
            owed = self.owed.pop(edge)
            values, places = owed + whole(values, places, len(owed)), None
        if self.settings.sync == "notify-ack":
            self.home.boxes[edge].post(values, places, now)
        else:
            self.home.boxes[edge].show(values, places, now)
        placed = 0 if places is None else len(values)
        sent = self.arrays["sent"][edge, WHOLE if places is None else SPARSE]
        sent[MESSAGES] += 1
        sent[BYTES] += mail_bytes(placed, len(values) - placed, self.home.value_bytes)

    def _incoming(self, part: GraphRound) -> list[int]:
        """Return the edges that are read in this round, sorted by their sender."""
        mine = self._mine()
        if self.dead and self.settings.sync == "notify-ack":
            for k in mine:  # empty an edge that left the graph: its sender waits to move it
                if not any(one.weights[self.senders[k]] > 0.0 for one in self.graph_rounds):
                    self._find(k, NEVER)
        heard = [k for k in mine if part.weights[self.senders[k]] > 0.0]
        return sorted(heard, key=lambda k: self.senders[k])

    def _find(self, edge: int, now: int) -> Message | None:
        """Return an edge's message of this round or of a later round; drop earlier messages."""
        box: Edge = self.home.boxes[edge]
        while (message := box.poll()) is not None and message.is_whole:
            # `to` is read after the message was found: the sender writes `to` before it posts
            if int(self.arrays["to"][edge]) - 1 != self.me:
                return None  # the message belongs to the edge's new reader
            self.opened.add(edge)
            if message.round >= now:
                return message
            self._count(LATE)
            self._catch_up(edge, message)
            box.take()
        return None

    def _mine(self) -> list[int]:
        """Return the edges that this worker reads in any round."""
        found: list[int] = np.flatnonzero(self.arrays["to"] == self.me + 1).tolist()
        return found

    def _drop_late(self, now: int) -> None:
        """Take messages that are late for their round: their sender may wait for capacity."""
        for edge in self._mine():
            self._find(edge, now)

    def _has_late(self, now: int) -> bool:
        """Whether a message of an earlier round has come."""
        mail = (self.home.boxes[edge].poll() for edge in self._mine())
        return any(message is not None and message.round < now for message in mail)

    def _catch_up(self, edge: int, message: Message) -> None:
        """Store a change, or a mass, that came too late for its round; a later round uses it."""
        if self.settings.is_push_sum:
            self.late.append(self._values(edge, message, len(self.begun)).copy())
        elif self.base is not None:
            values = self._values(edge, message, len(self.base))
            if self.settings.fold == "sum":
                self.extra = self.extra + values

    def _collect(self, now: int) -> Generator[Until, bool, tuple[list[tuple[int, Message]], int]]:
        """Wait for all in-neighbours' messages of this round; return them and their round."""
        home, suspects = self.home, self.arrays["suspects"][self.me]
        given_up: set[int] = set()
        while True:
            self._poll_for_deaths()
            # `gone` is read before the mail, so that the last message of a gone sender is found
            part, gone = self._part(now), home.table.gone
            self._send_unsent(part, now)
            if len(self.graph_rounds) > 1:
                self._drop_late(now)
            edges = self._incoming(part)
            found = {k: self._find(k, now) for k in edges}
            latest = max((m.round for m in found.values() if m is not None), default=now)
            if latest > now:
                now = latest  # the others have continued without this worker
                again = self._outgoing(self._part(now))
                self.unsent = {edge: self.unsent.get(edge, AGAIN) for edge, _ in again}
                continue
            waiting = [
                k
                for k in edges
                if found[k] is None
                and k in self.opened
                and not (k in given_up or suspects[self.senders[k]])
                and not (gone[self.senders[k]] and home.boxes[k].all_taken)
            ]
            if not waiting:
                break

            def has_come(waiting: list[int] = waiting, now: int = now) -> bool:
                gone, boxes = home.table.gone, home.boxes
                to = self.arrays["to"]
                return (
                    self._has_news()
                    or self._has_capacity_for_unsent()
                    or (len(self.graph_rounds) > 1 and self._has_late(now))
                    or any(
                        boxes[k].has_mail
                        or to[k] != self.me + 1
                        or (gone[self.senders[k]] and boxes[k].all_taken)
                        for k in waiting
                    )
                )

            if not (yield from self._wait(has_come, MESSAGE)):
                given_up |= {k for k in waiting if self._leave_out(self.senders[k])}
        used = [(k, message) for k, message in found.items() if message is not None]
        for k, _ in used:
            suspects[self.senders[k]] = 0
        self._count(MISSING, int((part.weights > 0.0).sum()) - 1 - len(used))
        return used, now

    def _exchange(
        self, part: GraphRound, now: int, values: np.ndarray, places: np.ndarray | None
    ) -> Generator[Until, bool, list[tuple[int, Message]]]:
        """Write the worker's message to registers, and read other workers' registers.

        With ``sync="bsp"``, the worker reads after a barrier. With ``"async"``, it reads at once.
        """
        home, rounds = self.home, self.arrays["posted"]
        for edge, _ in self._outgoing(part):
            self._send(edge, values, places, now)
        rounds[self.me] = now
        if self.settings.sync == "bsp":
            suspects = self.arrays["suspects"][self.me]

            def all_have_arrived() -> bool:
                return bool((home.table.gone | (rounds >= now) | (suspects != 0)).all())

            suspects[rounds >= now] = 0
            while not all_have_arrived():
                if not (yield from self._wait(all_have_arrived, BARRIER)):
                    for k in np.flatnonzero(rounds < now):
                        self._leave_out(int(k))
        used = []
        for edge in self._incoming(part):
            state, message = home.boxes[edge].see(self.seen[edge])
            if message is not None:
                self.seen[edge] = message.round
                used.append((edge, message))
            else:
                self._count(TORN if state == register.TORN else MISSING)
        return used

    def _average(
        self, part: GraphRound, vector: np.ndarray, own: np.ndarray, used: list[tuple[int, Message]]
    ) -> None:
        """Continue from the average of the own vector and the used messages, sorted by sender."""
        if not used and not self.settings.is_push_sum:
            return
        pairs = [(self.senders[k], self._values(k, message, len(own))) for k, message in used]
        if self.settings.is_push_sum:
            total = self._average_by_mass(own, [*self.late, *(values for _, values in pairs)])
            self.late = []
        elif self.settings.fold == "sum":
            total = own.copy()
            for _, values in pairs:
                total += values
            total += self.extra
            self.extra = 0.0
            assert self.base is not None
            self.base = total.copy()  # others' changes are not forwarded
        else:
            counts = [part.weights[self.me], *(part.weights[k] for k, _ in pairs)]
            shares = topology.mended(np.array(counts))
            total = shares[0] * own
            for share, (_, values) in zip(shares[1:], pairs, strict=True):
                total += share * values[: len(own)]
        self.home.write(total.astype(vector.dtype))
        self.begun = self.home.read() if self.settings.is_push_sum else self.begun

    def _average_by_mass(self, own: np.ndarray, come: list[np.ndarray]) -> np.ndarray:
        """Return the average of the own vector and the messages, weighted by mass.

        The last value of a message is its mass.
        """
        masses = self.arrays["mass"]
        counts = [masses[self.me] - self.given, *(values[-1] for values in come)]
        masses[self.me] = sum(counts)
        shares = topology.mended(np.array(counts))
        total = shares[0] * own
        for share, values in zip(shares[1:], come, strict=True):
            total += share * values[: len(own)]
        return total

    def _values(self, edge: int, message: Message, n: int) -> np.ndarray:
        """Return an in-neighbour's vector; with ``fold="sum"``, its change as a whole vector."""
        values = whole(message.values, message.places, n + self.settings.is_push_sum)
        if self.settings.send != "change" or self.settings.fold == "sum":
            return values
        if edge not in self.heard:
            self.heard[edge] = self._first()
        self.heard[edge] += values
        return self.heard[edge]

    # -- waiting, and leaving workers out

    def _wait(self, condition: Any, cause: int) -> Generator[Until, bool, bool]:
        began = self.home.now()
        came = yield Until(condition, self._limit())
        waited = self.home.now() - began
        self.arrays["waits"][self.me, cause] += waited
        self.in_vain += 0.0 if came else waited
        return bool(came)

    def _note_end(self, now: float) -> None:
        """Add a round, from one reduce's end to the next, to Welford's sums of seconds per round.

        An outlier is cut to four standard deviations above the mean, or to twice the mean if this
        is more. The worker may have been stopped in such a round, which must not make later limits
        long. For the same reason, a wait that has met its limit is not part of the round: limits
        would grow from one such wait to the next.
        """
        before, self.ended = self.ended, now
        in_vain, self.in_vain = self.in_vain, 0.0
        if before is None:
            return
        seconds = now - before - in_vain
        if self.times[0] >= SEEN_BEFORE_LIMIT:
            seconds = min(seconds, max(2.0 * float(self.times[1]), self._usual()))
        self.times[0] += 1
        away = seconds - self.times[1]
        self.times[1] += away / self.times[0]
        self.times[2] += away * (seconds - self.times[1])

    def _limit(self) -> float | None:
        """Return the seconds after which an awaited worker is too late.

        The limit is `patience` times the usual time of this worker's own rounds, and at least
        `least_patience`. Returns None if there is no limit, or if too few rounds have been timed.
        """
        patience = self.settings.patience
        if patience is None or self.times[0] < SEEN_BEFORE_LIMIT:
            return None
        return max(self.settings.least_patience, patience * self._usual())

    def _usual(self) -> float:
        """Return an upper bound of most rounds' seconds: the mean and four standard deviations."""
        return float(self.times[1] + 4.0 * np.sqrt(self.times[2] / self.times[0]))

    def _leave_out(self, worker: int) -> bool:
        """Stop waiting for a worker, unless that worker itself waits for others."""
        if self.home.waits(worker):
            return False
        self.arrays["suspects"][self.me, worker] = 1
        self.arrays["left_out"][worker] = 1
        return True

    def _part(self, now: int) -> GraphRound:
        """Return this worker's part in a round's graph."""
        return self.graph_rounds[(now - 1) % len(self.graph_rounds)]

    def _has_news(self) -> bool:
        """Whether a worker has died since the graph was last updated."""
        return int(self.home.table.dead.sum()) != len(self.dead)

    def _poll_for_deaths(self) -> None:
        """If workers have died, move edges from dead readers to the survivors' graph."""
        dead = tuple(np.flatnonzero(self.home.table.dead).tolist())
        if dead != self.dead:
            self.dead = dead
            for place, graph in enumerate(self.settings.graphs):
                left, weights = survivors(graph.tobytes(), len(graph), dead, self.settings.mends)
                self.graph_rounds[place] = GraphRound(
                    np.flatnonzero(left[self.me]).tolist(), weights[self.me]
                )
        if not self.dead:
            return
        to = self.arrays["to"]
        wanted = {k for part in self.graph_rounds for k in part.to}
        missing = sorted(wanted - {int(to[k]) - 1 for k in self.out})
        for edge in self.out:
            if missing and int(to[edge]) - 1 not in wanted and self._is_empty(edge):
                to[edge] = missing.pop(0) + 1
                if self.base is not None and self.settings.fold == "mean":
                    self.owed[edge] = self.base - self._first()  # all changes so far

    def _is_empty(self, edge: int) -> bool:
        """Whether an edge is empty; if its reader is dead, this first takes the edge's messages."""
        box = self.home.boxes[edge]
        if int(self.arrays["to"][edge]) - 1 in self.dead:
            while box.has_mail:
                box.take()
        return bool(box.all_taken) or self.settings.sync != "notify-ack"

    def _count(self, what: int, number: int = 1) -> None:
        self.arrays["counts"][self.me, what] += number
