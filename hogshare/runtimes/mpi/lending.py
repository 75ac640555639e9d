"""Ranks that lend their workers to calls that rank 0 makes by itself, as an estimator's fit does.

A fit decides between its calls of `solve`, by what came of the last; so one rank decides, and the
others run workers of whatever it solves. Each of these calls has the memory and the packed parts
that processes of a crew are handed (`hogshare.runtimes.lending`).

    leader: ATTACH (memory and parts) -> READY of all -> RUN -> RAN of all -> ... -> REPORT

Who writes what, in which order: as in `hogshare.runtimes.mpi.leader`, whose run this is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from hogshare.engine.arrays import NOTHING, Shapes
from hogshare.engine.session import Session
from hogshare.runtimes.lending import Lending, session_of
from hogshare.runtimes.mpi import pulse
from hogshare.runtimes.mpi.calls import Call
from hogshare.runtimes.mpi.leader import ATTACH, READY, Leader
from hogshare.runtimes.mpi.machine import Machine, opened


class LendingLeader(Leader):
    """The runtime of rank 0 in a call that the others lend workers to.

    Parameters
    ----------
    call : Call
    machine : Machine
    """

    def __init__(self, call: Call, machine: Machine) -> None:
        super().__init__(call, machine)
        self.lending = Lending()

    def allocate(
        self,
        shapes: Shapes,
        rows: Mapping[str, np.ndarray],
        lent: Mapping[str, np.ndarray] = NOTHING,
    ) -> dict[str, np.ndarray]:
        """One arena for everything that is not in one already."""
        return self.lending.allocate({**shapes, **pulse.shapes(len(self.machine.ranks))}, rows)

    def close(self) -> None:
        """Drop this rank's handles of the run's memory."""
        self.lending.close()

    def prepare(self, session: Session) -> None:
        """Compile, and hand the run to the others; they wait, and load what is compiled."""
        dealt = self.machine.dealt(session.settings.n_workers)
        self.mine = dealt.workers_of(dealt.leader)
        session.worker(0).prepare()
        self.lending.pack(session)
        numbers, handed = self.lending.handed(session)
        self.call.post_all(ATTACH, {"process": os.getpid(), "numbers": numbers, "handed": handed})
        self._await(READY)


def borrowed(content: Mapping[str, Any]) -> Session:
    """The leader's session, in a rank that lends it workers."""
    numbers: list[int] = []
    try:
        for number in content["numbers"]:
            numbers.append(opened(content["process"], number))
        return session_of(numbers, content["handed"])
    finally:
        for number in numbers:
            os.close(number)
