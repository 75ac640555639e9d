"""The leading rank: it creates the run's memory, and makes all ranks run their workers.

For `solve` this is an ordinary runtime, which runs all workers of a session. The leader reports
ended epochs, evaluates the model while all workers pause, and runs the master.

    leader: ATTACH (the arena, the settings) -> READY of all -> RUN -> RAN of all -> ... -> REPORT

A fit of an estimator uses the result of each call of `solve` to decide on the next call. So only
rank 0 makes these calls, and the other ranks run workers for each call (`AssigningLeader`). The
other ranks get the memory and the packed objects in the same form as the processes of a crew.

Writers: the leader allocates and fills the arena. From RUN on, all workers write as
`hogshare.engine.session` describes. From RAN on, only the leader writes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from hogshare.engine.arrays import NOTHING, Shapes
from hogshare.engine.convergence_checks import AtPause
from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.kernels.schedule import repair
from hogshare.runtimes.assignment import Assignment, session_of
from hogshare.runtimes.events import Bell
from hogshare.runtimes.hooks import EpochHook, OnEpoch
from hogshare.runtimes.mpi import pulse
from hogshare.runtimes.mpi.calls import Call
from hogshare.runtimes.mpi.rank_seats import MachineRanks, offer, opened
from hogshare.runtimes.protocol import Outcome, Runtime
from hogshare.runtimes.threads import ThreadCrew
from hogshare.shm.arena import Arena
from hogshare.shm.table import IN_RUN
from hogshare.system.interrupts import DeferredSignals

ATTACH, READY, RUN, RAN, REPORT = "attach", "ready", "run", "ran", "report"
TICK_SECONDS = 0.005  # between two polls of messages, epochs and paused workers


class Leader(Runtime):
    """The leading rank's runtime, for the ranks of one machine."""

    name = "mpi"
    is_private = False  # other ranks have the arena, too

    def __init__(self, call: Call, machine: MachineRanks) -> None:
        self.call, self.machine = call, machine
        self.arena: Arena | None = None
        self.mine = machine.workers_of(machine.leader)

    def allocate(
        self,
        shapes: Shapes,
        rows: Mapping[str, np.ndarray],
        assigned: Mapping[str, np.ndarray] = NOTHING,
    ) -> dict[str, np.ndarray]:
        """Create one arena for all written arrays; each rank reads its own copy of the rows."""
        self.arena = Arena.create({**shapes, **pulse.shapes(len(self.machine.ranks))})
        return {**{name: self.arena[name] for name in self.arena.names}, **rows}

    def close(self) -> None:
        """Close this rank's handle of the run's memory."""
        if self.arena is not None:
            self.arena.close()
            self.arena = None

    def prepare(self, session: Session) -> None:
        """Compile the kernels; then make the other ranks load them, and attach the memory."""
        assert self.arena is not None
        session.worker(session.local_workers.start).prepare()
        plane = session.plane
        if plane is not None and not plane.is_chosen:
            plane = None  # every rank has the same plane
        content = {**offer(self.arena), "settings": session.settings, "plane": plane}
        self.call.post_all(ATTACH, content)
        self._await(READY)

    def run(
        self, session: Session, on_epoch: OnEpoch | None, checks: AtPause | None = None
    ) -> Outcome:
        """Run this rank's workers to the end of the run."""
        n_workers = session.settings.n_workers
        heart = pulse.Pulse(session.arrays[pulse.NAME], self.call.talk.rank)
        with (
            DeferredSignals(news := Bell()) as signals,
            EpochHook(session, on_epoch, checks, deferred=signals) as hook,
        ):
            own = ThreadCrew(session, self.mine, news)
            master = ThreadCrew(session, range(n_workers, n_workers + session.has_master), news)
            try:
                self.call.post_all(RUN)
                master.start()
                own.start()
                while True:
                    own.wait(TICK_SECONDS)
                    self.call.poll()
                    heart.beat()
                    hook.poll()
                    own.wake()
                    if not own.running:
                        # before reading states: from then on no worker can join
                        self._refuse_late(session)
                        if not self._others_work(session) and session.master_is_idle():
                            break
            except BaseException:
                session.stop()
                self._refuse_late(session)
                for crew in (own, master):
                    crew.join(crew.patience(signals))
                raise
            heart.pause()
            own.finish()
            master.finish()
            hook.poll()
        self._await(RAN)
        return Outcome([])

    def facts(self) -> dict[str, Any]:
        """Return the number of ranks, and each rank's number of workers."""
        return {"ranks": len(self.machine.ranks), "workers_of_ranks": list(self.machine.workers)}

    def _await(self, kind: str) -> None:
        for rank in self.call.talk.others:
            self.call.take(rank, kind)

    def _others_work(self, session: Session) -> bool:
        states = np.delete(session.schedule.table[:, layout.T_STATE], self.mine)
        return bool(np.isin(states, IN_RUN).any())

    def _refuse_late(self, session: Session) -> None:
        for k in range(session.settings.n_workers):
            if k not in self.mine:
                repair.refuse(session.schedule.table[k])


class AssigningLeader(Leader):
    """The runtime of rank 0 in a call that runs the other ranks' workers."""

    def __init__(self, call: Call, machine: MachineRanks) -> None:
        super().__init__(call, machine)
        self.assignment = Assignment()

    def allocate(
        self,
        shapes: Shapes,
        rows: Mapping[str, np.ndarray],
        assigned: Mapping[str, np.ndarray] = NOTHING,
    ) -> dict[str, np.ndarray]:
        """Create one arena for all arrays that are not in an arena yet."""
        return self.assignment.allocate({**shapes, **pulse.shapes(len(self.machine.ranks))}, rows)

    def close(self) -> None:
        """Close this rank's handles of the run's memory."""
        self.assignment.close()

    def prepare(self, session: Session) -> None:
        """Compile the kernels; then assign the run to the other ranks, which load the kernels."""
        dealt = self.machine.dealt(session.settings.n_workers)
        self.mine = dealt.workers_of(dealt.leader)
        session.worker(session.local_workers.start).prepare()
        self.assignment.pack(session)
        numbers, handed = self.assignment.handed(session)
        self.call.post_all(ATTACH, {"process": os.getpid(), "numbers": numbers, "handed": handed})
        self._await(READY)


def borrowed(content: Mapping[str, Any]) -> Session:
    """Return the leader's session, on a rank that runs workers for the leader."""
    numbers: list[int] = []
    try:
        for number in content["numbers"]:
            numbers.append(opened(content["process"], number))
        return session_of(numbers, content["handed"])
    finally:
        for number in numbers:
            os.close(number)
