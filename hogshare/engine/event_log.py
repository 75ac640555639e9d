"""Record the interleaving of an asynchronous run, and replay the run on one core.

For each change of the model, a record has the worker, the block, and the version of the model that
the worker had read. Changes are in the order in which they reached the model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hogshare.engine.arrays import Shapes, fill, private_memory, row_arrays
from hogshare.engine.gradient_steps import BlockWorker, GradientSteps
from hogshare.engine.session import Session
from hogshare.engine.stops import Stop
from hogshare.engine.workspace import SessionSettings
from hogshare.kernels import layout
from hogshare.kernels.exchange import master_updates
from hogshare.kernels.rules import step_schedules
from hogshare.kernels.schedule import epoch_schedule, replay
from hogshare.problems.model import Model
from hogshare.problems.protocol import Problem, by_gradient
from hogshare.rules.protocol import Rule
from hogshare.rules.steps import StepSize


@dataclass(frozen=True, eq=False)
class Recording:
    """The record of a run with ``record=True``; see `hogshare.replay`.

    Attributes
    ----------
    events : ndarray of shape (n_events, 3), int64
        The columns are the worker, the ticket, and the version that the worker had read. The ticket
        is the epoch times the number of blocks in an epoch, plus the block. Rows are in the order
        of the changes. Worker -1 means that the master applied the remainder of a sum.
    proposals : ndarray of shape (n_events,), int64
        For each message, the number of messages that begin at about the same model. The master
        computed the message's weight from this number.
    exact : bool
        Whether a replay gives the same bits. A replay of a run on one vector without locks does not
        give the same bits. The workers wrote the vector row by row, but the record has only the
        order in which blocks ended.
    """

    events: np.ndarray
    proposals: np.ndarray
    exact: bool
    settings: SessionSettings
    shapes: Shapes
    rule: Rule
    step: StepSize
    stop: Stop
    start: Model | None

    def __len__(self) -> int:
        return len(self.events)


def check_recordable(settings: SessionSettings, has_homes: bool) -> None:
    """Refuse a run whose interleaving does not suffice for a replay."""
    mode = settings.plan["private"]
    if settings.plan["grid"]:
        raise ValueError("on Grid() the same seed gives the same bits: leave record=True out.")
    if mode == epoch_schedule.EXCHANGE or has_homes:
        raise ValueError(
            "record=True needs a plane with versions: use plane=Master(), or Shared(exchange=None) "
            "for a replay that is only near. With private copies barrier=BSP() repeats every bit."
        )
    if settings.rule["schedule"] == step_schedules.ADAPTIVE:
        raise ValueError("record=True needs steps that no epoch's end changes; not 'adaptive'.")
    if settings.n_columns > 1 and settings.plan["tol"] > -np.inf:
        raise ValueError(
            "record=True with several columns needs a stop that all have in common; leave tol out."
        )


def taken_from(session: Session) -> tuple[np.ndarray, np.ndarray]:
    """Return the events that a session has recorded, and the proposals; see `Recording`."""
    events = session.arrays["recording"]
    count = session.word(layout.RECORDED)
    if count > len(events):
        raise RuntimeError(
            f"The run has had {count} events, and its record has space for {len(events)}: this is "
            "an error of hogshare, please report it with the call."
        )
    found = np.array(events[:count])
    return found[:, : layout.E_PROPOSALS], found[:, layout.E_PROPOSALS]


def replay_recording(problem: Problem, recording: Recording) -> Session:
    """Replay a recording in this thread; `problem` is the problem of the recorded run."""
    settings = recording.settings
    arrays = {**private_memory(recording.shapes), **row_arrays(problem)}
    outside = GradientSteps(problem, recording.rule) if by_gradient(problem) else None
    session = Session(arrays, settings, outside=outside)
    stop, start = recording.stop, recording.start
    fill(session, problem, recording.rule, stop, recording.step, start, stop.validation)
    again = _Replay(session, recording.events, recording.proposals)
    if session.plan.private == epoch_schedule.MASTER:
        again.by_versions()
    else:
        again.in_order()
    return session


class _Replay:
    def __init__(self, session: Session, events: np.ndarray, proposals: np.ndarray) -> None:
        self.session = session
        self.events, self.proposals = events, proposals
        self.workers = [session.worker(k) for k in session.local_workers]
        self.prepared = -1
        self.computed = np.zeros(len(events), bool)
        epoch = events[:, layout.E_TICKET] // session.plan.n_blocks
        self.of_epoch = [np.flatnonzero(epoch == e) for e in range(epoch.max(initial=-1) + 1)]

    def _prepare(self, ticket: int) -> None:
        """Prepare the row order of a ticket's epoch, and of the epochs before it.

        Two orders are stored, so the order of an epoch overwrites the order of two epochs before.
        When this happened in the run, all messages of the overwritten epoch had been computed,
        although some may not have been taken. Therefore the replay computes these messages first.
        """
        epoch = ticket // self.session.plan.n_blocks
        while self.prepared < epoch:
            self.prepared += 1
            if self.prepared >= 2 and self.session.plan.private == epoch_schedule.MASTER:
                for i in self.of_epoch[self.prepared - 2]:
                    self._compute(int(i))
            replay.prepare_epoch(
                self.session.rule, self.session.schedule, self.session.plan, self.prepared
            )

    def _compute(self, i: int) -> None:
        worker, ticket = int(self.events[i, layout.E_WORKER]), int(self.events[i, layout.E_TICKET])
        if self.computed[i] or worker == layout.NO_WORKER:
            return
        self._prepare(ticket)
        s, w = self.session, self.workers[worker]
        known = s.rows, s.rule, s.plan, s.schedule, s.vector, s.mail, w.private
        w.table[layout.T_PROPOSALS] = self.proposals[i]
        if isinstance(w, BlockWorker):
            replay.read_again(*known, worker, ticket)
            w.step()
            replay.post_again(s.schedule, s.mail, worker, ticket)
        else:
            compute_again = replay.COMPUTE_AGAIN[s.plan.copied, s.settings.n_columns == 1]
            compute_again(*known, worker, ticket)
        self.computed[i] = True

    def by_versions(self) -> None:
        """Repeat the master's takes in order; compute each message at the version that it had read.

        A message that the master takes later may have been computed at the current version. The
        replay computes such a message just before the model changes. It does not compute the
        message earlier, because a worker has few slots.
        """
        session, events = self.session, self.events
        readers: dict[int, list[int]] = {}
        for i, version in enumerate(events[:, layout.E_VERSION]):
            readers.setdefault(int(version), []).append(i)
        for i, (worker, _, version) in enumerate(events):
            if worker == layout.NO_WORKER or self._fills(version):
                now = readers.pop(session.word(layout.VERSION), [])
                # in the order of tickets, which is the order of a worker's claims
                for k in sorted(now, key=lambda k: (events[k, layout.E_TICKET], k)):
                    self._compute(k)
            self._compute(i)
            groups = session.schedule, session.vector, session.mail
            replay.take_again(session.plan, *groups, int(worker))

    def _fills(self, version: int) -> bool:
        """Whether a message computed at `version` completes the sum that makes the next version."""
        plan, word = self.session.plan, self.session.word
        if master_updates.is_dropped(plan, word(layout.VERSION) - version):
            return False
        return word(layout.GATHERED) + 1 >= plan.gradients

    def in_order(self) -> None:
        """Repeat the blocks on the vector, in the order of their events."""
        s = self.session
        for worker, ticket, _ in self.events:
            self._prepare(int(ticket))
            w = self.workers[worker]
            if isinstance(w, BlockWorker):
                w.table[layout.T_BLOCK] = ticket
                w.step()
                continue
            known = s.rows, s.rule, s.plan, s.schedule, s.vector, s.memory
            replay.write_again(*known, w.private, int(ticket))
