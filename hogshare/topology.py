"""Communication graphs for workers that average their models, and their rate of agreement.

A *graph* is an adjacency array: ``graph[i, j]`` is True if worker i sends to worker j; the diagonal
is False. *Weights* are an array of the same shape: worker i weights the vector of worker j by
``weights[i, j]`` and its own by ``weights[i, i]``; a round is ``weights @ vectors``. All functions
are pure: they take arrays and return arrays or numbers. They raise ValueError for an array of
another shape, and for a number of workers that is not an integer.

Sources: Kadav and Kruus 2016 (ASAP) for the graphs, their spectral gap and figure 2; Xiao and Boyd
2004 for Metropolis weights; Sinkhorn and Knopp 1967 for fair weights of directed graphs; Kempe,
Dobra and Gehrke 2003 for push-sum; Ying et al. 2021 for exponential graphs. Departures from ASAP:
(1) the root graph is the additive graph of the paper's text, whose weights are doubly stochastic;
(2) the gap is computed from the weights themselves (`spectral_gap`). The gaps of the paper's figure
2 are computed from a multiplicative graph (`root_expander`) and its mean in-degree
(`figure_2_gap`).

Examples
--------
For 25 workers, print the share of the distance to agreement that a round removes, and the number of
rounds that reduce the distance to a thousandth:

>>> from hogshare import topology
>>> for make in (topology.ring, topology.root_expander, topology.all_to_all):
...     weights = topology.mixing_weights(make(25))
...     print(round(topology.spectral_gap(weights), 4), topology.predicted_rounds(weights))
0.0079 716.0
0.1419 38.0
1.0 1.0
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np

from hogshare.system import ranges
from hogshare.system.interrupts import errstate
from hogshare.system.messages import nearest

__all__ = [
    "Check",
    "Design",
    "Gap",
    "all_to_all",
    "check",
    "design",
    "exponential",
    "figure_2_gap",
    "graphs_of",
    "hypercube",
    "in_degrees",
    "influence",
    "is_connected",
    "is_doubly_stochastic",
    "is_row_stochastic",
    "mended",
    "mixing_weights",
    "one_peer",
    "out_degrees",
    "parts",
    "predicted_rounds",
    "random_regular",
    "ring",
    "root_expander",
    "spectral_gap",
    "star",
    "without",
]

ROUNDING = 1e-9  # of sums of weights
BALANCED = 1e-12  # of sums of weights that have been scaled to one
MOST_SCALINGS = 100_000  # 200 workers need 50,000 if weights fall to 1e-60
MOST_ROUNDS = 1 << 40  # workers that need more rounds count as never agreeing


def _square(name: str, values: Any) -> np.ndarray:
    """Return an array of numbers with a row and a column per worker; else raise ValueError."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):  # rows of different lengths
        array = np.empty(0)
    if array.ndim != 2 or not array.size or len(array) != len(array.T):
        raise ValueError(f"{name} must be an array of shape (n, n); got {values!r:.60}.")
    # bool, signed, unsigned and float: objects and complex numbers are refused
    if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
        raise ValueError(f"{name} must have finite numbers only; got {values!r:.60}.")
    return array


def _is_edge(graph: Any) -> np.ndarray:
    return _square("graph", graph) != 0


def _numbers(weights: Any) -> np.ndarray:
    return _square("weights", weights).astype(float)


def _edges(n: int, pairs: Iterable[tuple[int, int]]) -> np.ndarray:
    graph = np.zeros((n, n), bool)
    for i, j in pairs:
        graph[i % n, j % n] = True
    np.fill_diagonal(graph, False)  # self-loops belong to the weights, not to the graph
    return graph


def _circulant(n: int, steps: Iterable[int]) -> np.ndarray:
    ranges.whole(1, n=n)
    return _edges(n, ((i, i + step) for step in steps for i in range(n)))


def all_to_all(n: int) -> np.ndarray:
    r"""Connect every worker to every other: agreement in one round, n - 1 messages per worker.

    ::

        0 --- 1
        | \ / |
        | / \ |
        3 --- 2

    Parameters
    ----------
    n : int
        Number of workers.

    Returns
    -------
    bool array of shape (n, n)

    Examples
    --------
    >>> from hogshare import topology
    >>> topology.all_to_all(3).sum(axis=1).tolist()
    [2, 2, 2]
    """
    ranges.whole(1, n=n)
    return _circulant(n, range(1, n))


