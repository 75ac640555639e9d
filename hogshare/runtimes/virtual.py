"""Workers one after the other on a virtual clock: the loop's wishes are events in a queue.

A worker's loop runs on until it wishes to sleep or to wait. To sleep is an event at a later time. A
worker that waits is *parked*, and called when what it waits for may have come about:

- at a barrier that looks at everybody (BSP, SSP): when the least clock is high enough. Workers
  stand in bins by that clock, and the least one comes from counts, so that nobody looks in vain;
- at one that draws samples, or is the user's: at its next look, a poll later;
- at any other: when some clock or state has changed;
- for its turn in an ordered run: when the section is its own, or a round is over;
- for the master: when that has taken messages;
- for a block to claim, or for the caller: when the words that tell of them have changed.

Order: by time; at one time first who comes and goes, then who watches, blocks that end, the master,
and looks at barriers; of one kind by worker. So a run repeats bit for bit. The calling thread does
everything: nothing is shared, and the arrays are ordinary.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Generator, Mapping
from typing import Any

import numpy as np

from hogshare.barriers import Barrier, name_of
from hogshare.engine.arrays import Shapes, private_memory
from hogshare.engine.checks import AtRest
from hogshare.engine.loop import Compute, Sleep, Wait, Wish, loop_of
from hogshare.engine.session import Session
from hogshare.kernels import barriers, epochs, layout, repair
from hogshare.planes import Plane, Shared
from hogshare.runtimes.hooks import EpochHook, OnEpoch
from hogshare.runtimes.least import LeastClock
from hogshare.runtimes.monitor import Monitor
from hogshare.simulation.churn import DIE, JOIN, LEAVE
from hogshare.simulation.links import CONTROL_BYTES, HEADER_BYTES, Link, Traffic
from hogshare.simulation.simulator import SimulationError, Simulator

# kinds of events, in the order in which they count at one time
COME, GO, FALL, WATCH, ON, MASTER, LOOK = range(7)
CHURN = {JOIN: COME, LEAVE: GO, DIE: FALL}
# words of which one changes when a worker that finds nothing to do may find something
WORDS = (layout.EPOCHS, layout.READY, layout.RETURNED, layout.LIMIT, layout.STOP, layout.REPAIRED)
LOOKS_IN_VAIN = 100_000  # one after the other, while nobody computes: then nobody will pass
NS = 1e9


class Virtual:
    """The runtime of a `Simulator`."""

    name = "simulator"

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        self.traffic = Traffic()
        self.seconds = 0.0
        self.look = 0, 0.0

    def settle(self, barrier: Barrier, n_workers: int) -> None:
        """Refuse what does not fit, and find out what a look at the barrier costs.

        Raises
        ------
        ValueError
        """
        self.simulator.check(barrier, n_workers)
        self.look = self.simulator.cost_of_look(barrier, n_workers)

    def parts(self, plane: Plane) -> int:
        """Moments of reading the one vector; 0 where there is none."""
        return self.simulator.parts_of(isinstance(plane, Shared) and plane.exchange is None)

    def allocate(self, shapes: Shapes, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Private memory; the rows as they are."""
        return {**private_memory(shapes), **rows}

    def run(
        self, session: Session, on_epoch: OnEpoch | None, checks: AtRest | None = None
    ) -> list[str]:
        """Run to the end; returns notes for the report."""
        run = Simulation(session, self.simulator, EpochHook(session, on_epoch, checks), self.look)
        run.to_the_end()
        self.traffic, self.seconds = run.traffic, run.now
        return run.notes

    def close(self) -> None:
        """Nothing to free."""


