"""Who sends to which centre, and what a centre passes on: each change comes to each centre once.

Where all send to all, nothing is passed on. Else centres form groups in which all send to all, and
a centre that is in several, a hub, passes what comes in one on to the others (the overlay of Gaia,
section 4.4). Groups that share hubs must not form a circle, or a change would come twice: of a
graph that has one, a tree of its edges with the fewest hops from its middle is used, of which every
edge is a group.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from scipy.sparse import csgraph, csr_array


class CentreOverlay(NamedTuple):
    """Edges between centres, by sender, and what goes from one into the next.

    edges : (from, to)
    passes_on : of each edge, the edges that leave its reader and pass its messages on
    """

    edges: list[tuple[int, int]]
    passes_on: list[list[int]]

    def way(self, origin: int, to: int) -> tuple[int, int]:
        """The edge by which changes of a centre come to another, and how many they go over."""
        return _ways(self)[origin, to]

    @property
    def hubs(self) -> list[int]:
        """Centres that pass something on."""
        return sorted({self.edges[e][1] for e, ways in enumerate(self.passes_on) if ways})


def overlay_of(graph: np.ndarray) -> CentreOverlay:
    """How centres of a graph hear of each other.

    graph : bool array of shape (n, n), whose entry [i, j] says whether i sends to j

    Raises
    ------
    ValueError
        If an edge goes one way only, or the graph is not connected.

    Examples
    --------
    >>> import numpy as np
    >>> from hogshare.planes.mirrors.centre_overlay import overlay_of
    >>> path = overlay_of(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], bool))
    >>> path.edges, path.passes_on, path.hubs
    ([(0, 1), (1, 0), (1, 2), (2, 1)], [[2], [], [], [1]], [1])
    """
    return _overlay_of(graph.tobytes(), len(graph))


@functools.lru_cache(maxsize=16)
def _overlay_of(graph: bytes, n: int) -> CentreOverlay:
    given = np.frombuffer(graph, bool).reshape(n, n)
    linked = given | given.T
    if csgraph.connected_components(csr_array(linked), directed=False)[0] > 1:
        raise ValueError(
            "the graph of the centres is not connected: some would never hear of the others."
        )
    groups = _blocks(linked)
    if not all(linked[np.ix_(one, one)].sum() == len(one) * (len(one) - 1) for one in groups):
        tree = _tree(linked)
        groups = [sorted(pair) for pair in tree]
    group_of = {(i, j): k for k, one in enumerate(groups) for i in one for j in one if i != j}
    edges = sorted(group_of)
    passes_on = [
        [k for k, (sender, _) in enumerate(edges) if sender == to and group_of[edges[k]] != group]
        for (_, to), group in ((edge, group_of[edge]) for edge in edges)
    ]
    assert len(edges) >= 2 * (n - 1), "all centres are joined"
    return CentreOverlay(edges, passes_on)


def _tree(linked: np.ndarray) -> list[tuple[int, int]]:
    """Edges of a tree with the fewest hops from the centre that has the fewest to all others."""
    hops = csgraph.shortest_path(csr_array(linked), unweighted=True, directed=False)
    middle = int(hops.max(axis=1).argmin())
    order, before = csgraph.breadth_first_order(csr_array(linked), middle, directed=False)
    return [(int(before[k]), int(k)) for k in order[1:]]


def _blocks(linked: np.ndarray) -> list[list[int]]:
    """The parts of a connected graph that no single centre's absence takes apart."""
    n = len(linked)
    if n == 1:
        return []
    seen, low, stack, found = {0: 0}, {0: 0}, [], []
    ways = [(0, -1, iter(np.flatnonzero(linked[0]).tolist()))]
    while ways:
        at, before, others = ways[-1]
        for to in others:
            if to not in seen:
                seen[to] = low[to] = len(seen)
                stack.append((at, to))
                ways.append((to, at, iter(np.flatnonzero(linked[to]).tolist())))
                break
            if to != before and seen[to] < seen[at]:
                stack.append((at, to))
                low[at] = min(low[at], seen[to])
        else:
            ways.pop()
            if ways:
                above = ways[-1][0]
                low[above] = min(low[above], low[at])
                if low[at] >= seen[above]:
                    part: set[int] = set()
                    while stack and (edge := stack.pop()):
                        part.update(edge)
                        if edge == (above, at):
                            break
                    found.append(sorted(part))
    return found


@functools.lru_cache(maxsize=16)
def _all_ways(edges: tuple[tuple[int, int], ...], passes_on: tuple[tuple[int, ...], ...]) -> dict:
    found = {}
    for origin in {sender for sender, _ in edges}:
        reached = [(e, 1) for e, (sender, _) in enumerate(edges) if sender == origin]
        while reached:
            edge, hops = reached.pop()
            found[origin, edges[edge][1]] = edge, hops
            reached += [(k, hops + 1) for k in passes_on[edge]]
    return found


def _ways(overlay: CentreOverlay) -> dict[tuple[int, int], tuple[int, int]]:
    return _all_ways(tuple(overlay.edges), tuple(map(tuple, overlay.passes_on)))
