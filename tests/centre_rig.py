"""Centres by themselves: homes without a run, whose workers a test has take blocks."""

import types

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.exchange import centre_edges, centre_exchange
from hogshare.planes.mirrors.centre import Centre
from hogshare.planes.mirrors.groups import groups_of
from hogshare.shm.mailbox import RegisterEdge, mailbox_of, shapes
from hogshare.shm.table import ProgressTable

N_PARAMS = 7


class FakeHome:
    """A worker's home, without a run: a vector of whole numbers, so that sums are exact."""

    value_bytes, block_rows, reads, is_direct, averages = 8, 1, None, False, False
    opened = spin_ns = 0

    def __init__(self, rig, me):
        self.rig, self.me = rig, me
        self.arrays, self.boxes, self.n_workers = rig.arrays, rig.boxes, len(rig.table)
        self.box, self.progress, self.share = rig.box, rig.table, rig.share
        self.vector = self._vector()

    def _vector(self):
        return np.zeros(self.rig.n)

    @property
    def table(self):
        return ProgressTable(self.rig.table)

    def live(self):
        return centre_edges.Live(self.vector, self.vector[:0], np.ones(1), self.is_direct)

    def weights(self, fold, rows):
        curvature, etas = np.linspace(0.0, 3.0, self.rig.n).astype(np.float32), np.ones(1)
        return centre_edges.Weights(fold, curvature, np.zeros(1), etas, rows, 0.0, False)

    def now(self):
        return float(self.rig.now)


class DirectHome(FakeHome):
    """The same where all workers of a centre write one vector."""

    is_direct = True

    def _vector(self):
        return self.rig.live[groups_of(self.rig.plane.centres, self.n_workers)[self.me]]


class Rig:
    """Centres of a plane, whose workers a test has take blocks."""

    def __init__(self, plane, n_workers, share=(0, 0), n=N_PARAMS, made=np.zeros):
        problem = types.SimpleNamespace(has_rows=False)
        plane = plane.fitted(problem, 100, n_workers)
        self.plane, self.now, self.share, self.n = plane, 0.0, share, n
        self.table = np.zeros((n_workers, layout.N_TABLE), np.int64)
        self.table[:, layout.T_STATE] = layout.ACTIVE
        specification = plane.arrays(n, n_workers)
        self.arrays = {k: made(shape, kind) for k, (shape, kind) in specification.items()}
        plane.begin(self.arrays, np.zeros(n))
        n_edges = len(plane.edges(n_workers))
        named = shapes(n_edges, plane.queue, n, n)
        box = mailbox_of({k: made(shape, kind) for k, (shape, kind) in named.items()})
        self.box, self.boxes = box, [RegisterEdge(box, e) for e in range(n_edges)]
        self.live = np.zeros_like(self.arrays["mirror"])
        kind = DirectHome if plane.is_direct else FakeHome
        self.homes = [kind(self, me) for me in range(n_workers)]
        self.parts = [Centre(home, plane._settings(home)) for home in self.homes]
        self.overlay = plane._overlay(n_workers)
        self.edges = self.overlay.edges
        self.groups = groups_of(plane.centres, n_workers)
        self.steps = {}

    def block(self, me, change):
        """Have a worker move its vector, and exchange until it has to wait or is done."""
        home = self.homes[me]
        home.vector += change
        self.table[me, layout.T_CLOCK] += 1
        self.steps[me] = self.parts[me].after_block()
        self.go_on(me)

    def go_on(self, me):
        """Have a worker go on; whether it has ended its block."""
        steps = self.steps[me]
        try:
            wish = next(steps)
            while wish.holds():
                wish = steps.send(True)
        except StopIteration:
            del self.steps[me]

    def all_go_on(self):
        for me in sorted(self.steps):
            if self.parts[me].has_news():
                self.steps[me] = self._again(me)
                self.go_on(me)

    def _again(self, me):
        """The rest of a block whose wish holds."""
        steps = self.steps[me]

        def rest():
            try:
                wish = steps.send(True)
                while True:
                    came = yield wish
                    wish = steps.send(came)
            except StopIteration:
                return

        return rest()

    def die(self, me):
        self.table[me, layout.T_STATE] = layout.DEAD
        self.steps.pop(me, None)

    def mirror_of(self, me):
        return self.arrays["mirror"][self.groups[me]]

    def under_way(self, edge):
        """The sum of what an edge has and nobody has taken."""
        box, found = self.boxes[edge], np.zeros(self.n)
        taken = box.taken
        while (message := box.poll()) is not None:
            if message.round % centre_exchange.KINDS_OF_ROUND == 0:
                where = slice(None) if message.places is None else message.places
                found[where] += message.values
            box._box.counters[edge, layout.M_TAKEN] += 1
        box._box.counters[edge, layout.M_TAKEN] = taken
        return found

    def check(self, same=np.testing.assert_array_equal):
        """For each parameter: what was sent and what stays is what was counted and is passed on."""
        a = self.arrays
        for edge, (sender, _) in enumerate(self.edges):
            sent = a["got"][edge] + self.under_way(edge)
            passed_on = sum(
                a["got"][e] for e, ways in enumerate(self.overlay.passes_on) if edge in ways
            )
            same(a["total"][sender] + passed_on, sent + a["residual"][edge])
        for c in range(len(a["mirror"])):
            came = sum(a["got"][e] for e, (_, to) in enumerate(self.edges) if to == c)
            same(a["mirror"][c], a["total"][c] + came)
