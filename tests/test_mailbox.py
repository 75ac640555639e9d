"""The contract of mailboxes, for every way from a writer to a reader; broken twins break it.

Steps interleave where a message is torn if it can be: before its values are written, between that
and its sending, and between sending and arriving. Whole runs of threads and processes follow.
"""

import os
import pickle
import random
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import hogshare
from hogshare.kernels import layout
from hogshare.kernels.jit.atomics import load, store
from hogshare.kernels.jit.decorators import JIT_DISABLED, kernel
from hogshare.kernels.jit.host import yield_core
from hogshare.kernels.mail import edge_slots
from hogshare.kernels.mail.edge_slots import (
    NO_SLOT,
    deliver,
    has_capacity,
    has_mail,
    next_slot,
    send,
    take,
)
from hogshare.shm.arena import Arena
from hogshare.shm.mailbox import AT_ONCE, Edge, mailbox_of, shapes

ROOT = Path(hogshare.__file__).parents[1]
SIZE = 40
EDGES = 3
EDGE = 1  # the others stay empty


def fresh(queue, dense=SIZE):
    """A mailbox in this process's memory."""
    arrays = shapes(EDGES, queue, SIZE, dense)
    return mailbox_of({name: np.zeros(shape, kind) for name, (shape, kind) in arrays.items()})


def content(round_):
    """Values and places that follow from the round; every third message has no places."""
    n = 1 + round_ * 7 % SIZE
    values = round_ + np.arange(n) / 64.0
    return values, None if round_ % 3 == 0 else (round_ + np.arange(n)) % SIZE


def assert_is(message, round_):
    """A message is all of one round."""
    values, places = content(round_)
    assert message.round == round_
    assert np.array_equal(message.values, values)
    assert (message.places is None) == (places is None)
    assert places is None or np.array_equal(message.places, places)


# -- ways from a writer to a reader


class InMemory:
    """One memory: what is posted is there."""

    def __init__(self, queue, edge=Edge):
        self.box = fresh(queue)
        self.writer = self.reader = edge(self.box, EDGE, self.transport())

    def transport(self):
        return AT_ONCE

    def move(self):
        """Let the transport do one thing, if it has anything to do."""


class Late(InMemory):
    """One memory, as on a virtual clock: a message arrives some time after it has been sent."""

    def transport(self):
        self.under_way = 0
        return self

    def send(self, box, edge):
        edge_slots.send_next(box, edge)
        self.under_way += 1

    def move(self):
        if self.under_way:
            edge_slots.deliver_next(self.box, EDGE)
            self.under_way -= 1


class Wire:
    """Two memories, as of two machines: slots are copied, and TAKEN comes back."""

    def __init__(self, queue, edge=Edge):
        self.here, self.there = fresh(queue), fresh(queue)
        self.writer, self.reader = edge(self.here, EDGE, self), edge(self.there, EDGE)

    def send(self, box, edge):
        edge_slots.send_next(box, edge)

    def move(self):
        sent, come = self.here.counters[EDGE], self.there.counters[EDGE]
        if come[layout.M_ARRIVED] < sent[layout.M_POSTED]:
            slot = come[layout.M_ARRIVED] % self.here.heads.shape[1]
            for name in ("values", "places"):
                getattr(self.there, name)[EDGE, slot] = getattr(self.here, name)[EDGE, slot]
            words = slice(layout.H_NUMBER + 1, None)
            self.there.heads[EDGE, slot, words] = self.here.heads[EDGE, slot, words]
            edge_slots.deliver_next(self.there, EDGE)
        elif sent[layout.M_TAKEN] < come[layout.M_TAKEN]:
            edge_slots.take_next(self.here, EDGE)


WAYS = [InMemory, Late, Wire]


# -- twins that break the contract, each in one step


class NumberFirst(Edge):
    """Lets the reader have the message before it is written."""

    def post(self, values, places=None, round=0):
        if edge_slots.find_slot(self._box, self._index) == NO_SLOT:
            return False
        slot = next_slot(self._box, self._index)
        self._transport.send(self._box, self._index)
        begin = self._places.shape[1]
        self._values[slot, begin : begin + len(values)] = values
        head = self._heads[slot]
        head[layout.H_COUNT], head[layout.H_DENSE], head[layout.H_ROUND] = 0, len(values), round
        return True


class TakenFirst(Edge):
    """Acknowledges a message when it is found, and not when it has been consumed."""

    def poll(self):
        message = super().poll()
        if message is not None:
            super().take()
        return message

    def take(self):
        pass


class NoRoom(Edge):
    """Writes into the next slot, whoever reads there."""

    def post(self, values, places=None, round=0):
        counters, taken = self._box.counters[self._index], layout.M_TAKEN
        before = counters[taken]
        counters[taken] = counters[layout.M_POSTED]
        try:
            return super().post(values, places, round)
        finally:
            counters[taken] = before


