"""Messages between ranks: the mailbox's contract, links, and what is counted."""

import numpy as np
import pytest
import ranks
from ranks import HERE, needs_mpi

from hogshare.kernels import layout
from hogshare.links import Line, Link
from hogshare.links.traffic import Traffic
from hogshare.runtimes.mpi.mail import MailTransport
from hogshare.runtimes.mpi.site_news import SiteNews
from hogshare.shm.mailbox import RegisterEdge, mailbox_of, shapes

CASES = {
    2: {"kept": ["wire queue=1", "wire queue=3", "link", "in order", "boards", "answers"]},
    4: {"kept": ["wire queue=2", "link", "in order", "boards", "answers"]},
}
TWINS = ["NumberFirst", "TakenFirst", "NoRoom", "TellingEarly", "DeliveringFirst", "Overtaking"]
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
    traffic = Traffic()
    traffic.add("model", 0, 1, 100)
    traffic.add("model", 0, 1, 50)
    traffic.add("model", 0, 2, 50)
    traffic.add("update", 1, 0, 8)
    found = traffic.as_dict()
    assert set(found) == {"model", "update"}
    assert found["model"]["messages"] == 3 and found["model"]["bytes"] == 200
    assert found["model"]["edges"]["0 to 1"] == {"messages": 2, "bytes": 150}
    assert found["update"]["edges"] == {"1 to 0": {"messages": 1, "bytes": 8}}


class Recording:
    """In a channel's place: what is posted."""

    me, others = 0, [1]

    def __init__(self):
        self.posted = []

    def on(self, kind, handler):
        pass

    def post(self, *message):
        self.posted.append(message)


def test_a_board_that_was_read_is_not_waited_for():
    """A message may come between the count of messages and the reading of the newest."""
    arrays = shapes(1, 2, 4, 4)
    box = mailbox_of({name: np.zeros(shape, kind) for name, (shape, kind) in arrays.items()})
    mail = MailTransport(channel := Recording(), box, [(0, 1)], [None], are_registers=True)
    board = RegisterEdge(box, 0, mail)
    board.show(np.ones(4), None, 1)
    assert mail.poll() and len(channel.posted) == 1 and mail.has_sent_all
    board.show(np.ones(4), None, 2)
    assert not mail.poll() and not mail.has_sent_all  # the one before is under way
    mail._rounds[0], mail._is_under_way[0] = 2, False  # as if it had gone with the one before
    assert not mail.poll() and mail.has_sent_all and len(channel.posted) == 1


def test_mail_of_a_run_that_goes_on_is_sent_once():
    arrays = shapes(1, 2, 4, 4)
    box = mailbox_of({name: np.zeros(shape, kind) for name, (shape, kind) in arrays.items()})
    first = MailTransport(channel := Recording(), box, [(0, 1)], [None])
    edge = RegisterEdge(box, 0, first)
    assert edge.post(np.ones(4)) and first.poll() and len(channel.posted) == 1
    again = MailTransport(channel, box, [(0, 1)], [None])
    assert not again.poll() and len(channel.posted) == 1


class Site:
    """One of several in a process: its mailbox of one edge, and the mail of it.

    to : what is posted goes to these sites, at once
    """

    def __init__(self, me, reader, queue=1):
        arrays = shapes(1, queue, 4, 4)
        self.box = mailbox_of(
            {name: np.zeros(shape, kind) for name, (shape, kind) in arrays.items()}
        )
        self.me, self.others, self.to, self.handlers = me, [], {}, {}
        self.mail = MailTransport(self, self.box, [(0, 1)], [None], reader=lambda edge: reader[0])
        self.edge = RegisterEdge(self.box, 0, self.mail)

    def on(self, kind, handler):
        self.handlers[kind] = handler

    def post(self, to, kind, parts, *more):
        content = b"".join(np.ascontiguousarray(part).tobytes() for part in parts)
        if to in self.to:
            self.to[to].handlers[kind](self.me, np.frombuffer(content, np.uint8).copy())

    def read(self):
        """Take the next message; its round, or None."""
        message = self.edge.poll()
        if message is None:
            return None
        assert (message.values == message.round).all()
        self.edge.take()
        self.mail.poll()
        return message.round


@pytest.mark.parametrize("queue", [1, 3])
def test_an_edge_is_read_on_where_it_has_moved_to(queue):
    """From a site that has died to another, from there to the writer's own, and away again."""
    reader = [1]
    sites = [Site(k, reader, queue) for k in range(3)]
    for site in sites:
        site.to = dict(enumerate(sites))
    writer, round_ = sites[0], 0

    def posts():
        nonlocal round_
        round_ += 1
        assert writer.edge.post(np.full(4, float(round_)), None, round_)
        writer.mail.poll()
        return round_

    assert posts() == sites[1].read() and writer.edge.all_taken
    del writer.to[1]  # it dies
    posts()
    assert not writer.edge.all_taken
    writer.mail.bury(1)
    assert writer.edge.all_taken
    posts()  # which the writer sends before it knows
    assert writer.edge.all_taken
    for place in (2, 0, 2, 0):
        reader[0] = place
        for _ in range(3):
            assert posts() == sites[place].read() and writer.edge.all_taken
        assert sites[2 - place].read() is None


class Told:
    """In place of a table: what was told of the one other site's worker."""

    are_waited_for = True

    def __init__(self):
        self.rows, self.taken = np.zeros((1, layout.WORD * 8), np.int64), []

    def words(self):
        return np.zeros(1, np.int64)

    def size_of(self, site):
        return 1

    def rows_of(self, site):
        return self.rows

    def take_in(self, site, words):
        self.taken.append(int(words[0]))


class NoMail:
    are_registers, has_sent_all = False, True

    def poll(self):
        return False


def test_what_a_site_tells_counts_from_the_meeting_that_it_is_through():
    told = Told()
    progress = SiteNews(Recording(), told, [], NoMail())

    def tell(epoch_barriers, word):
        progress._take_in(1, np.array([epoch_barriers, word], float).view(np.uint8))

    tell(0, 10)
    assert told.taken == [10]
    tell(1, 11)  # it is through the meeting, and this site is not
    tell(1, 12)
    assert progress.poll() and told.taken == [10]
    progress.meet(np.array([False, False]))
    assert told.rows[0, layout.T_STATE] == layout.RESTING and told.taken == [10]
    progress.poll()
    assert told.taken == [10, 12]
    tell(0, 13)  # under way since before the meeting
    assert told.taken == [10, 12]
    tell(2, 14)
    progress.is_over = True
    progress.poll()
    tell(3, 15)
    assert told.taken == [10, 12, 14, 15]
