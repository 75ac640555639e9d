"""The repair of a run when workers die: it frees lock words, returns blocks, and repairs sums.

Some rules store sums over rows. A dead worker may have left these sums half written, so they are
computed anew. A dead worker's changes are lost only if they were not yet folded into the shared
vector.

Writer: the caller's main thread. It writes to shared words only through
`hogshare.kernels.schedule.repair`.
"""

from __future__ import annotations

import numpy as np

from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.kernels.exchange import master_updates
from hogshare.kernels.rules import sgd_steps
from hogshare.kernels.schedule import repair


class Monitor:
    """Repairs one session after the deaths of workers."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._dead: list[int] = []
        self._owed: dict[int, int] = {}  # dead worker -> its unfinished block
        self._stalled = 0

    @property
    def watches(self) -> bool:
        """Whether any worker has died."""
        return bool(self._dead)

    def bury(self, worker: int) -> None:
        """Register a worker's death and release what it had taken."""
        s = self.session.schedule
        repair.bury(s.control, s.table[worker])
        if int(s.control[layout.PREPARER]) == worker + 1:
            # The worker may have died between the two stores of a swap, and so have duplicated an
            # entry: start again from a whole permutation.
            s.permutation[:] = np.arange(len(s.permutation))
        repair.release_words(self.session.vector.segments, s.control, worker)
        if self.session.has_master:
            master_updates.take_over(s, self.session.vector, self.session.mail, worker)
        if self.session.rule.method != sgd_steps.GRADIENT:
            repair.ask_for_repair(s.control)
        self._dead.append(worker)
        block = int(s.table[worker, layout.T_BLOCK])
        if block >= 0:
            self._owed[worker] = block
            # at once: in an ordered run, a worker that finds no block would make others wait
            self._settle(worker)

    def tick(self) -> None:
        """Return blocks, run repairs, and end an epoch if its last worker died before ending it."""
        if not self._dead:
            return
        repair.open_repair(self.session.schedule.table, self.session.schedule.control)
        for worker in list(self._owed):
            self._settle(worker)
        self._unstall()

    def _settle(self, worker: int) -> None:
        s, plan = self.session.schedule, self.session.plan
        block = self._owed[worker]
        epoch, place = divmod(block, plan.n_blocks)
        done = s.done[epoch % len(s.done), place] == epoch + 1
        claimed = plan.shares > 0 or block < self.session.word(layout.TICKET)
        if done or not claimed:
            del self._owed[worker]
            return
        live = [k for k in range(len(s.table)) if s.table[k, layout.T_STATE] < layout.DONE]
        if any(s.table[k, layout.T_BLOCK] == block for k in live):
            return  # another worker has the block, or is failing to take it: retry later
        if repair.put_back(s.returned, s.control, worker, block):
            del self._owed[worker]

    def _unstall(self) -> None:
        """End the epoch of a worker that died between counting its block and declaring the end."""
        s = self.session.schedule
        epoch = self.session.word(layout.EPOCHS)
        states = s.table[:, layout.T_STATE]
        idle = not (states == layout.ACTIVE).any() and (states == layout.WAITING).any()
        slot = epoch % len(s.done)
        over = bool((s.done[slot] == epoch + 1).all())
        nothing_offered = self.session.word(layout.RETURNED) == 0
        self._stalled = self._stalled + 1 if idle and over and nothing_offered else 0
        if self._stalled >= 3:
            self._stalled = 0
            repair.close_epoch(s.remaining, slot)
            repair.put_back(s.returned, s.control, self._dead[-1], layout.FINISH_EPOCH)