class Interleaved:
    """Values of a message, which the reader gets in between of when they are written."""

    def __init__(self, values, between):
        self.values, self.between = values, between

    def __len__(self):
        return len(self.values)

    def __array__(self, dtype=None, copy=None):
        self.between()
        return self.values


class Consumer:
    """A reader that may be stopped anywhere: what it has found must stay what it is."""

    def __init__(self, edge):
        self.edge, self.message, self.rounds = edge, None, 0

    def look(self):
        """Find the next message, if there is one, and check whatever is in hand."""
        if self.message is None:
            self.message = self.edge.poll()
        if self.message is not None:
            assert self.message.number == self.rounds + 1
            assert_is(self.message, self.rounds + 1)

    def take(self):
        """Be done with the message in hand."""
        self.look()
        if self.message is not None:
            self.message = None
            self.edge.take()
            self.rounds += 1


def converse(way, queue, seed, edge=Edge, n=200):
    """Send `n` messages, with the reader and the transport at work in between of all steps."""
    line, rng = way(queue, edge), random.Random(seed)
    consumer, sent = Consumer(line.reader), 0
    while consumer.rounds < n:
        what = rng.randrange(4)
        if what == 0 and sent < n:
            values, places = content(sent + 1)
            full = sent - consumer.rounds == queue
            went = line.writer.post(Interleaved(values, consumer.look), places, sent + 1)
            assert not (went and full), "more than the queue holds"
            sent += went
            if way is InMemory:
                assert went or full, "there was room"
        elif what == 1:
            line.move()
        elif what == 2:
            consumer.look()
        else:
            consumer.take()
        assert consumer.rounds <= sent <= consumer.rounds + queue


@pytest.mark.parametrize("queue", [1, 2, 3])
@pytest.mark.parametrize("way", WAYS)
def test_messages_come_whole_in_order_and_once(way, queue):
    for seed in range(5):
        converse(way, queue, seed)


@pytest.mark.parametrize("twin", [NumberFirst, TakenFirst, NoRoom])
@pytest.mark.parametrize("queue", [1, 2])
def test_broken_twins_are_caught(twin, queue):
    """In one memory, whatever the order of steps: each breaks a promise of its own."""
    for seed in range(5):
        with pytest.raises(AssertionError):
            converse(InMemory, queue, seed, twin)


@pytest.mark.parametrize("way", WAYS)
def test_a_message_is_acknowledged_when_it_is_taken_and_not_before(way):
    """NOTIFY-ACK: all is taken if TAKEN is POSTED, as the writer sees it."""
    line = way(queue=1)
    for number in range(1, 4):
        assert line.writer.all_taken
        assert line.writer.post(np.ones(2), None, 7)
        assert not line.writer.post(np.ones(2), None, 7)
        line.move()
        message = line.reader.poll()
        assert message.number == number and line.reader.poll().number == number
        line.move()
        assert not line.writer.all_taken
        line.reader.take()
        line.move()
        with pytest.raises(RuntimeError, match="poll"):
            line.reader.take()


def test_nothing_is_there_before_it_has_arrived():
    for way in (Late, Wire):
        line = way(queue=2)
        assert line.writer.post(np.ones(2)) and line.reader.poll() is None
        line.move()
        assert line.reader.poll() is not None


def test_a_number_that_does_not_fit_is_waited_for():
    """As of a transport that lets ARRIVED overtake the message."""
    box = fresh(queue=2)
    edge = Edge(box, EDGE)
    edge_slots.send_next(box, EDGE)
    box.counters[EDGE, layout.M_ARRIVED] = 1
    assert edge.poll() is None
    edge_slots.deliver_next(box, EDGE)  # which is message 2, in another slot
    assert edge.poll() is None
    box.heads[EDGE, 0, layout.H_NUMBER] = 1
    assert edge.poll().number == 1


def test_what_messages_hold():
    edge = Edge(fresh(queue=3), EDGE)
    assert edge.post(np.arange(3.0)) and edge.post([1.0, 2.0], [5, 4], 9) and edge.post([], [])
    whole = edge.poll()
    assert whole.places is None and list(whole.values) == [0.0, 1.0, 2.0] and whole.round == 0
    with pytest.raises(ValueError, match="read-only"):
        whole.values[0] = 1.0
    edge.take()
    some = edge.poll()
    assert list(some.values) == [1.0, 2.0] and list(some.places) == [5, 4] and some.round == 9
    with pytest.raises(ValueError, match="read-only"):
        some.places[0] = 1
    edge.take()
    none = edge.poll()
    assert none.values.size == 0 and none.places.size == 0
    edge.take()
    assert edge.poll() is None


