"""A rank that follows: it maps the leader's memory, and runs its own workers on it.

The follower has its own problem, barrier and plane, which the same code makes as on the leader. No
objects of the user are sent. `hogshare.runtimes.mpi.leader` describes which rank writes which data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hogshare.engine.session import Session
from hogshare.runtimes.blas import one_thread_each
from hogshare.runtimes.events import Bell
from hogshare.runtimes.joint_runtime import ProcessParts
from hogshare.runtimes.mpi import pulse
from hogshare.runtimes.mpi.calls import Call
from hogshare.runtimes.mpi.leader import ATTACH, RAN, READY, REPORT, RUN, TICK_SECONDS
from hogshare.runtimes.mpi.rank_seats import MachineRanks, accept
from hogshare.runtimes.threads import ThreadCrew
from hogshare.system.interrupts import DeferredSignals


def follow(call: Call, machine: MachineRanks, attach: Callable[[dict[str, Any]], Session]) -> Any:
    """Do what the leader's messages ask, until the report comes; return the leader's report.

    All ranks except the leader must call this.

    attach : returns this rank's session, from the leader's description of the run
    """
    leader = machine.leader
    session: Session | None = None
    mine = range(0)
    while True:
        letter = call.take(leader, ATTACH, RUN, REPORT)
        assert letter is not None
        if letter.kind == REPORT:
            return letter.content
        if letter.kind == ATTACH:
            session = attach(letter.content)
            mine = machine.dealt(session.settings.n_workers).workers_of(call.talk.rank)
            if mine:
                session.worker(mine.start).prepare()
            call.post(leader, READY)
        else:
            assert session is not None
            with one_thread_each(session):
                _run(call, session, mine)
            call.post(leader, RAN)


def attached(parts: ProcessParts, content: dict[str, Any]) -> Session:
    """Return the session of a leader that has made the same call; the arrays own the memory."""
    arena = accept(content)
    arrays = {**{name: arena[name] for name in arena.names}, **parts.rows}
    if content["plane"] is not None:  # with the leader's choices for the problem
        parts = parts._replace(plane=content["plane"])
    return Session(arrays, content["settings"], *parts[1:])


def _run(call: Call, session: Session, workers: range) -> None:
    heart = pulse.Pulse(session.arrays[pulse.NAME], call.talk.rank)
    with DeferredSignals(news := Bell()) as signals:
        crew = ThreadCrew(session, workers, news)
        try:
            crew.start()
            while crew.running:
                crew.wait(TICK_SECONDS)
                call.poll()
                heart.beat()
                crew.wake()
                signals.deliver()
        except BaseException:
            session.stop()
            crew.join(crew.patience(signals))
            raise
        crew.finish()
    heart.pause()