class Simulation:
    """One run's queue of events, and who is parked where.

    look : control messages of a look at the barrier, and seconds until it is answered
    """

    def __init__(
        self, session: Session, simulator: Simulator, hook: EpochHook, look: tuple[int, float]
    ) -> None:
        plan, settings = session.plan, session.settings
        self.session, self.simulator, self.hook = session, simulator, hook
        self.now = 0.0
        self.traffic = Traffic()
        self._look_messages, self._look_seconds = look
        self.notes: list[str] = []
        self._table, self._control = session.shared.table, session.shared.control
        self._monitor = Monitor(session)
        self._clocks = LeastClock(self._table)
        self._n_workers = settings.n_workers
        self._queue: list[tuple[float, int, int]] = []
        self._loops: dict[int, Generator[Wish, Any, None]] = {}
        self._asleep: dict[int, float] = {}  # since when
        self._parked: dict[int, float] = {}  # since when
        self._called: set[int] = set()  # parked workers whose next look is in the queue
        self._bins: dict[int, list[int]] = {}  # at the barrier, by the least clock they wait for
        self._polled: set[int] = set()  # at the barrier, looking again and again
        self._watching: set[int] = set()  # at the barrier, looking when a clock has changed
        self._for_master: set[int] = set()
        self._idle: set[int] = set()  # for one of WORDS to change
        self._leaving: set[int] = set()
        self._in_vain = 0
        self._stirred: Any = None
        self._sending: dict[int, float] = {}  # seconds of writing, before an update is sent
        self._shown = 0
        self._line_free = 0.0  # when the model's end has time for the next message
        self._master = loop_of(session, self._n_workers) if session.has_master else None
        self._master_reply: Any = None
        self._master_called = False
        self._writes_more = False  # messages that came with one, before it begins with the next
        self._section = -1
        self._words = self._look_at_words()
        lag = plan.barrier == barriers.LAG
        draws = lag and plan.sample != barriers.EVERYBODY
        self._by_least = lag and not draws and plan.share == 1.0
        self._poll = 0.0
        if plan.barrier != barriers.FREE and not plan.ordered:
            name = "the barrier" if session.barrier is None else name_of(session.barrier)
            must_look = draws or plan.barrier == barriers.ASKED
            self._poll = simulator.poll_seconds(name, must_look)
            if self._poll:
                self._poll = max(self._poll, self._look_seconds)
        size = settings.n_features * settings.n_columns
        itemsize = session.shared.w.dtype.itemsize
        header = HEADER_BYTES + 8 * settings.n_columns
        values = session.rows.data.size / max(1, len(session.rows.y)) * plan.block_rows
        pairs = math.ceil(values) * settings.n_columns * (itemsize + 4)
        self._model_bytes = size * itemsize + header
        # the values of an average block's rows with their places, or the vector, if that is shorter
        self._update_bytes = min(size * itemsize, pairs) + header

    # -- the queue

    def to_the_end(self) -> None:
        """Run until every loop has ended, or the time is over.

        Raises
        ------
        SimulationError
            If workers wait for what cannot happen any more.
        """
        session, limit = self.session, self.simulator.seconds
        session.clock, session.began = self._nanoseconds, 0
        for seconds, what, worker in self.simulator.churn.schedule(self._n_workers):
            self._push(seconds, CHURN[what], worker)
        if self.simulator.watch is not None:
            self._push(0.0, WATCH, 0)
        while self._queue or self._asleep or self._parked:
            if not self._loops and not self._master_called and self._is_over():
                break  # who would come, comes too late
            if limit is not None and self._queue and self._queue[0][0] > limit:
                self._stop_at(limit)
            elif self._queue:
                self.now, kind, worker = heapq.heappop(self._queue)
                self._happen(kind, worker)
            elif not self._stir():
                if limit is None:
                    raise SimulationError(self._deadlock())
                self.notes.append(self._deadlock())
                self._stop_at(limit)
        for row in self._table:
            repair.refuse(row)  # who has not come
        self._serve()
        self.hook.poll()
        if not self._is_over():
            self.notes.append("nobody was left: all workers had gone or died before the run's end")

    def _show(self) -> None:
        """Show the model to who watches, and again later if anything else is to come."""
        assert self.simulator.watch is not None
        self.simulator.watch(self.now, self.session.model())
        if self._queue:
            self._shown += 1
            self._push(self._shown * self.simulator.watch_seconds, WATCH, 0)

    def _is_over(self) -> bool:
        """Whether the run has been stopped, for whatever reason; workers may still be leaving."""
        return self.session.word(layout.STOP) != layout.RUNNING

    def _nanoseconds(self) -> int:
        return round(self.now * NS)

    def _push(self, seconds: float, kind: int, worker: int) -> None:
        if seconds < math.inf:
            heapq.heappush(self._queue, (seconds, kind, worker))

    def _happen(self, kind: int, worker: int) -> None:
        if kind not in (LOOK, WATCH):
            self._in_vain = 0
        if kind == ON:
            self._go_on(worker)
        elif kind == LOOK:
            self._look(worker)
        elif kind == MASTER:
            self._master_called = False
            self._write()
        elif kind == COME:
            if not self._is_over():
                self._loops[worker] = loop_of(self.session, worker)
                self._advance(worker, None)
        elif kind == WATCH:
            self._show()
        elif worker in self._loops:
            if kind == GO:
                self._let_go(worker)
            else:
                self._fall(worker)

    def _stop_at(self, limit: float) -> None:
        """Stop as a caller does who interrupts: who computes drops its block, all leave."""
        self.now = limit
        self.session.stop(layout.STOPPED_BY_CALLER)
        self._queue.clear()
        self.notes.append(f"stopped after {self.now:g} virtual seconds, as the Simulator says")
        for me in sorted(self._asleep):
            self._sending.pop(me, None)
            self._advance(me, round((self.now - self._asleep.pop(me)) * NS))
        for me in sorted(self._parked):
            if me in self._parked:
                self._wake(me)
        self._queue.clear()

    def _stir(self) -> bool:
        """Nothing will happen by itself: let all who wait look once more. False: they just have."""
        state = self._table.tobytes()
        if state == self._stirred:
            return False
        self._stirred = state
        for me in sorted(self._parked):
            self._push(self.now, LOOK, me)
        return bool(self._queue)

    def _deadlock(self) -> str:
        lost = sorted(self._asleep)
        words = [
            f"At {self.now:g} virtual seconds nothing more can happen: "
            f"{len(self._parked)} of {self._n_workers} workers wait"
        ]
        if lost:
            named = ", ".join(map(str, lost[:5])) + (", ..." if len(lost) > 5 else "")
            words.append(
                f", and no message between the model and worker {named} ever arrives: give that "
                "link a finite latency and some bandwidth, or let the worker die (Churn), so that "
                "others do its block"
            )
        elif self._bins or self._polled or self._watching:
            words.append(" at the barrier, which lets none of them pass")
        return "".join(words) + "."

    # -- a worker's loop

    def _advance(self, me: int, reply: Any) -> None:
        """Let a worker's loop run until it sleeps, waits or ends."""
        loop = self._loops[me]
        try:
            while True:
                wish = loop.send(reply)
                if isinstance(wish, Compute):
                    if me in self._leaving and self._has_no_block(me):
                        self._leave(me)
                        break
                    reply = wish.call(), 0
                elif isinstance(wish, Sleep):
                    self._sleep(me, wish.seconds)
                    break
                elif isinstance(wish, Wait):
                    self._park(me)
                    break
                else:
                    self.hook.poll()
                    reply = None
        except StopIteration:
            del self._loops[me]
        self._after(me)

    def _sleep(self, me: int, late: float) -> None:
        """Begin what a block does next; `late` is by how much a straggler is."""
        sim, plan = self.simulator, self.session.plan
        self._asleep[me] = self.now
        read, write = sim.read_seconds, sim.write_seconds
        if plan.parts:
            read, write = read / plan.parts, write / plan.parts
            sleeps = self._table[me, layout.T_SLEEPS]
            if sleeps != plan.parts:
                self._push(self.now + (read if sleeps < plan.parts else write), ON, me)
                return
        elif plan.private == epochs.MASTER:
            write = 0.0  # the master writes
        seconds = sim.block_time.draw(sim.seed, me, int(self._table[me, layout.T_BLOCKS]))
        if sim.slowness is not None:
            seconds *= sim.slowness[me]
        self._count_look()  # by which it has passed
        self.traffic.add("model", self._model_bytes)
        down = self._transfer(sim.network.down(me), self._model_bytes)
        self._sending[me] = write
        self._push(self.now + (self._look_seconds + down + read + seconds + late), ON, me)

    def _transfer(self, link: Link, n_bytes: int) -> float:
        """Seconds until a message arrives that is sent now; all share the model's end."""
        ceiling = self.simulator.network.ceiling
        if ceiling == math.inf or not link.delivers:
            return link.seconds(n_bytes)
        self._line_free = max(self.now, self._line_free) + n_bytes / ceiling
        return self._line_free - self.now + link.seconds(n_bytes)

    def _go_on(self, me: int) -> None:
        """Computing is over, and the update goes on its way; or it has arrived."""
        if me not in self._asleep:
            return  # it has died meanwhile
        write = self._sending.pop(me, None)
        if write is not None:
            self.traffic.add("update", self._update_bytes)
            under_way = write + self._transfer(self.simulator.network.up(me), self._update_bytes)
            if under_way > 0.0:
                self._push(self.now + under_way, ON, me)
                return
        self._advance(me, round((self.now - self._asleep.pop(me)) * NS))

    def _after(self, me: int) -> None:
        """See what a worker's turn has changed, and call those who have waited for that."""
        if self._master is not None and not self._master_called:
            self._call_master(me)
        if self._clocks.update(me):
            if self._bins:
                self._release()
            for other in sorted(self._watching):
                self._call(other)
        if self._monitor.watches:
            self._monitor.tick()
        if self.session.plan.ordered:
            self._call_section(me)
        elif self._idle:
            self._call_idle()

    # -- waiting

    def _park(self, me: int) -> None:
        """Note what a worker waits for."""
        self._parked[me] = self.now
        plan, row = self.session.plan, self._table[me]
        if row[layout.T_STATE] == layout.RESTING:
            self._idle.add(me)
            self.hook.poll()
        elif plan.ordered:
            pass  # `_call_section`
        elif plan.barrier != barriers.FREE and row[layout.T_PASSED] <= row[layout.T_CLOCK]:
            self._count_look()
            if self._by_least:
                needed = int(row[layout.T_CLOCK]) - plan.staleness
                self._bins.setdefault(needed, []).append(me)
            elif self._poll > 0.0:
                self._polled.add(me)
                self._push(self.now + self._poll, LOOK, me)
            else:
                self._watching.add(me)
        elif row[layout.T_MAILED] != row[layout.T_TAKEN]:
            self._for_master.add(me)
        else:
            self._idle.add(me)

    def _count_look(self) -> None:
        self.traffic.add("control", CONTROL_BYTES, self._look_messages)

    def _call(self, me: int) -> None:
        """Have a parked worker look again: now, or when it looks at the barrier next."""
        if me not in self._parked or me in self._called or me in self._polled:
            return
        self._called.add(me)
        when = self.now
        if self._poll > 0.0 and me not in self._idle and me not in self._for_master:
            since = self._parked[me]
            when = max(when, since + self._poll * math.ceil((when - since) / self._poll))
        self._push(when, LOOK, me)

    def _look(self, me: int) -> None:
        """A parked worker looks again."""
        self._called.discard(me)
        if me not in self._parked:
            return
        if me in self._polled:
            self._in_vain += 1
            if self._in_vain > LOOKS_IN_VAIN:
                raise SimulationError(self._deadlock())
            plan = self.session.plan
            if plan.barrier != barriers.ASKED:  # that one's loop asks by itself
                if not barriers.look(plan, self._table, self._control, me):
                    self._count_look()
                    self._push(self.now + self._poll, LOOK, me)
                    return
                self._in_vain = 0
        self._wake(me)

    def _wake(self, me: int) -> None:
        since = self._parked.pop(me)
        self._forget(me)
        self._advance(me, round((self.now - since) * NS))

    def _forget(self, me: int) -> None:
        """Take a worker from where it was parked; the bins find out by themselves."""
        for place in (self._polled, self._watching, self._for_master, self._idle):
            place.discard(me)

    def _release(self) -> None:
        """Call those whom everybody has come near to."""
        for needed in sorted(self._bins):
            if needed > self._clocks.least and self._clocks.in_run:
                return
            for other in self._bins.pop(needed):
                self._call(other)

    def _look_at_words(self) -> list[int]:
        return [int(self._control[word]) for word in WORDS]

    def _call_idle(self) -> None:
        words = self._look_at_words()
        if words != self._words:
            self._words = words
            for other in sorted(self._idle):
                self._call(other)

    def _call_section(self, me: int) -> None:
        """Call the worker whose section it is, and all when a round is over.

        Who has just looked in vain at its own section waits for others to have computed.
        """
        section, before = self.session.word(layout.SECTION), self._section
        self._section = section
        if section // self._n_workers != before // self._n_workers:
            for other in sorted(self._parked):
                self._call(other)
        owner = section % self._n_workers
        if owner != me or section != before:
            self._call(owner)

    # -- the master

    def _call_master(self, me: int) -> None:
        """Let the master take what a worker has posted, when it has written that."""
        row = self._table[me]
        if row[layout.T_MAILED] == row[layout.T_TAKEN]:
            return
        if self.simulator.write_seconds == 0.0:
            self._serve()
        else:
            self._call_master_after(1)

    def _call_master_after(self, messages: int) -> None:
        self._master_called = True
        seconds = messages * self.simulator.write_seconds
        self._push(self.now + seconds, MASTER, self._n_workers)

    def _write(self) -> None:
        """The master has written a message, and takes it; with it come those that were posted
        meanwhile, each of which keeps it as long before it begins with the next.
        """
        others = 0 if self._writes_more else self._serve() - 1
        self._writes_more = others > 0
        mail = self._table[:, layout.T_MAILED] != self._table[:, layout.T_TAKEN]
        if self._writes_more:
            self._call_master_after(others)
        elif self._master is not None and mail.any():
            self._call_master_after(1)

    def _serve(self) -> int:
        """Let the master's loop run until it wishes to wait; how many messages it has taken."""
        if self._master is None:
            return 0
        taken, reply = 0, self._master_reply
        try:
            while True:
                wish = self._master.send(reply)
                if not isinstance(wish, Compute):
                    break
                answer = wish.call()
                taken += max(0, answer)
                reply = answer, 0
            self._master_reply = 0
        except StopIteration:
            self._master = None
        for other in sorted(self._for_master):
            self._call(other)
        if taken and self.session.plan.ordered:
            self._call(self.session.word(layout.SECTION) % self._n_workers)
        return taken

    # -- who goes

    def _has_no_block(self, me: int) -> bool:
        return bool(self._table[me, layout.T_BLOCK] == layout.NO_BLOCK)

    def _let_go(self, me: int) -> None:
        """A worker wishes to leave: when the block in hand is done."""
        self._leaving.add(me)
        if me in self._parked and self._has_no_block(me):
            del self._parked[me]
            self._forget(me)
            self._leave(me)
            self._after(me)

    def _leave(self, me: int) -> None:
        self._loops.pop(me).close()
        self.session.worker(me).leave()

    def _fall(self, me: int) -> None:
        """A worker dies: what it had not pushed is lost, and its block is done by others."""
        self._loops.pop(me).close()
        for known in (self._asleep, self._parked, self._sending):
            known.pop(me, None)
        self._forget(me)
        self._monitor.bury(me)
        self.notes.append(f"worker {me} died at {self.now:g} virtual seconds")
        self._after(me)
