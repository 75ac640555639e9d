"""Plain twins of `hogshare.simulation.progress`: a heap, clocks in a list, and every look made.

`simulate` knows the others by name and looks at all of them; nothing is counted in advance,
woken or skipped. `with_simpy` is the same again in simpy's processes, for barriers that draw
nothing.
"""

import heapq
import math
import random
from fractions import Fraction

from hogshare.barriers import ASP, BSP, PBSP, PSSP, SSP, Throttled
from hogshare.kernels.schedule import streams


def plain(function):
    """A helper's Python form; kernels are called as they are."""
    return getattr(function, "py_func", function)


block_state, next_random, fraction = map(
    plain, (streams.block_state, streams.next_random, streams.fraction)
)


def enough(near, of, share):
    """Whether so many are that share, as it is written."""
    return near >= Fraction(repr(share)) * of


def numbers(barrier):
    """Staleness, share, sample (None: everybody), and whether it is held."""
    if isinstance(barrier, BSP):
        return 0, 1.0, None, False
    if isinstance(barrier, SSP):
        return barrier.staleness, 1.0, None, False
    if isinstance(barrier, PBSP):
        return 0, 1.0, barrier.sample, barrier.hold
    if isinstance(barrier, PSSP):
        return barrier.staleness, 1.0, barrier.sample, barrier.hold
    return barrier.staleness, barrier.share, barrier.sample, barrier.hold


class Simulation:
    """As `progress`; with `identities` samples that are drawn anew are drawn by name.

    That has the same law and other numbers.
    """

    def __init__(self, barrier, n, law, poll, slowness, seed, barrier_seed, identities=None):
        self.barrier, self.n, self.law, self.poll = barrier, n, law, poll
        self.slowness = slowness or [1.0] * n
        self.seed, self.barrier_seed = seed, barrier_seed
        self.identities = None if identities is None else random.Random(identities)
        self.clock = [0] * n
        self.world = []  # who is in it
        self.waiting = []  # who waits, in order of arrival
        self.arrived = {}
        self.held = {}
        self.stream = {}
        self.came = {}  # generation in which it came to a throttled barrier
        self.generation = 0
        self.waited = [0.0] * n
        self.joined = [0.0] * n
        self.present = [0.0] * n
        self.events, self.leads = [], []
        self.heap, self.order = [], 0
        self.checks = self.asked = self.updates = 0

    def push(self, time, kind, k):
        """Changes, then ends by worker, then looks in the order in which they were asked for."""
        self.order += 1
        heapq.heappush(self.heap, (time, kind, self.order if kind == 2 else k, k))

    def run(self, seconds=None, blocks=None, joins=None, leaves=None):
        joins, leaves = joins or {}, leaves or {}
        self.blocks = blocks
        until = math.inf if seconds is None else seconds
        changes = sorted(
            [(time, 0, k) for k, time in joins.items()]
            + [(time, 1, k) for k, time in leaves.items()]
        )
        for k in range(self.n):
            if k not in joins:
                self.world.append(k)
                self.go(k, 0.0)
        for number, (time, _, k) in enumerate(changes):
            heapq.heappush(self.heap, (time, 0, number, k))
        end = 0.0
        while self.heap and self.heap[0][0] <= until:
            time, kind, number, k = heapq.heappop(self.heap)
            if kind == 0 and changes[number][1] == 0:
                self.clock[k] = min((self.clock[j] for j in self.world), default=0)
                self.world.append(k)
                self.joined[k] = time
                self.events.append((time, k, "joined"))
                self.go(k, time)
            elif k not in self.world:
                continue
            elif kind == 0:
                self.events.append((time, k, "left"))
                self.leave(k, time)
            elif kind == 1:
                self.complete(k, time)
            else:
                self.look(k, time)
            self.wake(time)
        end = max(self.joined[k] + self.present[k] for k in range(self.n))
        for k in self.world:
            self.present[k] = until - self.joined[k]
            if k in self.waiting:
                self.waited[k] += until - self.arrived[k]
        self.end = end if seconds is None else seconds
        return self

    def go(self, k, time):
        seconds = self.law.draw(self.seed, k, self.clock[k])
        self.push(time + self.slowness[k] * seconds, 1, k)

    def leave(self, k, time):
        if k in self.waiting:
            self.waiting.remove(k)
            self.waited[k] += time - self.arrived[k]
        # the last takes its place: in this order samples are drawn
        place = self.world.index(k)
        self.world[place] = self.world[-1]
        self.world.pop()
        self.present[k] = time - self.joined[k]

    def complete(self, k, time):
        self.clock[k] += 1
        self.updates += 1
        self.arrived[k] = time
        self.events.append((time, k, "completed"))
        if self.clock[k] == self.blocks:
            self.leave(k, time)
            return
        self.waiting.append(k)
        self.came[k] = self.generation
        self.stream[k] = block_state(self.barrier_seed, k, self.clock[k])
        self.held.pop(k, None)
        self.look(k, time)

    def look(self, k, time):
        self.checks += 1
        if self.allows(k):
            self.go_on(k, time)
        elif self.poll is not None:
            self.push(time + self.poll, 2, k)

    def wake(self, time):
        """Without looks: whoever may pass by now does."""
        changed = self.poll is None
        while changed:
            changed = False
            for k in list(self.waiting):
                if self.allows(k, asked=False):
                    self.go_on(k, time)
                    changed = True

    def go_on(self, k, time):
        self.waiting.remove(k)
        self.waited[k] += time - self.arrived[k]
        self.leads.append(self.clock[k] - min(self.clock[j] for j in self.world))
        self.events.append((time, k, "passed"))
        self.go(k, time)

    def allows(self, k, asked=True):
        if isinstance(self.barrier, ASP):
            return True
        if isinstance(self.barrier, Throttled):
            if self.came[k] == self.generation:
                waiting = [j for j in self.waiting if self.came[j] == self.generation]
                if len(waiting) < min(self.barrier.available, len(self.world)):
                    return False
                self.generation += 1
            return True
        staleness, share, sample, hold = numbers(self.barrier)
        others = [j for j in self.world if j != k]
        near = [j for j in others if self.clock[k] - self.clock[j] <= staleness]
        if sample is None:
            return enough(len(near), len(others), share)
        wanted = min(sample, len(others))
        if hold:
            if k not in self.held:
                self.held[k] = self.draw_held(k, wanted)
            self.asked += asked * len(self.held[k])
            seen = [j for j in self.held[k] if j in self.world]
            return enough(sum(j in near for j in seen), len(seen), share)
        self.asked += asked * wanted
        if self.identities is not None:
            chosen = self.identities.sample(others, wanted)
            return enough(sum(j in near for j in chosen), wanted, share)
        if share == 1.0:
            self.stream[k] = next_random(self.stream[k])
            chance = 1.0
            for i in range(wanted):
                chance *= (len(near) - i) / (len(others) - i)
            return fraction(self.stream[k]) < max(0.0, chance)
        found = 0
        for i in range(wanted):
            self.stream[k] = next_random(self.stream[k])
            found += fraction(self.stream[k]) * (len(others) - i) < len(near) - found
        return enough(found, wanted, share)

    def draw_held(self, k, wanted):
        stack, chosen = list(self.world), []
        while len(chosen) < wanted:
            self.stream[k] = next_random(self.stream[k])
            drawn = len(self.world) - len(stack)
            i = int(fraction(self.stream[k]) * len(stack))
            stack[0], stack[i] = stack[i], stack[0]
            first = stack.pop(0)
            assert drawn + len(stack) + 1 == len(self.world)
            if first != k:
                chosen.append(first)
        return chosen


