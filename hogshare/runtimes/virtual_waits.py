"""Where workers of a simulated run wait, and who is called when something has happened.

A worker that waits is *parked* with what it waits for, and *called*, which puts a look of its into
the queue, when that may have come about:

- a barrier that looks at everybody's clock (BSP, SSP, fraction): workers stand in bins by their own
  clock, counts tell which clocks pass, and nobody looks in vain;
- throttled release: when somebody has released them, or fewer are left;
- the same of workers in groups: when those of their own group have come near, looked at one by one;
- a barrier that draws samples, or is the user's: at its next look, a poll later;
- its turn in an ordered run: when the section is its own, or a round is over;
- the master: when that has taken its message;
- where a plane of the user's says so: when what it waits for holds after another worker's doing, or
  its time is over;
- a block to claim, the caller, or a repair of sums after a death: when the words that tell of it
  have changed.

With a poll, workers at a barrier look at whole numbers of polls after they have come there.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from hogshare.engine.loop import PlaneWait
from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.kernels.schedule import barrier_codes
from hogshare.kernels.schedule.barrier_codes import enough, within
from hogshare.shm.table import IN_RUN

# words of which one changes when a worker that finds nothing to do may find something
WORDS = (
    *(layout.EPOCHS, layout.READY, layout.RETURNED, layout.LIMIT, layout.STOP),
    *(layout.REPAIR_WANTED, layout.SUMMER, layout.REPAIRED),
)
ABSENT = -1  # in place of a clock


class Parking:
    """Workers that wait, by what they wait for.

    poll : virtual seconds between two looks at the barrier; 0: at the moment at which it lets pass
    push : ``push(seconds, worker)`` puts a look into the queue
    count_looks : ``count_looks(worker, n)`` is told of looks at the barrier
    """

    def __init__(
        self,
        session: Session,
        poll: float,
        push: Callable[[float, int], None],
        count_looks: Callable[[int, int], None],
    ) -> None:
        plan = session.plan
        self.since: dict[int, float] = {}
        self._session, self._plan = session, plan
        self._table, self._control = session.schedule.table, session.schedule.control
        self._poll, self._push, self._count_polls = poll, push, count_looks
        self._clocks = LeastClock(self._table)
        self._due: dict[int, float] = {}  # when a parked worker looks next; others are void
        self._bins: dict[int, list[int]] = {}
        self._at_release: set[int] = set()
        self._polled: set[int] = set()
        self._for_master: set[int] = set()
        self._parked: dict[int, Callable[[], bool]] = {}  # by a plane, until this says True
        self._idle: set[int] = set()
        self._has_polled: set[int] = set()  # at the barrier, since their last block
        self._section = -1
        self._released = (0, 0)
        self._words = self._poll_words()
        lag = plan.barrier == barrier_codes.LAG
        groups = self._table[:, layout.T_GROUP]
        self._grouped: set[int] = set()  # at a barrier that looks at those of their own group
        self._has_groups = bool((groups != groups[0]).any())
        self._by_clock = lag and plan.sample == barrier_codes.EVERYBODY
        self._throttled = plan.barrier == barrier_codes.THROTTLED

    # -- one worker

    def park(self, me: int, now: float) -> None:
        """Note what a worker waits for."""
        self.since[me] = now
        plan, row = self._plan, self._table[me]
        if row[layout.T_STATE] == layout.RESTING or self._repairs():
            self._idle.add(me)
        elif plan.ordered:
            pass  # `_call_section`
        elif plan.barrier != barrier_codes.FREE and row[layout.T_PASSED] <= row[layout.T_CLOCK]:
            self._count_polls(me, 1)
            self._has_polled.add(me)
            if self._by_clock and self._has_groups:
                self._grouped.add(me)
            elif self._by_clock:
                self._bins.setdefault(int(row[layout.T_CLOCK]), []).append(me)
            elif self._throttled:
                self._at_release.add(me)
            else:
                self._polled.add(me)
                self._look_at(now + self._poll, me)
        elif self._is_unanswered(me):
            self._for_master.add(me)
        else:
            self._idle.add(me)

    def wait_at_plane(self, me: int, now: float, wish: PlaneWait) -> None:
        """Note that a plane lets a worker wait."""
        self.since[me] = now
        self._parked[me] = wish.holds
        if wish.seconds is not None:
            # the clock of a worker counts nanoseconds: the next moment there is, if that is as soon
            self._look_at(max(now + wish.seconds, math.nextafter(now, math.inf)), me)

    def leave(self, me: int, now: float) -> float:
        """Take a worker from where it is parked; how long it has waited."""
        waited = now - self.since.pop(me)
        self._due.pop(me, None)
        at_barrier = me in self._has_polled and me not in self._polled
        if at_barrier and self._poll > 0.0 and self._is_at_barrier(me):
            self._count_polls(me, round(waited / self._poll))
        self._parked.pop(me, None)
        for place in self._places():
            place.discard(me)
        return waited

    def _places(self) -> tuple[set[int], ...]:
        """Where workers are parked that nothing else is known of."""
        return self._polled, self._at_release, self._grouped, self._for_master, self._idle

    def is_due(self, me: int, now: float) -> bool:
        """Whether a look in the queue still stands."""
        return self._due.get(me) == now

    def poll(self, me: int, now: float) -> bool:
        """A parked worker looks; whether it is worth a turn of its loop."""
        del self._due[me]
        if (
            me not in self._polled
            or self._plan.barrier == barrier_codes.ASKED
            or self._must_poll_rounds()
        ):
            return True
        self._count_polls(me, 1)
        if barrier_codes.poll(self._plan, self._table, self._control, me):
            return True
        self._look_at(now + self._poll, me)
        return False

    def passes(self, me: int) -> None:
        """A worker begins a block: its look is counted, if it has not been."""
        if me in self._has_polled:
            self._has_polled.remove(me)
        elif self._plan.barrier != barrier_codes.FREE and self._table[me, layout.T_BLOCKS]:
            self._count_polls(me, 1)

    # -- all

    def notice(self, me: int, now: float) -> None:
        """See what a worker's turn has changed, and call those who have waited for that."""
        if self._clocks.update(me) and self._bins:
            self._call_bins(now)
        for other in sorted(self._grouped):
            if barrier_codes.poll(self._plan, self._table, self._control, other):
                self._call(other, now)
        if self._at_release:
            released = int(self._control[layout.GENERATION]), self._clocks.in_run
            if released != self._released:
                self._released = released
                self._call_all(self._at_release, now)
        for other in sorted(self._parked):
            if self._due.get(other, math.inf) > now and self._parked[other]():
                self._look_at(now, other)
        words = self._poll_words()
        if words != self._words:
            self._words = words
            self._call_all(self.since if self._must_poll_rounds() else self._idle, now)
        if self._plan.ordered:
            self._call_section(me, now)

    def mail_is_taken(self, me: int, now: float) -> None:
        """The master has taken a worker's message."""
        if self._plan.ordered:
            self._call(self._session.word(layout.SECTION) % len(self._table), now)
        elif me in self._for_master:
            self._call(me, now)

    def call_everybody(self, now: float) -> None:
        """Have all look now, whatever they wait for."""
        for me in sorted(self.since):
            self._look_at(now, me)

    @property
    def has_barrier_queue(self) -> bool:
        """Whether anybody waits at the barrier."""
        return bool(self._polled or self._at_release or self._grouped or any(self._bins.values()))

    @property
    def parked(self) -> list[int]:
        """Whom a plane lets wait."""
        return sorted(self._parked)

    def _is_at_barrier(self, me: int) -> bool:
        """Whether a parked worker waits at the barrier, or for its section."""
        return not (me in self._idle or me in self._for_master or me in self._parked)

    def _must_poll_rounds(self) -> bool:
        """Whether all have to go on at once: the run is over, or sums are to be repaired."""
        return self._session.word(layout.STOP) != layout.RUNNING or self._repairs()

    def _repairs(self) -> bool:
        return self._session.word(layout.REPAIR_WANTED) != self._session.word(layout.REPAIRED)

    def _poll_words(self) -> list[int]:
        return [int(self._control[word]) for word in WORDS]

    def _look_at(self, when: float, me: int) -> None:
        self._due[me] = when
        self._push(when, me)

    def _call_all(self, workers: dict[int, float] | set[int], now: float) -> None:
        for other in sorted(workers):
            self._call(other, now)

    def _call(self, me: int, now: float) -> None:
        """Have a parked worker look: now, or when it would look at the barrier next."""
        if me not in self.since or (me in self._parked and not self._must_poll_rounds()):
            return
        when = now
        if self._poll > 0.0 and self._is_at_barrier(me) and not self._must_poll_rounds():
            since = self.since[me]
            when = max(when, since + self._poll * math.ceil((when - since) / self._poll))
        if me not in self._due or when < self._due[me]:
            self._look_at(when, me)

    def _call_bins(self, now: float) -> None:
        plan = self._plan
        for clock in sorted(self._bins):
            if not self._clocks.lets_pass(clock, plan.staleness, plan.share):
                return
            for other in self._bins.pop(clock):
                self._call(other, now)

    def _call_section(self, me: int, now: float) -> None:
        """Call the worker whose section it is, and all when a round is over.

        Who has just looked in vain at its own section waits for others to have computed.
        """
        n = len(self._table)
        section, before = self._session.word(layout.SECTION), self._section
        self._section = section
        if section // n != before // n:
            self._call_all(self.since, now)
        if section % n != me or section != before:
            self._call(section % n, now)

    def _is_unanswered(self, me: int) -> bool:
        """Whether a master has yet to take a message of the worker's."""
        if not self._session.has_master:
            return False
        counters = self._session.mail.box.counters[me]
        return bool(counters[layout.M_POSTED] != counters[layout.M_TAKEN])


