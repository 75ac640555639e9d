"""The master: snapshots that are not torn, sums that lose nothing, a death at any point."""

import random
import threading
import time

import cases
import numpy as np
import pytest

from hogshare import PSSP, SSP, Fraction, Throttled, barriers, planes
from hogshare.engine.stops import Stop
from hogshare.kernels import layout
from hogshare.kernels.exchange import master_updates
from hogshare.kernels.exchange.copy_exchange import exchange_weight
from hogshare.kernels.jit.atomics import fence, fetch_add, load, store
from hogshare.kernels.jit.decorators import JIT_DISABLED, kernel
from hogshare.kernels.mail import edge_slots
from hogshare.kernels.mail.edge_slots import slot_of
from hogshare.kernels.schedule import epoch_schedule, replay
from hogshare.planes import Master
from hogshare.rules import SGD

WORDS = 64


def made(form="csr", plane=None, **settings):
    problem, *_ = cases.problem(form, alpha=0.05)
    settings = {"n_workers": 3, "block": 4, "stop": Stop(epochs=3), "rule": SGD(batch=4)} | settings
    return cases.session(problem, plane=plane or Master(), **settings)


def message(session, worker, number):
    """Copies of a posted message's places, their changes, and those of the intercepts."""
    box = session.mail.box
    slot = slot_of(box, number)
    count, dense = (box.heads[worker, slot, k] for k in (layout.H_COUNT, layout.H_DENSE))
    values, begin = box.values[worker, slot].copy(), box.places.shape[2]
    if box.heads[worker, slot, layout.H_WHOLE]:
        w, columns = session.vector.w, session.settings.n_columns
        begin = begin or dense - columns
        changes = values.view(w.dtype)[: len(w)].astype(np.float64)
        return np.arange(len(w)), changes, values[begin : begin + columns]
    return box.places[worker, slot, :count].copy(), values[:count], values[begin : begin + dense]


def interleave(session, seed):
    """Turns of one block in random order, the master among them, to the end of the run."""
    rng = random.Random(seed)
    n = session.settings.n_workers
    workers = {k: session.worker(k) for k in range(n)}
    assert all(worker.join() for worker in workers.values())
    side = session.master()
    for _ in range(100_000):
        k = rng.randrange(n + 1)
        if k == n:
            if side.serve() == master_updates.OVER:
                return session
        elif k in workers and workers[k].run_quantum(1) == layout.QUANTUM_DONE:
            workers.pop(k).leave()
    raise AssertionError("the run does not end")