def star(n: int) -> np.ndarray:
    r"""Connect every worker with worker 0 only, in both directions: a parameter server.

    ::

        1   2
         \ /
          0
         / \
        4   3
    """
    ranges.whole(1, n=n)
    return _edges(n, [pair for k in range(1, n) for pair in ((0, k), (k, 0))])


def ring(n: int) -> np.ndarray:
    """Connect each worker to the next: one message per worker, the slowest agreement.

    ::

        0 -> 1 -> 2 -> 3 -> 0
    """
    return _circulant(n, [1])


def root_expander(n: int, multiplicative: bool = False) -> np.ndarray:
    """Connect each worker i to ``i + 1`` and to ``i + floor(sqrt(n))``, modulo n.

    ::

        0 -> 1 -> 2 -> 3 -> 4 -> ... -> 8 -> 0     (n = 9)
        0 ------------> 3 ------------> 6 ...

    Parameters
    ----------
    n : int
        Number of workers.
    multiplicative : bool, default=False
        If True, worker i sends to ``floor(i * sqrt(n))`` instead of ``i + floor(sqrt(n))``. This is
        the graph of ASAP's figure 2. Its workers differ in their in-degrees and in their influence.
    """
    ranges.whole(1, n=n)
    ranges.flag(multiplicative=multiplicative)
    if multiplicative:
        return _circulant(n, [1]) | _edges(n, ((i, int(i * math.sqrt(n))) for i in range(n)))
    return _circulant(n, [1, math.isqrt(n)])


def exponential(n: int) -> np.ndarray:
    """Connect each worker i to ``i + 1, i + 2, i + 4, ...``: about log2(n) messages per worker.

    ::

        0 -> 1,  0 -> 2,  0 -> 4      (n = 8; the same from each worker)
    """
    ranges.whole(1, n=n)
    return _circulant(n, [1 << k for k in range((int(n) - 1).bit_length())])


def one_peer(n: int) -> list[np.ndarray]:
    """Make one graph for each of the exponential graph's distances; rounds cycle through them.

    ::

        round 1: 0 -> 1,  round 2: 0 -> 2,  round 3: 0 -> 4,  round 4: 0 -> 1 ...

    If n is a power of two, all workers agree exactly after log2(n) rounds.

    Returns
    -------
    list of bool array of shape (n, n)
    """
    ranges.whole(1, n=n)
    return [_circulant(n, [1 << k]) for k in range(max(1, (int(n) - 1).bit_length()))]


def hypercube(n: int) -> np.ndarray:
    """Connect workers whose numbers differ in one binary digit; n is a power of two.

    ::

        0 --- 1
        |     |      (n = 4: 00, 01, 11, 10)
        2 --- 3

    Raises
    ------
    ValueError
        If n is not a power of two.
    """
    ranges.whole(1, n=n)
    if n & (n - 1):
        raise ValueError(
            f"n must be a power of two for a hypercube; got n={n}. Use exponential(n) for any "
            "other number."
        )
    digits = range(int(n).bit_length() - 1)
    return _edges(n, ((i, i ^ (1 << k)) for k in digits for i in range(n)))


def random_regular(n: int, degree: int = 2, seed: Any = 0) -> np.ndarray:
    """Make a random connected graph; each worker has `degree` senders and `degree` readers.

    ::

        0 -> 3 -> 1 -> 4 -> 2 -> 0    (a ring in random order, and further random matchings)

    Parameters
    ----------
    n : int
        Number of workers.
    degree : int, default=2
        Number of workers to which a worker sends, at most n - 1.
    seed : int or Generator, default=0

    Raises
    ------
    ValueError
        If the degree is above n - 1.
    """
    from scipy.optimize import linear_sum_assignment

    ranges.whole(1, n=n, degree=degree)
    if n > 1 and degree > n - 1:
        raise ValueError(f"degree must be at most {n - 1}, the number of others; got {degree}.")
    with ranges.meaning("seed"):
        draw = np.random.default_rng(seed)
    round_trip = draw.permutation(n)
    graph = _edges(n, zip(round_trip, np.roll(round_trip, -1), strict=True))
    for _ in range(degree - 1 if n > 1 else 0):
        # the unused edges are a regular graph too: it has a perfect matching (Koenig)
        cost = np.where(graph | np.eye(n, dtype=bool), n + 1.0, draw.random((n, n)))
        graph[linear_sum_assignment(cost)] = True
    return graph


