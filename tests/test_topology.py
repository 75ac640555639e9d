"""Graphs: degrees, weights and gaps, against figure 2 of ASAP and against averaging itself."""

import numpy as np
import pytest

from hogshare import topology

MAKERS = {
    "all": topology.all_to_all,
    "star": topology.star,
    "ring": topology.ring,
    "root": topology.root_expander,
    "exponential": topology.exponential,
    "random": lambda n: topology.random_regular(n, min(3, n - 1), seed=1),
}


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 25])
@pytest.mark.parametrize("name", MAKERS)
def test_every_graph_is_connected_and_its_weights_fair(name, n):
    if name == "random" and n == 1:
        return
    graph = MAKERS[name](n)
    assert graph.shape == (n, n) and not graph.diagonal().any()
    assert topology.is_connected(graph)
    assert topology.is_doubly_stochastic(topology.mixing_weights(graph))
    np.testing.assert_allclose(topology.influence(topology.mixing_weights(graph)), 1.0 / n)


@pytest.mark.parametrize(
    ("graph", "degree"),
    [
        (topology.all_to_all(9), 8),
        (topology.ring(9), 1),
        (topology.root_expander(9), 2),
        (topology.exponential(9), 4),
        (topology.hypercube(8), 3),
        (topology.random_regular(9, 4, seed=3), 4),
        (topology.random_regular(9, 8), 8),
    ],
)
def test_degrees(graph, degree):
    assert (topology.out_degrees(graph) == degree).all()
    assert (topology.in_degrees(graph) == degree).all()


def test_the_root_graph():
    assert np.flatnonzero(topology.root_expander(25)[3]).tolist() == [4, 8]
    assert np.flatnonzero(topology.root_expander(6)[5]).tolist() == [0, 1]


def test_random_graphs_hang_on_their_seed():
    one, same, other = (topology.random_regular(20, 3, seed) for seed in (1, 1, 2))
    assert (one == same).all() and (one != other).any()


# -- gaps: ASAP, figure 2; the exact numbers are computed from the definitions


@pytest.mark.parametrize(
    ("make", "six", "many"),
    [
        (topology.star, 0.7500, 0.6849),
        (lambda n: topology.root_expander(n, multiplicative=True), 0.3796, 0.1836),
        (topology.all_to_all, 1.0, 1.0),
        (topology.ring, 0.1340, 0.0079),
    ],
    ids=["star", "root", "all", "ring"],
)
def test_figure_2_by_its_own_reading(make, six, many):
    assert topology.figure_2_gap(make(6)) == pytest.approx(six, abs=5e-5)
    assert topology.figure_2_gap(make(25)) == pytest.approx(many, abs=5e-5)


@pytest.mark.parametrize(
    ("make", "six", "many", "by"),
    [
        (topology.star, 0.5, 0.5, "1 - |lambda_2|"),
        (topology.root_expander, 1.0 / 3.0, 0.1419, "1 - sigma_2"),
        (topology.all_to_all, 1.0, 1.0, "1 - sigma_2"),
        (topology.ring, 0.1340, 0.0079, "1 - sigma_2"),
    ],
    ids=["star", "root", "all", "ring"],
)
def test_the_gaps_of_the_weights_themselves(make, six, many, by):
    for n, expected in ((6, six), (25, many)):
        gap = topology.spectral_gap(topology.mixing_weights(make(n), "uniform"))
        assert gap == pytest.approx(expected, abs=5e-5) and gap.by == by


def test_the_multiplicative_root_graph_is_not_fair():
    """The one that has figure 2's gaps: its workers do not count alike."""
    for n in (6, 25):
        graph = topology.root_expander(n, multiplicative=True)
        assert not topology.is_doubly_stochastic(topology.mixing_weights(graph, "uniform"))
    shares = topology.influence(topology.mixing_weights(graph, "uniform"))
    assert (shares.min(), shares.max()) == pytest.approx((0.0145, 0.0604), abs=5e-5)