def simulate(barrier, n, law, *, poll, slowness=None, seed=0, barrier_seed=0, **ends):
    identities = ends.pop("identities", None)
    return Simulation(barrier, n, law, poll, slowness, seed, barrier_seed, identities).run(**ends)


def with_simpy(barrier, n, law, *, poll, seed=0, seconds):
    """Events (virtual seconds, worker, what) of simpy's processes, in their order."""
    import simpy

    env = simpy.Environment()
    clock, events = [0] * n, []
    waiting, generation = [], [0]
    news = [env.event()]

    def allows(k, came):
        if isinstance(barrier, ASP):
            return True
        if isinstance(barrier, Throttled):
            if came == generation[0]:
                if sum(c == came for _, c in waiting) < min(barrier.available, n):
                    return False
                generation[0] += 1
            return True
        staleness, share, _, _ = numbers(barrier)
        near = sum(clock[k] - theirs <= staleness for theirs in clock) - 1
        return enough(near, n - 1, share)

    def worker(k):
        while True:
            yield env.timeout(law.draw(seed, k, clock[k]))
            clock[k] += 1
            events.append((env.now, k, "completed"))
            if poll is None:
                news[0].succeed()
                news[0] = env.event()
            came = generation[0]
            waiting.append((k, came))
            if isinstance(barrier, Throttled) and poll is None and allows(k, came):
                news[0].succeed()
                news[0] = env.event()
            while not allows(k, came):
                yield news[0] if poll is None else env.timeout(poll)
            waiting.remove((k, came))
            events.append((env.now, k, "passed"))

    assert numbers(barrier)[2] is None if not isinstance(barrier, ASP | Throttled) else True
    for k in range(n):
        env.process(worker(k))
    env.run(until=seconds)
    return events