def _random_degree(n: int) -> np.ndarray:
    return random_regular(n, min(2, max(1, n - 1)))


GRAPHS: dict[str, Callable[[int], Any]] = {
    "all": all_to_all,
    "star": star,
    "ring": ring,
    "root": root_expander,
    "random": _random_degree,
    "exponential": exponential,
    "one-peer": one_peer,
    "hypercube": hypercube,
}


def graphs_of(graph: Any, n: int) -> list[np.ndarray]:
    """Return the graphs that an argument specifies: one per round of a cycle, usually only one.

    Parameters
    ----------
    graph : str, array of shape (n, n), networkx graph, callable, or list of such
        A name in `GRAPHS`; an array, ``graph[i, j]`` not zero if i sends to j; an object with
        networkx's ``nodes`` and ``edges``, whose nodes are numbered in order; or a function of n.
    n : int
        Number of workers.

    Returns
    -------
    list of bool array of shape (n, n)

    Raises
    ------
    ValueError
        If the name is unknown, the graph has another number of workers, or it contains NaN.
    TypeError
        If `graph` is not a graph.
    """
    ranges.whole(1, n=n)
    if isinstance(graph, str):
        name = graph.strip().lower()
        if name not in GRAPHS:
            raise ValueError(
                f"graph must be one of {list(GRAPHS)}, an array or a networkx graph; got "
                f"{graph!r}.{nearest(graph, tuple(GRAPHS))}"
            )
        return graphs_of(GRAPHS[name](n), n)
    if callable(graph):
        return graphs_of(graph(n), n)
    if hasattr(graph, "edges") and hasattr(graph, "nodes"):
        places = {node: k for k, node in enumerate(graph.nodes)}
        pairs = [(places[edge[0]], places[edge[1]]) for edge in graph.edges]
        if not graph.is_directed():  # an undirected edge sends both ways
            pairs += [(j, i) for i, j in pairs]
        graph = _edges(max(1, len(places)), pairs)
    if isinstance(graph, (list, tuple)) and graph and not _is_row(graph[0]):
        return [one for each in graph for one in graphs_of(each, n)]
    try:
        found = _is_edge(graph)
    except ValueError:
        raise TypeError(
            "graph must be a name, an array of shape (n, n) whose entry [i, j] says whether i "
            f"sends to j, a networkx graph, or a list of them; got {graph!r:.60}."
        ) from None
    if len(found) != n:
        raise ValueError(f"the graph has {len(found)} workers, and the run has {n}.")
    np.fill_diagonal(found, False)
    return [found]


def _is_row(thing: Any) -> bool:
    """Whether the value is a row of a graph, not a graph."""
    return isinstance(thing, (list, tuple, np.ndarray)) and not any(
        isinstance(entry, (list, tuple, np.ndarray)) for entry in thing
    )


def out_degrees(graph: np.ndarray) -> np.ndarray:
    """Return the number of out-neighbours of each worker: int array of shape (n,)."""
    return _is_edge(graph).sum(axis=1)


def in_degrees(graph: np.ndarray) -> np.ndarray:
    """Return the number of in-neighbours of each worker: int array of shape (n,)."""
    return _is_edge(graph).sum(axis=0)


# -- weights -----------------------------------------------------------------------------------

WEIGHTS = ("auto", "uniform", "metropolis", "push-sum")


