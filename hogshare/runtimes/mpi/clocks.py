"""The progress of a site's workers as integers, for messages to other sites.

    a site's words: generation of the throttled barrier | words of each of the site's workers

Barriers and planes read the progress table of all workers. A site's own workers write their rows of
this table. The rows of other sites' workers come by messages, after these workers' changes: the
sender reads the words before it reads the changes, and the receiver writes the words after it has
written the changes.

Clocks and generations only increase. So old news can make a worker wait longer, but never pass too
soon. Any site whose table contains enough waiting workers releases a generation of the throttled
barrier; the other sites store the largest generation that they receive.

Writers: the site's thread that communicates with other sites writes the rows of the other sites'
workers. This thread and the local workers write GENERATION, which the workers advance by a
compare-exchange.
Readers: local workers.
"""

from __future__ import annotations

import numpy as np

from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.kernels.mail import locks
from hogshare.kernels.schedule import barrier_codes, worker_life

# the clock and the state are last: a reader that sees them also sees the other words
WORDS = (
    *(layout.T_BLOCKS, layout.T_ROWS, layout.T_PLANE_WAIT, layout.T_PLANE_WAITS, layout.T_SHARE),
    *(layout.T_ARRIVED, layout.T_CLOCK, layout.T_STATE),
)
ARRIVED, CLOCK, STATE = len(WORDS) - 3, len(WORDS) - 2, len(WORDS) - 1
AWAITED = np.array([0, 0, layout.WAITING])


class Clocks:
    """The progress table of all workers, at one site.

    session : the site's session; its table is read and written in place
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
        """Return the table's rows of a site's workers, as a view."""
        return self.table[self._workers[site]]

    def size_of(self, site: int) -> int:
        """Return the number of words of a site."""
        return 1 + len(WORDS) * self.world.sites[site]

    def words(self) -> np.ndarray:
        """Return a copy of this site's words, as int64."""
        rows = self.session.local_table
        # states and clocks are loaded first, with acquire: the other words were stored before them
        last = [[locks.owner(row, word) + 1 for word in WORDS[CLOCK:]] for row in rows]
        found = rows[:, WORDS].copy()
        found[:, CLOCK:] = last
        return np.concatenate([[self.control[layout.GENERATION]], found.reshape(-1)])

    def are_news(self, words: np.ndarray) -> bool:
        """Whether other sites' workers may wait at a barrier for changes since these words."""
        before = words[1:].reshape(-1, len(WORDS))[:, ARRIVED:]
        now = self.session.local_table[:, WORDS[ARRIVED:]]
        # barriers wait for working and waiting workers alike
        differ = np.maximum(before, AWAITED) != np.maximum(now, AWAITED)
        return bool(differ.any()) or words[0] != self.control[layout.GENERATION]

    def take_in(self, site: int, words: np.ndarray) -> None:
        """Write another site's words to the table."""
        table = self.rows_of(site)
        found = words[1:].reshape(len(table), len(WORDS))
        table[:, WORDS[:CLOCK]] = found[:, :CLOCK]
        for row, clock, state in zip(table, found[:, CLOCK], found[:, STATE], strict=True):
            locks.note(row, layout.T_CLOCK, max(int(clock), int(row[layout.T_CLOCK])))
            worker_life.copy_state(row, int(state))
        barrier_codes.move_on(self.control, int(words[0]))

    def take_in_all(self, words: np.ndarray) -> None:
        """Write other sites' words to the table; `words` concatenates the words of all sites."""
        at = 0
        for site in range(len(self.world.sites)):
            own = words[at : (at := at + self.size_of(site))]
            if site != self.world.site:
                self.take_in(site, own)

    def bury(self, site: int) -> None:
        """Mark the workers of a site as dead."""
        for row in self.rows_of(site):
            worker_life.copy_state(row, layout.DEAD)

    def expect(self) -> None:
        """Make barriers wait for other sites' workers, which are about to begin."""
        for k, row in enumerate(self.table):
            if k not in self.world.local_workers:
                worker_life.copy_state(row, layout.WAITING)

    def expect_again(self) -> None:
        """Make barriers wait for other sites' paused workers, which resume at the common clock."""
        for k, row in enumerate(self.table):
            if k not in self.world.local_workers and row[layout.T_STATE] == layout.RESTING:
                locks.note(row, layout.T_CLOCK, int(self.table[:, layout.T_CLOCK].max()))
                worker_life.copy_state(row, layout.WAITING)


def expect_again(words: np.ndarray, clock: int) -> None:
    """Change words in place: paused workers wait at `clock`, so barriers wait for them."""
    rows = words[1:].reshape(-1, len(WORDS))
    resting = rows[:, STATE] == layout.RESTING
    rows[resting, CLOCK], rows[resting, STATE] = clock, layout.WAITING
