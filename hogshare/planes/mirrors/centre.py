"""One worker's part in its centre: add its change to the mirror, exchange with other centres.

    fold    the worker's change goes into the centre's mirror, and into the residual of each edge;
            where all of a centre write one vector as they go, what has changed in it since
    take    what other centres have sent goes into the mirror, and into no residual
    tick    when all of the centre's workers have passed a clock: what the filter lets through is
            sent along each edge, with the clock; what an edge has no room for stays a residual
    hold    until the slowest centre is near enough, and no parameter that is read next is blocked

All of it is done under the centre's lock, by whichever worker comes. So an edge between two centres
has one writer and one reader at a time.

Who writes: the holder of a centre's lock the centre's rows of `mirror`, `total`, `shadow`,
`staged`, `chosen` and `journal`, its clock, and of an edge that leaves it `residual`, `announced`,
`told`, `wanted`, `ease` and `sent`, of one that comes `got`, `blocked` and `heard`; a worker its
own rows of `base`, `rounds`, `waits` and `holds`. Who reads: the same, and who waits the clocks.
Who frees: the session's owner.

A holder that dies is found by who wants the lock, and what it was at is brought to its end: each
array is made anew in `shadow`, the journal says so, and then it is copied, which may be done twice.
A block whose change has not come into the mirror is lost, as with every plane.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hogshare.kernels import locks
from hogshare.planes.mirrors.significance import Filter
from hogshare.planes.protocol import PlaneError
from hogshare.planes.waiting import Until
from hogshare.shm.mailbox import PLACE_BYTES, mail_bytes, places_pay

if TYPE_CHECKING:
    from hogshare.shm.mailbox import Board, Message

UPDATE, BARRIER, CLOCK = range(3)  # of `sent`: kinds of messages
MESSAGES, BYTES = range(2)
FOR_CLOCK, FOR_VALUES, FOR_LOCK, FOR_ROOM = range(4)  # of `waits`: what for
NOTHING, FOLDING, FOLDED, RECEIVED, SENDING = range(5)  # of `journal`: what is being done
WHICH, NUMBER = 3, 24  # bits of the journal's word at which they begin: it is written at once
KINDS_OF_ROUND = 2  # a message's round is the clock times so many, and BARRIER or not
START_SECONDS = 5.0  # that the first to come wait for the others of their centre
DUE_SLACK = 1e-4  # seconds after which what is due is surely seen
SPANS, SPANS_OF_DOUBLE = 96, 3  # of clocks, in `course`, and between a clock and its double
COURSE_BYTES, COURSE_DENSE = 2, 3  # of a span: what was sent, and what all changes would have been
SMALL = 0.01  # of a value: changes below are counted, as in section 3 of the paper
EASIER = 0.1  # of the way from the hard threshold to the soft one, at a clock


def span_of_clock(clock: int) -> int:
    """In which span of `course` a clock lies: each is a quarter longer than the one before."""
    return min(SPANS - 1, int(SPANS_OF_DOUBLE * math.log2(clock)))


def places_of(message: Message) -> slice | np.ndarray:
    """Where a message's values belong."""
    return slice(None) if message.places is None else message.places


class Settings(NamedTuple):
    """What a worker needs of its plane.

    groups : int64 [n_workers], the centre of each
    edges : who sends to whom, by mailbox, as centres
    per : blocks of a worker in a clock
    filter : which changes are sent
    clock_difference : by which a centre may be ahead of the slowest
    delay : seconds for which an edge may have no room before its reader is told to wait
    queue : messages of an edge that may be under way; the last place is for words
    ends_with_a_centre : whether the run is over when a centre has died
    """

    groups: np.ndarray
    edges: list[tuple[int, int]]
    per: int
    filter: Filter
    clock_difference: float
    delay: float
    queue: int
    ends_with_a_centre: bool