def mixing_weights(graph: np.ndarray, kind: str = "auto") -> np.ndarray:
    """Return the weights that each worker gives to its in-neighbours and to itself.

    Parameters
    ----------
    graph : bool array of shape (n, n)
    kind : {"auto", "uniform", "metropolis", "push-sum"}, default="auto"
        "uniform": equal weights for all in-neighbours and the worker itself (ASAP, A.2).
        "metropolis", for undirected graphs: 1 / (1 + the larger of the two degrees) for each
        neighbour, and the remainder for the worker itself. "push-sum": each sender divides its
        weight equally among its out-neighbours and itself; columns sum to one, and rows do not.
        With these weights Q, each worker has a mass y besides its vector x. Masses begin as ones. A
        round sets ``y <- Q y``, and the averages are ``(Q x) / (Q y)``. "auto": weights with equal
        influence of all workers, if the graph has such weights: (1) uniform weights if these are
        doubly stochastic; (2) else Metropolis weights if the graph is undirected; (3) else uniform
        weights whose rows and columns are scaled until they sum to one (Sinkhorn and Knopp 1967).
        The scaled weights exist on every strongly connected graph. If an edge of the graph has no
        path from its reader back to its sender, "auto" is "uniform".

    Returns
    -------
    float64 array of shape (n, n)

    Raises
    ------
    ValueError
        If `kind` is unknown, or is "metropolis" and the graph is directed.

    Examples
    --------
    >>> from hogshare import topology
    >>> topology.mixing_weights(topology.ring(3)).tolist()
    [[0.5, 0.0, 0.5], [0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]
    """
    if not isinstance(kind, str) or kind not in WEIGHTS:
        raise ValueError(f"weights must be one of {list(WEIGHTS)}; got {kind!r}.")
    edges = _is_edge(graph)
    # transposed: row i of weights is for the vectors that worker i receives, and for its own
    heard = edges.T | np.eye(len(edges), dtype=bool)
    undirected = bool((heard == heard.T).all())
    if kind == "auto":
        if not _is_regular(heard) and not undirected and _leads_back(edges):
            return _balanced(heard)
        kind = "metropolis" if undirected and not _is_regular(heard) else "uniform"
    if kind == "push-sum":
        return heard / heard.sum(axis=0, keepdims=True)
    if kind == "uniform":
        return heard / heard.sum(axis=1, keepdims=True)
    if not undirected:
        raise ValueError(
            "weights='metropolis' needs an undirected graph, and this one has edges in one "
            "direction only: use weights='auto', which gives equal influence on every strongly "
            "connected graph, or 'push-sum', which gives it on any graph."
        )
    degrees = heard.sum(axis=1)
    weights = np.where(heard, 1.0 / np.maximum.outer(degrees, degrees), 0.0)
    np.fill_diagonal(weights, 0.0)
    np.fill_diagonal(weights, 1.0 - weights.sum(axis=1))
    return weights


def _is_regular(graph: np.ndarray) -> bool:
    """Whether all in-degrees and out-degrees are equal."""
    degrees = np.append(graph.sum(axis=0), graph.sum(axis=1))
    return bool((degrees == degrees[0]).all())


def _leads_back(graph: np.ndarray) -> bool:
    """Whether each edge is part of a cycle: a path leads back from its reader to its sender.

    A cycle, with the self-weights of all other workers, is a permutation. In doubly stochastic
    weights an edge that is part of no permutation has a weight of zero.
    """
    labels = _labels(graph)
    senders, readers = np.nonzero(graph)
    return bool((labels[senders] == labels[readers]).all())


def _balanced(heard: np.ndarray) -> np.ndarray:
    """Return weights ``r_i c_j`` on the entries of `heard`, with rows and columns of sum one.

    Sinkhorn and Knopp 1967: if every entry is part of a permutation (`_leads_back`), such weights
    exist, and scaling rows and columns alternately converges to them.

    Raises
    ------
    ValueError
        If the scaling does not converge: such weights vary too much to be of use.
    """
    places = heard.astype(float)
    rows = 1.0 / places.sum(axis=1)
    with errstate(all="ignore"):
        for _ in range(MOST_SCALINGS):
            columns = 1.0 / (rows @ places)
            sums = places @ columns
            if np.abs(rows * sums - 1.0).max() < BALANCED:
                return rows[:, np.newaxis] * places * columns
            rows = 1.0 / sums
    raise ValueError(
        "no weights with equal influence of all workers were found: on this graph they vary by too "
        "many orders of magnitude. Give the graph more edges, or use weights='uniform'."
    )


def is_row_stochastic(weights: np.ndarray) -> bool:
    """Whether each row of weights sums to one and none is negative."""
    w = _numbers(weights)
    return bool((w >= -ROUNDING).all() and np.allclose(w.sum(axis=1), 1.0, atol=ROUNDING, rtol=0.0))


def is_doubly_stochastic(weights: np.ndarray) -> bool:
    """Whether rows and columns sum to one, which gives all workers equal influence."""
    return is_row_stochastic(weights) and is_row_stochastic(_numbers(weights).T)


def is_connected(graph: np.ndarray) -> bool:
    """Whether a path leads from every worker to every other."""
    return parts(graph) == 1


def parts(graph: np.ndarray) -> int:
    """Return the number of strongly connected components of the graph."""
    return 1 + int(_labels(_is_edge(graph)).max())


