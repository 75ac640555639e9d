"""The report of reduces on replicas: plain data, collected after the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hogshare import figures
from hogshare.links.traffic import Counted, by_edge

TORN, MISSING, LATE, UNSENT = range(4)  # columns of `counts`: two of inputs, two of messages
WHOLE, SPARSE = range(2)  # second axis of `sent`: kinds of messages
MESSAGES, BYTES = range(2)  # last axis of `sent`
MESSAGE, ACKNOWLEDGEMENT, BARRIER = range(3)  # columns of `waits`: causes
CAUSES = ("message", "acknowledgement", "barrier")
KINDS = ("whole", "sparse")


@dataclass(frozen=True)
class Reduces:
    """The reduces of a run on `Replicas`.

    Attributes
    ----------
    consistency : int64 array of shape (n_workers, largest in-degree + 1)
        ``consistency[i, k]`` is the number of reduces of worker i that used messages of k
        in-neighbours (ASAP, figure 8).
    in_degree : int64 array of shape (n_workers,)
        The number of each worker's in-neighbours.
    torn, missing, late, unsent : int64 arrays of shape (n_workers,)
        torn: number of messages left out because they were partly overwritten. missing: number of
        messages left out because they had not come. late: number of messages that came after their
        round. unsent: number of messages for which an edge had no capacity, because its reader was
        gone or left out.
    edges : list of (int, int)
        Sender and reader of each edge. If deaths have changed the reader, it is the last reader.
    sent : int64 array of shape (n_edges, 2, 2)
        Number of messages and number of bytes along each edge, first of whole messages, then of
        sparse messages. Bytes include the values, the places of sparse values, and a header.
    waits : float64 array of shape (n_workers, 3)
        Seconds that each worker waited (1) for a message, (2) for an acknowledgement and (3) at the
        barrier.
    rounds : int64 array of shape (n_workers,)
        Number of reduces of each worker.
    left_out : list of (int, int)
        Pairs (i, k): at the end, worker i did not wait for worker k, which had died or was too
        slow.
    """

    consistency: np.ndarray
    in_degree: np.ndarray
    torn: np.ndarray
    missing: np.ndarray
    late: np.ndarray
    unsent: np.ndarray
    edges: list[tuple[int, int]]
    sent: np.ndarray
    waits: np.ndarray
    rounds: np.ndarray
    left_out: list[tuple[int, int]]

    @property
    def whole_share(self) -> float:
        """The share of all reduces that have used every in-neighbour's message."""
        whole = self.consistency[np.arange(len(self.in_degree)), self.in_degree].sum()
        return float(whole / max(1, self.consistency.sum()))

    @property
    def traffic(self) -> Counted:
        """Number of messages and bytes by kind, and by edge of a kind, as in `Report.traffic`."""
        return by_edge(KINDS, self.edges, self.sent)

    @property
    def bytes(self) -> int:
        """Number of bytes of all messages."""
        return int(self.sent[:, :, BYTES].sum())

    @property
    def messages(self) -> int:
        """Number of messages of all workers."""
        return int(self.sent[:, :, MESSAGES].sum())

    def bytes_by_edge(self) -> dict[str, dict[str, int]]:
        """Return each edge's bytes by kind, as in ``{"0->1": {"whole": 8032, "sparse": 0}}``."""
        return {
            f"{i}->{j}": {kind: int(self.sent[k, place, BYTES]) for place, kind in enumerate(KINDS)}
            for k, (i, j) in enumerate(self.edges)
        }

    def facts(self) -> list[tuple[str, Any]]:
        """Return the names and values of the report's table."""
        waits = ", ".join(
            f"{cause} {seconds:.3g} s"
            for cause, seconds in zip(CAUSES, self.waits.sum(axis=0), strict=True)
        )
        return [
            ("reduces", int(self.consistency.sum())),
            ("with all inputs", f"{self.whole_share:.2%}"),
            ("inputs torn, missing", f"{self.torn.sum():,}, {self.missing.sum():,}"),
            ("waiting for", waits),
        ]

    def plot(self, ax: Any = None) -> Any:
        """Draw the histogram of used messages per reduce, over all workers (needs matplotlib).

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None: on a new figure.

        Returns
        -------
        matplotlib Axes
        """
        return figures.draw_inputs(self.consistency.sum(axis=0), ax)

    def to_dict(self) -> dict[str, Any]:
        """Return all data as JSON types."""
        arrays = ("consistency", "in_degree", "torn", "missing", "late", "unsent", "rounds")
        return {
            **{name: getattr(self, name).tolist() for name in arrays},
            "whole_share": self.whole_share,
            "messages": self.messages,
            "bytes": self.bytes,
            "bytes_by_edge": self.bytes_by_edge(),
            "waiting_seconds": {cause: self.waits[:, k].tolist() for k, cause in enumerate(CAUSES)},
            "left_out": [list(pair) for pair in self.left_out],
        }