def test_the_gaps_printed_for_a_chain_are_paths():
    """0.1 of 6 by figure 2's reading, 0.002 of 25 by the weights; the text's 0.008 is a ring's."""
    six, many = (np.eye(n, k=1, dtype=bool) for n in (6, 25))
    assert topology.figure_2_gap(six) == pytest.approx(0.0933, abs=5e-5)
    weights = topology.mixing_weights(many, "uniform")
    sizes = np.linalg.svd(weights, compute_uv=False)
    assert 1.0 - sizes[1] == pytest.approx(0.0021, abs=5e-5)
    assert topology.figure_2_gap(topology.ring(25)) == pytest.approx(0.0079, abs=5e-5)


def test_equal_in_degrees_are_not_enough():
    """All hear from two others, but not as many hear from each: who is heard more counts more."""
    graph = topology.ring(5)
    graph[0, 2:] = graph[2, :2] = True
    assert topology.in_degrees(graph).tolist() == [2] * 5
    assert topology.out_degrees(graph).tolist() == [4, 1, 3, 1, 1]
    found = topology.check(topology.mixing_weights(graph, "uniform"))
    assert found.connected and not found.doubly_stochastic
    assert found.influence[0] > 2.0 * found.influence[1] > 0.0


@pytest.mark.parametrize(("n", "ratio"), [(8, 3.5), (20, 9.5), (64, 31.5)])
def test_what_a_sparse_graph_saves_in_a_round_hangs_on_the_number_of_workers(n, ratio):
    """Ten times is what twenty workers save, not eight; and more rounds are needed."""
    whole, root = topology.all_to_all(n), topology.root_expander(n)
    assert topology.out_degrees(whole)[0] / topology.out_degrees(root)[0] == ratio
    rounds = [topology.predicted_rounds(topology.mixing_weights(one)) for one in (whole, root)]
    assert rounds[0] == 1.0 < rounds[1]


@pytest.mark.parametrize(
    ("make", "gaps"),
    [
        (topology.ring, [0.076, 0.019, 0.0079, 0.0048, 0.0012]),
        (topology.exponential, [0.5, 0.4, 0.489, 0.333, 0.286]),
    ],
    ids=["ring", "exponential"],
)
def test_other_gaps(make, gaps):
    for n, expected in zip((8, 16, 25, 32, 64), gaps, strict=True):
        found = topology.spectral_gap(topology.mixing_weights(make(n)))
        assert found == pytest.approx(expected, rel=0.03)


def test_influence_of_a_server():
    """The hub has 0.375 and 0.342, leaves 0.125 and 0.027, where all weights are alike."""
    for n, hub, leaf in ((6, 0.375, 0.125), (25, 0.342, 0.027)):
        found = topology.influence(topology.mixing_weights(topology.star(n), "uniform"))
        assert found[0] == pytest.approx(hub, abs=5e-4) and found[1] == pytest.approx(
            leaf, abs=5e-4
        )
    sentence = topology.check(topology.mixing_weights(topology.star(6), "uniform")).sentence
    assert "worker 0 counts 3 times as much" in sentence
    assert topology.spectral_gap(topology.mixing_weights(topology.star(6))) == pytest.approx(1 / 6)


def test_parts_that_do_not_meet():
    graph = np.zeros((4, 4), bool)
    graph[0, 1] = graph[1, 0] = graph[2, 3] = graph[3, 2] = True
    found = topology.check(topology.mixing_weights(graph))
    assert not found.connected and found.gap == 0.0 and "not connected: 2 parts" in found.sentence
    assert topology.predicted_rounds(topology.mixing_weights(graph)) == np.inf


# -- fair weights


def drawn_graph(n, draw, is_undirected=False):
    """A strongly connected one, of edges at random."""
    graph = np.zeros((n, n), bool)
    while not topology.is_connected(graph):
        i, j = draw.choice(n, 2, replace=False)
        graph[i, j] = True
        graph[j, i] |= is_undirected
    return graph


def test_every_strongly_connected_graph_has_fair_weights():
    draw = np.random.default_rng(0)
    for _ in range(200):
        graph = drawn_graph(int(draw.integers(2, 30)), draw)
        weights = topology.mixing_weights(graph)
        assert topology.is_doubly_stochastic(weights)
        assert ((weights > 0.0) == (graph.T | np.eye(len(graph), dtype=bool))).all()