class LeastClock:
    """How many workers in the run stand at each clock, and the least: O(1) for each block.

    table : ndarray of shape (n_workers, layout.N_TABLE), int64; the progress table, of which
        `update` looks at a row at a time
    """

    def __init__(self, table: np.ndarray) -> None:
        self._table = table
        self._known = [ABSENT] * len(table)
        self._counts: dict[int, int] = {}
        self.in_run = 0
        self.least = 0

    def update(self, worker: int) -> bool:
        """Look at a worker's row; whether its clock, or its being in the run, has changed."""
        row, before = self._table[worker], self._known[worker]
        now = int(row[layout.T_CLOCK]) if row[layout.T_STATE] in IN_RUN else ABSENT
        if now == before:
            return False
        self._known[worker] = now
        counts = self._counts
        if before != ABSENT:
            self.in_run -= 1
            counts[before] -= 1
            if not counts[before]:
                del counts[before]
        if now != ABSENT:
            self.least = min(self.least, now) if self.in_run else now
            self.in_run += 1
            counts[now] = counts.get(now, 0) + 1
        while self.in_run and self.least not in counts:
            self.least += 1
        return True

    def lets_pass(self, clock: int, staleness: int, share: float) -> bool:
        """Whether a worker of the run that waits with this clock has enough of the others near."""
        if not self.in_run or within(clock, self.least, staleness):
            return True
        if share == 1.0:
            return False
        near = sum(n for reached, n in self._counts.items() if within(clock, reached, staleness))
        return bool(enough(near - 1, self.in_run - 1, share))  # itself is near itself, no other
