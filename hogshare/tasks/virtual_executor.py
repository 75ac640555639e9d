"""Tasks on a virtual clock: real values, modelled times, all in the caller's thread.

A task is computed when it is submitted, because the data that it reads cannot change. Its result
comes back after the sum of these virtual times: (1) the transfer of the model to the worker; (2)
reading; (3) the `Simulator`'s block time multiplied by the worker's slowness; (4) the sleep of a
straggler; (5) writing; (6) the transfer of the result. Virtual time passes only while the caller
waits. `Churn` determines when workers join, leave and die.
"""

from __future__ import annotations

import heapq
import math
import pickle
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from hogshare.links.traffic import MODEL
from hogshare.shm.mailbox import HEADER_BYTES
from hogshare.simulation.churn import DIE, JOIN
from hogshare.simulation.simulator import SimulationError, Simulator
from hogshare.system.interrupts import DeferredSignals
from hogshare.tasks.executor import Back, Event, Executor, Joined, Lost, bytes_with
from hogshare.tasks.store import Sent, Shelf
from hogshare.tasks.work import VALUE, Store, Task, work

# parameters of a simulator that tasks do not use
UNUSED = ("poll", "parts", "placement", "overlay", "watch", "watch_seconds")


class VirtualExecutor(Executor):
    """The executor of a simulated run.

    Raises ValueError if the simulator sets a parameter that tasks do not use, or if it names
    workers that do not exist.
    """

    name = "simulator"
    passes_time = False

    def __init__(self, shelf: Shelf, n_workers: int, simulator: Simulator) -> None:
        _check(simulator, n_workers)
        self._simulator, self._shelf, self._sent = simulator, shelf, Sent(shelf)
        super().__init__()
        self._seconds = 0.0
        self._order = 0
        self._events: list[tuple[float, int, Event | int]] = []  # an int: a worker decides to leave
        self._present: set[int] = set()
        self._done = [0] * n_workers
        self._idle_since: dict[int, float] = {}
        self._task: dict[int, Back] = {}  # by worker: the result of its present task
        self._leaving: set[int] = set()
        for at, what, worker in simulator.churn.schedule(n_workers):
            if what == JOIN:
                self._push(at, Joined(worker))
            else:
                self._push(at, Lost(worker, "died, as the churn says") if what == DIE else worker)
        while self._events and self._events[0][0] == 0.0:
            self._happen(heapq.heappop(self._events)[2])

    @property
    def may_join(self) -> bool:
        return any(isinstance(event, Joined) for _, _, event in self._events)

    @property
    def workers(self) -> Sequence[int]:
        return sorted(self._present)

    def submit(self, worker: int, task: Task) -> None:
        network, s = self._simulator.network, self._simulator
        # the sleep is virtual: it counts in `busy`
        with DeferredSignals() as deferred:  # the user's function may be interrupted at any time
            outcome = deferred.outside(work, replace(task, sleep=0.0), Store(self._shelf.things))
        missing = self._sent.missing(worker, task.needs)
        down = bytes_with(task, [self._shelf.things[key] for key in missing if key[0] == VALUE])
        self._sent.forget(worker)
        up = HEADER_BYTES + len(pickle.dumps(outcome.value, 5))
        self.traffic.add("model", MODEL, worker, down)
        self.traffic.add("update", worker, MODEL, up)
        slowness = 1.0 if s.slowness is None else s.slowness[worker]
        block = s.block_time.draw(s.seed, worker, self._done[worker]) * slowness
        busy = s.read_seconds + block + task.sleep + s.write_seconds
        arrives = network.down(worker).seconds(down)
        waited = self._seconds + arrives - self._idle_since.get(worker, self._seconds + arrives)
        ends = self._seconds + arrives + busy
        self._idle_since[worker] = ends
        self._task[worker] = back = Back(replace(outcome, seconds=busy, waited=waited))
        self._push(ends + network.up(worker).seconds(up), back)

    def poll(self, seconds: float | None) -> list[Event]:
        """Poll as `Executor.poll` does; the clock advances to the first event within `seconds`."""
        longest = math.inf if seconds is None else seconds
        if seconds and not self._task:
            longest = math.inf  # only arrivals and departures of workers are left
        until, found = self._seconds + longest, list[Event]()
        while self._events and not found and self._events[0][0] <= until:
            at = self._events[0][0]
            if at == math.inf:
                raise SimulationError(
                    "nothing more can happen: all tasks wait for a link that delivers nothing; "
                    "give the Simulator's network links that deliver."
                )
            self._seconds = max(self._seconds, at)
            self._check_time()
            while self._events and self._events[0][0] == at:
                found += self._happen(heapq.heappop(self._events)[2])
        if not found and (self._task or not self._events):
            until = until if math.isfinite(until) else self._seconds + (seconds or 0.0)
            self._seconds = until
            self._check_time()
        return found

    def _check_time(self) -> None:
        limit = self._simulator.seconds
        if limit is not None and self._seconds > limit:
            raise SimulationError(
                f"the simulated time of {limit:g} seconds is over: pass a larger "
                "Simulator(seconds=), or end the loop by `context.seconds`."
            )

    def _happen(self, event: Event | int) -> list[Event]:
        """Apply an event, and return the events to report; return none if its worker is gone."""
        if isinstance(event, Joined):
            self._present.add(event.worker)
            self._sent.begin(event.worker)
            return [event]
        if isinstance(event, Lost):
            return self._lose(event.worker, event.why)
        if isinstance(event, int):
            if event in self._task:
                self._leaving.add(event)
                return []
            return self._lose(event, "left, as the churn says")
        # not by the task's number: a lost worker's task may be another worker's by now
        worker = next((w for w, back in self._task.items() if back is event), None)
        if worker is None:
            return []
        del self._task[worker]
        self._done[worker] += 1
        left = self._lose(worker, "left, as the churn says") if worker in self._leaving else []
        return [event, *left]

    def _lose(self, worker: int, why: str) -> list[Event]:
        if worker not in self._present:
            return []
        self._present.remove(worker)
        self._sent.end(worker)
        lost = self._task.pop(worker, None)
        return [Lost(worker, why, () if lost is None else (lost.outcome.number,))]

    def _push(self, at: float, event: Event | int) -> None:
        # `_order` decides between events of the same time: runs repeat, and events are not compared
        heapq.heappush(self._events, (at, self._order, event))
        self._order += 1

    def now(self) -> float:
        """Return the seconds on the virtual clock."""
        return self._seconds

    def close(self) -> None:
        self._events, self._task = [], {}


def _check(simulator: Simulator, n_workers: int) -> None:
    defaults: dict[str, Any] = {}
    plain = Simulator()
    for entry in fields(Simulator):
        defaults[entry.name] = getattr(plain, entry.name)
    given = [name for name in UNUSED if getattr(simulator, name) != defaults[name]]
    if given:
        raise ValueError(
            f"a Simulator of tasks takes no {', '.join(given)}: it has block_time, slowness, "
            "network, read_seconds, write_seconds, churn, seconds and seed."
        )
    if simulator.network.ceiling < math.inf:
        raise ValueError("a Simulator of tasks takes no network with a ceiling: leave it out.")
    simulator.network.check(n_workers)
    simulator.churn.check(n_workers)
    if simulator.slowness is not None and len(simulator.slowness) != n_workers:
        raise ValueError(
            f"slowness has {len(simulator.slowness)} entries, and there are {n_workers} workers: "
            "pass a factor for each."
        )