def _labels(graph: np.ndarray) -> np.ndarray:
    """Return each worker's strongly connected component, from 0: int array of shape (n,)."""
    from scipy.sparse.csgraph import connected_components

    return np.asarray(connected_components(graph, connection="strong")[1])


def influence(weights: np.ndarray) -> np.ndarray:
    """Return the share of each worker's vector in the final agreement: float64 of shape (n,).

    The shares sum to one. They are the left eigenvector of the eigenvalue one (ASAP, A.3). With
    push-sum weights, all shares are equal.
    """
    w = _numbers(weights)
    if not is_row_stochastic(w):
        return np.full(len(w), 1.0 / len(w))
    n = len(w)
    # pi (W - I) = 0 with one more row for sum(pi) = 1
    system = np.vstack([w.T - np.eye(n), np.ones(n)])
    with errstate(all="ignore"):
        return np.linalg.lstsq(system, np.append(np.zeros(n), 1.0), rcond=None)[0]


class Gap(float):
    """A spectral gap: a float that names its formula.

    Attributes
    ----------
    by : str
        ``1 - sigma_2``, or ``1 - |lambda_2|`` if the weights are not doubly stochastic.
    """

    by: str

    def __new__(cls, value: float, by: str) -> Gap:
        """Make a float with its formula's name."""
        made = super().__new__(cls, value)
        made.by = by
        return made


def spectral_gap(weights: np.ndarray) -> Gap:
    """Return the share of the distance to the mean that a round removes.

    With a share of 0, workers never agree. With a share of 1, they agree after one round. For
    doubly stochastic weights, the share is ``1 - sigma_2``, where sigma_2 is the second largest
    singular value. In every round, the distance from the mean falls by at least this share. For
    other weights, ``sigma_1`` may be above one. Their share is ``1 - |lambda_2|``, where lambda_2
    is the second largest eigenvalue. The distance falls by this share per round in the long run.

    Parameters
    ----------
    weights : array of shape (n, n)

    Returns
    -------
    Gap
        A float; its ``by`` names the formula.

    Examples
    --------
    >>> from hogshare import topology
    >>> gap = topology.spectral_gap(topology.mixing_weights(topology.root_expander(6)))
    >>> round(gap, 4), gap.by
    (0.3333, '1 - sigma_2')
    """
    w = _numbers(weights)
    if len(w) == 1:
        return Gap(1.0, "1 - sigma_2")
    with errstate(all="ignore"):
        if is_doubly_stochastic(w):
            return Gap(max(0.0, 1.0 - float(np.linalg.svd(w, compute_uv=False)[1])), "1 - sigma_2")
        sizes = np.sort(np.abs(np.linalg.eigvals(w)))
    return Gap(max(0.0, 1.0 - float(sizes[-2])), "1 - |lambda_2|")


def figure_2_gap(graph: np.ndarray) -> float:
    """Return the gap by the formula of ASAP's figure 2, with the *mean* in-degree.

    It is ``sigma_1 - sigma_2``, the difference of the two largest singular values of the adjacency
    with self-loops, divided by the adjacency's mean in-degree. If degrees differ, this gap is not a
    rate of convergence; it is only for comparisons with the figure.
    """
    a = _is_edge(graph)
    np.fill_diagonal(a, True)
    with errstate(all="ignore"):
        sizes = np.linalg.svd(a / (a.sum() / len(a)), compute_uv=False)
    return float(sizes[0] - sizes[1]) if len(a) > 1 else 1.0


