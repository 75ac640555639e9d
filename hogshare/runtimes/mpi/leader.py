"""The rank that decides: it makes the run's memory, and has all ranks run their workers.

To `solve` this is a runtime as any other: it runs all workers of a session. It hears of epochs,
evaluates the model where all rest, and is the master's rank.

    leader: ATTACH (the arena, the settings) -> READY of all -> RUN -> RAN of all -> ... -> REPORT

A fit of an estimator decides between its calls of `solve`, by what came of the last; so rank 0
makes them by itself, and the others run workers of whatever it solves (`AssigningLeader`): each of
these calls has the memory and the packed parts that processes of a crew are handed.

Who writes: the leader allocates and fills the arena; from RUN on all workers write as
`hogshare.engine.session` says; from RAN on the leader alone.
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
TICK_SECONDS = 0.005  # between two glances at messages, epochs and those that rest


class Leader(Runtime):
    """The runtime of the ranks of one machine, as the one that leads them has it."""

    name = "mpi"
    is_private = False  # others have the arena, too

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
        """One arena for what all write; the rows every rank has, and reads where they are."""
        self.arena = Arena.create({**shapes, **pulse.shapes(len(self.machine.ranks))})
        return {**{name: self.arena[name] for name in self.arena.names}, **rows}

    def close(self) -> None:
        """Drop this rank's handle of the run's memory."""
        if self.arena is not None:
            self.arena.close()
            self.arena = None

    def prepare(self, session: Session) -> None:
        """Compile, and have the others load what is compiled; they wait, and then attach."""
        assert self.arena is not None
        session.worker(session.local_workers.start).prepare()
        plane = session.plane
        if plane is not None and not plane.is_chosen:
            plane = None  # it is as every rank has it
        content = {**offer(self.arena), "settings": session.settings, "plane": plane}
        self.call.post_all(ATTACH, content)
        self._await(READY)

    def run(
        self, session: Session, on_epoch: OnEpoch | None, checks: AtPause | None = None
    ) -> Outcome:
        """Run to the end."""
        n_workers = session.settings.n_workers
        heart = pulse.Pulse(session.arrays[pulse.NAME], self.call.talk.rank)
        with (
            DeferredSignals(news := Bell()) as held,
            EpochHook(session, on_epoch, checks, deferred=held) as hook,
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
                        self._refuse_late(session)  # before asking who works: nobody joins any more
                        if not self._others_work(session) and session.master_is_idle():
                            break
            except BaseException:
                session.stop()
                self._refuse_late(session)
                for crew in (own, master):
                    crew.join(crew.patience(held))
                raise
            heart.pause()
            own.finish()
            master.finish()
            hook.poll()
        self._await(RAN)
        return Outcome([])

    def facts(self) -> dict[str, Any]:
        """How many ranks there were, and workers of each."""
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
    """The runtime of rank 0 in a call that the others lend workers to."""

    def __init__(self, call: Call, machine: MachineRanks) -> None:
        super().__init__(call, machine)
        self.assignment = Assignment()

    def allocate(
        self,
        shapes: Shapes,
        rows: Mapping[str, np.ndarray],
        assigned: Mapping[str, np.ndarray] = NOTHING,
    ) -> dict[str, np.ndarray]:
        """One arena for everything that is not in one already."""
        return self.assignment.allocate({**shapes, **pulse.shapes(len(self.machine.ranks))}, rows)

    def close(self) -> None:
        """Drop this rank's handles of the run's memory."""
        self.assignment.close()

    def prepare(self, session: Session) -> None:
        """Compile, and hand the run to the others; they wait, and load what is compiled."""
        dealt = self.machine.dealt(session.settings.n_workers)
        self.mine = dealt.workers_of(dealt.leader)
        session.worker(session.local_workers.start).prepare()
        self.assignment.pack(session)
        numbers, handed = self.assignment.handed(session)
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