@pytest.mark.parametrize("n", [6, 20, 64])
def test_fair_weights_of_a_graph_with_many_ways_back(n):
    """To the next, and back to all before: known in closed form, down to 2 ** (1 - n)."""
    graph = np.eye(n, k=1, dtype=bool) | np.tri(n, k=-1, dtype=bool)
    weights = topology.mixing_weights(graph)
    assert topology.is_doubly_stochastic(weights)
    assert weights[0, n - 1] == pytest.approx(0.5 ** (n - 1), rel=1e-6)


def test_who_is_never_heard_of_again_has_no_fair_weights():
    graph = topology.ring(3)
    graph[2, 0] = False
    np.testing.assert_array_equal(
        topology.mixing_weights(graph), topology.mixing_weights(graph, "uniform")
    )
    assert not topology.is_doubly_stochastic(topology.mixing_weights(graph))


# -- predicted rounds, against averaging


def measured_rounds(turns, n, nearer=1e-3):
    vectors = np.random.default_rng(n).standard_normal((n, 400))
    agreed = topology.influence(np.linalg.multi_dot([*turns[::-1], np.eye(n)])) @ vectors
    begin, count = np.linalg.norm(vectors - agreed), 0
    while np.linalg.norm(vectors - agreed) > nearer * begin:
        vectors = turns[count % len(turns)] @ vectors
        count += 1
    return count


@pytest.mark.parametrize("n", [6, 25, 64, 100])
@pytest.mark.parametrize("name", MAKERS)
def test_predicted_rounds_are_measured_ones(name, n):
    weights = topology.mixing_weights(MAKERS[name](n))
    assert topology.predicted_rounds(weights) == pytest.approx(
        measured_rounds([weights], n), rel=0.1
    )


def test_a_peer_at_a_time_agrees_at_once_on_powers_of_two():
    turns = [topology.mixing_weights(graph) for graph in topology.one_peer(16)]
    assert topology.predicted_rounds(turns) == measured_rounds(turns, 16) == 4


def test_push_sum_finds_the_mean_on_any_graph():
    graph = topology.star(5) | topology.ring(5)
    weights = topology.mixing_weights(graph, "push-sum")
    np.testing.assert_allclose(weights.sum(axis=0), 1.0)
    x, y = np.arange(5.0), np.ones(5)
    for _ in range(200):
        x, y = weights @ x, weights @ y
    np.testing.assert_allclose(x / y, 2.0)
    assert "push-sum" in topology.check(weights).sentence
    assert topology.predicted_rounds(weights) < 100


# -- which to take, and what is left


def test_design():
    found = topology.design(25, degree=2, message=100.0)
    assert found.degree == 2 and found.bytes == found.rounds * 200.0
    assert (
        found.rounds
        <= 21
        < topology.predicted_rounds(topology.mixing_weights(topology.root_expander(25)))
    )
    assert topology.design(25, bytes=250.0, message=100.0).degree == 2
    assert topology.design(8, degree=7).rounds == 1.0
    with pytest.raises(ValueError, match="one of degree and bytes"):
        topology.design(8)
    with pytest.raises(ValueError, match="must allow a message per round"):
        topology.design(8, bytes=1.0, message=10.0)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("dead", [[0], [3], [0, 1], [2, 7, 5], [1, 2, 3, 4, 5, 6]])
def test_survivors_are_connected(name, dead):
    graph = MAKERS[name](9)
    left = topology.without(graph, dead)
    alive = np.setdiff1d(np.arange(9), dead)
    assert topology.is_connected(left[np.ix_(alive, alive)])
    assert not left[dead].any() and not left[:, dead].any()
    most = topology.out_degrees(graph).max()
    assert topology.out_degrees(left).max() <= most
    assert topology.is_doubly_stochastic(topology.mixing_weights(left))
    if name != "star" or 0 in dead:  # all have as many neighbours
        assert topology.is_doubly_stochastic(topology.mixing_weights(left, "uniform"))