def predicted_rounds(weights: np.ndarray | Sequence[np.ndarray], nearer: float = 1e-3) -> float:
    """Predict the rounds until the workers' disagreement is `nearer` times its initial value.

    Let W be the weights, and pi their `influence`. The result is the first t at which the Frobenius
    norm of ``W^t - 1 pi^T`` is at most `nearer` times the norm of ``I - 1 pi^T``. This norm is the
    root mean square of the disagreement over initial vectors with independent values.
    (`spectral_gap` alone gives the bound ``log(nearer) / log(1 - gap)``. The bound is several times
    too large if many singular values are similar.)

    Parameters
    ----------
    weights : array of shape (n, n), or a list of them
        The rounds cycle through a list.
    nearer : float, default=1e-3
        The disagreement to reach, as a multiple of its initial value.

    Returns
    -------
    float
        Infinity if the workers never agree.
    """
    ranges.positive(nearer=nearer)
    is_list = isinstance(weights, (list, tuple)) and len(weights) and not _is_row(weights[0])
    matrices = [_numbers(one) for one in (weights if is_list else [weights])]
    n = len(matrices[0])
    if any(len(one) != n for one in matrices):
        sizes = sorted({len(one) for one in matrices})
        raise ValueError(f"weights must all be for one number of workers; got {sizes}.")
    cycle = functools.reduce(lambda done, one: one @ done, matrices)
    agreed = np.outer(np.ones(n), influence(cycle))
    if not is_row_stochastic(cycle):  # push-sum converges to the mean through ratios
        agreed = np.outer(_limit(cycle), np.ones(n)) / n
    wanted = nearer * float(np.linalg.norm(np.eye(n) - agreed))

    def is_near(product: np.ndarray) -> bool:
        return float(np.linalg.norm(product - agreed)) <= wanted * (1.0 + 1e-12)

    # Bisection: double until near, then add smaller powers. It assumes that near stays near.
    doubled = [cycle]  # cycle ** (2 ** k)
    while not is_near(doubled[-1]):
        if 1 << len(doubled) > MOST_ROUNDS:
            return math.inf
        doubled.append(doubled[-1] @ doubled[-1])
    done, cycles = np.eye(n), 0
    for k in reversed(range(len(doubled))):
        further = doubled[k] @ done
        if not is_near(further):
            done, cycles = further, cycles + (1 << k)
    rounds = cycles * len(matrices)
    for one in matrices:  # less than a whole cycle is missing
        if is_near(done):
            break
        done, rounds = one @ done, rounds + 1
    return float(rounds)


def _limit(weights: np.ndarray) -> np.ndarray:
    """Return the limit of push-sum masses that start at one, under column stochastic weights."""
    for _ in range(MOST_ROUNDS.bit_length()):
        weights = weights @ weights
    return weights @ np.ones(len(weights))


@dataclass(frozen=True)
class Check:
    """Properties of a graph and its weights.

    Attributes
    ----------
    connected, row_stochastic, doubly_stochastic : bool
    influence : ndarray of shape (n,)
    gap : Gap
    sentence : str
    """

    connected: bool
    row_stochastic: bool
    doubly_stochastic: bool
    influence: np.ndarray
    gap: Gap
    sentence: str


def check(weights: np.ndarray) -> Check:
    """Check whether workers that average with these weights agree, and compute their influence.

    Parameters
    ----------
    weights : array of shape (n, n)

    Returns
    -------
    Check
        Its ``sentence`` summarises the other attributes.

    Examples
    --------
    >>> from hogshare import topology
    >>> weights = topology.mixing_weights(topology.star(6), "uniform")
    >>> topology.check(weights).sentence.split("; ")[1]
    'not doubly stochastic: worker 0 counts 3 times as much as worker 1'
    """
    w = _numbers(weights)
    pieces, gap, counts = parts((w > 0.0).T), spectral_gap(w), influence(w)
    rows, both = is_row_stochastic(w), is_doubly_stochastic(w)
    words = ["connected" if pieces == 1 else f"not connected: {pieces} parts"]
    if both:
        words.append("doubly stochastic: all workers count equally")
    elif not rows and is_row_stochastic(w.T):
        words.append("column stochastic: by ratios (push-sum) all workers count equally")
    elif not rows:
        words.append("weights do not sum to one")
    else:
        most = int(np.argmax(counts >= counts.max() - ROUNDING))  # the first of equal ones
        least = int(np.argmax(counts <= counts.min() + ROUNDING))
        share = counts[most] / counts[least] if counts[least] > ROUNDING else math.inf
        words.append(
            f"not doubly stochastic: worker {most} counts {share:.3g} times as much as worker "
            f"{least}"
        )
    words.append(f"gap {gap:.4g} ({gap.by})")
    return Check(pieces == 1, rows, both, counts, gap, "; ".join(words))


# -- choice of a graph, and survivors ----------------------------------------------------------


@dataclass(frozen=True)
class Design:
    """A graph with its weights and costs.

    Attributes
    ----------
    name : str
        The call that makes it, such as "random_regular(25, 3, seed=1)".
    graph : bool array of shape (n, n)
    weights : float64 array of shape (n, n)
    degree : int
        Largest number of messages that a worker sends in a round.
    gap : Gap
    rounds : float
        Rounds until all workers are a thousand times nearer to agreement.
    bytes : float
        Bytes that a worker sends in these rounds.
    """

    name: str
    graph: np.ndarray
    weights: np.ndarray
    degree: int
    gap: Gap
    rounds: float
    bytes: float


