"""NOTIFY-ACK of `Replicas`: every reduce is whole, in any runtime; what breaks it is caught.

All numbers of a model are alike here, and stay so by every step and every average: two that differ
are of two messages. A wrong protocol is told by that, by its bits, by whom it leaves out, or by
messages of other rounds.
"""

import numpy as np
import pytest

from hogshare import Replicas, Simulator, StepSize, problems, solve
from hogshare.planes.protocol import PlaneError
from hogshare.planes.replicas import reducer
from hogshare.planes.replicas.reducer import Reducer
from hogshare.shm.mailbox import Edge
from hogshare.simulation import Link, LogNormal, Network, SimulationError

N_NUMBERS = 3000  # of a model: a message is longer than a cache's lines, and copied in pieces


def even(w, rows, out):
    """A step of every row's own, the same for all numbers."""
    steps = np.cos(rows * 1.7).sum()
    out += steps + 0.01 * len(rows) * w[0]
    return float(steps * w[0])


class FromTheStart(Replicas):
    """Who comes late begins where all did, and not in the middle of others' steps."""

    def adopts(self, me, arrays):
        return False


def run(runtime="threads", n_workers=4, reduces=10, graph="ring", **more):
    """Workers that reduce after every row; the model of the last one."""
    plane = FromTheStart(graph, every=1, final=n_workers - 1, **more)
    problem = problems.user(even, n_workers * reduces, N_NUMBERS)
    settings = {"step": StepSize("constant", 0.01), "block": 1, "seed": 0, "stop": 1}
    return solve(problem, plane=plane, n_workers=n_workers, runtime=runtime, **settings)


def is_even(report):
    return bool((report.model.params == report.model.params[0]).all())