def test_counters_and_slots_share_no_line():
    box = fresh(queue=2, dense=3)
    for words in (*box.counters.reshape(-1, layout.WORD), *box.heads.reshape(-1, layout.WORD)):
        assert words.nbytes == 128
    assert box.places.shape == (EDGES, 2, 48) and box.values.shape == (EDGES, 2, 64)
    apart = {layout.M_POSTED, layout.M_ARRIVED, layout.M_TAKEN}
    assert len({place // layout.WORD for place in apart}) == 3


@pytest.mark.skipif(not JIT_DISABLED, reason="looks between two lines of Python")
@pytest.mark.parametrize("number_first", [False, True])
def test_the_reader_may_look_between_any_two_stores(number_first, monkeypatch):
    """It finds the message whole or not at all; a twin numbers it, and has it arrive, first."""
    box = fresh(queue=1)
    edge, seen = Edge(box, EDGE), []

    def storing(array, index, value):
        array[index] = value
        seen.append(edge.poll())

    monkeypatch.setattr(edge_slots, "store", storing)
    if number_first:
        storing(box.heads[EDGE, 0], layout.H_NUMBER, 1)
        storing(box.counters[EDGE], layout.M_ARRIVED, 1)
    assert edge.post(content(1)[0], content(1)[1], 1)
    found = {message.round for message in seen if message is not None}
    assert found == ({0, 1} if number_first else {1})


# -- two at once


@kernel
def write_rounds(box, edge, n, stop):
    """Post `n` messages whose values and head are all their round."""
    for round_ in range(1, n + 1):
        while not has_capacity(box, edge):
            if load(stop, 0) != 0:
                return
            yield_core()
        slot = next_slot(box, edge)
        values = box.values[edge, slot]
        for k in range(values.shape[0]):
            values[k] = round_
        box.heads[edge, slot, layout.H_ROUND] = round_
        send(box, edge)
        deliver(box, edge, box.counters[edge, layout.M_POSTED])


@kernel
def read_rounds(box, edge, n, stop):
    """Take so many; how many were torn, or not the next."""
    torn = 0
    for round_ in range(1, n + 1):
        while not has_mail(box, edge):
            if load(stop, 0) != 0:
                return torn
            yield_core()
        slot = (round_ - 1) % box.heads.shape[1]
        values = box.values[edge, slot]
        whole = box.heads[edge, slot, layout.H_ROUND] == round_
        for k in range(values.shape[0]):
            whole = whole and values[k] == round_
        if not whole:
            torn += 1
        take(box, edge, round_)
    store(stop, 0, 1)
    return torn


@pytest.mark.skipif(JIT_DISABLED, reason="the stand-ins serve one thread only")
@pytest.mark.parametrize("queue", [1, 2, 5])
def test_no_message_is_torn_between_threads(queue, rounds):
    box, stop, n = fresh(queue), np.zeros(1, np.int64), rounds(500_000)
    write_rounds(box, EDGE, 0, stop)  # compiled before
    writer = threading.Thread(target=write_rounds, args=(box, EDGE, n, stop))
    writer.start()
    try:
        assert read_rounds(box, EDGE, n, stop) == 0
    finally:
        stop[0] = 1
        writer.join()
    assert (box.counters[EDGE, :: layout.WORD] == n).all() and n >= 10_000


def write_all(edge, n):
    """Post `n` messages by one call each."""
    for round_ in range(1, n + 1):
        values, places = content(round_)
        while not edge.post(values, places, round_):
            time.sleep(0)


def read_all(edge, n, seconds=60.0):
    """Take and check as many."""
    deadline = time.monotonic() + seconds
    for round_ in range(1, n + 1):
        while (message := edge.poll()) is None:
            assert time.monotonic() < deadline, f"round {round_} never arrives"
            time.sleep(0)
        assert message.number == round_
        assert_is(message, round_)
        edge.take()


@pytest.mark.parametrize("queue", [1, 3])
def test_ten_thousand_messages_between_two_processes(queue):
    arena, n = Arena.create(shapes(EDGES, queue, SIZE, SIZE)), 10_000
    ours, theirs = socket.socketpair()
    with ours, theirs:
        code = f"import test_mailbox; test_mailbox.be_the_writer({theirs.fileno()}, {n})"
        paths = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])
        with subprocess.Popen(
            [sys.executable, "-c", code],
            pass_fds=[theirs.fileno()],
            env={**os.environ, "PYTHONPATH": paths},
        ) as process:
            socket.send_fds(ours, [pickle.dumps(arena.describe())], [arena.fileno()])
            try:
                box = mailbox_of({name: arena[name] for name in arena.names})
                read_all(Edge(box, EDGE), n)
            except BaseException:
                process.kill()
                raise
        assert process.returncode == 0
    assert (box.counters[EDGE, :: layout.WORD] == n).all()
    del box
    arena.close()


def be_the_writer(fd, n):
    """In the other process."""
    with socket.socket(fileno=fd) as sock:
        data, (memory,), _, _ = socket.recv_fds(sock, 1 << 16, 1)
    arena = Arena.attach(memory, pickle.loads(data))
    os.close(memory)
    write_all(Edge(mailbox_of({name: arena[name] for name in arena.names}), EDGE), n)
