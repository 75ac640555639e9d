"""Passes of mirrored centres: a holder may die at any store, and sums are as before or after."""

import functools
import math
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from hogshare import Mirrors, Shared
from hogshare.kernels import layout
from hogshare.kernels.exchange import centre_edges, centre_exchange
from hogshare.kernels.jit.decorators import JIT_DISABLED
from hogshare.planes.mirrors.centre_overlay import overlay_of

sys.path.insert(0, str(Path(__file__).parents[1]))
from centre_rig import Rig

N = 150  # parameters, of three words and three chunks
DEATHS = int(os.environ.get("HOGSHARE_DEATHS", "50"))


class Died(BaseException):
    """What a test ends a worker with, in the middle of something."""


class Mortal(np.ndarray):
    """An array that counts its stores, and at one of them ends who stores."""

    left = math.inf

    def __setitem__(self, where, value):
        Mortal.left -= 1
        if Mortal.left == 0:
            raise Died
        super().__setitem__(where, value)


def mortal(shape, kind):
    return np.zeros(shape, kind).view(Mortal)


def whole_numbers(rng):
    return rng.integers(-9, 10, N).astype(float) * (rng.random(N) < 0.6)


@pytest.mark.skipif(not JIT_DISABLED, reason="compiled code stores without asking")
@pytest.mark.parametrize("inside", [Shared(), Shared(exchange=None)], ids=repr)
@pytest.mark.parametrize(("fold", "graph"), [("sum", "all"), ("sum", "star"), ("momentum", "all")])
def test_a_holder_may_die_at_any_store(monkeypatch, inside, fold, graph):
    """Its centre's next worker brings what it was at to its end; nothing is half there."""
    monkeypatch.setattr(centre_edges, "CHUNK", 64)
    monkeypatch.setattr(centre_edges, "PLACES", 16)
    rng = np.random.default_rng(0)
    plane = Mirrors(
        [0, 0, 0, 1, 2], inside, fold, 1, threshold=0.4, clock_difference=math.inf, graph=graph
    )
    same = np.testing.assert_array_equal
    if fold != "sum":  # of whole numbers sums are exact
        same = functools.partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-9)
    died = 0
    for _ in range(DEATHS):
        Mortal.left = math.inf
        rig = Rig(plane, 5, n=N, made=mortal)
        for me in (0, 0, 0, 0, 2, 2, 2, 2, 3, 4, 3, 4):  # so that each block of 1 moves the clock
            rig.block(me, whole_numbers(rng))
        Mortal.left = int(rng.integers(1, 9000))
        try:
            for _ in range(4):
                rig.block(1, whole_numbers(rng))
        except Died:
            died += 1
        Mortal.left = math.inf
        rig.die(1)
        for me in (0, 2, 3, 4, 0):
            rig.block(me, whole_numbers(rng))
        rig.all_go_on()
        rig.check(same)
        assert rig.arrays["lock"][0, 0] == 0 and not rig.steps
        same(rig.homes[0].vector, rig.mirror_of(0))
    assert died > 0.5 * DEATHS


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("n_columns", [1, 3])
def test_a_fold_counts_weight_times_change(kind, n_columns):
    rng = np.random.default_rng(0)
    n_features, one_of = 1500, 4.0
    m = n_features * n_columns
    arrays = Mirrors(2, clock_difference=0, queue=2).arrays(m + n_columns, 2)
    made = {name: np.zeros(shape, dtype) for name, (shape, dtype) in arrays.items()}
    book = centre_edges.Book(*(made[name] for name in centre_edges.Book._fields))
    base = rng.standard_normal(m + n_columns)
    base[:m] = base[:m].astype(kind)
    book.mirror[0] = base + rng.standard_normal(len(base))
    before = book.mirror[0].copy()
    w, tail = rng.standard_normal(m).astype(kind), rng.standard_normal(n_columns)
    live = centre_edges.Live(w, tail, np.full(n_columns, 0.5), False)
    curvature, etas = rng.random(n_features).astype(np.float32), rng.random(n_columns)
    weights = centre_edges.Weights(
        centre_edges.WEIGHTED, curvature, np.array([0.25]), etas, 100.0, 0.01, False
    )
    centre_edges.fold(book, 0, np.array([0]), live, base, weights, one_of, 0.0, 0, False)
    z = np.append((curvature[:, None].astype(float) + 0.01) * etas * 100.0, 0.25 * etas * 100.0)
    weight = 1 / one_of + (1 - 1 / one_of) / (1 + one_of * z / 2)
    change = np.append(w.astype(float) * 0.5, tail) - base
    np.testing.assert_allclose(book.total[0], weight * change, rtol=1e-12)
    np.testing.assert_array_equal(book.residual[0], book.total[0])
    np.testing.assert_array_equal(book.mirror[0], before + book.total[0])
    assert book.open[0].all() and not book.residual[1].any()


