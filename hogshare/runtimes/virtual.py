"""Workers on a virtual clock, one at a time: their loops' requests become events in a queue.

A worker's loop runs until it requests a sleep or a wait. A sleep becomes an event at a later time.
`hogshare.runtimes.virtual_waits` handles the waits. `hogshare.runtimes.deliveries` handles the mail
to a master and between homes.

Events are ordered (1) by time; (2) by kind: workers that come and go, the watch function, messages
that arrive, blocks that end, the master, polls of barriers; (3) by worker. So a run repeats bit for
bit. Only the calling thread reads and writes the run's data, and the arrays are ordinary.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Generator
from typing import Any

from hogshare.barriers import Barrier, name_of
from hogshare.engine.convergence_checks import AtPause
from hogshare.engine.loop import STUCK_NS, Compute, Pause, PlaneWait, Sleep, Wait, Wish, loop_of
from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.kernels.schedule import barrier_codes, epoch_schedule, repair, worker_life
from hogshare.links.link import Link
from hogshare.links.run_links import CONTROL_BYTES, message_bytes
from hogshare.links.traffic import MODEL, OTHERS, Traffic
from hogshare.planes import Plane
from hogshare.runtimes.deliveries import Courier, VirtualMaster
from hogshare.runtimes.hooks import EpochHook, OnEpoch
from hogshare.runtimes.monitor import Monitor
from hogshare.runtimes.protocol import Outcome, Runtime
from hogshare.runtimes.virtual_waits import Parking
from hogshare.simulation.churn import DIE, JOIN, LEAVE
from hogshare.simulation.simulator import SimulationError, Simulator

# kinds of events, in the order in which events at the same time happen
COME, GO, DEATH, WATCH, ARRIVE, ON, MASTER, POLL = range(8)
CHURN = {JOIN: COME, LEAVE: GO, DIE: DEATH}
VAIN_POLLS = 100_000  # failed polls in a row, with no other event to come: no worker will pass
PATIENCE_POLLS = 1000  # polls of a user's barrier that lets no worker pass while no worker computes
NS = 1e9
LATEST = 9e9  # virtual seconds: the clock has 64 bits of nanoseconds


class Virtual(Runtime):
    """The runtime of a `Simulator`."""

    name = "simulator"
    has_clock = True

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        self.poll_cost = 0, 0.0

    @property
    def is_orderly(self) -> bool:
        """Whether all workers are present from the beginning."""
        return self.simulator.is_orderly

    def facts(self) -> dict[str, Any]:
        """Return the simulator as plain data."""
        return {"simulator": self.simulator.to_dict()}

    def settle(self, barrier: Barrier, n_workers: int) -> None:
        """Refuse a barrier that does not fit, and set the cost of a poll of the barrier."""
        self.simulator.check(barrier, n_workers)
        self.poll_cost = self.simulator.cost_of_poll(barrier, n_workers)

    def counts_mail(self, session: Session) -> bool:
        """Whether the runtime counts the messages itself: True unless workers have homes."""
        return session.homes is None

    def parts(self, plane: Plane) -> int:
        """Return the number of moments of reading the lock-free vector; 0 on other planes."""
        return self.simulator.parts_of(plane.is_lock_free)

    def run(
        self, session: Session, on_epoch: OnEpoch | None, checks: AtPause | None = None
    ) -> Outcome:
        """Run all workers to the end of the run, or of the virtual time."""
        with EpochHook(session, on_epoch, checks) as hook:
            run = Simulation(session, self.simulator, hook, self.poll_cost)
            try:
                run.to_the_end()
                why = f"the Simulator's {run.now:g} virtual seconds were over"
                ended = why if run.reached_limit else None
                return Outcome(run.notes, run.now, run.traffic.as_dict(), ended)
            finally:
                run.release()


class Simulation:
    """One run's queue of events, and the handler of each kind of event.

    poll_cost : for one poll of the barrier: the number of control messages, and the virtual seconds
        until the answer
    """

    def __init__(
        self, session: Session, simulator: Simulator, hook: EpochHook, poll_cost: tuple[int, float]
    ) -> None:
        plan, settings = session.plan, session.settings
        self.session, self.simulator, self.hook = session, simulator, hook
        self.now = 0.0
        self.reached_limit = False
        homes = session.homes is not None
        self.traffic = Traffic(("control",) if homes else ("model", "update", "control"))
        self.notes: list[str] = []
        self._table = session.schedule.table
        self._monitor = Monitor(session)
        self._queue: list[tuple[float, int, int]] = []
        self._to_come = 0  # events besides polls and watches
        self._joins = 0  # workers' arrivals among these events
        self._loops: dict[int, Generator[Wish, Any, None]] = {}
        self._asleep: dict[int, float] = {}  # sleeping worker -> time when its sleep began
        self._sending: dict[int, float] = {}  # worker -> seconds of writing, before it sends
        self._lost: set[int] = set()  # workers asleep for ever: their message never arrives
        self._leaving: set[int] = set()
        self._vain_polls = 0
        self._table_before: Any = None  # at the last call of all workers for lack of events
        self._is_stopping = False
        self._times_shown = 0
        self._line_free = 0.0  # time when the model's end of the links is free for the next message
        self._poll_messages, self._retry_seconds = poll_cost
        poll = self._poll_seconds()
        # each poll of a user's barrier is an event, so the patience depends on the poll interval
        session.patience_ns = max(STUCK_NS, round(PATIENCE_POLLS * poll * NS))
        self._parking = Parking(session, poll, self._push_of(POLL), self._count_polls)
        self._master: VirtualMaster | None = None
        if session.has_master:
            self._master = VirtualMaster(session, simulator.write_seconds, self._push_of(MASTER))
        self._courier: Courier | None = None
        if session.homes is not None:
            ways = (lambda: self.now), self._push_of(ARRIVE)
            self._courier = Courier(session.homes, simulator.network, *ways)
        size = settings.n_features * settings.n_columns
        itemsize = session.vector.w.dtype.itemsize
        pairs = math.inf
        if session.outside is None:
            values = session.rows.data.size / max(1, len(session.rows.y)) * plan.block_rows
            pairs = math.ceil(values) * settings.n_columns * (itemsize + 4)
        self._model_bytes = message_bytes(size * itemsize, settings.n_columns)
        # an average block's values with their places, or the whole vector if it is shorter
        self._update_bytes = message_bytes(int(min(size * itemsize, pairs)), settings.n_columns)

    def _poll_seconds(self) -> float:
        plan, session = self.session.plan, self.session
        if plan.barrier == barrier_codes.FREE or plan.ordered:
            return 0.0
        draws = plan.barrier == barrier_codes.LAG and plan.sample != barrier_codes.EVERYBODY
        name = "the barrier" if session.barrier is None else name_of(session.barrier)
        law = session.stragglers
        late = 0.0 if law is None else law.base
        must_poll = draws or plan.barrier == barrier_codes.ASKED
        poll = self.simulator.poll_seconds(name, must_poll, late)
        return max(poll, self._retry_seconds) if poll else 0.0

    # -- the queue

    def to_the_end(self) -> None:
        """Handle events until every loop has ended, or the simulated time is over.

        Raises SimulationError if workers wait and no event can end their wait.
        """
        session, limit = self.session, self.simulator.seconds
        session.clock, session.began = lambda: round(self.now * NS), 0
        for seconds, what, worker in self.simulator.churn.schedule(len(self._table)):
            self._joins += what == JOIN
            self._push(seconds, CHURN[what], worker)
        if self.simulator.watch is not None:
            self._push(0.0, WATCH, 0)
        while not self._is_at_the_end():
            if limit is not None and self._queue and self._queue[0][0] > limit:
                self._stop_at(limit)
            elif self._queue:
                seconds, kind, worker = self._pop()
                if not self._is_void(seconds, kind, worker):
                    if seconds > LATEST:
                        raise SimulationError(
                            f"At {self.now:g} virtual seconds the next event is due at "
                            f"{seconds:g}, and the clock counts nanoseconds up to {LATEST:g} "
                            "seconds: give the Simulator its times in a larger unit."
                        )
                    self.now = seconds
                    self._happen(kind, worker)
            elif not self._call_everybody():
                if limit is None:
                    raise SimulationError(self._deadlock())
                self.notes.append(self._deadlock())
                self._stop_at(limit)
        for row in self._table:
            repair.refuse(row)  # a worker that has not joined yet
        if self._master is not None and not (self.reached_limit and self._master.is_writing):
            self._master.serve()  # applies the remainder of a sum
        self.hook.poll()
        if not self._is_over():
            self.notes.append("no worker was left: all had gone or died before the run's end")

    def release(self) -> None:
        """Break the reference cycles through this object: they would retain the run's memory."""
        self.session.clock = time.perf_counter_ns
        if self._courier is not None:
            self._courier.release()
        for loop in self._loops.values():
            loop.close()
        vars(self).clear()

    def _push(self, seconds: float, kind: int, worker: int) -> None:
        if seconds < math.inf:
            self._to_come += kind not in (POLL, WATCH)
            heapq.heappush(self._queue, (seconds, kind, worker))

    def _push_of(self, kind: int) -> Callable[[float, int], None]:
        return lambda seconds, worker: self._push(seconds, kind, worker)

    def _pop(self) -> tuple[float, int, int]:
        event = heapq.heappop(self._queue)
        self._to_come -= event[1] not in (POLL, WATCH)
        self._joins -= event[1] == COME
        return event

    def _is_void(self, seconds: float, kind: int, worker: int) -> bool:
        """Whether an event is obsolete, because its worker has gone on; it then takes no time."""
        if kind == ON:
            return worker not in self._asleep
        if kind == POLL:
            return not self._parking.is_due(worker, seconds)
        if kind == COME:
            return self._is_over()
        if kind in (GO, DEATH):
            return worker not in self._loops
        return kind == WATCH and not self._loops and self._times_shown > 0

    def _is_at_the_end(self) -> bool:
        if self._loops or (self._master is not None and self._master.is_writing):
            return self.reached_limit and not self._loops
        return self._is_over() or not self._joins

    def _is_over(self) -> bool:
        """Whether the run has been stopped, for any reason; workers may still be leaving."""
        return self.session.word(layout.STOP) != layout.RUNNING

    def _happen(self, kind: int, worker: int) -> None:
        if kind == ON:
            self._go_on(worker)
        elif kind == POLL:
            self._poll(worker)
        elif kind == ARRIVE:
            assert self._courier is not None
            self._parking.notice(self._courier.arrive(worker), self.now)
        elif kind == MASTER:
            assert self._master is not None
            self._parking.mail_is_taken(self._master.has_written(self.now), self.now)
        elif kind == COME:
            self._loops[worker] = loop_of(self.session, worker)
            self._advance(worker, None)
        elif kind == WATCH:
            self._show()
        elif kind == GO:
            self._let_go(worker)
        else:
            self._die(worker)

    def _show(self) -> None:
        assert self.simulator.watch is not None
        self.simulator.watch(self.now, self.session.snapshot())
        self._times_shown += 1
        if self._queue:
            self._push(self._times_shown * self.simulator.watch_seconds, WATCH, 0)

    def _stop_at(self, limit: float) -> None:
        """End the run at its time limit: workers drop unfinished blocks, and all leave."""
        self.now, self.reached_limit = limit, True
        if not self._is_over():
            self.notes.append(f"stopped after {limit:g} virtual seconds, as the Simulator says")
        self.session.stop(layout.STOPPED_BY_CALLER)
        self._queue.clear()
        self._to_come = self._joins = 0
        self._wake_sleepers()
        self._parking.call_everybody(limit)

    def _wake_sleepers(self) -> None:
        """Wake all sleeping workers when the run is stopped, as in real time."""
        self._is_stopping = True
        self._lost.clear()
        for me in self._asleep:
            self._sending.pop(me, None)
            self._push(self.now, ON, me)

    def _call_everybody(self) -> bool:
        """Make all waiting workers poll, as no event is left; False if they have just polled."""
        table = self._table.tobytes()
        if table == self._table_before:
            return False
        self._table_before = table
        self._parking.call_everybody(self.now)
        return bool(self._queue)

    def _deadlock(self) -> str:
        words = [
            f"At {self.now:g} virtual seconds nothing more can happen: "
            f"{len(self._parking.since)} of {len(self._table)} workers wait"
        ]
        if self._lost:
            lost = sorted(self._lost)
            named = ", ".join(map(str, lost[:5])) + (", ..." if len(lost) > 5 else "")
            words.append(
                f", and no message between the model and worker {named} ever arrives: give that "
                "link a finite latency and some bandwidth, or let the worker die (Churn), so that "
                "others do its block"
            )
        elif parked := self._parking.parked:
            named = ", ".join(map(str, parked[:5])) + (", ..." if len(parked) > 5 else "")
            words.append(
                f", and the plane {type(self.session.plane).__name__} has worker {named} wait for "
                "what no other worker will do: do not wait for workers that are done, dead or "
                "paused (home.table.gone)"
            )
        elif self._parking.has_barrier_queue:
            words.append(" at the barrier, which lets none of them pass")
        return "".join(words) + "."

    # -- a worker's loop

    def _advance(self, me: int, reply: Any) -> None:
        """Run a worker's loop until it sleeps, waits or ends."""
        loop = self._loops[me]
        try:
            while True:
                wish = loop.send(reply)
                if isinstance(wish, Compute):
                    if wish.is_quantum and me in self._leaving and self._has_no_block(me):
                        self._leave(me)
                        break
                    reply = wish.call(), 0
                elif isinstance(wish, Sleep):
                    self._sleep(me, wish.seconds)
                    break
                elif isinstance(wish, PlaneWait):
                    self._parking.wait_at_plane(me, self.now, wish)
                    break
                elif isinstance(wish, (Wait, Pause)):
                    self._parking.park(me, self.now)
                    if isinstance(wish, Pause):
                        self._see_to_pause()
                    break
                else:
                    self.hook.poll()
                    reply = None
        except StopIteration:
            del self._loops[me]
        self._notice(me)

    def _see_to_pause(self) -> None:
        """If all workers pause, apply an incomplete sum of the master, and evaluate the model."""
        master = self._master
        if master is not None and not master.is_writing and self.session.word(layout.GATHERED):
            master.serve()
        self.hook.poll()

    def _sleep(self, me: int, late: float) -> None:
        """Begin the next part of a block; `late` is a straggler's delay."""
        sim, plan = self.simulator, self.session.plan
        self._asleep[me] = self.now
        if self._is_stopping:
            self._push(self.now, ON, me)
            return
        read, write = sim.read_seconds, sim.write_seconds
        if plan.parts:
            read, write = read / plan.parts, write / plan.parts
            sleeps = self._table[me, layout.T_SLEEPS]
            if sleeps != plan.parts:
                self._push(self.now + (read if sleeps < plan.parts else write), ON, me)
                return
        elif plan.private == epoch_schedule.MASTER:
            write = 0.0  # the master writes
        seconds = sim.block_time.draw(sim.seed, me, int(self._table[me, layout.T_BLOCKS]))
        if sim.slowness is not None:
            seconds *= sim.slowness[me]
        self._parking.passes(me)
        down = 0.0
        if self.session.homes is None:  # with homes, the model is at the worker
            self.traffic.add("model", MODEL, me, self._model_bytes)
            down = self._transfer(sim.network.down(me), self._model_bytes)
        self._sending[me] = write
        if math.isinf(down):
            self._lost.add(me)
        self._push(self.now + (self._retry_seconds + down + read + seconds + late), ON, me)

    def _transfer(self, link: Link, n_bytes: int) -> float:
        """Return the seconds until a message sent now arrives; messages share the model's end."""
        ceiling = self.simulator.network.ceiling
        if ceiling == math.inf or not link.delivers:
            return link.seconds(n_bytes)
        self._line_free = max(self.now, self._line_free) + n_bytes / ceiling
        return self._line_free - self.now + link.seconds(n_bytes)

    def _go_on(self, me: int) -> None:
        """Send the update when computing is over; go on with the loop when it has arrived."""
        write = self._sending.pop(me, None)
        if write is not None:
            under_way = write
            if self.session.homes is None:
                self.traffic.add("update", me, MODEL, self._update_bytes)
                up = self.simulator.network.up(me)
                under_way += self._transfer(up, self._update_bytes)
            if math.isinf(under_way):
                self._lost.add(me)
            if under_way > 0.0:
                self._push(self.now + under_way, ON, me)
                return
        slept = self.now - self._asleep.pop(me)
        # 0 for a dropped block, which must not count in the mean time of blocks
        self._advance(me, 0 if self._is_stopping else round(slept * NS))

    def _poll(self, me: int) -> None:
        if self._parking.poll(me, self.now):
            self._wake(me)
        self._vain_polls = self._vain_polls + 1 if me in self._parking.since else 0
        if self._to_come:
            self._vain_polls = 0
        elif self._vain_polls > VAIN_POLLS:
            raise SimulationError(self._deadlock())

    def _wake(self, me: int) -> None:
        self._advance(me, round(self._parking.leave(me, self.now) * NS))

    def _notice(self, me: int) -> None:
        if self._master is not None and self._master.notice(me, self.now):
            self._parking.mail_is_taken(me, self.now)
        if self._monitor.watches:
            self._monitor.tick()
        self._parking.notice(me, self.now)
        if not self._is_stopping and self._is_over():
            self._wake_sleepers()

    def _count_polls(self, me: int, count: int) -> None:
        messages = count * self._poll_messages
        self.traffic.add("control", me, OTHERS, CONTROL_BYTES * messages, messages)

    # -- workers that leave or die

    def _has_no_block(self, me: int) -> bool:
        return bool(self._table[me, layout.T_BLOCK] == layout.NO_BLOCK)

    def _let_go(self, me: int) -> None:
        """Make a worker leave as soon as its present block is done."""
        self._leaving.add(me)
        if me in self._parking.since and self._has_no_block(me):
            self._stop_waiting(me)
            self._leave(me)
            self._notice(me)

    def _leave(self, me: int) -> None:
        self._loops.pop(me).close()
        row = self._table[me]
        if row[layout.T_STATE] in (layout.RESTING, layout.STARTING):  # it has left already
            worker_life.apply(row, worker_life.CLOSE)
        else:
            self.session.worker(me).leave()

    def _stop_waiting(self, me: int) -> None:
        if me in self._parking.since:
            waited = self._parking.leave(me, self.now)
            self._table[me, layout.T_WAITING] += round(waited * NS)

    def _die(self, me: int) -> None:
        """Make a worker die: its unpushed step is lost, and other workers compute its block."""
        self._loops.pop(me).close()
        self._stop_waiting(me)
        self._asleep.pop(me, None)
        self._sending.pop(me, None)
        self._lost.discard(me)
        self._monitor.bury(me)
        self.notes.append(f"worker {me} died at {self.now:g} virtual seconds")
        self._notice(me)