class Centre:
    """Worker `me`'s part."""

    def __init__(self, home: Any, settings: Settings) -> None:
        self.home, self.s, self.arrays = home, settings, home.arrays
        self.me, self.number = home.me, int(settings.groups[home.me])
        n = int(settings.groups.max()) + 1
        self.members = [np.flatnonzero(settings.groups == c) for c in range(n)]
        self.out = [e for e, (sender, _) in enumerate(settings.edges) if sender == self.number]
        self.into = [e for e, (_, to) in enumerate(settings.edges) if to == self.number]

        self.has_begun = False
        self.mirror = np.empty(0)  # as it was read last

    # -- after a block

    def after_block(self) -> Generator[Until, bool, None]:
        """Fold, exchange, wait, and go on from the mirror."""
        home, arrays = self.home, self.arrays
        if not self.has_begun:
            # what one does while others start is no part of a clock: it would come all at once
            yield Until(self._all_have_started, START_SECONDS)
            self.has_begun = True
        yield from self._lock()
        try:
            self._fold()
            self._tick()
            why = self._turn()
        finally:
            self._unlock()
        while why is not None:
            yield from self._wait(self._has_news, why)
            yield from self._lock()
            try:
                why = self._turn()
            finally:
                self._unlock()
        if not home.is_direct:
            home.write(self.mirror)
            arrays["base"][self.me] = home.read()

    def _turn(self) -> int | None:
        """Send and take what can be; why the worker has to wait, or None, with the mirror read.

        In this order, so that what is significant does not hang on whose mail has come already.
        """
        if self.s.ends_with_a_centre:
            self._end_with_a_centre()
        self._send()
        if self._is_behind_in_step():
            return FOR_ROOM
        self._take_mail()
        why = self._held_by()
        if why is None:
            self.arrays["passes"][self.me] += bool(self._blocked())
            self.mirror = self.arrays["mirror"][self.number].copy()
        return why

    def _end_with_a_centre(self) -> None:
        """Raise if all workers of one have died."""
        dead = self.home.table.dead
        for c, members in enumerate(self.members):
            if dead[members].all():
                raise PlaneError(
                    f"Centre {c} has died, and Mirrors(when_lost='end') ends the run with it; "
                    "resume= goes on from its last checkpoint."
                )

    def _all_have_started(self) -> bool:
        """Whether nobody of the centre is still to come."""
        table, mates = self.home.table, self.members[self.number]
        return bool((table.in_run | table.gone)[mates].all())

    # -- the lock

    def _lock(self) -> Generator[Until, bool, None]:
        words, c, table = self.arrays["lock"][self.number], self.number, self.home.table
        while not locks.take(words, 0, self.me):
            holder = int(locks.holder(words, 0))
            if holder >= 0 and table.dead[holder] and locks.take_over(words, 0, holder, self.me):
                break

            def is_free() -> bool:
                holder = int(locks.holder(words, 0))
                return holder < 0 or bool(table.dead[holder])

            yield from self._wait(is_free, FOR_LOCK)
        if self.arrays["journal"][c, 0] != NOTHING:
            self._bring_to_its_end()

    def _unlock(self) -> None:
        locks.give_back(self.arrays["lock"][self.number], 0)

    def _wait(self, holds: Callable[[], bool], why: int) -> Generator[Until, bool, None]:
        began = self.home.now()
        while not (yield Until(holds, self._next_due())):
            pass  # an emulated link has delivered, or somebody else has what it has delivered
        self.arrays["waits"][self.me, why] += self.home.now() - began
        self.arrays["holds"][self.me, why] += 1

    def _next_due(self) -> float | None:
        """Seconds until an emulated link delivers what is on its way here; None: nothing is."""
        due = [left for e in self.into if (left := self._box(e).due_in) is not None]
        return min(due) + DUE_SLACK if due else None

    # -- what may be done twice

    def _note(self, what: int, which: int = 0, number: int = 0) -> None:
        """Write down what is being done; what it takes stands by then."""
        word = what | which << WHICH | number << NUMBER
        locks.note(self.arrays["journal"][self.number], 0, word)

    def _bring_to_its_end(self) -> None:
        """Do what remains of what a holder was at."""
        word = int(self.arrays["journal"][self.number, 0])
        what, which, number = word % (1 << WHICH), word % (1 << NUMBER) >> WHICH, word >> NUMBER
        if what in (FOLDING, FOLDED):
            self._go_on_folding(which, is_ready=what == FOLDED)
        elif what == RECEIVED and self._box(which).taken < number:
            if self.home.is_direct:  # of which nobody knows how much had been added
                self.home.write(self.arrays["shadow"][self.number])
            self._receive(which)
        elif what == SENDING and self._box(which).posted >= number:
            self._let_go_of(which)
        self._note(NOTHING)

    def _targets(self) -> list[np.ndarray]:
        """Arrays that a worker's change is added to; the mirror is the first."""
        arrays, c = self.arrays, self.number
        return [arrays["mirror"][c], arrays["total"][c], *(arrays["residual"][e] for e in self.out)]

    def _fold(self) -> None:
        """Add a worker's change to everything that it belongs to."""
        arrays, c = self.arrays, self.number
        vector = self.home.read().astype(np.float64)
        mirror, shadow = arrays["mirror"][c], arrays["shadow"][c]
        base = mirror if self.home.is_direct else arrays["base"][self.me]
        change = vector - base
        self._count_small(change, mirror)
        arrays["staged"][c] = change
        # what nobody else has moved is the worker's own vector: no sum is rounded
        shadow[:] = vector if np.array_equal(mirror, base) else mirror + change
        self._note(FOLDED, 0)
        self._go_on_folding(0, is_ready=True)
        self._note(NOTHING)

    def _go_on_folding(self, which: int, is_ready: bool) -> None:
        """Add the change that is staged from one of its targets on."""
        shadow, staged = (self.arrays[name][self.number] for name in ("shadow", "staged"))
        targets = self._targets()
        for k in range(which, len(targets)):
            if not (is_ready and k == which):
                self._note(FOLDING, k)
                np.add(targets[k], staged, out=shadow)
                self._note(FOLDED, k)
            targets[k][:] = shadow

    # -- mail

    def _box(self, edge: int) -> Board:
        box: Board = self.home.boxes[edge]
        return box

    def _is_silent(self, edge: int) -> bool:
        """Whether nothing more comes along an edge.

        All workers of its centre are done, dead or resting, and what they had sent is taken.
        """
        gone = self.home.table.gone[self.members[self.s.edges[edge][0]]]
        return bool(gone.all()) and self._box(edge).under_way <= 0

    def _take_mail(self) -> None:
        """Take in what may be taken: by turns, a message of each edge in their order.

        In step, where centres may not differ by a clock, messages are taken when each has come that
        is waited for: so a run with a worker in each centre has the same bits again.
        """
        took = True
        while took:
            took, may_take = False, self._may_take()  # who comes meanwhile is of the next turn
            for edge in self.into:
                while (message := self._next(edge)) is not None and message.round % KINDS_OF_ROUND:
                    self._block(edge, message)
                if message is not None and may_take:
                    self._take_in(edge, message)
                    took = True

    def _next(self, edge: int) -> Message | None:
        """The next message of an edge, if it is one that names values, or its time has come.

        In step it comes before its time where this clock's has been taken. A centre may skip
        clocks, when its slowest worker dies.
        """
        message = self._box(edge).poll()
        if message is None or self.s.clock_difference > 0 or message.round % KINDS_OF_ROUND:
            return message
        is_early = self.arrays["heard"][edge] >= self.arrays["clock"][self.number]
        return None if is_early else message

    def _may_take(self) -> bool:
        """Whether messages with values may be taken by now."""
        now = int(self.arrays["clock"][self.number])
        return self.s.clock_difference > 0 or all(self._has_come(e, now) for e in self.into)

    def _take_in(self, edge: int, message: Message) -> None:
        """Add a message's values to the mirror."""
        shadow, mirror = self.arrays["shadow"][self.number], self.arrays["mirror"][self.number]
        shadow[:] = mirror
        shadow[places_of(message)] += message.values
        if self.home.is_direct:
            shadow[:] = self.home.held(shadow)  # what it will be, if nobody writes meanwhile
        self._note(RECEIVED, edge, message.number)
        if self.home.is_direct:
            self.home.add(message.values, message.places)
        self._receive(edge)
        self._note(NOTHING)

    def _has_come(self, edge: int, now: int) -> bool:
        """Whether an edge's next message is there, or is not waited for, or will not come."""
        if self.arrays["heard"][edge] >= now:
            return True
        is_silent = self._is_silent(edge)  # first: its last message is found then
        return self._box(edge).poll() is not None or is_silent

    def _receive(self, edge: int) -> None:
        """Let a message that stands in the shadow be in the mirror; done twice it is done once."""
        arrays, message = self.arrays, self._box(edge).poll()
        assert message is not None
        arrays["mirror"][self.number] = arrays["shadow"][self.number]
        blocked, where = arrays["blocked"][edge], places_of(message)
        blocked[where] = 0
        arrays["n_blocked"][edge] = np.count_nonzero(blocked)
        heard = arrays["heard"]
        heard[edge] = max(heard[edge], message.round // KINDS_OF_ROUND)
        if arrays["got_number"][edge] < message.number:
            arrays["got"][edge, where] += message.values
            arrays["got_number"][edge] = message.number
        # the last: who takes over after this sees that the message is taken, and does nothing
        self._box(edge).take()

    def _block(self, edge: int, message: Message) -> None:
        """Have reads of the parameters that a message names wait for their values."""
        places = message.values.copy().view(np.int32)
        blocked = self.arrays["blocked"][edge]
        blocked[places[places >= 0]] = 1
        self.arrays["n_blocked"][edge] = np.count_nonzero(blocked)
        self._box(edge).take()

    # -- the clock

    def _tick(self) -> None:
        """Move the centre's clock to what all its workers have passed.

        Of who has rows of its own, its own blocks count, and none of a worker's that is gone: all
        have as many, so that no centre waits for a clock that nobody comes to.
        """
        done, in_epoch = self.home.share
        rounds, members = self.arrays["rounds"], self.members[self.number]
        rounds[self.me] = (done if in_epoch else self.home.clock) // self.s.per
        counts = members[self.home.table.in_run[members] | (members == self.me)]
        clock = self.arrays["clock"]
        clock[self.number] = max(clock[self.number], rounds[counts].min())

    def _send(self) -> None:
        """Tell other centres of this clock, with what is significant; what has no room, later."""
        now = int(self.arrays["clock"][self.number])
        for edge in self._due():
            if self._has_room(edge):
                self._update(edge, now)
            else:
                self._warn(edge, now)

    def _due(self) -> list[int]:
        """Edges whose reader is still to be told of this clock, and may come to read it."""
        now = self.arrays["clock"][self.number]
        due = [e for e in self.out if self.arrays["told"][e] < now]
        if not due:
            return due
        table = self.home.table
        over = table.gone & (table.state != "resting")  # who rests reads it when it goes on
        return [e for e in due if not over[self.members[self.s.edges[e][1]]].all()]

    def _has_room(self, edge: int) -> bool:
        """Whether an edge has room for values; its last place is for words."""
        return self._box(edge).under_way <= self.s.queue - 2

    def _significant(self, edge: int, now: int) -> np.ndarray:
        arrays = self.arrays
        residual, mirror = arrays["residual"][edge], arrays["mirror"][self.number]
        t = int(arrays["before"][self.number]) + now
        return self.s.filter.mask(residual, mirror, max(1, t), float(arrays["ease"][edge]))

    def _update(self, edge: int, now: int) -> None:
        """Send what is significant, and what the reader waits for; the rest stays a residual."""
        arrays, c, box = self.arrays, self.number, self._box(edge)
        residual, chosen = arrays["residual"][edge], arrays["chosen"][c]
        self._move_threshold(edge, -1.0 if arrays["wanted"][edge] else 1.0)
        mask = self._significant(edge, now)
        clock = max(1, int(arrays["before"][c]) + now)
        course = arrays["course"][c, span_of_clock(clock)]
        course[:COURSE_BYTES] += (np.count_nonzero(mask), np.count_nonzero(residual))
        mask |= arrays["announced"][edge] > 0
        item, count, n = self.home.value_bytes, int(np.count_nonzero(mask)), len(residual)
        if count and not places_pay(count, n, item):
            mask[:] = True
            places, size = None, mail_bytes(0, n, item)
        else:
            places, size = np.flatnonzero(mask), mail_bytes(count, 0, item)
        chosen[:] = mask
        values = self._rounded(residual[mask])
        self._note(SENDING, edge, box.posted + 1)
        went = box.post(values, places, now * KINDS_OF_ROUND)
        assert went, "there is room, and one writer"
        self._let_go_of(edge)
        self._note(NOTHING)
        arrays["told"][edge], arrays["wanted"][edge] = now, 0.0
        course[COURSE_BYTES] += size
        course[COURSE_DENSE] += mail_bytes(0, n, item)
        self._count(edge, UPDATE if count else CLOCK, size)

    def _let_go_of(self, edge: int) -> None:
        """Take what was sent out of the residual."""
        mask = self.arrays["chosen"][self.number] > 0
        residual = self.arrays["residual"][edge]
        residual[mask] -= self._rounded(residual[mask])
        self.arrays["announced"][edge, mask] = 0

    def _rounded(self, values: np.ndarray) -> np.ndarray:
        """As they are sent: in the bytes that they are counted by."""
        return (
            values.astype(np.float32).astype(np.float64) if self.home.value_bytes == 4 else values
        )

    def _warn(self, edge: int, now: int) -> None:
        """Tell the reader which values are to come, if the link has been busy for too long.

        Not in step: there every clock is waited for, with all its values. Who waited for values of
        a clock that it may not take yet would do so for ever (`tests/models/mirrors.pml`, twin
        NAMES_IN_STEP).
        """
        if self.s.clock_difference == 0:
            return
        arrays, box = self.arrays, self._box(edge)
        if not arrays["wanted"][edge]:
            arrays["wanted"][edge] = max(self.home.now(), np.finfo(float).tiny)
            return
        late = self.home.now() - arrays["wanted"][edge] >= self.s.delay
        if not late or box.under_way >= self.s.queue:
            return
        mask = self._significant(edge, now) & (arrays["announced"][edge] == 0)
        places = np.flatnonzero(mask).astype(np.int32)
        if not len(places):
            return
        padded = np.full(-(-len(places) // 2) * 2, -1, np.int32)
        padded[: len(places)] = places
        if box.post(padded.view(np.float64), None, now * KINDS_OF_ROUND + 1):
            arrays["announced"][edge, mask] = 1
            self._count(edge, BARRIER, mail_bytes(0, len(places), PLACE_BYTES))

    def _move_threshold(self, edge: int, towards: float) -> None:
        """Ease the threshold where the link has had room at once, tighten it where it had not."""
        if self.s.filter.is_soft:
            ease = self.arrays["ease"]
            ease[edge] = min(1.0, max(0.0, ease[edge] + towards * EASIER))

    # -- waiting

    def _held_by(self) -> int | None:
        """What the worker has to wait for, if for anything."""
        arrays, s = self.arrays, self.s
        present = [e for e in self.into if not self._is_silent(e)]
        now = int(arrays["clock"][self.number])
        if any(now - arrays["heard"][e] > s.clock_difference for e in present):
            return FOR_CLOCK
        if self._is_owed():
            return FOR_ROOM
        blocked = self._blocked()
        if not blocked:
            return None
        reads = self.home.reads
        if reads is None or any(arrays["blocked"][e, reads].any() for e in blocked):
            return FOR_VALUES
        return None

    def _is_owed(self) -> bool:
        """Whether somebody may wait for what has no room, and nobody here will send it later.

        Who has done its rows of an epoch, and waits for the others to do theirs, comes no more
        before.
        """
        done, in_epoch = self.home.share
        if not in_epoch or done % in_epoch or self.home.goes_on:
            return False
        clock = self.arrays["clock"]
        return any(clock[self.s.edges[e][1]] < clock[self.number] for e in self._due())

    def _is_behind_in_step(self) -> bool:
        """Whether somebody who goes on has still to be told of this clock, where all are in step.

        Between machines the word that a message was taken may come after the next one from there.
        Who did not wait for it would tell of two clocks at once, and who took that one first would
        not find the same changes significant.
        """
        if self.s.clock_difference > 0:
            return False
        gone = self.home.table.gone
        return any(not gone[self.members[self.s.edges[e][1]]].all() for e in self._due())

    def _blocked(self) -> list[int]:
        """Edges along which values have been named that are still to come."""
        edges = [e for e in self.into if self.arrays["n_blocked"][e]]
        return [e for e in edges if not self._is_silent(e)]

    def _has_news(self) -> bool:
        """Whether another turn may come to something."""
        if self._is_behind_in_step():
            return any(map(self._has_room, self._due()))
        may_take, come = self._may_take(), [self._next(e) for e in self.into]
        return (
            any(m is not None and (may_take or m.round % KINDS_OF_ROUND) for m in come)
            or self._held_by() is None
            or any(map(self._has_room, self._due()))
        )

    # -- what is told

    def _count(self, edge: int, kind: int, size: int) -> None:
        sent = self.arrays["sent"][edge, kind]
        sent[MESSAGES] += 1
        sent[BYTES] += size

    def _count_small(self, change: np.ndarray, value: np.ndarray) -> None:
        """Count how many numbers a worker has changed, and how many by little."""
        changed = change != 0.0
        small = changed & (np.abs(change) <= SMALL * np.abs(value))
        self.arrays["small"][self.number] += (np.count_nonzero(small), np.count_nonzero(changed))