def test_with_momentum_each_change_counts_once_in_the_long_run():
    arrays = Mirrors(4, fold="momentum", clock_difference=0, queue=2).arrays(1500, 4)
    made = {name: np.zeros(shape, dtype) for name, (shape, dtype) in arrays.items()}
    book = centre_edges.Book(*(made[name] for name in centre_edges.Book._fields))
    weights = centre_edges.Weights(
        centre_edges.MOMENTUM, np.zeros(0, np.float32), np.zeros(1), np.ones(1), 1.0, 0.0, False
    )
    change = np.random.default_rng(0).standard_normal(1500)
    counted, held = np.zeros(1500), np.zeros(1500)
    for clock in range(60):
        base = book.mirror[0].copy()
        live = centre_edges.Live(
            base + (change if clock == 0 else 0.0), base[:0], np.ones(1), False
        )
        centre_edges.fold(book, 0, np.array([0]), live, base, weights, 4.0, 0.75, 2, False)
        now = live.w - base
        held = 0.75 * held + now
        counted += 0.25 * (0.75 * held + now)  # Nesterov's, of one of four
        np.testing.assert_allclose(book.total[0], counted, rtol=1e-10, atol=1e-12)
        np.testing.assert_array_equal(book.residual[0], book.total[0])
        if clock == 0:
            np.testing.assert_allclose(counted, 0.4375 * change, rtol=1e-12)
    np.testing.assert_allclose(book.total[0], change, rtol=1e-6)
    assert not book.outer[[0, 1, 3]].any()


def test_zeros_of_l1_stay_exact():
    arrays = Mirrors(2, clock_difference=0, queue=2).arrays(4, 2)
    made = {name: np.zeros(shape, dtype) for name, (shape, dtype) in arrays.items()}
    book = centre_edges.Book(*(made[name] for name in centre_edges.Book._fields))
    book.mirror[0] = [0.5, -0.5, 2.0, 0.0]
    base, w = np.array([0.6, -0.6, 1.0, 0.0]), np.array([0.0, 0.0, 0.0, 1.0])
    live = centre_edges.Live(w, w[:0], np.ones(1), False)
    flat = np.zeros(4, np.float32)
    weights = centre_edges.Weights(
        centre_edges.WEIGHTED, flat, np.zeros(1), np.ones(1), 1.0, 0.0, True
    )
    centre_edges.fold(book, 0, np.array([0]), live, base, weights, 2.0, 0.0, 0, False)
    assert book.mirror[0].tolist() == [0.0, 0.0, 1.0, 1.0]
    assert book.total[0].tolist() == [-0.5, 0.5, -1.0, 1.0]


@pytest.mark.parametrize("seed", range(30))
def test_each_change_reaches_each_centre_once(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 10))
    graph = rng.random((n, n)) < rng.random()
    graph |= np.roll(np.eye(n, dtype=bool), 1, axis=1)  # so that it is connected
    np.fill_diagonal(graph, False)
    overlay = overlay_of(graph)
    for origin in range(n):
        reached = [e for e, (sender, _) in enumerate(overlay.edges) if sender == origin]
        found = []
        while reached:
            edge = reached.pop()
            found.append(overlay.edges[edge][1])
            reached += overlay.passes_on[edge]
        assert sorted(found) == sorted(set(range(n)) - {origin})


def test_only_where_something_is_open_is_anything_read():
    arrays = Mirrors(2, clock_difference=0, queue=2).arrays(200, 2)
    made = {name: np.zeros(shape, dtype) for name, (shape, dtype) in arrays.items()}
    book = centre_edges.Book(*(made[name] for name in centre_edges.Book._fields))
    book.residual[0, 70], book.residual[0, 130] = 1.0, 1.0
    book.open[0, 1] = centre_edges.OPEN  # of 64 to 127
    found = centre_edges.choose(book, 0, 0, centre_edges.RELATIVE, np.zeros(1))
    assert tuple(found) == (1, 1, 1) and book.chosen[0, 70] == 1 and book.chosen[0, 130] == 0


def test_a_lock_is_given_back_by_its_holder_alone():
    lock = np.zeros((1, layout.WORD), np.int64)
    arrays = Mirrors(2, clock_difference=0, queue=2).arrays(4, 2)
    made = {name: np.zeros(shape, dtype) for name, (shape, dtype) in arrays.items()}
    made["lock"] = lock
    book = centre_edges.Book(*(made[name] for name in centre_edges.Book._fields))
    lock[0, 0] = 3
    centre_exchange.release(book, 1, 0)
    assert lock[0, 0] == 3
    centre_exchange.release(book, 2, 0)
    assert lock[0, 0] == 0
