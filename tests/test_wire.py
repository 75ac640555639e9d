"""Messages between ranks: the mailbox's contract, links, and what is counted."""

import pytest
import ranks
from ranks import HERE, needs_mpi

from hogshare.links import Link
from hogshare.runtimes.mpi.wire import EdgeTraffic, Line

CASES = {
    2: {"kept": ["wire queue=1", "wire queue=3", "link"]},
    4: {"kept": ["wire queue=2", "link"]},
}
TWINS = ["NumberFirst", "TakenFirst", "NoRoom", "TellingEarly", "DeliveringFirst"]
CASES[2]["broken"] = TWINS


@needs_mpi
@pytest.mark.parametrize("n_ranks", [2, 4])
def test_the_contract_between_real_ranks(n_ranks):
    job = ranks.run(n_ranks, HERE / "wire_conversations.py")
    assert job.returncode == 0, job.stderr[-2000:]
    lines = [line.rsplit(" ", 1) for line in job.stdout.splitlines()]
    found = dict(lines)
    wanted = {name: verdict for verdict, names in CASES[n_ranks].items() for name in names}
    assert found == wanted


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_a_line_is_the_link_that_describes_it():
    """A message alone takes what `Link.seconds` says; those behind it wait for the bandwidth."""
    link, clock = Link(latency=0.25, bandwidth=1000.0), Clock()
    line = Line(link, clock)
    assert line.send(500) == link.seconds(500)
    assert line.send(500) == link.seconds(1000)
    clock.now += 0.75
    assert line.send(500) == link.seconds(750)
    clock.now += 10.0
    assert line.send(500) == link.seconds(500)
    assert Line(Link(), clock).send(1 << 40) == 0.0
    assert Line(Link(bandwidth=0.0), clock).send(1) == float("inf")


def test_traffic_is_counted_by_kind_and_edge():
    traffic = EdgeTraffic()
    traffic.add_to("model", 0, 1, 100)
    traffic.add_to("model", 0, 1, 50)
    traffic.add_to("model", 0, 2, 50)
    traffic.add_to("update", 1, 0, 8)
    found = traffic.as_dict()
    assert set(found) == {"model", "update"}
    assert found["model"]["messages"] == 3 and found["model"]["bytes"] == 200
    assert found["model"]["edges"]["0 to 1"] == {"messages": 2, "bytes": 150}
    assert found["update"]["edges"] == {"1 to 0": {"messages": 1, "bytes": 8}}