def design(
    n: int, degree: int | None = None, bytes: float | None = None, message: float = 1.0
) -> Design:
    """Choose the known graph with the fewest rounds to agreement within a limit on messages.

    Parameters
    ----------
    n : int
        Number of workers.
    degree : int or None, default=None
        Largest number of messages that a worker may send in a round.
    bytes : float or None, default=None
        Largest number of bytes that a worker may send in a round; an alternative to `degree`.
    message : float, default=1.0
        Bytes of a message.

    Returns
    -------
    Design

    Raises
    ------
    ValueError
        If both or neither of `degree` and `bytes` are given, or if the limit is below one message.

    Examples
    --------
    >>> from hogshare import topology
    >>> made = topology.design(16, degree=4)
    >>> made.degree, made.rounds < topology.predicted_rounds(
    ...     topology.mixing_weights(topology.root_expander(16))
    ... )
    (4, True)
    """
    ranges.whole(1, n=n)
    ranges.positive(message=message)
    if (degree is None) == (bytes is None):
        raise ValueError(
            "give exactly one of degree and bytes, the limit on what a worker sends in a round; "
            f"got degree={degree!r}, bytes={bytes!r}."
        )
    if bytes is not None:
        ranges.positive(bytes=bytes)
        degree = int(bytes / message)
    most = degree
    assert most is not None
    if not ranges.is_integer(most) or most < 1:
        given = f"degree={degree!r}" if bytes is None else f"bytes={bytes!r} of {message:g} each"
        raise ValueError(f"degree or bytes must allow a message per round; got {given}.")
    made: dict[str, np.ndarray] = {}
    for build in (ring, root_expander, exponential, all_to_all):
        made[f"{build.__name__}({n})"] = build(n)
    if not n & (n - 1):
        made[f"hypercube({n})"] = hypercube(n)
    for seed in range(5):
        width = min(most, n - 1)
        if width > 1:
            made[f"random_regular({n}, {width}, seed={seed})"] = random_regular(n, width, seed)
    found = []
    for name, graph in made.items():
        width = int(out_degrees(graph).max())
        if width <= most:
            weights = mixing_weights(graph)
            rounds = predicted_rounds(weights) if n > 1 else 0.0
            gap = spectral_gap(weights)
            found.append(Design(name, graph, weights, width, gap, rounds, rounds * width * message))
    return min(found, key=lambda one: (one.rounds, one.bytes))


def without(graph: np.ndarray, dead: Iterable[int]) -> np.ndarray:
    """Return the survivors' graph, with a dead worker's senders connected to its readers.

    A dead worker's in-neighbours are matched with its out-neighbours. The degrees of all other
    workers stay the same, and a connected graph stays connected. If the survivors are connected and
    have equal degrees without new edges, no edges are added. A regular graph therefore stays
    regular, and its uniform weights stay doubly stochastic. For any connected result, the weights
    of `mixing_weights` are doubly stochastic. If the graph was not connected before the deaths,
    edges of a ring connect the survivors.

    Parameters
    ----------
    graph : bool array of shape (n, n)
    dead : iterable of int

    Returns
    -------
    bool array of shape (n, n)
        No edge starts or ends at a dead worker.

    Raises
    ------
    ValueError
        If `dead` names a worker that the graph does not have.

    Examples
    --------
    >>> from hogshare import topology
    >>> topology.without(topology.ring(4), [2]).nonzero()
    (array([0, 1, 3]), array([1, 3, 0]))
    """
    left = _is_edge(graph)
    np.fill_diagonal(left, False)
    gone = ranges.several(dead=dead)
    if not all(ranges.is_worker(k, len(left)) for k in gone):
        raise ValueError(f"dead must name workers from 0 to {len(left) - 1}; got {dead!r:.60}.")
    alive = np.ones(len(left), bool)
    for k in sorted(map(int, gone)):
        # read before the worker's edges are removed
        senders, readers = np.flatnonzero(left[:, k]), np.flatnonzero(left[k])
        left[k] = left[:, k] = alive[k] = False
        if not _is_whole(left[np.ix_(alive, alive)]):
            added = _matched(left, senders, readers)
            _join_parts(left, alive, added)
    return _joined(left, alive)


