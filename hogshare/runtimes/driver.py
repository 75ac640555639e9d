"""The driver of a worker's loop in real time: it makes calls; it waits by yields, later by sleeps.

A loop yields *requests* (`hogshare.engine.loop`): call a function, wait, pause, sleep. The driver
carries out each request and sends the reply back into the loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any

from hogshare.engine.loop import Compute, Pause, PlaneWait, Sleep, Wait, Wish
from hogshare.engine.session import Session
from hogshare.kernels.schedule.barrier_codes import FREE
from hogshare.kernels.schedule.epoch_schedule import MASTER
from hogshare.system.machine import usable_cores

YIELDS = 64  # attempts before the first sleep
# polls inside a quantum, before it returns to Python:
IDLE_POLLS = 50  # if it finds no block: half a millisecond, if no other thread wants the core
BLOCK_POLLS = 500  # if it waits for others at every block: a third of a millisecond
STEP_POLLS = 5000  # if it waits for a common step, taken in Python: some milliseconds
LONGEST_SLEEP = 0.002
SLICE = 0.02  # seconds of a straggler's sleep between two checks whether the run is over


def is_crowded(session: Session) -> bool:
    """Whether there are more workers than cores that the calling thread may use."""
    return len(session.local_workers) > usable_cores()


def polls_of(session: Session) -> int:
    """Return how often a quantum polls for other workers before it returns to Python.

    With a barrier or a master, a quantum waits for other workers at every block. A quantum that
    returns takes the interpreter, which the other workers need to go on. A round of eight threads
    on two cores takes 0.1 ms with these polls; it took 4 ms without them.
    """
    if len(session.local_workers) == 1:
        return 0
    if session.plan.split and not is_crowded(session):
        return STEP_POLLS
    if session.plan.barrier != FREE or session.plan.private == MASTER:
        return BLOCK_POLLS
    return 0 if is_crowded(session) else IDLE_POLLS


def yields_of(session: Session) -> int:
    """Return how often a waiting worker yields before it sleeps.

    The number is 0 if no barrier and no master makes workers wait, and one of two conditions is
    true: (1) there are more workers than cores; (2) the quanta have polled already. In this case
    the awaited block belongs to a worker that is slow or has no core. Each poll would take a core,
    or the interpreter, from a worker that is about to go on.
    """
    plan = session.plan
    if plan.barrier != FREE or plan.private == MASTER:
        return YIELDS
    return 0 if session.n_polls or is_crowded(session) else YIELDS


def back_off(attempts: int, yields: int = YIELDS) -> int:
    """Wait a little, longer with every failed attempt; return the nanoseconds waited.

    attempts : number of failed attempts so far
    yields : with fewer failed attempts than this, the function yields, by a sleep of zero seconds;
        otherwise it sleeps

    A sleep of zero seconds takes 0.1 ms, because of the timer. A shorter wait would be
    useless: this thread would take the interpreter again before any thread that waits for the
    interpreter wakes up (see `docs/exchange.md`).
    """
    start = time.perf_counter_ns()
    if attempts < yields:
        time.sleep(0)
    else:
        time.sleep(min(5e-5 * 2 ** min(attempts - yields, 10), LONGEST_SLEEP))
    return time.perf_counter_ns() - start


def nap(wish: Pause) -> int:
    """Sleep for about as long as the pause has taken so far; return the nanoseconds slept."""
    return back_off(wish.attempts, yields=0)


def wait_at_plane(wish: PlaneWait) -> int:
    """Wait a little at a plane, in the same way as at a barrier; return the nanoseconds waited."""
    if wish.seconds is not None and wish.seconds < LONGEST_SLEEP and wish.attempts >= YIELDS:
        start = time.perf_counter_ns()
        time.sleep(wish.seconds)
        return time.perf_counter_ns() - start
    return back_off(wish.attempts)


def sleep(wish: Sleep, on_slice: Callable[[], None] | None = None) -> int:
    """Sleep in slices until the time or the run is over; return the nanoseconds slept."""
    start = time.perf_counter_ns()
    spent = 0
    while (left := wish.seconds - spent * 1e-9) > 0.0 and not wish.is_over():
        time.sleep(min(left, SLICE))
        if on_slice is not None:
            on_slice()
        spent = time.perf_counter_ns() - start
    return spent


def drive(
    loop: Generator[Wish, Any, None],
    on_ended: Callable[[], None] | None = None,
    yields: int = YIELDS,
    pause: Callable[[Pause], int] = nap,
    on_quantum: Callable[[], None] | None = None,
) -> None:
    """Run a worker's loop to its end in the calling thread.

    on_ended : called in the calling thread when an epoch has ended
    yields : number of attempts of a wait that yield, before it sleeps
    pause : waits for the end of a pause, or for a part of the pause; returns the nanoseconds waited
    on_quantum : called after every quantum, even an empty one, and during sleeps and waits
    """
    reply: Any = None
    while True:
        try:
            wish = loop.send(reply)
        except StopIteration:
            return
        if isinstance(wish, Compute):
            start = time.perf_counter_ns()
            answer = wish.call()
            reply = (answer, time.perf_counter_ns() - start)
            if on_quantum is not None and wish.is_quantum:
                on_quantum()
        elif isinstance(wish, Wait):
            poll = wish.poll
            reply = back_off(wish.attempts, yields) if poll is None else sleep(poll, on_quantum)
        elif isinstance(wish, Pause):
            reply = pause(wish)
        elif isinstance(wish, PlaneWait):
            reply = wait_at_plane(wish)
            if on_quantum is not None:
                on_quantum()
        elif isinstance(wish, Sleep):
            reply = sleep(wish, on_quantum)
        else:
            reply = None
            if on_ended is not None:
                on_ended()