@pytest.mark.parametrize("runtime", ["processes", "threads"])
def test_all_of_seven_inputs_in_every_reduce(runtime, rounds):
    """ASAP, figure 8: the others have fewer, and what they use is whole all the same."""
    # of a worker: in processes 10^6 of all with --long, else 3,000
    reduces = (1250 if runtime == "processes" else 125) * rounds(10) ** 2
    reduces = min(reduces, 375) if rounds(10) == 1 else reduces
    told = {}
    for sync in ("notify-ack", "bsp", "async"):
        short = reduces if sync == "notify-ack" else max(100, reduces // 10)
        report = run(runtime, n_workers=8, reduces=short, graph="all", sync=sync)
        told[sync] = report.reduces
        assert is_even(report), f"{sync}: a model of two messages"
        assert told[sync].rounds.tolist() == [short] * 8
    whole = told["notify-ack"]
    assert whole.consistency[:, 7].tolist() == [reduces] * 8 and whole.whole_share == 1.0
    assert whole.torn.sum() == whole.missing.sum() == len(whole.left_out) == 0
    assert told["async"].whole_share < 1.0
    assert told["bsp"].whole_share >= told["async"].whole_share


# -- twins: each lacks one thing


class AcknowledgesFirst(Reducer):
    """A message is acknowledged before it is averaged."""

    def reduce(self, count):
        average, boxes = self._average, self.home.boxes

        def late(turn, vector, own, used):
            self.late = turn, vector, own, used

        self._average = late
        yield from super().reduce(count)  # has taken all messages
        yield reducer.Until(lambda: not any(boxes[k].has_capacity for k, _ in self.late[3]), 0.1)
        average(*self.late)
        self._average = average


class SendsWithoutWaiting(Reducer):
    """A message is written over the one before, acknowledged or not."""

    def _post(self, turn, now, values, places):
        for edge, _ in self._outgoing(turn):
            box = self.home.boxes[edge]
            while not box.has_capacity:
                box.take()
            self._send(edge, values, places, now)
        return
        yield


class WaitsFirst(Reducer):
    """A worker waits for its in-neighbours before it sends, on a circle."""

    def _post(self, turn, now, values, places):
        edges = self._incoming(turn)
        yield from self._wait(lambda: all(self.home.boxes[k].has_mail for k in edges), 0)
        yield from super()._post(turn, now, values, places)


class ReadsNoRound(Reducer):
    """Any message is taken for one of this round."""

    def _find(self, edge, now):
        message = super()._find(edge, 0)
        return None if message is None else message._replace(round=now, footer=message.round)

    def _has_late(self, now):
        return False


class Checked(Reducer):
    """Notes whether a message of another round is averaged."""

    odd = 0

    def _average(self, turn, vector, own, used):
        rounds = {message.footer for _, message in used}
        Checked.odd += bool(rounds - {self.arrays["rounds"][self.me] + 1}) and len(rounds) > 1
        super()._average(turn, vector, own, used)


TWINS = [AcknowledgesFirst, SendsWithoutWaiting, WaitsFirst]


def right_bits(n_workers=4, **settings):
    return run("simulator", n_workers, **settings).model.params


def is_wrong(want, runtime, queue):
    """Whether a run breaks off, or reduces without an input, or has other bits."""
    try:
        report = run(runtime, queue=queue, patience=None)
    except (PlaneError, SimulationError):
        return True
    return report.reduces.whole_share < 1.0 or bool((report.model.params != want).any())


@pytest.mark.parametrize("queue", [1, 2])
@pytest.mark.parametrize("twin", [None, *TWINS], ids=lambda twin: getattr(twin, "__name__", "none"))
def test_a_twin_is_caught(twin, queue, monkeypatch, seams):
    want = right_bits(queue=queue)
    if twin is not None:
        monkeypatch.setattr("hogshare.planes.replicas.plane.Reducer", twin)
    seams.clock.until_stuck_ns = 500_000_000
    links = Network(Link(latency=0.5))
    slow = Simulator(block_time=LogNormal(1.0, 1.0), network=links, seed=queue)
    caught = [is_wrong(want, runtime, queue) for runtime in ("threads", slow)]
    assert any(caught) == (twin is not None), caught


def test_a_footer_that_comes_first_is_caught(monkeypatch):
    """The twin lets a message be read before its values are there."""

    def post(self, values, places=None, round=0):
        values = np.array(values)
        old = np.array(self._values[:, self._places.shape[1] :][0])
        if not written(self, old[: len(values)], places, round):
            return False
        pending.append((self, values))
        if len(pending) > 2:
            edge, late = pending.pop(0)
            edge._values[:, edge._places.shape[1] :][:, : len(late)] = late
        return True

    pending, written = [], Edge.post
    want = right_bits()
    monkeypatch.setattr(Edge, "post", post)
    assert (run("threads").model.params != want).any()


@pytest.mark.parametrize("twin", [False, True])
def test_a_message_without_its_round_is_caught(twin, monkeypatch):
    """Somebody is left out, and comes back with messages of rounds that are over."""
    kind = type("Twin", (ReadsNoRound, Checked), {}) if twin else Checked
    if twin:
        kind._average = Checked._average
    monkeypatch.setattr("hogshare.planes.replicas.plane.Reducer", kind)
    monkeypatch.setattr(Replicas, "least_patience", 0.1)
    monkeypatch.setattr(Checked, "odd", 0)
    slow = Simulator(block_time=LogNormal(1.0, 2.0), slowness=[1.0, 40.0, 1.0, 1.0], seed=3)
    report = run(slow, reduces=40, graph="all", queue=2, patience=1e-3)
    assert report.reduces.left_out
    assert bool(Checked.odd) == twin


@pytest.mark.parametrize("send", ["model", "change"])
@pytest.mark.parametrize("graph", ["ring", "root", "all", "one-peer"])
@pytest.mark.sample(1)
def test_who_was_left_out_comes_back_and_nobody_waits_for_ever(graph, send, rounds, monkeypatch):
    monkeypatch.setattr(Replicas, "least_patience", 0.5)
    left_out = 0
    for seed in range(rounds(400)):
        links = Network(Link(latency=0.2 * (seed % 3)))
        slow = Simulator(block_time=LogNormal(1.0, 2.0), network=links, seed=seed)
        report = run(slow, graph=graph, send=send, reduces=12, queue=1 + seed % 2, patience=0.05)
        assert report.n_epochs == 1 and np.isfinite(report.model.params).all()
        left_out += len(report.reduces.left_out)
        assert send == "change" or is_even(report)
    assert left_out > 0
