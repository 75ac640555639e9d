"""Atomic words: nothing is lost, old values are returned, every polled word is loaded atomically.

Each protocol has a broken twin beside it (plain loads, plain adds), which has to fail.
"""

import os
import subprocess
import sys
import textwrap
import threading
import time

import numba
import numpy as np
import pytest

from hogshare.kernels.jit import atomics
from hogshare.kernels.jit.decorators import JIT_DISABLED, kernel
from hogshare.kernels.schedule import repair

pytestmark = pytest.mark.skipif(JIT_DISABLED, reason="the stand-ins serve one thread only")

ROUNDS = 2_000_000
PATIENCE = 60.0  # seconds
ARRIVED = 0


@kernel
def meet(words, n):
    """Wait until `n` threads are here, so that they work at the same time."""
    atomics.fetch_add(words, ARRIVED, 1)
    while atomics.load(words, ARRIVED) < n:
        pass


@kernel
def count(words, counter, total, rounds):
    meet(words, 2)
    for _ in range(rounds):
        atomics.fetch_add(counter, 1, 1)
        atomics.add_float(total, 1, 0.5)


@kernel
def swap(words, place, me, gained, rounds):
    """What a thread puts, less what it finds: over all threads that is what is left in the end."""
    meet(words, 2)
    for i in range(rounds):
        value = place.dtype.type((2 * i + me) % 4099)
        gained[me] += value - atomics.swap_float(place, 1, value)


@kernel
def count_plainly(words, counter, rounds):
    meet(words, 2)
    for _ in range(rounds):
        value = atomics.load(counter, 1)
        atomics.fence()  # time to be overtaken in, so that threads of one core lose counts as well
        atomics.store(counter, 1, value + 1)


@kernel
def draw(words, tickets, mine, rounds):
    meet(words, 2)
    for i in range(rounds):
        mine[i] = atomics.fetch_add(tickets, 0, 1)


@kernel
def lock_and_count(words, lock, counter, me, rounds):
    """A plain counter under a word taken by compare-exchange and given back by a store."""
    meet(words, 2)
    for i in range(rounds):
        while atomics.compare_exchange(lock, 0, 0, me) != 0:
            pass
        counter[i & 1] += 1
        atomics.store(lock, 0, 0)


@kernel
def pass_on(mailbox, message, me, rounds):
    """Two threads hand a plain message to and fro; the word orders it."""
    wrong = 0
    for i in range(rounds):
        while atomics.load(mailbox, 0) != 2 * i + me:
            pass
        if message[0] != 2 * i + me:
            wrong += 1
        message[0] = 2 * i + me + 1
        atomics.store(mailbox, 0, 2 * i + me + 1)
    return wrong


@kernel
def tiny(words, floats, answers):
    answers[0] = atomics.fetch_add(words, 0, 5)
    answers[1] = atomics.exchange(words, 0, 40)
    answers[2] = atomics.compare_exchange(words, 0, 41, 1)
    answers[3] = atomics.compare_exchange(words, 0, 40, 2)
    answers[4] = atomics.load(words, 0)
    atomics.store(words, 0, -7)
    answers[5] = atomics.load(words, 0)
    atomics.add_float(floats, 1, 0.25)
    atomics.prefetch(floats, 0)
    atomics.prefetch(floats, 1_000_000_000)
    atomics.prefetch_to_write(floats, 0)
    atomics.prefetch_to_write(floats, 1_000_000_000)


@kernel
def spin(word):
    while atomics.load(word, 0) == 0:
        pass


@kernel
def spin_plainly(word):
    while word[0] == 0:
        pass


