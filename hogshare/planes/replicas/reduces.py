"""The report of reduces on replicas: plain data, collected after the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hogshare import figures
from hogshare.links.traffic import Counted, by_edge

TORN, MISSING, LATE, UNSENT = range(4)  # columns of `counts`: two of inputs, two of messages
WHOLE, SPARSE = range(2)  # of `sent`: kinds of messages
MESSAGES, BYTES = range(2)
MESSAGE, ACKNOWLEDGEMENT, BARRIER = range(3)  # columns of `waits`: causes
CAUSES = ("message", "acknowledgement", "barrier")
KINDS = ("whole", "sparse")


@dataclass(frozen=True)
class Reduces:
    """The reduces of a run on `Replicas`.

    Attributes
    ----------
    consistency : int64 array of shape (n_workers, largest in-degree + 1)
        ``consistency[i, k]``: reduces of worker i that used k of its in-neighbours' messages (ASAP,
        figure 8).
    in_degree : int64 array of shape (n_workers,)
        The number of each worker's in-neighbours.
    torn, missing, late, unsent : int64 arrays of shape (n_workers,)
        Inputs left out because they were partly overwritten (torn) or had not come (missing);
        messages that came after their round (late); messages without capacity on an edge whose
        reader was gone or left out (unsent).
    edges : list of (int, int)
        Sender and reader of each edge; after a death, its last reader.
    sent : int64 array of shape (n_edges, 2, 2)
        Messages and bytes along each edge, whole and sparse. Bytes contain the values, the places
        of sparse ones, and a header.
    waits : float64 array of shape (n_workers, 3)
        Seconds waited for a message, for an acknowledgement and at the barrier.
    rounds : int64 array of shape (n_workers,)
        Reduces of each worker.
    left_out : list of (int, int)
        Pairs (i, k): at the end worker i did not wait for k, which had died or was too slow.
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
        """Messages and bytes by kind, and by edge within a kind, as in `Report.traffic`."""
        return by_edge(KINDS, self.edges, self.sent)

    @property
    def bytes(self) -> int:
        """Bytes of all messages."""
        return int(self.sent[:, :, BYTES].sum())

    @property
    def messages(self) -> int:
        """Messages of all workers."""
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
        """Draw the histogram of inputs per reduce, over all workers (needs matplotlib).

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

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
