"""A worker's life: the states of its row, the events that change it, and the legal moves.

::

    STARTING --join--> ACTIVE <--work/wait--> WAITING       ACTIVE, WAITING --pause--> RESTING
    RESTING --join--> ACTIVE                                ACTIVE, WAITING --leave--> DONE
    STARTING, RESTING --close--> DONE                       any state       --die----> DEAD

The caller changes the states of workers outside of the run. After a pause it expects the workers
again (`EXPECT`, `AWAIT`), and it may reopen a run that a criterion had closed (`REOPEN`).

Writers: every worker writes its own row; the caller writes all rows while no worker runs; the
monitor writes the rows of dead workers. A move is a compare-exchange, so if a worker joins while
the monitor closes the run to it, exactly one of the two moves succeeds. Readers: barriers, the
master, the monitor, reports. Every write of T_STATE is in this file (a test reads the other files).

A move that is not legal is refused and changes nothing. So the row of a worker that counts as dead
stays DEAD, even if one of its threads still runs, until a task's worker is replaced (`REPLACE`).
"""

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.jit.atomics import compare_exchange, load
from hogshare.kernels.jit.decorators import helper
from hogshare.kernels.layout import ACTIVE, DEAD, DONE, RESTING, STARTING, WAITING
from hogshare.kernels.mail.locks import note

EVENTS = (
    "join",  # it enters the run
    "work",  # it has a block in hand, or goes on after a wait
    "wait",  # at a barrier, for a block, or for its plane
    "pause",  # it leaves until the caller raises the limit
    "leave",  # it leaves for good
    "close",  # the run is closed to a worker outside of it
    "expect",  # the limit is raised: the worker is to join again
    "await",  # as "expect", and barriers already wait for the worker
    "miss",  # others have done all blocks for which the worker was expected
    "reopen",  # a run that was over goes on
    "die",
    "replace",  # for tasks: another process takes the number of one that died
)
JOIN, WORK, WAIT, PAUSE, LEAVE, CLOSE, EXPECT, AWAIT, MISS, REOPEN, DIE, REPLACE = range(
    len(EVENTS)
)
ILLEGAL = -1
LEGAL = {
    JOIN: {STARTING: ACTIVE, RESTING: ACTIVE},
    WORK: {ACTIVE: ACTIVE, WAITING: ACTIVE},
    WAIT: {ACTIVE: WAITING, WAITING: WAITING},
    PAUSE: {ACTIVE: RESTING, WAITING: RESTING},
    LEAVE: {ACTIVE: DONE, WAITING: DONE},
    CLOSE: {STARTING: DONE, RESTING: DONE},
    EXPECT: {RESTING: STARTING},
    AWAIT: {STARTING: WAITING, RESTING: WAITING, WAITING: WAITING},
    MISS: {STARTING: RESTING},
    REOPEN: {DONE: STARTING},
    DIE: dict.fromkeys((STARTING, ACTIVE, WAITING, DONE, DEAD, RESTING), DEAD),
    REPLACE: {DEAD: WAITING},
}
# MOVES[event, state] is the next state, or ILLEGAL
MOVES = np.full((len(EVENTS), len(layout.STATES)), ILLEGAL, np.int64)
for _event, _moves in LEGAL.items():
    for _before, _after in _moves.items():
        MOVES[_event, _before] = _after
# T_MOVES contains the last moves as 1 + event, the newest in the lowest bits; 0 before the first
EVENT_BITS, N_REMEMBERED = 4, 15
MASK = (1 << EVENT_BITS * N_REMEMBERED) - 1  # below the sign of an int64


@helper
def move(row, event):
    """Change the state in a worker's row, from a kernel; return whether the state was changed.

    The state stays if the move is not legal, or if another writer changes the state meanwhile.
    """
    before = load(row, layout.T_STATE)
    after = MOVES[event, before]
    if after == ILLEGAL:
        return False
    if compare_exchange(row, layout.T_STATE, before, after) != before:
        return False  # another writer was faster: the caller polls again, or gives up
    if after != before:
        # not atomic: T_MOVES may lose one of two simultaneous moves; the state loses none
        row[layout.T_MOVES] = ((row[layout.T_MOVES] << EVENT_BITS) | (event + 1)) & MASK
    return True


def copy_state(row: np.ndarray, state: int) -> None:
    """Write the state of another site's worker; that worker's own row has changed at its site."""
    note(row, layout.T_STATE, state)


def apply(row: np.ndarray, event: int) -> bool:
    """Change the state in a worker's row, from Python; no other thread may change it meanwhile.

    Return False, and write nothing, if the move is not legal.

    Examples
    --------
    >>> import numpy as np
    >>> from hogshare.kernels import layout
    >>> from hogshare.kernels.schedule import worker_life
    >>> row = np.zeros(layout.N_TABLE, np.int64)
    >>> [worker_life.apply(row, event) for event in (worker_life.WAIT, worker_life.AWAIT)]
    [False, True]
    >>> worker_life.story(row)
    ['await']
    """
    before = row[layout.T_STATE]
    after = MOVES[event, before]
    if after == ILLEGAL:
        return False
    if after != before:
        row[layout.T_STATE] = after
        row[layout.T_MOVES] = ((int(row[layout.T_MOVES]) << EVENT_BITS) | (event + 1)) & MASK
    return True


def story(row: np.ndarray) -> list[str]:
    """Return the names of a worker's last moves, the oldest first; at most N_REMEMBERED.

    row : int64 array of shape (N_TABLE,), the worker's row of the table
    """
    moves = int(row[layout.T_MOVES])
    places = range(EVENT_BITS * (N_REMEMBERED - 1), -1, -EVENT_BITS)
    found = [(moves >> place) & ((1 << EVENT_BITS) - 1) for place in places]
    return [EVENTS[event - 1] for event in found if event]


def stories(table: np.ndarray, most: int = 8, moves: int = 4) -> str:
    """Describe in a string the last `moves` moves of the first `most` workers of a table."""
    lines = []
    for k, row in enumerate(table[:most]):
        lines.append(f"worker {k}: {', '.join(story(row)[-moves:]) or 'none'}")
    if len(table) > most:
        lines.append(f"and {len(table) - most} workers more")
    return "; ".join(lines)
