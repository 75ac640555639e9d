"""What sites tell each other of their workers, as whole numbers that a message carries.

    of a site: generations of the throttled barrier | words of each of its workers

Barriers and planes read the table of all workers. A site's own rows are written by its workers;
those of other sites come by messages, behind what these workers have done: who sends reads the
words first and what goes with them afterwards, who receives does the contrary.

Clocks only rise and generations only move on, so that old news can make a worker wait for longer,
and never pass too soon. A generation is released by any site that sees enough workers waiting; the
others take the largest number that they hear of.

Who writes: the thread of a site that talks to the others, the rows of their workers, and GENERATION
beside the workers, who move it on by a compare-exchange. Who reads: the workers here.
"""

from __future__ import annotations

import numpy as np

from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.kernels.mail import locks
from hogshare.kernels.schedule import barrier_codes, worker_life

# the clock and the state are the last: whoever sees them sees the others
WORDS = (
    *(layout.T_BLOCKS, layout.T_ROWS, layout.T_PLANE_WAIT, layout.T_PLANE_WAITS, layout.T_SHARE),
    *(layout.T_ARRIVED, layout.T_CLOCK, layout.T_STATE),
)
ARRIVED, CLOCK, STATE = len(WORDS) - 3, len(WORDS) - 2, len(WORDS) - 1
AWAITED = np.array([0, 0, layout.WAITING])


class Clocks:
    """The table of all workers, at one site.

    session : of the site
    """

    def __init__(self, session: Session) -> None:
        self.session, self.world = session, session.settings.world
        self.table, self.control = session.schedule.table, session.schedule.control
        self.are_waited_for = session.plan.barrier != barrier_codes.FREE
        ends = np.cumsum([0, *self.world.sites])
        self._workers = [slice(ends[k], ends[k + 1]) for k in range(len(self.world.sites))]
        if self.are_waited_for:
            self.expect()

    def rows_of(self, site: int) -> np.ndarray:
        """Rows of the table that belong to a site's workers: a view."""
        return self.table[self._workers[site]]

    def size_of(self, site: int) -> int:
        """Numbers of a site's words."""
        return 1 + len(WORDS) * self.world.sites[site]

    def words(self) -> np.ndarray:
        """Those of this site: int64."""
        rows = self.session.local_table
        # states and clocks first, acquiring: what belongs to them was written before
        last = [[locks.owner(row, word) + 1 for word in WORDS[CLOCK:]] for row in rows]
        found = rows[:, WORDS].copy()
        found[:, CLOCK:] = last
        return np.concatenate([[self.control[layout.GENERATION]], found.reshape(-1)])

    def are_news(self, words: np.ndarray) -> bool:
        """Whether others may wait at a barrier for what these words of this site do not say."""
        before = words[1:].reshape(-1, len(WORDS))[:, ARRIVED:]
        now = self.session.local_table[:, WORDS[ARRIVED:]]
        # who works and who waits are waited for alike
        differ = np.maximum(before, AWAITED) != np.maximum(now, AWAITED)
        return bool(differ.any()) or words[0] != self.control[layout.GENERATION]

    def take_in(self, site: int, words: np.ndarray) -> None:
        """Write down what another site has told."""
        table = self.rows_of(site)
        found = words[1:].reshape(len(table), len(WORDS))
        table[:, WORDS[:CLOCK]] = found[:, :CLOCK]
        for row, clock, state in zip(table, found[:, CLOCK], found[:, STATE], strict=True):
            locks.note(row, layout.T_CLOCK, max(int(clock), int(row[layout.T_CLOCK])))
            worker_life.copy_state(row, int(state))
        barrier_codes.move_on(self.control, int(words[0]))

    def take_in_all(self, words: np.ndarray) -> None:
        """Write down what all other sites have told, whose words follow each other."""
        at = 0
        for site in range(len(self.world.sites)):
            own = words[at : (at := at + self.size_of(site))]
            if site != self.world.site:
                self.take_in(site, own)

    def bury(self, site: int) -> None:
        """Write down that the workers of a site have died."""
        for row in self.rows_of(site):
            worker_life.copy_state(row, layout.DEAD)

    def expect(self) -> None:
        """Have barriers wait for other sites' workers, who are about to begin."""
        for k, row in enumerate(self.table):
            if k not in self.world.local_workers:
                worker_life.copy_state(row, layout.WAITING)

    def expect_again(self) -> None:
        """Have barriers wait for other sites' workers who rest: they begin again, where all are."""
        for k, row in enumerate(self.table):
            if k not in self.world.local_workers and row[layout.T_STATE] == layout.RESTING:
                locks.note(row, layout.T_CLOCK, int(self.table[:, layout.T_CLOCK].max()))
                worker_life.copy_state(row, layout.WAITING)


def expect_again(words: np.ndarray, clock: int) -> None:
    """Have barriers wait for those who rest, by a site's words: they begin again at a clock."""
    rows = words[1:].reshape(-1, len(WORDS))
    resting = rows[:, STATE] == layout.RESTING
    rows[resting, CLOCK], rows[resting, STATE] = clock, layout.WAITING