def degrees_of(graph, workers):
    return np.append(topology.out_degrees(graph)[workers], topology.in_degrees(graph)[workers])


@pytest.mark.parametrize("n", [2, 3, 8, 12, 25])
def test_a_star_without_its_hub_is_a_ring(n):
    left = topology.without(topology.star(n), [0])
    assert topology.is_doubly_stochastic(topology.mixing_weights(left, "uniform"))
    assert topology.is_connected(left[1:, 1:])
    assert (degrees_of(left, slice(1, None)) == (n > 2)).all()


def test_a_regular_graph_stays_one_whoever_dies():
    draw = np.random.default_rng(0)
    for _ in range(150):
        n = int(draw.integers(3, 13))
        graph = topology.random_regular(n, int(draw.integers(1, n)), draw)
        alive = np.sort(draw.permutation(n)[: draw.integers(1, n)])
        left = topology.without(graph, np.setdiff1d(np.arange(n), alive))
        assert topology.is_connected(left[np.ix_(alive, alive)])
        assert np.ptp(degrees_of(left, alive)) == 0 and left.sum() == left[alive][:, alive].sum()
        assert topology.is_doubly_stochastic(topology.mixing_weights(left, "uniform"))


@pytest.mark.parametrize("is_undirected", [True, False])
def test_other_graphs_stay_connected_and_get_fair_weights(is_undirected):
    draw = np.random.default_rng(1)
    for _ in range(100):
        n = int(draw.integers(3, 12))
        graph = drawn_graph(n, draw, is_undirected)
        alive = np.delete(np.arange(n), draw.integers(n))
        left = topology.without(graph, np.setdiff1d(np.arange(n), alive))
        assert topology.is_connected(left[np.ix_(alive, alive)])
        assert topology.is_doubly_stochastic(topology.mixing_weights(left))
        if is_undirected:
            assert (degrees_of(left, alive) <= degrees_of(graph, alive)).all()


def test_nothing_is_matched_where_survivors_are_whole(monkeypatch):
    monkeypatch.delattr(topology, "_matched")
    left = topology.without(topology.all_to_all(9), [2, 5])
    assert left.sum() == 7 * 6


@pytest.mark.parametrize(("n", "degree"), [(9, 2), (16, 4), (25, 2), (25, 3), (64, 6)])
def test_designs_take_fewer_rounds_than_any_graph_by_name(n, degree):
    found = topology.design(n, degree)
    for graph in (topology.ring(n), topology.root_expander(n), topology.exponential(n)):
        if topology.out_degrees(graph).max() <= degree:
            assert found.rounds <= topology.predicted_rounds(topology.mixing_weights(graph))


def test_weights_of_what_is_left_sum_to_one():
    np.testing.assert_allclose(topology.mended([0.25, 0.25]), [0.5, 0.5])


# -- what is not a graph


class Drawn:
    """As networkx has them."""

    nodes, edges = ("a", "b", "c"), (("a", "b"), ("b", "c"))

    def is_directed(self):
        return False


def test_graphs_of():
    assert topology.graphs_of(Drawn(), 3)[0].astype(int).tolist() == [
        [0, 1, 0],
        [1, 0, 1],
        [0, 1, 0],
    ]
    assert len(topology.graphs_of("one-peer", 8)) == 3
    assert (topology.graphs_of(topology.ring, 4)[0] == topology.ring(4)).all()
    assert (topology.graphs_of(topology.ring(4).astype(float), 4)[0] == topology.ring(4)).all()
    with pytest.raises(ValueError, match="has 4 workers, and the run has 5"):
        topology.graphs_of(topology.ring(4), 5)
    with pytest.raises(ValueError, match="Did you mean 'ring'"):
        topology.graphs_of("rng", 5)
    for wrong in (
        3,
        None,
        [1, 2, 3],
        b"abc",
        np.zeros((2, 3)),
        np.full((3, 3), np.nan),
        [[[1], 2]],
    ):
        with pytest.raises(TypeError, match="graph must be a name"):
            topology.graphs_of(wrong, 3)


