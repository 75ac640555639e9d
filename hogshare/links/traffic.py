"""Count a run's messages and bytes by kind and by edge, in one format for all senders.

    {"update": {"messages": 3, "bytes": 96, "edges": {"0 to 1": {"messages": 3, "bytes": 96}}}}

An edge joins two workers, two centres, two ranks, or one of these and the model. Workers, centres
and ranks are written as numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

MODEL = -1  # the model as an end of a link; workers are numbers from 0
MODEL_NAME, OTHERS = "model", "others"  # names of ends: the model, and several ends together
MESSAGES, BYTES = range(2)

End = int | str
Counted = dict[str, dict[str, Any]]  # the format in the docstring of this file


class Traffic:
    """Counter of the messages and bytes of a run so far.

    kinds : kinds that are reported even if there are no messages of the kind
    """

    def __init__(self, kinds: Iterable[str] = ()) -> None:
        self._kinds = tuple(kinds)
        self._edges: dict[tuple[str, End, End], list[int]] = {}

    def add(self, kind: str, sender: End, to: End, n_bytes: int, count: int = 1) -> None:
        """Count `count` messages of `n_bytes` bytes together."""
        if count:
            counted = self._edges.setdefault((kind, sender, to), [0, 0])
            counted[MESSAGES] += count
            counted[BYTES] += n_bytes

    def as_dict(self) -> Counted:
        """Return the number of ``messages`` and ``bytes`` of each kind, and of its ``edges``.

        Examples
        --------
        >>> from hogshare.links.traffic import Traffic
        >>> traffic = Traffic()
        >>> traffic.add("update", 0, 1, 96, count=3)
        >>> traffic.as_dict()["update"]["edges"]
        {'0 to 1': {'messages': 3, 'bytes': 96}}
        """
        found: Counted = {kind: _nothing() for kind in self._kinds}
        for (kind, sender, to), (messages, n_bytes) in self._edges.items():
            _add(found, kind, f"{_name(sender)} to {_name(to)}", messages, n_bytes)
        return found


def by_edge(kinds: Sequence[str], edges: Sequence[tuple[int, int]], sent: np.ndarray) -> Counted:
    """Convert an array of counts to the common format, with all kinds and edges.

    sent : int64 array of shape (n_edges, n_kinds, 2): messages and bytes of each edge and kind
    """
    found: Counted = {kind: _nothing() for kind in kinds}
    for (sender, to), counts in zip(edges, sent.tolist(), strict=True):
        for kind, (messages, n_bytes) in zip(kinds, counts, strict=True):
            _add(found, kind, f"{sender} to {to}", messages, n_bytes)
    return found


def total(found: Iterable[Mapping[str, Mapping[str, Any]] | None]) -> Counted:
    """Return the sum of several senders' counts; each sender counts its own messages.

    Examples
    --------
    >>> from hogshare.links.traffic import total
    >>> one = {"messages": 1, "bytes": 8, "edges": {"0 to 1": {"messages": 1, "bytes": 8}}}
    >>> total([{"model": one}, None, {"model": one}])["model"]["edges"]
    {'0 to 1': {'messages': 2, 'bytes': 16}}
    """
    added: Counted = {}
    for counted in found:
        for kind, one in (counted or {}).items():
            added.setdefault(kind, _nothing())
            for edge, numbers in one["edges"].items():
                _add(added, kind, edge, numbers["messages"], numbers["bytes"])
    return added


def bytes_of(counted: Mapping[str, Mapping[str, Any]]) -> int:
    """Return the bytes of all messages."""
    return sum(one["bytes"] for one in counted.values())


def _nothing() -> dict[str, Any]:
    return {"messages": 0, "bytes": 0, "edges": {}}


def _add(found: Counted, kind: str, edge: str, messages: int, n_bytes: int) -> None:
    one = found.setdefault(kind, _nothing())
    for counted in (one, one["edges"].setdefault(edge, {"messages": 0, "bytes": 0})):
        counted["messages"] += messages
        counted["bytes"] += n_bytes


def _name(end: End) -> str:
    return MODEL_NAME if end == MODEL else str(end)
