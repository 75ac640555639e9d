"""The waiting workers of a simulated run, and the events that wake them.

A waiting worker is *parked* under the reason for its wait. When this reason may have ended, the
worker is *called*: the queue of events gets an event at which the worker polls. The list says when
a worker is called, for each reason:

- a barrier on all clocks (BSP, SSP, fraction): when the worker can pass, so no poll fails. Workers
  are stored in bins by their own clock, and counts decide which clocks pass;
- the same barrier with groups: when the worker can pass. Each such worker is tested after each
  quantum;
- a throttled release: after a release, or when fewer workers are left;
- a sampled barrier, or the user's barrier: at the worker's next poll;
- its section of an ordered run: when the section is the worker's own, or a round is over;
- the master: when the master has taken the worker's message;
- a condition of the user's plane: when the condition is true after another worker's quantum, or
  the waiting time is over;
- a block, the caller, or a repair of sums after a death: when one of `WORDS` has changed.

If the barrier has a poll interval, a worker polls at whole multiples of the interval after its
arrival.
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

# an idle worker can have something to do only after one of these words has changed
WORDS = (
    *(layout.EPOCHS, layout.READY, layout.RETURNED, layout.LIMIT, layout.STOP),
    *(layout.REPAIR_WANTED, layout.SUMMER, layout.REPAIRED),
)
ABSENT = -1  # in place of a clock


class Parking:
    """Waiting workers, by the reason for their wait.

    poll : virtual seconds between two polls of the barrier. If 0, a worker polls when the barrier
        lets it pass.
    push : ``push(seconds, worker)`` adds an event to the queue, at this virtual time: a poll of
        this worker
    count_polls : ``count_polls(worker, n)`` is called when a worker has polled the barrier n times

    since : the waiting workers, and the virtual time at which each began to wait
    """

    def __init__(
        self,
        session: Session,
        poll: float,
        push: Callable[[float, int], None],
        count_polls: Callable[[int, int], None],
    ) -> None:
        plan = session.plan
        self.since: dict[int, float] = {}
        self._session, self._plan = session, plan
        self._table, self._control = session.schedule.table, session.schedule.control
        self._poll, self._push, self._count_polls = poll, push, count_polls
        self._clocks = LeastClock(self._table)
        self._due: dict[int, float] = {}  # a parked worker's next poll; others are void
        self._bins: dict[int, list[int]] = {}
        self._at_release: set[int] = set()
        self._polled: set[int] = set()
        self._for_master: set[int] = set()
        self._parked: dict[int, Callable[[], bool]] = {}  # at a plane until this is True
        self._idle: set[int] = set()
        self._has_polled: set[int] = set()  # workers that have polled since their last block
        self._section = -1
        self._released = (0, 0)
        self._words = self._poll_words()
        lag = plan.barrier == barrier_codes.LAG
        groups = self._table[:, layout.T_GROUP]
        self._grouped: set[int] = set()  # workers at a barrier on the clocks of their group
        self._has_groups = bool((groups != groups[0]).any())
        self._by_clock = lag and plan.sample == barrier_codes.EVERYBODY
        self._throttled = plan.barrier == barrier_codes.THROTTLED

    # -- one worker

    def park(self, me: int, now: float) -> None:
        """Park a worker under the reason for its wait."""
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
                self._poll_at(now + self._poll, me)
        elif self._is_unanswered(me):
            self._for_master.add(me)
        else:
            self._idle.add(me)

    def wait_at_plane(self, me: int, now: float, wish: PlaneWait) -> None:
        """Park a worker that waits because its plane has yielded a wait."""
        self.since[me] = now
        self._parked[me] = wish.is_met
        if wish.seconds is not None:
            # nextafter: a wait shorter than the clock's resolution must still let time advance
            self._poll_at(max(now + wish.seconds, math.nextafter(now, math.inf)), me)

    def leave(self, me: int, now: float) -> float:
        """Remove a worker from the parking; return the seconds that it has waited."""
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
        """Return the sets of parked workers that are stored without a clock or a condition."""
        return self._polled, self._at_release, self._grouped, self._for_master, self._idle

    def is_due(self, me: int, now: float) -> bool:
        """Whether a poll in the queue is still valid."""
        return self._due.get(me) == now

    def poll(self, me: int, now: float) -> bool:
        """Poll for a parked worker; return whether its loop should go on."""
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
        self._poll_at(now + self._poll, me)
        return False

    def passes(self, me: int) -> None:
        """Count the barrier poll of a worker that begins a block, unless it has been counted."""
        if me in self._has_polled:
            self._has_polled.remove(me)
        elif self._plan.barrier != barrier_codes.FREE and self._table[me, layout.T_BLOCKS]:
            self._count_polls(me, 1)

    # -- all workers

    def notice(self, me: int, now: float) -> None:
        """Call the workers whose wait may have ended, after worker `me`'s quantum or end."""
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
                self._poll_at(now, other)
        words = self._poll_words()
        if words != self._words:
            self._words = words
            self._call_all(self.since if self._must_poll_rounds() else self._idle, now)
        if self._plan.ordered:
            self._call_section(me, now)

    def mail_is_taken(self, me: int, now: float) -> None:
        """Note that the master has taken a worker's message."""
        if self._plan.ordered:
            self._call(self._session.word(layout.SECTION) % len(self._table), now)
        elif me in self._for_master:
            self._call(me, now)

    def call_everybody(self, now: float) -> None:
        """Make all waiting workers poll now, whatever the reason for their wait."""
        for me in sorted(self.since):
            self._poll_at(now, me)

    @property
    def has_barrier_queue(self) -> bool:
        """Whether any worker waits at the barrier."""
        return bool(self._polled or self._at_release or self._grouped or any(self._bins.values()))

    @property
    def parked(self) -> list[int]:
        """The workers that wait at a plane."""
        return sorted(self._parked)

    def _is_at_barrier(self, me: int) -> bool:
        """Whether a parked worker waits at the barrier, or for its section."""
        return not (me in self._idle or me in self._for_master or me in self._parked)

    def _must_poll_rounds(self) -> bool:
        """Whether all workers must go on now: the run is over, or sums must be repaired."""
        return self._session.word(layout.STOP) != layout.RUNNING or self._repairs()

    def _repairs(self) -> bool:
        return self._session.word(layout.REPAIR_WANTED) != self._session.word(layout.REPAIRED)

    def _poll_words(self) -> list[int]:
        return [int(self._control[word]) for word in WORDS]

    def _poll_at(self, when: float, me: int) -> None:
        self._due[me] = when
        self._push(when, me)

    def _call_all(self, workers: dict[int, float] | set[int], now: float) -> None:
        for other in sorted(workers):
            self._call(other, now)

    def _call(self, me: int, now: float) -> None:
        """Make a parked worker poll: now, or at its next poll of the barrier."""
        if me not in self.since or (me in self._parked and not self._must_poll_rounds()):
            return
        when = now
        if self._poll > 0.0 and self._is_at_barrier(me) and not self._must_poll_rounds():
            since = self.since[me]
            when = max(when, since + self._poll * math.ceil((when - since) / self._poll))
        if me not in self._due or when < self._due[me]:
            self._poll_at(when, me)

    def _call_bins(self, now: float) -> None:
        plan = self._plan
        for clock in sorted(self._bins):
            if not self._clocks.lets_pass(clock, plan.staleness, plan.share):
                return
            for other in self._bins.pop(clock):
                self._call(other, now)

    def _call_section(self, me: int, now: float) -> None:
        """Call the owner of an ordered run's section, and all workers when a round is over.

        If the owner's poll has just failed, the owner is not called until other workers have
        computed.
        """
        n = len(self._table)
        section, before = self._session.word(layout.SECTION), self._section
        self._section = section
        if section // n != before // n:
            self._call_all(self.since, now)
        if section % n != me or section != before:
            self._call(section % n, now)

    def _is_unanswered(self, me: int) -> bool:
        """Whether the master has not taken all of the worker's messages yet."""
        if not self._session.has_master:
            return False
        counters = self._session.mail.box.counters[me]
        return bool(counters[layout.M_POSTED] != counters[layout.M_TAKEN])


class LeastClock:
    """The number of the run's workers at each clock, and the least clock, in O(1) for each block.

    table : ndarray of shape (n_workers, layout.N_TABLE), int64; the progress table. Each call of
        `update` reads one row of it in place.
    """

    def __init__(self, table: np.ndarray) -> None:
        self._table = table
        self._known = [ABSENT] * len(table)
        self._counts: dict[int, int] = {}
        self.in_run = 0
        self.least = 0

    def update(self, worker: int) -> bool:
        """Read a worker's row; return whether its clock or its membership has changed."""
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
        # O(1) amortised: a clock rises by one for each block
        while self.in_run and self.least not in counts:
            self.least += 1
        return True

    def lets_pass(self, clock: int, staleness: int, share: float) -> bool:
        """Whether enough other workers are near enough for a worker that waits at this clock."""
        if not self.in_run or within(clock, self.least, staleness):
            return True
        if share == 1.0:
            return False
        near = sum(n for reached, n in self._counts.items() if within(clock, reached, staleness))
        return bool(enough(near - 1, self.in_run - 1, share))  # -1: the worker itself