def test_refusals():
    with pytest.raises(ValueError, match="power of two"):
        topology.hypercube(6)
    with pytest.raises(ValueError, match="at most 4"):
        topology.random_regular(5, 5)
    with pytest.raises(ValueError, match="undirected"):
        topology.mixing_weights(topology.ring(4), "metropolis")
    with pytest.raises(ValueError, match="weights must be one of"):
        topology.mixing_weights(topology.ring(4), "even")


RING = topology.ring(4)
NO_ARRAYS = [3.5, "x", None, [], [1, 2], [[1, 2], [3]], {}, np.zeros((2, 3)), np.zeros((0, 0))]
NO_ARRAYS += [np.full((3, 3), np.nan), [["a", "b"], ["c", "d"]], [[1j, 0], [0, 1]], object()]
NO_NUMBERS = [3.5, np.nan, "4", None, [4], True, 0, -1]


@pytest.mark.parametrize("wrong", NO_ARRAYS, ids=lambda value: f"{value!r:.20}")
@pytest.mark.parametrize(
    "function",
    [
        topology.out_degrees,
        topology.in_degrees,
        topology.mixing_weights,
        topology.is_row_stochastic,
        topology.is_doubly_stochastic,
        topology.is_connected,
        topology.parts,
        topology.influence,
        topology.spectral_gap,
        topology.figure_2_gap,
        topology.predicted_rounds,
        topology.check,
        lambda wrong: topology.without(wrong, [0]),
    ],
    ids=lambda function: function.__name__,
)
def test_what_is_no_array_of_workers_is_refused(function, wrong):
    with pytest.raises(
        ValueError, match=r"(graph|weights) must (be an array of shape|have finite)"
    ):
        function(wrong)


@pytest.mark.parametrize("wrong", NO_NUMBERS, ids=repr)
@pytest.mark.parametrize(
    "function",
    [
        *(topology.all_to_all, topology.star, topology.ring, topology.root_expander),
        *(topology.exponential, topology.one_peer, topology.hypercube, topology.random_regular),
        lambda n: topology.random_regular(5, n),
        lambda n: topology.graphs_of("ring", n),
        lambda n: topology.design(n, 2),
    ],
    ids=lambda function: function.__name__,
)
def test_what_is_no_number_of_workers_is_refused(function, wrong):
    with pytest.raises(ValueError, match="must be a whole number, at least 1"):
        function(wrong)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: topology.without(RING, 2), "dead must be a sequence"),
        (lambda: topology.without(RING, [4]), "dead must name workers from 0 to 3"),
        (lambda: topology.without(RING, [1.5]), "dead must name workers"),
        (lambda: topology.design(5, 2.5), "must allow a message per round; got degree=2.5"),
        (lambda: topology.design(5, bytes=np.nan), "bytes must be a positive finite number"),
        (lambda: topology.design(5, bytes="9"), "bytes must be a positive finite number"),
        (lambda: topology.predicted_rounds(np.eye(2), "x"), "nearer must be"),
        (
            lambda: topology.predicted_rounds([np.eye(2), np.eye(3)]),
            r"for one number of workers; got \[2, 3\]",
        ),
        (lambda: topology.random_regular(5, 2, "x"), "seed"),
        (lambda: topology.root_expander(5, "x"), "multiplicative must be True or False"),
        (lambda: topology.mended([0.0, 0.0]), "must be at least 0, and one above 0"),
        (lambda: topology.mended("ab"), "must be at least 0, and one above 0"),
        (lambda: topology.mixing_weights(RING, 3), "weights must be one of"),
    ],
)
def test_what_has_no_meaning_is_refused(call, word):
    with pytest.raises(ValueError, match=word):
        call()


def test_weights_may_be_lists():
    half = [[0.5, 0.5], [0.5, 0.5]]
    assert topology.predicted_rounds(half) == topology.predicted_rounds([half, half]) == 1.0
    assert topology.is_doubly_stochastic(half) and topology.spectral_gap(half) == 1.0
