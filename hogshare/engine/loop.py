"""The one worker loop: it yields its next request to its runtime and never waits itself.

    join -> (claim, pull, step, push, tick: a quantum) -> ... -> leave

In real time, the first quantum also joins, and the last quantum also leaves, if no other work has
to be done between these calls (`Session.set_up_quanta`).

On a plane with homes, a quantum is a block, and the plane is called after the block. To wait for
other workers, the plane may yield `Until` any number of times. The next quantum begins when the
plane's code has ended.

In a run with pauses, workers leave at the epoch that is set as a limit, and join again when the
caller has raised the limit. A quantum ends if a barrier forbids the next block, or if no block can
be claimed. The loop then requests a `Wait`. Some quanta retry for a moment first
(`hogshare.kernels.schedule.quanta`). Between quanta, the loop asks the user's own barrier.

The loop is a generator. Its requests are `Compute` (call a function; send back the answer and the
time it took), `Wait` (no block can be claimed: let time pass; send back how much), `Pause` (the
same, while the caller evaluates the model), `PlaneWait` (a plane waits), `Sleep` (see below) and
`Ended` (an epoch is over). A runtime drives the loop: threads and processes call, yield and sleep;
a simulation advances a virtual clock. Quanta of built-in planes are compiled and take many blocks
at a time. `next_quantum` adapts the number of blocks. With stragglers, and in a simulation, a
quantum is at most a block, and it also ends between claiming and computing the block. The loop then
requests a `Sleep`, which counts as computing.

Writers: the thread that drives the loop writes the time fields of the worker's own row in the
table, and the recorded quanta (`hogshare.shm.speeds`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any

from hogshare.engine.home import WorkerHome
from hogshare.engine.participants import MasterService, Worker
from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.kernels.exchange import master_updates
from hogshare.kernels.schedule import worker_life
from hogshare.system.deprecations import renamed

QUANTUM_NS = 4_000_000
# Up to this number of workers share the interpreter without a loss, with quanta of `QUANTUM_NS`.
# Each quantum takes the interpreter for a twentieth of a millisecond, so more workers need longer
# quanta
SHARERS = 4
STUCK_NS = 10_000_000_000  # an error after this time without any worker computing or passing
MAX_QUANTUM_BLOCKS = 1 << 20
MOST_ATTEMPTS = 66  # bounds the wait of a loop of several workers: other workers wait for them


@dataclass(frozen=True)
class Compute:
    """Request a call of a function; send back (answer, nanoseconds).

    A quantum begins a block or continues one.
    """

    call: Callable[[], Any]
    is_quantum: bool = False


@dataclass(frozen=True)
class Sleep:
    """Request a sleep of `seconds`, or until `is_over()`; send back the nanoseconds.

    `is_over()` is True once the run is stopped.
    """

    seconds: float
    is_over: Callable[[], bool]


@renamed(look="poll")
@dataclass(frozen=True)
class Wait:
    """Request that some time passes; send back the nanoseconds.

    attempts : number of failed attempts so far; more attempts mean a longer wait
    poll : time to the next poll, if the barrier's rule prescribes it; a virtual clock uses its own
        time
    """

    attempts: int
    poll: Sleep | None = None


@dataclass(frozen=True)
class Pause:
    """Request a pause, at best until `is_over()`; send back the nanoseconds.

    The caller evaluates the model meanwhile. A paused worker must leave its core to the evaluation.

    attempts : number of failed attempts so far
    """

    attempts: int
    is_over: Callable[[], bool]


@renamed(holds="is_met")
@dataclass(frozen=True)
class PlaneWait:
    """Request a wait for a plane, at best until `is_met()`; send back the nanoseconds.

    attempts : number of failed attempts so far; more attempts mean a longer wait
    seconds : the longest time to wait from now, or None for no limit
    """

    attempts: int
    is_met: Callable[[], bool]
    seconds: float | None


@dataclass(frozen=True)
class Ended:
    """Report that an epoch has ended in this worker; any value may be sent back."""


Wish = Compute | Wait | Pause | PlaneWait | Sleep | Ended


def loop_of(session: Session, me: int) -> Generator[Wish, Any, None]:
    """Return the loop of worker `me`; the number after the last worker's means the master."""
    if me == session.settings.n_workers:
        return master_loop(session.master())
    return worker_loop(session.worker(me))