def together(function, *arguments):
    """Call `function` in two threads, one argument tuple each; their answers."""
    answers = [None] * len(arguments)

    def call(k, args):
        answers[k] = function(*args)

    threads = [threading.Thread(target=call, args=(k, a)) for k, a in enumerate(arguments)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def words(n=32):
    return np.zeros(n, np.int64)


def test_each_operation_returns_what_stood_there():
    w, answers = np.array([3], np.int64), words(6)
    for dtype in (np.float32, np.float64):
        floats = np.ones(2, dtype)
        w[0] = 3
        tiny(w, floats, answers)
        assert answers.tolist() == [3, 8, 40, 40, 2, -7]
        assert w[0] == -7
        assert floats.tolist() == [1.0, 1.25]


def test_two_threads_lose_no_add():
    w, counter, total = words(), words(), np.zeros(2)
    count(np.ones(1, np.int64), counter, total, 0)
    together(count, *[(w, counter, total, ROUNDS)] * 2)
    assert counter[1] == 2 * ROUNDS
    assert total[1] == ROUNDS


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_value_that_is_put_is_found_once(dtype):
    w, place, gained = words(), np.zeros(2, dtype), np.zeros(2)
    swap(np.ones(1, np.int64), place.copy(), 0, gained, 0)
    together(swap, *[(w, place, me, gained, ROUNDS) for me in range(2)])
    assert gained.sum() == place[1] != 0.0


def test_two_threads_lose_plain_adds():
    """The broken twin. One try may be lucky, above all where the threads share one core."""
    count_plainly(np.ones(1, np.int64), words(), 0)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        shared, counter = words(), words()
        together(count_plainly, *[(shared, counter, ROUNDS)] * 2)
        if counter[1] < 2 * ROUNDS:
            return
    pytest.fail("plain adds lost nothing: this test sees no difference")


def test_every_ticket_is_drawn_once():
    w, tickets, rounds = words(), words(), 300_000
    mine = np.zeros((2, rounds), np.int64)
    together(draw, *[(w, tickets, line, rounds) for line in mine])
    np.testing.assert_array_equal(np.sort(mine, axis=None), np.arange(2 * rounds))
    assert (np.diff(mine, axis=1) > 0).all()


def test_a_word_taken_by_compare_exchange_excludes():
    w, lock, counter, rounds = words(), words(), words(), 50_000
    together(lock_and_count, *[(w, lock, counter, me, rounds) for me in (1, 2)])
    assert counter.sum() == 2 * rounds


def test_a_store_carries_what_was_written_before():
    mailbox, message, rounds = words(), words(), 2_000
    assert together(pass_on, *[(mailbox, message, me, rounds) for me in (0, 1)]) == [0, 0]
    assert message[0] == 2 * rounds


def llvm(function, *arguments):
    """Optimised LLVM of a kernel, compiled here: what comes from the cache is machine code only."""
    fresh = numba.njit(function.py_func)
    fresh(*arguments)
    (text,) = fresh.inspect_llvm().values()
    return text


def test_a_polled_word_compiles_to_an_atomic_load():
    assert "load atomic i64" in llvm(spin, np.ones(1, np.int64))
    assert "load atomic" not in llvm(spin_plainly, np.ones(1, np.int64))


def test_words_are_ordered_as_their_file_promises():
    row, control = words(16), words(160)
    refuse, bury = llvm(repair.refuse, row), llvm(repair.bury, control, row)
    put_back = llvm(repair.put_back, words(16), control, 0, 0)
    assert "cmpxchg" in refuse and "acq_rel acquire" in refuse
    assert "load atomic i64" in bury and "acquire" in bury
    assert "store atomic i64" in bury and "release" in bury
    assert "atomicrmw add" in put_back and "acq_rel" in put_back


HANDSHAKE = """
    import sys, threading, time
    import numpy as np
    import test_atomics

    wait = getattr(test_atomics, sys.argv[1])
    wait(np.ones(1, np.int64))  # compiled
    word = np.zeros(1, np.int64)
    waiter = threading.Thread(target=wait, args=(word,), daemon=True)
    waiter.start()
    time.sleep(0.1)
    word[0] = 1
    waiter.join(1.0)
    print("stuck" if waiter.is_alive() else "through", flush=True)
    import os
    os._exit(0)
"""


@pytest.mark.parametrize(("wait", "end"), [("spin", "through"), ("spin_plainly", "stuck")])
def test_a_waiter_sees_the_word_change_and_its_broken_twin_never_does(tmp_path, wait, end):
    script = tmp_path / "handshake.py"
    script.write_text(textwrap.dedent(HANDSHAKE))
    path = os.pathsep.join([os.path.dirname(__file__), *(p for p in sys.path if p)])
    answer = subprocess.run(
        [sys.executable, str(script), wait],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert answer.stdout.strip() == end, answer.stderr
