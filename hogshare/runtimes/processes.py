"""Workers as processes of the crew, over one arena; worker 0 is a thread of the caller.

No thread waits for a process to start. Worker 0 begins when the other workers' tasks have been
sent, and the other workers join while worker 0 works. If the run is over before a member joins, the
run is closed to this member. The calling thread watches the members' sockets and the progress
table. If a member dies, a warning names the member and its signal, and the other workers finish the
run.

Writers: see `hogshare.engine.session`. Freeing: the caller closes its handle of the arena at the
end of the run; a member drops its mapping when its task returns. The memory has no name, so no file
is left behind.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping
from multiprocessing.connection import wait as wait_for
from typing import Any

import numpy as np

from hogshare.engine.arrays import NOTHING, Shapes
from hogshare.engine.convergence_checks import AtPause
from hogshare.engine.loop import loop_of
from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.kernels.schedule import repair, worker_life
from hogshare.runtimes.assignment import Assignment, session_of
from hogshare.runtimes.blas import one_thread_each
from hogshare.runtimes.crew import Member, TaskFailed, current_crew
from hogshare.runtimes.driver import drive, yields_of
from hogshare.runtimes.events import News
from hogshare.runtimes.hooks import EpochHook, OnEpoch
from hogshare.runtimes.monitor import Monitor
from hogshare.runtimes.protocol import Outcome, Runtime
from hogshare.runtimes.threads import ThreadCrew
from hogshare.shm.table import IN_RUN
from hogshare.system.callers import users_line
from hogshare.system.interrupts import DeferredSignals

TICK_SECONDS = 0.02
SENDING_SECONDS = 0.001  # while a member's socket is full, with a part of its task unsent
POLL_SECONDS = 0.005  # in runs whose workers pause for evaluations
GRACE_SECONDS = 0.3  # for members to see the stop word after Ctrl-C


class WorkerDied(RuntimeWarning):
    """A worker process died; the run goes on without it."""


class Processes(Runtime):
    """The runtime of processes."""

    name = "processes"
    has_teams = True
    is_private = False  # the model must be copied out of the arena

    def __init__(self) -> None:
        self.assignment = Assignment()

    def allocate(
        self,
        shapes: Shapes,
        rows: Mapping[str, np.ndarray],
        assigned: Mapping[str, np.ndarray] = NOTHING,
    ) -> dict[str, np.ndarray]:
        """Allocate as `Assignment.allocate`; assigned arrays are copied, too."""
        return self.assignment.allocate(shapes, rows)

    def close(self) -> None:
        """Drop this process's handle of the run's memory."""
        self.assignment.close()

    def prepare(self, session: Session) -> None:
        """Pack the user's objects, before the run's time begins."""
        if session.outside is not None:
            session.outside.travels = True
        self.assignment.pack(session)

    def run(
        self, session: Session, on_epoch: OnEpoch | None, checks: AtPause | None = None
    ) -> Outcome:
        """Run all workers to the end of the run."""
        crew = current_crew()
        wanted = session.settings.n_workers - 1 + session.has_master  # the last: the master
        news, process = News(), os.getpid()
        with (
            DeferredSignals(news) as deferred,
            EpochHook(session, on_epoch, checks, deferred=deferred) as hook,
        ):
            with crew.hired(wanted) as hired:
                members = dict(enumerate(hired, start=1))
                watch = Watch(session, members, news)
                threads = ThreadCrew(session, range(1), news)
                try:
                    # post first: worker 0 may then take this thread's core
                    for me, member in members.items():
                        self._post(session, member, me)
                    threads.start()
                    while True:
                        watch.poll(TICK_SECONDS if checks is None else POLL_SECONDS)
                        crew.reap()
                        hook.poll()
                        threads.wake()
                        if not threads.running:
                            watch.refuse_late()  # first: no member may join after the check
                            if not watch.anyone_working() and session.master_is_idle():
                                break
                except BaseException:
                    if os.getpid() != process:
                        raise  # in a child: the parent's run goes on in the same memory
                    session.stop()
                    watch.refuse_late()
                    watch.give_grace(GRACE_SECONDS)
                    # worker 0 may wait for a segment of a member that died
                    is_in_vain = threads.patience(deferred)
                    while threads.running and not is_in_vain():
                        watch.poll(TICK_SECONDS / 4)
                    crew.dismiss(watch.left_behind(threads.running))
                    raise
            threads.finish()
            watch.finish()
            hook.poll()
        watch.raise_failures()
        return Outcome(watch.notes)

    def _post(self, session: Session, member: Member, me: int) -> None:
        fds, handed = self.assignment.handed(session)
        member.post(("hogshare.runtimes.processes:work", {"handed": handed, "me": me}), fds)


class Watch:
    """The state of one run's members (joined, dead or failed), and worker 0's news."""

    def __init__(self, session: Session, members: Mapping[int, Member], news: News) -> None:
        self.session = session
        self.news = news
        self.members = dict(members)
        self.monitor = Monitor(session)
        self.notes: list[str] = []
        self.failures: list[TaskFailed] = []
        self.master = session.settings.n_workers
        self.deputy: ThreadCrew | None = None

    def _state(self, worker: int) -> int:
        return int(self.session.schedule.table[worker, layout.T_STATE])

    def at_work(self) -> list[Member]:
        """Return the members, except the master, that have joined and not left."""
        workers = ((k, member) for k, member in self.members.items() if k != self.master)
        return [member for k, member in workers if self._state(k) in IN_RUN]

    def anyone_working(self) -> bool:
        """Whether a member has joined and not left."""
        return bool(self.at_work())

    def left_behind(self, is_zero: bool) -> list[Member]:
        """Return the members that do not leave an interrupted run: they are in the user's code.

        This marks these members as dead in the progress table, because a master waits until all
        workers are done or dead.

        is_zero : whether worker 0 is in the user's code; worker 0 is then also marked as dead

        If the master is a member, it is also returned when any worker is marked: if such a worker
        wrote to its row again before ending, the master would wait for ever.
        """
        workers = self.at_work()
        for worker in [k for k, member in self.members.items() if member in workers]:
            self.session.give_up(worker)
        if is_zero:
            self.session.give_up(0)
        masters = [member for k, member in self.members.items() if k == self.master]
        return [*workers, *masters] if workers or is_zero else []

    def _replace_master(self, member: Member) -> None:
        """Run the master in a thread of the caller, because the master's process is gone."""
        self.session.master().take_over()
        self.deputy = ThreadCrew(self.session, range(self.master, self.master + 1), self.news)
        self.deputy.start()
        came, what = _fate("the master", member)
        lost = ", and only messages of an unfinished sum are lost" if came else ""
        sentence = f"{what}; a thread of the caller has taken over{lost}"
        self.notes.append(sentence)
        warnings.warn(sentence, WorkerDied, stacklevel=users_line())

    def finish(self) -> None:
        """Wait for the master's deputy, if there is one; the workers are done."""
        if self.deputy is not None:
            self.deputy.finish()

    def poll(self, seconds: float) -> None:
        """Wait at most `seconds` for news from members or worker 0, and handle the news."""
        alive = {m.fileno(): k for k, m in self.members.items() if m.alive}
        if any(member.is_sending for member in self.members.values()):
            seconds = min(seconds, SENDING_SECONDS)
        wait_for([*alive, self.news.fileno()], seconds)
        self.news.clear()
        for k in alive.values():
            self._read_news(k)
        self.monitor.tick()

    def _read_news(self, k: int) -> None:
        member = self.members[k]
        for message in member.poll():
            if isinstance(message, TaskFailed):
                # the process stays alive, but its worker is dead: no other worker may wait for it
                self.failures.append(message)
                self.session.stop()
                if k != self.master and self._state(k) != layout.DONE:
                    self.monitor.bury(k)
                del self.members[k]
                return
        if member.alive:
            return
        del self.members[k]
        if k == self.master:
            self._replace_master(member)
            return
        running = self.session.word(layout.STOP) == layout.RUNNING
        if self._state(k) in (layout.DONE, layout.RESTING) and not running:
            # Close the worker: a master would wait for a worker that is only paused, because in a
            # running run such a worker would resume.
            worker_life.apply(self.session.schedule.table[k], worker_life.CLOSE)
            return
        self.monitor.bury(k)  # first: other workers may wait, and the next line may take a moment
        came, what = _fate(f"worker {k}", member)
        lost = ", and only steps that it had not exchanged yet are lost" if came else ""
        sentence = f"{what}; the fit goes on without it{lost}"
        self.notes.append(sentence)
        warnings.warn(sentence, WorkerDied, stacklevel=users_line())

    def refuse_late(self) -> None:
        """Close the run to members that have not joined yet."""
        for k in self.members:
            if k != self.master:
                repair.refuse(self.session.schedule.table[k])

    def give_grace(self, seconds: float) -> None:
        """After an interruption, give members some seconds to see the stop word."""
        deadline = time.monotonic() + seconds
        while self.anyone_working() and time.monotonic() < deadline:
            self.poll(TICK_SECONDS / 4)

    def raise_failures(self) -> None:
        """Raise the exception that a member's task has raised, if any."""
        if self.failures:
            failure = self.failures[0]
            raise RuntimeError(f"A worker process failed: {failure.summary}\n{failure.traceback}")


def _fate(name: str, member: Member) -> tuple[bool, str]:
    """Return whether a member that is gone had been up, and a sentence about its end."""
    death = member.death  # read before `pid`: the report on an early death sets `pid`
    if member.pid is None:
        return False, f"{name} {death}"
    return True, f"{name} (process {member.pid}) {death}"


def work(channel: Any, fds: list[int], *, handed: dict[str, Any], me: int) -> None:
    """Run worker `me` of a run; called in a member of the crew."""
    session = session_of(fds, handed)
    with one_thread_each(session):
        drive(loop_of(session, me), yields=yields_of(session))


__all__ = ["Processes", "WorkerDied", "work"]
