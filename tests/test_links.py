"""Links: when what is sent departs and is seen; and centres between whom they are emulated."""

import math
import threading
import time

import numpy as np
import pytest

from hogshare import Mirrors, Simulator, links, problems, solve
from hogshare.engine.emulated_links import Delayed
from hogshare.links import Line, Link
from hogshare.shm.mailbox import Edge, mail_bytes, mailbox_of, shapes
from hogshare.simulation import Constant

N = 40
RNG = np.random.default_rng(0)
X = RNG.standard_normal((600, 12))
PROBLEM = problems.linear(X, np.where(X @ RNG.standard_normal(12) > 0.0, 1, -1), alpha=0.01)


@pytest.mark.parametrize(
    ("at", "n_bytes", "departs"),
    [
        (0.0, 100, 1.0),
        (1.5, 100, 3.5),  # half of it before, half after
        (2.0, 100, 4.0),
        (2.5, 0, 3.0),
        (3.0, 100, 4.0),
        (4.5, 200, 8.5),  # over a whole outage and into the next
        (9.0, 50, 9.5),
    ],
)
def test_nothing_departs_in_an_outage(at, n_bytes, departs):
    link = Link(0.25, 100.0, outages=[(6.0, 7.0), (2.0, 3.0), (5.0, 6.0)])
    assert link.departs(at, n_bytes) == pytest.approx(departs)


def test_a_lines_seconds_are_counted_from_its_making():
    now = [100.0]
    line = Line(Link(0.5, 100.0, outages=[(1.0, 3.0)]), clock=lambda: now[0])
    assert line.send(50) == pytest.approx(1.0)
    now[0] = 101.0
    assert line.send(100) == pytest.approx(3.5)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"latency": -1.0}, "at least 0"),
        ({"bandwidth": -1.0}, "at least 0"),
        ({"bandwidth": math.nan}, "at least 0"),
        ({"outages": [(2.0, 1.0)]}, "do not overlap"),
        ({"outages": [(0.0, 2.0), (1.0, 3.0)]}, "do not overlap"),
        ({"outages": [(0.0, math.inf)]}, "do not overlap"),
        ({"outages": 3}, "pairs of seconds"),
    ],
)
def test_a_link_that_is_none_is_told(settings, told):
    with pytest.raises(ValueError, match=told):
        Link(**settings)


def test_names_and_files_stand_for_links(tmp_path):
    file = tmp_path / "links.json"
    file.write_text('{"latency": [[0, 1], [2, 0]], "bandwidth": [[1, 10], [20, 1]]}', "utf-8")
    assert Mirrors(2, links=file).edge_links(2) == [Link(1.0, 10.0), Link(2.0, 20.0)]
    given = Mirrors(3, links="20x:7.5ms").edge_links(3)
    assert given == [Link(0.0075, links.LAN.bandwidth / 20.0)] * 6
    circle = Mirrors(4, links="regions")
    near = [(i, (i + 1) % 4) for i in range(4)]
    found = zip(circle.edges(4), circle.edge_links(4), strict=True)
    assert [link.latency for edge, link in found if edge in near] == [0.01] * 4


class Posts:
    """A mailbox with one edge, whose link is emulated."""

    def __init__(self, link, queue=4):
        named = shapes(1, queue, N, N)
        self.box = mailbox_of({k: np.zeros(shape, kind) for k, (shape, kind) in named.items()})
        transport = Delayed([link], 8)
        transport.begin(self.box)
        self.writer, self.reader = Edge(self.box, 0, transport), Edge(self.box, 0)

    def arrivals(self, count):
        """When each of so many messages is seen, and what it says; they are taken."""
        found = []
        while len(found) < count:
            if (message := self.reader.poll()) is not None:
                found.append((time.perf_counter(), message.round))
                self.reader.take()
        return found


def test_a_message_is_seen_when_the_link_has_let_it_through():
    posts = Posts(Link(0.05, bandwidth=mail_bytes(0, N, 8) / 0.02))
    began = time.perf_counter()
    for number in range(3):
        assert posts.writer.post(np.ones(N), round=number)
    assert not posts.reader.has_mail and posts.reader.poll() is None
    assert 0.0 < posts.reader.due_in <= 0.07
    arrivals = posts.arrivals(3)
    assert [number for _, number in arrivals] == [0, 1, 2]
    for place, (when, _) in enumerate(arrivals):  # by turns on the line, then all as far
        assert when - began >= 0.05 + 0.02 * (place + 1)
    assert posts.reader.due_in is None and posts.writer.all_taken