def worker_loop(worker: Worker) -> Generator[Wish, Any, None]:
    """Drive one worker through a run; see the docstring of this file."""
    table, times = worker.table, worker.quantum_times()
    if not worker.enters:
        joined, _ = yield Compute(worker.join)
        if not joined:
            return
    if worker.home is not None:
        yield Compute(worker.home.join)
    n_blocks, attempts, stuck = worker.first_quantum(QUANTUM_NS), 0, 0
    while True:
        before, waited = worker.progress(), table[layout.T_WAITING]
        blocks = table[layout.T_BLOCKS]
        answer, spent = yield Compute(lambda n=n_blocks: worker.run_quantum(n), True)  # type: ignore[misc]
        # A quantum that has only polled counts as waiting. In threads, a poll waits for the
        # interpreter, and eight workers spend a tenth of their waiting time in polls.
        in_vain = answer == layout.QUANTUM_WAIT and worker.progress() == before
        waited = table[layout.T_WAITING] - waited  # waiting time inside the quantum
        table[layout.T_WAITING if in_vain else layout.T_BUSY] += spent - waited
        times.note()
        if worker.home is not None:
            if table[layout.T_BLOCKS] > blocks:
                _, spent = yield Compute(worker.home.after_block)
                table[layout.T_BUSY] += spent
                if worker.session.plan.ordered and worker.home.wish is not None:
                    # the plane waits outside the worker's section: other workers need theirs
                    table[layout.T_PENDING] = 1 + table[layout.T_ROUND]
                else:
                    yield from _at_home(worker, worker.home)
            elif answer == layout.QUANTUM_HOME:
                yield from _at_home(worker, worker.home)
                table[layout.T_PENDING] = 0
        if answer == layout.QUANTUM_CLOSED:
            return
        if answer == layout.QUANTUM_DONE:
            break
        if answer == layout.QUANTUM_BRING:
            yield from _bring(worker)
            continue
        if answer == layout.QUANTUM_WAIT:
            worker_life.apply(table, worker_life.WAIT)
            asked = worker.must_ask()
            if asked and worker.ask():
                continue
            if not in_vain:
                attempts = 0  # this quantum has made progress, and the next one may do so soon
            seconds = worker.poll_seconds()
            poll = Sleep(seconds, worker.is_stopped) if seconds > 0.0 else None
            waited = yield Wait(attempts, poll)
            table[layout.T_WAITING] += waited
            attempts += 1
            stuck = stuck + waited if asked and worker.nobody_computes() else 0
            if stuck > (worker.session.patience_ns or STUCK_NS):
                raise worker.stuck(stuck)
            continue
        attempts = 0
        if answer == layout.QUANTUM_SLEEP:
            table[layout.T_BUSY] += yield Sleep(worker.sleep_seconds(), worker.is_stopped)
            continue
        if answer == layout.QUANTUM_PAUSE:
            if not (yield from _pause(worker)):
                return
            continue
        if answer == layout.QUANTUM_RECORD:
            yield Compute(worker.record)
        if answer == layout.QUANTUM_EPOCH or worker.session.plan.report_epochs:
            yield Ended()  # a record may be at an epoch's end; the hook counts epochs itself
        if answer == layout.QUANTUM_OVER and not worker.session.plan.sleeps and worker.home is None:
            n_blocks = next_quantum(n_blocks, spent, len(worker.session.local_workers))
    if worker.home is not None:
        worker.home.close()  # an ordered run may be broken off between two sections
    if not worker.enters:
        yield Compute(worker.leave)


def _bring(worker: Worker) -> Generator[Wish, Any, None]:
    """Wait until the runtime has handled the start or the end of a block, in a run over sites.

    Call it only if the run is in step. At the start of a block, the runtime may have to wait for
    permission. At the end of a block, the result may still be on its way from another site.
    """
    table, bring, attempts = worker.table, worker.session.bring, 0
    assert bring is not None
    worker_life.apply(table, worker_life.WORK)  # also while the runtime waits for the block
    while not worker.is_broken_off():
        done, _ = yield Compute(lambda: bring(worker.me))
        if done:
            return
        table[layout.T_WAITING] += yield Wait(attempts)
        attempts += 1


def _at_home(worker: Worker, home: WorkerHome) -> Generator[Wish, Any, None]:
    """Let the plane's code wait and continue until it ends or the run is broken off."""
    table = worker.table
    while home.wish is not None:
        came = yield from _wait_at_plane(worker, home)
        if came is None:
            home.close()
            return
        worker_life.apply(table, worker_life.WORK)
        _, spent = yield Compute(lambda came=came: home.go_on(came))  # type: ignore[misc]
        table[layout.T_BUSY] += spent


