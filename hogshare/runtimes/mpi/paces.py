"""How often machines exchange: by rows, as workers do, at what a message costs.

Between machines an exchange is an offer and an answer. What it costs a machine is the time that its
talking thread takes from the workers' cores: the vector is read and written about four times on
each side, and each message is put together, moved and taken apart in Python. As for workers, there
is a *shortest* interval, at which that is a quarter of the rows' time, and an *easy* one, at which
it is a tenth; in between as many rows as keep the machines close, an eighth of all for plain
descent and a sixteenth for rules that remember rows.

More curvature between machines than between workers asks for nothing else: the weight of a
coordinate (`hogshare.kernels.between`) falls as its curvature times the rows, so what is too curved
for the interval is averaged.
"""

from __future__ import annotations

from typing import NamedTuple

from hogshare.engine.choices import Choices
from hogshare.planes.shared import EASY_SHARE, EXCHANGE_SHARE, row_nanoseconds
from hogshare.rules.pace import DELAY

MESSAGES_NS = 150_000.0  # of an offer and its answer, however short they are
COORDINATE_NS = 8.0  # of each of their numbers
DESCENT_SPREAD, SPREAD = 8, 16  # rows per row that all machines have between two exchanges of each
FIRST, GROWTH = 256, 1.0 / 16.0  # rows of a worker at first, and later in rows that are done


class SitePace(NamedTuple):
    """How often a machine offers.

    rows : of all its workers, between two offers
    first : of all its workers, at first
    keeps : whether what a weight holds back stays in the machine's vector
    """

    rows: int
    first: int
    keeps: bool

    def rows_now(self, done: int) -> int:
        """Rows between offers: few at first, when the model moves fast.

        Examples
        --------
        >>> from hogshare.runtimes.mpi.paces import SitePace
        >>> pace = SitePace(rows=4000, first=512, keeps=False)
        >>> pace.rows_now(0), pace.rows_now(32_000), pace.rows_now(10**6)
        (512, 2000, 4000)
        """
        return min(self.rows, max(self.first, int(GROWTH * done)))


def site_pace(choices: Choices, size: int) -> SitePace:
    """How often a machine of a run offers.

    choices : with how many machines there are, and how many rows they have
    size : numbers of a vector that is exchanged
    """
    problem, rule, machines = choices.problem, choices.rule, choices.n_machines
    cost, row = MESSAGES_NS + COORDINATE_NS * size, row_nanoseconds(problem)
    shortest, easy = EXCHANGE_SHARE * cost / row, EASY_SHARE * cost / row
    close = choices.n_all / ((SPREAD if rule.remembers else DESCENT_SPREAD) * machines)
    rows = max(1, int(max(shortest, min(easy, close))))
    first = min(rows, FIRST * choices.n_workers)
    # as of workers: what is held back comes so many exchanges later, and is not to be too old
    fresh = DELAY * rows * machines**2 <= choices.n_all and problem.l1 == 0.0
    return SitePace(rows, first, rule.remembers and fresh)