def test_a_link_that_has_been_idle_saves_nothing_up():
    posts = Posts(Link(0.0, bandwidth=mail_bytes(0, N, 8) / 0.02))
    time.sleep(0.1)
    began = time.perf_counter()
    for number in range(2):
        assert posts.writer.post(np.ones(N), round=number)
    assert posts.arrivals(2)[1][0] - began >= 0.04


@pytest.mark.parametrize("runtime", ["threads", "processes"])
@pytest.mark.parametrize("difference", [0, 2, math.inf])
def test_a_run_on_emulated_links_takes_as_long_and_loses_nothing(runtime, difference):
    far = [[Link(0.02, 1e5)] * 3 for _ in range(3)]
    plane = Mirrors(3, links=far, every=20, clock_difference=difference, threshold=0.1)
    run = {"n_workers": 3, "runtime": runtime, "stop": 2, "seed": 0}
    report = solve(PROBLEM, plane=plane, **run)
    if difference == 0:  # a clock is over when all have come, and the next sent then
        clocks = int(report.exchanges.clocks.min())
        assert report.run_seconds >= 0.02 * (clocks - 1)
        again = solve(PROBLEM, plane=Mirrors(3, every=20, threshold=0.1), **run)
        np.testing.assert_array_equal(report.model.coef, again.model.coef)
    assert all(worker["rows"] == 400 for worker in report.workers)


@pytest.mark.parametrize("runtime", ["threads", "processes", "simulator"])
def test_a_link_that_drops_loses_nothing_and_catches_up(runtime):
    """Centre 0 cannot send for a part of the run; with all changes sent mirrors are one again."""
    down = Link(1e-3, outages=[(0.0, 1.0)])  # of the run, of which starting workers is a part
    rows = [[Link(1e-3)] * 3, [Link(1e-3)] * 3, [Link(1e-3)] * 3]
    rows[0] = [down] * 3
    plane = Mirrors(3, links=rows, every=20, clock_difference=3, threshold=0.0)
    by = Simulator(block_time=Constant(0.02)) if runtime == "simulator" else runtime
    report = solve(PROBLEM, plane=plane, n_workers=3, runtime=by, stop=3, seed=0, trace=1)
    assert report.run_seconds >= 0.4  # the others wait for it, three clocks ahead at most
    told = report.exchanges
    assert told.clocks.min() == told.clocks.max() == 30
    assert told.waits[1:, 0].sum() >= 0.2
    base = solve(PROBLEM, n_workers=1, runtime="caller", stop=3, seed=0, trace=1)
    begin = PROBLEM.objective(np.zeros(PROBLEM.n_features), np.zeros(1))
    # how far the others are ahead is their timing's
    assert report.objective - base.objective < 0.25 * (begin - base.objective)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("wam", "Did you mean 'wan'"),
        ("0x:3ms", "links must be a preset"),
        (3, "list of a list of Link"),
        ([[1.0]], "list of a list of Link"),
        ([[Link()], [Link(), Link()]], "list of a list of Link"),
    ],
)
def test_what_is_no_link_is_told_at_once(given, told):
    with pytest.raises((ValueError, TypeError), match=told):
        Mirrors(links=given)


@pytest.mark.parametrize(
    ("plane", "told"),
    [
        (Mirrors(3, links=links.preset("lan", 2)), "links are for 2 centres, but the run has 3"),
        (Mirrors(3, links=[[Link(bandwidth=0.0)] * 3] * 3), "never delivers anything"),
    ],
)
@pytest.mark.parametrize("runtime", ["threads", "simulator"])
def test_links_that_do_not_fit_are_told_before_a_run(plane, told, runtime):
    before = threading.active_count()
    with pytest.raises(ValueError, match=told):
        solve(PROBLEM, plane=plane, n_workers=3, runtime=runtime)
    assert threading.active_count() <= before + 1