def _wait_at_plane(worker: Worker, home: WorkerHome) -> Generator[Wish, Any, bool | None]:
    """Wait for the condition that the plane has yielded.

    Returns whether the condition was met before its limit, or None if the run is broken off. Raises
    PlaneError if no worker can ever end the wait.
    """
    session, table, wish = worker.session, worker.table, home.wish
    assert wish is not None
    end = None if wish.seconds is None else session.clock() + round(wish.seconds * 1e9)
    attempts, stuck = 0, 0
    before: tuple[int, int] | None = None
    try:
        while True:
            is_met = home.is_met()
            if worker.is_broken_off():  # workers have been given up: ignore the condition
                return None
            seconds = None if end is None else (end - session.clock()) * 1e-9
            if is_met or (seconds is not None and seconds <= 0.0):
                return is_met
            table[layout.T_PLANE_WAIT] = layout.FOR_OTHERS if end is None else layout.FOR_TIME
            worker_life.apply(table, worker_life.WAIT)
            waited = yield PlaneWait(attempts, home.is_met, seconds)
            table[layout.T_WAITING] += waited
            table[layout.T_PLANE_WAIT_NS] += waited
            attempts += 1
            now = None if home.mail_is_under_way() else worker.standstill()
            stuck, before = stuck + waited if now is not None and now == before else 0, now
            if stuck > (session.patience_ns or STUCK_NS):
                raise home.stuck(stuck)
    finally:
        table[layout.T_PLANE_WAIT] = 0
        table[layout.T_PLANE_WAITS] += attempts > 0


def _pause(worker: Worker) -> Generator[Wish, Any, bool]:
    """Leave the run while the caller evaluates the model; return False if the run has ended."""
    if not worker.enters:
        yield Compute(lambda: worker.leave(worker_life.PAUSE))
    yield Ended()
    attempts = 0
    while worker.must_pause():
        worker.pause_again()
        worker.table[layout.T_WAITING] += yield Pause(attempts, lambda: not worker.must_pause())
        attempts += 1
    joined, _ = yield Compute(worker.rejoin)
    return bool(joined)


def together(loops: Iterable[Generator[Wish, Any, None]]) -> Generator[Wish, Any, None]:
    """Run the loops of several workers as one loop, if these workers compute nothing themselves.

    In each pass, every loop goes as far as it can without waiting, one loop after another.
    """
    replies: dict[Generator[Wish, Any, None], Any] = dict.fromkeys(loops)
    attempts = 0
    while replies:
        moved = False
        for loop in list(replies):
            reply = replies[loop]
            while True:
                try:
                    wish = loop.send(reply)
                except StopIteration:
                    del replies[loop]
                    moved = True
                    break
                if isinstance(wish, Wait | Pause | PlaneWait):
                    replies[loop] = 0
                    break
                reply = yield wish
                moved = moved or (
                    isinstance(wish, Compute)
                    and wish.is_quantum
                    and reply[0] != layout.QUANTUM_WAIT
                )
        attempts = 0 if moved else attempts + 1
        if attempts:
            waited = yield Wait(min(attempts - 1, MOST_ATTEMPTS))
            replies = dict.fromkeys(replies, waited)


def master_loop(service: MasterService) -> Generator[Wish, Any, None]:
    """Serve as master until every worker is done or dead, and all mail has been taken.

    The driver's thread writes the last row of `quanta`; the kernel writes the model while it has
    taken SERVING. After a dead master, `MasterService.take_over` must be called first.
    """
    attempts = 0
    while True:
        waited = service.waited()
        taken, spent = yield Compute(service.serve)
        if taken == master_updates.OVER:
            return
        if taken:
            service.note(taken, spent - (service.waited() - waited))
            attempts = 0
        else:
            yield Wait(attempts)
            attempts += 1


def next_quantum(n_blocks: int, spent_ns: int, n_workers: int) -> int:
    """Return the number of blocks of the next quantum, from the time of the last quantum.

    The number grows at most by a factor of eight. A quantum takes a few milliseconds, and more with
    many workers.
    """
    quantum_ns = QUANTUM_NS * max(1, n_workers // SHARERS)
    wanted = int(n_blocks * quantum_ns / max(spent_ns, 1))
    return max(1, min(wanted, 8 * n_blocks, MAX_QUANTUM_BLOCKS))