def _is_whole(graph: np.ndarray) -> bool:
    """Whether the graph is regular and strongly connected."""
    return not len(graph) or (_is_regular(graph) and int(_labels(graph).max()) == 0)


def _matched(graph: np.ndarray, senders: np.ndarray, readers: np.ndarray) -> list[tuple[int, int]]:
    """Add an edge from each sender to a reader, in place, and return the new edges.

    The new edges are a largest matching. If a sender s and a reader r remain unmatched, an existing
    edge (i, j) is split into (i, r) and (s, j). If all workers had d neighbours, such an edge
    exists. Proof: otherwise every worker j to which s could be connected would receive only from r
    and from workers that send to r. These are d workers, and s is not among them. Then s could have
    been matched.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    count = max(len(senders), len(readers)) if len(senders) and len(readers) else 0
    if not count:
        return []
    senders, readers = np.resize(senders, count), np.resize(readers, count)  # repeat the shorter
    free = ~graph[np.ix_(senders, readers)] & (senders[:, np.newaxis] != readers)
    found = maximum_bipartite_matching(csr_array(free), perm_type="column")
    is_matched = found >= 0
    pairs = senders[is_matched], readers[found[is_matched]]
    graph[pairs] = True
    added = [(int(i), int(j)) for i, j in zip(*pairs, strict=True)]
    left = senders[~is_matched], np.delete(readers, found[is_matched])
    for sender, reader in zip(*left, strict=True):
        via, to = graph[:, reader], graph[sender]
        edges = graph & ~(via | _only(reader, graph))[:, np.newaxis] & ~(to | _only(sender, graph))
        for i, j in np.argwhere(edges)[:1].tolist():
            graph[i, j] = False
            graph[i, reader] = graph[sender, j] = True
            added += [(i, int(reader)), (int(sender), j)]
    return added


def _only(worker: int, graph: np.ndarray) -> np.ndarray:
    return np.arange(len(graph)) == worker


def _join_parts(graph: np.ndarray, alive: np.ndarray, added: list[tuple[int, int]]) -> None:
    """Swap the readers of two edges of different parts, in place, until one part remains.

    All degrees stay the same, and connected workers stay connected. The reason is that, in either
    part, a path without the swapped edge led from the edge's reader back to its sender. New edges
    are swapped before old edges.
    """
    while True:
        labels = _labels(graph)
        if len(set(labels[alive])) < 2:
            return
        swap = next(_swaps(graph, labels, added), None)
        if swap is None:
            return  # a part has no edge of its own, or an edge between parts prevents the swap
        (a, b), (c, d) = swap
        graph[a, b] = graph[c, d] = False
        graph[a, d] = graph[c, b] = True
        added[:0] = [(a, d), (c, b)]


def _swaps(
    graph: np.ndarray, labels: np.ndarray, added: list[tuple[int, int]]
) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield pairs of edges from two parts, if the edges after a swap do not exist yet."""
    ofs: dict[int, list[tuple[int, int]]] = {}
    for i, j in [*added, *map(tuple, np.argwhere(graph).tolist())]:
        if graph[i, j] and labels[i] == labels[j]:
            ofs.setdefault(int(labels[i]), []).append((i, j))
    for one, other in combinations(ofs.values(), 2):
        for (a, b), (c, d) in product(one, other):
            if not (graph[a, d] or graph[c, b]):
                yield (a, b), (c, d)


def _joined(graph: np.ndarray, alive: np.ndarray) -> np.ndarray:
    """Add edges of a ring through the living workers until they are connected, in place."""
    living = np.flatnonzero(alive)
    for worker, following in zip(living, np.roll(living, -1), strict=True):
        if int(_labels(graph[np.ix_(alive, alive)]).max()) == 0:
            break
        graph[worker, following] = True
    return graph


def mended(weights: np.ndarray) -> np.ndarray:
    """Return the weights of the vectors that a worker has used, scaled to sum to one.

    Parameters
    ----------
    weights : float array of shape (n_used,)
        Weights of the used vectors, including the worker's own vector.

    Raises
    ------
    ValueError
        If `weights` are not numbers, one is below zero, or all are zero.
    """
    try:
        given = np.asarray(weights, float)
    except (TypeError, ValueError):
        given = np.empty(0)
    if given.ndim != 1 or not ((given >= 0.0).all() and 0.0 < given.sum() < math.inf):
        raise ValueError(f"weights must be at least 0, and one above 0; got {weights!r:.60}.")
    return given / given.sum()