@pytest.mark.parametrize("rule", [SGD(batch=4), SGD()], ids=str)
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("gradients", [1, 2, 5])
def test_every_message_is_in_the_model_once(form, gradients, rule):
    """However turns interleave, whoever takes it; the sum is followed beside, by messages."""
    for seed in range(4):
        session = made(form, Master(gradients), rule=rule)
        session.schedule.table[:, layout.T_HELPS] = seed % 2
        s, counters = session, session.mail.box.counters
        start = s.vector.w.astype(np.float64), s.vector.intercept.copy()
        total, bias = start[0].copy(), start[1].copy()
        seen = np.zeros(3, np.int64)
        post = []

        rng = random.Random(seed)
        workers = {k: session.worker(k) for k in range(3)}
        assert all(worker.join() for worker in workers.values())
        side = session.master()
        for _ in range(10_000):
            k = rng.randrange(4)
            if k == 3:
                if side.serve() == master_updates.OVER:
                    break
            elif k in workers:
                if workers[k].run_quantum(1) == layout.QUANTUM_DONE:
                    workers.pop(k).leave()
                while seen[k] < counters[k, layout.M_POSTED]:
                    seen[k] += 1
                    places, changes, intercepts = message(s, k, seen[k])
                    assert len(set(places)) == len(places)
                    post.append(places)
                    total[places] += changes
                    bias += intercepts
        else:
            raise AssertionError("the run does not end")
        assert len(post) == counters[:, layout.M_TAKEN].sum() == 3 * 6
        np.testing.assert_allclose(s.vector.w, total, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(s.vector.intercept, bias, rtol=1e-9)
        assert (session.word(layout.MAIL_HELPED) > 0) == (seed % 2 == 1)
        updates = -(-len(post) // gradients)
        assert session.word(layout.VERSION) == updates
        assert session.word(layout.WRITES) == 2 * updates
        assert session.master_is_idle()


def test_ages_are_versions_and_staleness_is_the_pushes_of_others():
    session = made(plane=Master(), n_workers=2)
    first, second = session.worker(0), session.worker(1)
    side = session.master()
    assert first.join() and second.join()
    first.run_quantum(1)
    second.run_quantum(2)
    side.serve()
    s = session
    assert session.word(layout.VERSION) == 3
    # all three were computed from version 0 and applied in turns: first, second, second
    assert list(s.mail.ages[0, :3]) == [1, 0, 0]
    assert list(s.mail.ages[1, :3]) == [0, 1, 1]
    assert list(s.schedule.staleness[0, :3]) == [1, 0, 0]
    assert list(s.schedule.staleness[1, :3]) == [0, 2, 0]  # the last missed one of its own, too
    assert s.schedule.table[1, layout.T_STALENESS] == 1


@pytest.mark.parametrize(
    ("plane", "counted"),
    [
        (Master(), [1.0, 1.0, 1.0]),
        (Master(cutoff=1), [1.0, 1.0, 0.0]),
        (Master(cutoff=0), [1.0, 0.0, 0.0]),
        (Master(damped=True), [1.0, 1 / 2, 1 / 3]),
        (Master(gradients=3, damped=True), [1.0, 1.0, 1.0]),
    ],
)
def test_old_messages_count_for_less(plane, counted):
    session = made(plane=plane, n_workers=2)
    first, second = session.worker(0), session.worker(1)
    assert first.join() and second.join()
    first.run_quantum(1)
    second.run_quantum(2)
    s = session
    start = s.vector.w.astype(np.float64)
    want = start.copy()
    for posted, share in zip(((0, 1), (1, 1), (1, 2)), counted, strict=True):
        places, changes, _ = message(s, *posted)
        want[places] += share * changes
    session.master().serve()
    np.testing.assert_allclose(s.vector.w, want, rtol=1e-5, atol=1e-7)
    assert s.schedule.table[1, layout.T_DROPPED] == counted.count(0.0)


def test_a_worker_waits_when_its_slots_are_full():
    session = made(n_workers=2)
    worker = session.worker(0)
    assert worker.join()
    assert [worker.run_quantum(1) for _ in range(3)] == [
        layout.QUANTUM_OVER,
        layout.QUANTUM_OVER,
        layout.QUANTUM_WAIT,
    ]
    assert session.schedule.table[0, layout.T_BLOCK] == layout.NO_BLOCK  # it holds none meanwhile
    session.master().serve()
    assert worker.run_quantum(1) == layout.QUANTUM_OVER


def test_a_block_stays_in_hand_while_the_snapshot_cannot_be_read():
    """As after the master's death in the middle of an update."""
    session = made(n_workers=2)
    worker = session.worker(0)
    assert worker.join()
    session.schedule.control[layout.WRITES] = 1
    assert worker.run_quantum(1) == layout.QUANTUM_WAIT
    block = session.schedule.table[0, layout.T_BLOCK]
    assert block >= 0
    assert session.word(layout.READERS) == 0
    session.schedule.control[layout.WRITES] = 2
    assert worker.run_quantum(1) == layout.QUANTUM_OVER
    assert session.schedule.done[0, block] == 1


def near(table, me):
    """SSP(1) as a barrier of one's own."""
    others = table.in_run.copy()
    others[me] = False
    return bool((table.clock[others] >= table.clock[me] - 1).all())


@pytest.mark.parametrize(
    "barrier", [SSP(1), SSP(3), Fraction(0.5), PSSP(1, 1), Throttled(2), near], ids=barriers.name_of
)
def test_who_passes_a_barrier_reads_what_it_has_waited_for(barrier):
    """However turns of workers and messages taken interleave: all that their clocks count, but for
    what is in an unfinished sum.
    """
    held = 0
    for seed, gradients in enumerate((1, 1, 1, 3)):
        plane = Master(gradients)
        session = made(plane=plane, barrier=barrier, stop=Stop(epochs=5), seed=seed + 1)
        session.barrier = barrier if barrier is near else None
        s, rng = session, random.Random(seed)
        box = s.mail.box
        posted, acknowledged = box.counters[:, layout.M_POSTED], box.counters[:, layout.M_TAKEN]
        workers = {k: session.worker(k) for k in range(3)}
        assert all(worker.join() for worker in workers.values())
        taken = []  # whose messages, in their order
        for _ in range(10_000):
            k = rng.randrange(6)
            if k >= 3:  # the master takes a message
                before = acknowledged[k - 3]
                replay.take_again(s.plan, s.schedule, s.vector, s.mail, k - 3)
                taken += [k - 3] * int(acknowledged[k - 3] - before)
            elif k in workers:
                worker, clocks = workers[k], s.schedule.table[:, layout.T_CLOCK].copy()
                mailed = posted[k]
                answer = worker.run_quantum(1)
                if answer == layout.QUANTUM_WAIT and worker.must_ask():
                    worker.ask()
                held += answer == layout.QUANTUM_WAIT
                if posted[k] > mailed:
                    head = box.heads[k, slot_of(box, posted[k])]
                    read = taken[: gradients * head[layout.H_VERSION]]
                    missing = [max(0, clocks[j] - read.count(j)) for j in range(3)]
                    assert sum(missing) <= gradients - 1
                if answer == layout.QUANTUM_DONE:
                    workers.pop(k).leave()
            if not workers and (posted == acknowledged).all():
                break
        assert len(taken) == s.schedule.table[:, layout.T_BLOCKS].sum() == 5 * 6
    assert held > 0


class Died(Exception):
    """The master is gone."""


def messages_in(w, changes):
    """How many messages, each at most once, a model can be the sum of."""
    found = []
    for mask in np.ndindex(*[2] * len(changes)):
        total = sum((c for c, is_in in zip(changes, mask, strict=True) if is_in), np.zeros(len(w)))
        if np.allclose(w, total, rtol=1e-6, atol=1e-9):
            found.append(sum(mask))
    return found


@pytest.mark.skipif(not JIT_DISABLED, reason="dies between two lines of Python")
@pytest.mark.parametrize("who", ["the master", "a worker"])
@pytest.mark.parametrize("rule", [SGD(batch=4), SGD()], ids=str)
@pytest.mark.parametrize("gradients", [1, 2])
def test_a_master_may_die_between_any_two_stores(gradients, rule, who, monkeypatch):
    """Its successor's model is that of whole updates; at most one sum is lost."""
    whole = None
    for moment in range(1, 400):
        session = made(plane=Master(gradients), n_workers=2, seed=5, rule=rule)
        workers = [session.worker(k) for k in range(2)]
        assert all(worker.join() for worker in workers)
        s = session
        for worker in workers:
            worker.run_quantum(2)
        changes = []
        for posted in ((0, 1), (1, 1), (0, 2), (1, 2)):
            places, values, _ = message(s, *posted)
            change = np.zeros(len(s.vector.w))
            change[places] = values
            changes.append(change)
        left = [moment]

        def dying(array, index, value, left=left):
            left[0] -= 1
            if left[0] == 0:
                raise Died
            array[index] = value

        with monkeypatch.context() as patch:
            patch.setattr(master_updates, "store", dying)
            patch.setattr(edge_slots, "store", dying)
            try:
                if who == "a worker":
                    s.schedule.table[0, layout.T_HELPS] = 1
                    for _ in range(2):
                        groups = s.schedule, s.vector, s.mail
                        master_updates.help_master(s.plan, *groups, 0)
                else:
                    session.master().serve()
            except Died:
                pass
            else:
                whole = moment
                break
        side = session.master()
        if who == "a worker":
            side.take_over()  # of a master that has died at nothing
            assert session.word(layout.SERVING) == 1
            master_updates.take_over(s.schedule, s.vector, s.mail, 0)
        else:
            side.take_over()
        assert session.word(layout.WRITES) % 2 == 0
        assert session.word(layout.JOURNAL) == session.word(layout.GATHERED) == 0
        # only whole updates, and none twice
        assert session.word(layout.VERSION) * gradients in messages_in(s.vector.w, changes)
        side.serve()
        assert (s.mail.box.counters[:, layout.M_TAKEN] == 2).all()
        counted = messages_in(s.vector.w, changes)
        assert session.word(layout.VERSION) * gradients in counted
        lost = 4 - max(counted) - session.word(layout.GATHERED)
        assert lost <= gradients - 1
    assert whole is not None and whole > 30


def weight(session, one_of, n_rows):
    """What each coordinate's change is multiplied by, as `docs/exchange.md` derives it."""
    if session.plan.fold != epoch_schedule.WEIGHTED:
        return 1.0 / one_of
    s, columns = session, session.settings.n_columns
    decay = s.rule.alpha * (1.0 - s.rule.l1_ratio) if s.rule.penalty else 0.0
    curved = np.repeat(s.vector.curvature.astype(np.float64) + decay, columns)
    z = s.private(0).local[layout.L_ETA, 0] * n_rows * curved
    return exchange_weight(z, float(one_of))


@pytest.mark.parametrize("fold", ["weighted", "mean", "sum"])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize(
    "settings",
    [{}, {"penalty": "l1"}, {"penalty": "elasticnet"}, {"penalty": None}, {"weighted": True}],
    ids=str,
)
@pytest.mark.parametrize("copied", [False, True])
def test_what_the_master_adds_is_the_weight_times_what_the_worker_has_changed(
    fold, columns, settings, copied, monkeypatch
):
    """On the rows' places, and of a whole copy; the model moves by just that."""
    monkeypatch.setattr(planes.master, "COPIED_VALUES", 0.0 if copied else np.inf)
    block = 3
    settings = {"alpha": 0.05} | settings
    for dtype in cases.DTYPES:
        problem, *_ = cases.problem("csr", dtype, columns, **settings)
        s = cases.session(problem, n_workers=2, plane=Master(fold=fold), block=block)
        assert s.plan.copied == (fold != "sum" and copied)
        workers = [s.worker(k) for k in range(2)]
        assert all(worker.join() for worker in workers)
        rng = np.random.default_rng(0)
        s.vector.w[:] = rng.standard_normal(len(s.vector.w))
        workers[1].run_quantum(1)  # is under way, so that the next is one of two
        workers[0].run_quantum(1)
        private, box = s.private(0), s.mail.box
        places, values, _ = message(s, 0, 1)
        one_of = int(box.heads[0, 0, layout.H_PROPOSALS])
        assert one_of == (1 if fold == "sum" else 2)
        base = np.where(s.plan.copied, private.base, s.vector.w)
        mine = np.tile(private.local[layout.L_SCALE], len(base) // columns) * private.w
        want = np.zeros(len(base))
        at = np.where(places < 0, -1 - places, places)
        want[at] = (weight(s, one_of, block) * (mine - base))[at] if fold != "sum" else 0.0
        want[at[places < 0]] = -base[at[places < 0]]
        if fold == "sum":
            want[at] = (private.w.astype(np.float64) - s.vector.w)[at]
        got = np.zeros(len(base))
        got[at] = values
        tight = 1e-12 if dtype == "float64" else 1e-5
        np.testing.assert_allclose(got, want, rtol=tight, atol=tight)
        if s.plan.copied:
            assert set(np.flatnonzero(want)) <= set(at)
        before, other = s.vector.w.astype(np.float64), message(s, 1, 1)
        s.master().serve()
        np.add.at(before, np.abs(at), np.where(places < 0, 0.0, values))
        clean = np.setdiff1d(at[places >= 0], np.where(other[0] < 0, -1 - other[0], other[0]))
        assert (s.vector.w[clean] == before[clean].astype(dtype)).all()


def test_a_coordinate_that_a_worker_has_clipped_is_exactly_zero():
    """If the model's is no larger than what was clipped; else it comes nearer by a share."""
    problem, *_ = cases.problem("csr", penalty="l1", alpha=0.05)
    for gradients in (1, 2):
        s = cases.session(problem, n_workers=2, plane=Master(gradients), block=8)
        box = s.mail.box
        s.vector.w[:4] = 0.1, -0.3, 0.3, 0.7
        for worker in range(gradients):
            box.places[worker, 0, :4] = -1, -2, -3, 3
            box.values[worker, 0, :4] = -0.25, 0.3, -0.1, 0.01
            head = box.heads[worker, 0]
            head[layout.H_COUNT], head[layout.H_DENSE], head[layout.H_PROPOSALS] = 4, 1, 2
            edge_slots.send_next(box, worker)
            edge_slots.deliver_next(box, worker)
        s.master().serve()
        once = [0.0, 0.0, 0.25, 0.71]
        twice = [0.0, 0.0, 0.2, 0.72]
        want = once if gradients == 1 else twice
        np.testing.assert_allclose(s.vector.w[:4], want, atol=1e-15)
        assert (s.vector.w[:2] == 0.0).all()


def test_a_message_is_one_of_all_that_begin_at_about_its_snapshot():
    """What others have had taken or posted since, its own under way, and who computes one."""

    @kernel
    def count(plan, schedule, mail, me):
        return master_updates.proposals(plan, schedule, mail, me)

    s = made(n_workers=3, rule=SGD())
    workers = [s.worker(k) for k in range(3)]
    groups = s.plan, s.schedule, s.mail
    assert workers[0].join()
    assert count(*groups, 0) == 1  # nobody else is in the run
    assert workers[1].join() and workers[2].join()
    assert count(*groups, 0) == 3
    heads = s.mail.box.heads[..., layout.H_PROPOSALS]
    workers[1].run_quantum(2)
    assert list(heads[1, :2]) == [3, 4]  # of which the first is not in what the second has read
    workers[0].run_quantum(1)
    assert heads[0, 0] == 3  # itself and two
    s.master().serve()
    workers[2].run_quantum(1)
    assert heads[2, 0] == 3  # all others' are in what it has read
    table = s.schedule.table
    table[2, layout.T_PROPOSALS] = 7
    assert count(*groups, 2) == 7  # in a replay
    many = made(plane=Master(9), n_workers=3, rule=SGD())
    assert count(many.plan, many.schedule, many.mail, 0) == 9  # an update sums so many


@kernel
def write_versions(control, words, until, guarded):
    """A master's writes: all words become the version, again and again."""
    version = 0
    while load(control, until) == 0:
        version += 1
        if guarded:
            store(control, layout.WRITES, load(control, layout.WRITES) + 1)
            fence()
        for j in range(words.shape[0]):
            words[j] = version
        if guarded:
            store(control, layout.WRITES, load(control, layout.WRITES) + 1)
    return version


@kernel
def read_versions(control, words, copy, until, want, looked_twice):
    """Read all words again and again; returns accepted reads and how many of them were torn."""
    accepted = 0
    torn = 0
    while accepted < want:
        before = load(control, layout.WRITES)
        if before % 2 != 0:
            continue
        for j in range(words.shape[0]):
            copy[j] = words[j]
        fence()
        if looked_twice and load(control, layout.WRITES) != before:
            continue
        accepted += 1
        for j in range(words.shape[0]):
            if copy[j] != copy[0]:
                torn += 1
                break
    store(control, until, 1)
    return torn


@pytest.mark.skipif(JIT_DISABLED, reason="the stand-ins serve one thread only")
@pytest.mark.parametrize("protocol", ["whole", "one look", "no guard"])
def test_no_snapshot_is_torn(protocol, rounds):
    """100 million words with --long; the broken twins are caught."""
    whole = protocol == "whole"
    reads = rounds(100_000_000 // WORDS) if whole else 200_000
    guarded, looked_twice = protocol != "no guard", protocol != "one look"
    until = layout.STOP

    def race():
        """Torn reads among so many, and how often was written meanwhile."""
        control = np.zeros(layout.N_CONTROL * layout.WORD, np.int64)
        words, copy = np.zeros(WORDS), np.zeros(WORDS)
        writes = []
        writer = threading.Thread(
            target=lambda: writes.append(write_versions(control, words, until, guarded))
        )
        store_one(control, until, 1)
        write_versions(control, words, until, guarded)  # compiled before the race
        store_one(control, until, 0)
        writer.start()
        torn = read_versions(control, words, copy, until, reads, looked_twice)
        writer.join()
        return torn, writes[0]

    deadline = time.monotonic() + 60.0
    torn, writes = race()
    # on a busy machine reader and writer may hardly meet
    while time.monotonic() < deadline and (writes <= 1000 if whole else torn == 0):
        again = race()
        torn, writes = torn + again[0], writes + again[1]
    assert writes > 1000, "the writer has hardly written"
    assert (torn == 0) == whole


@kernel
def store_one(control, place, value):
    store(control, place, value)
    fetch_add(control, place, 0)


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_a_model_of_nan_does_not_run_over_its_slot(form):
    """NaN is not equal to itself, so that every row of a block has something to tell."""
    session = made(form, n_workers=1, block=20)
    s = session
    s.vector.w[:] = np.nan
    worker = session.worker(0)
    assert worker.join()
    worker.run_quantum(1)
    box = s.mail.box
    assert box.counters[0, layout.M_POSTED] == 1
    assert 0 < box.heads[0, 0, layout.H_COUNT] <= box.places.shape[2]
    assert not box.places[0, 1:].any() and not box.places[1:].any(), "the slots behind it"
