"""Edges between centres, and the edges that hubs forward to: each change reaches each centre once.

In a complete graph, no centre forwards messages. In other graphs, centres form groups; within a
group, every centre sends to every other. A centre in several groups is a hub: it forwards the
messages of one group to the other groups (the overlay of Gaia, section 4.4). Groups that share hubs
must not form a cycle, or a change would arrive twice. A graph with such a cycle is replaced by a
breadth-first tree of its edges. The tree starts at the graph's middle centre, so the paths from
this centre have the fewest edges. Each edge of the tree is a group.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from scipy.sparse import csgraph, csr_array


class CentreOverlay(NamedTuple):
    """Edges between centres, sorted by sender, and the edges that forward their messages.

    edges : pairs (from, to) of centres
    passes_on : for each edge, the edges of its reader that forward its messages
    """

    edges: list[tuple[int, int]]
    passes_on: list[list[int]]

    def way(self, origin: int, to: int) -> tuple[int, int]:
        """Return the last edge of the path from `origin` to `to`, and its number of edges."""
        return _ways(self)[origin, to]

    @property
    def hubs(self) -> list[int]:
        """Centres that forward messages."""
        return sorted({self.edges[e][1] for e, ways in enumerate(self.passes_on) if ways})


def overlay_of(graph: np.ndarray) -> CentreOverlay:
    """Return the overlay of a graph of centres.

    graph : bool array of shape (n, n); entry [i, j] says whether i sends to j

    Raises
    ------
    ValueError
        If the graph is not connected.

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
            "Mirrors(graph=) is not connected: some centres would never receive the others' "
            "changes. Add edges, or use graph='all'."
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
    """Return the edges of a breadth-first tree from the graph's middle centre."""
    hops = csgraph.shortest_path(csr_array(linked), unweighted=True, directed=False)
    middle = int(hops.max(axis=1).argmin())
    order, before = csgraph.breadth_first_order(csr_array(linked), middle, directed=False)
    return [(int(before[k]), int(k)) for k in order[1:]]


def _blocks(linked: np.ndarray) -> list[list[int]]:
    """Return a connected graph's blocks: parts that stay connected if any one centre is removed."""
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
