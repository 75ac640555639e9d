"""The report of exchanges between mirrored centres: plain data, collected after the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hogshare import figures
from hogshare.kernels.exchange.centre_exchange import BYTES, C_DENSE, SPANS_OF_DOUBLE
from hogshare.links.traffic import Counted, by_edge

KINDS = ("update", "barrier", "clock")
CAUSES = ("clock", "values", "lock", "room")


def course_of(spans: np.ndarray) -> dict[str, np.ndarray]:
    """Return `Exchanges.course`, from the counts of all centres by span, of shape (SPANS, 4)."""
    used = spans[:, C_DENSE] > 0
    passed, changed, sent, dense = spans[used].T
    first = np.ceil(2.0 ** (np.flatnonzero(used) / SPANS_OF_DOUBLE)).astype(np.int64)
    share = passed / np.maximum(1, changed)
    return {"clock": first, "share": share, "bytes": sent, "dense_bytes": dense}


@dataclass(frozen=True)
class Exchanges:
    """The messages between the centres of a run on `Mirrors`.

    Attributes
    ----------
    groups : int64 array of shape (n_workers,)
        The centre of each worker.
    edges : list of (int, int)
        Sending and reading centre of each edge. An edge from a centre to itself stands for all
        messages between the sites of its workers.
    clocks : int64 array of shape (n_centres,)
        Number of clocks that each centre has completed.
    sent : int64 array of shape (n_edges, 3, 2)
        Number of messages and number of bytes along each edge, by kind: (1) updates, (2) short
        messages that announce values, (3) messages with only a clock.
    significant : int64 array of shape (n_centres, 2)
        Number of changes at clocks that passed the filter, and number of all changes at clocks.
    course : dict of str to array of shape (n_spans,)
        The filter's effect over spans of clocks; each span is a quarter longer than the previous
        one. "clock": the span's first clock. "share": the share of changes that passed. "bytes":
        the bytes that all centres have sent. "dense_bytes": the bytes that sending every change
        would have taken.
    small : int64 array of shape (n_centres, 2)
        Number of changes in blocks by at most 1 % of the value, and number of all changes in blocks
        (section 3 of the paper).
    waits : float64 array of shape (n_workers, 4)
        Seconds that each worker waited (1) for a clock, (2) for announced values, (3) for the
        centre's lock, and (4) at an epoch's end, for capacity on an edge whose reader may wait.
    holds : int64 array of shape (n_workers, 4)
        The number of these waits.
    passes : int64 array of shape (n_workers,)
        How often values were announced, but the worker's next block read none of these values.
    disagreement : float
        Root mean square, over centres, of the distance of the centre's mirror from the mean of the
        mirrors, before residuals are flushed.
    lost : list of int
        Centres whose workers have all died.
    """

    groups: np.ndarray
    edges: list[tuple[int, int]]
    clocks: np.ndarray
    sent: np.ndarray
    significant: np.ndarray
    course: dict[str, np.ndarray]
    small: np.ndarray
    waits: np.ndarray
    holds: np.ndarray
    passes: np.ndarray
    disagreement: float
    lost: list[int]

    @classmethod
    def of_parts(
        cls,
        centre_of: Sequence[int],
        *,
        groups: np.ndarray,
        edges: Sequence[tuple[int, int]],
        clocks: np.ndarray,
        sent: np.ndarray,
        significant: np.ndarray,
        small: np.ndarray,
        lost: np.ndarray,
        **more: Any,
    ) -> Exchanges:
        """Combine the data of each centre's parts at several sites.

        centre_of : the centre of each part
        lost : bool array of shape (n_parts,); a centre is lost if all of its parts are lost
        """
        whose = np.asarray(centre_of)
        n = int(whose.max()) + 1
        of_edges = [(int(whose[i]), int(whose[j])) for i, j in edges]
        names = sorted(set(of_edges))
        by_name, passed, counted = (
            np.zeros(shape, np.int64) for shape in ((len(names), *sent.shape[1:]), (n, 2), (n, 2))
        )
        np.add.at(by_name, [names.index(one) for one in of_edges], sent)
        np.add.at(passed, whose, significant)
        np.add.at(counted, whose, small)
        return cls(
            groups=whose[groups],
            edges=names,
            clocks=np.array([clocks[whose == c].min() for c in range(n)]),
            sent=by_name,
            significant=passed,
            small=counted,
            lost=[c for c in range(n) if lost[whose == c].all()],
            **more,
        )

    @property
    def n_centres(self) -> int:
        """The number of centres."""
        return len(self.clocks)

    @property
    def significant_share(self) -> float:
        """The share of all changes at clocks that were sent."""
        passed, of = self.significant.sum(axis=0)
        return float(passed / max(1, of))

    @property
    def small_share(self) -> float:
        """The share of all changes in blocks that were at most 1 % of the value."""
        small, of = self.small.sum(axis=0)
        return float(small / max(1, of))

    @property
    def traffic(self) -> Counted:
        """Number of messages and bytes by kind, and by edge of a kind, as in `Report.traffic`."""
        return by_edge(KINDS, self.edges, self.sent)

    @property
    def bytes(self) -> int:
        """Bytes of all messages between centres."""
        between = np.array([i != j for i, j in self.edges])
        return int(self.sent[between, :, BYTES].sum())

    def facts(self) -> list[tuple[str, Any]]:
        """Return the names and values of the report's table."""
        waits = ", ".join(
            f"{cause} {seconds:.3g} s"
            for cause, seconds in zip(CAUSES, self.waits.sum(axis=0), strict=True)
        )
        return [
            ("centres, clocks", f"{self.n_centres}, {self.clocks.min()} to {self.clocks.max()}"),
            ("significant changes", f"{self.significant_share:.2%}"),
            ("changes of at most 1 %", f"{self.small_share:.2%}"),
            ("bytes between centres", f"{self.bytes:,}"),
            ("waiting for", waits),
            *([("centres that have died", ", ".join(map(str, self.lost)))] if self.lost else []),
        ]

    def plot(self, ax: Any = None) -> Any:
        """Draw the bytes of each edge by kind (needs matplotlib).

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None: on a new figure.

        Returns
        -------
        matplotlib Axes
        """
        sizes = dict(zip(KINDS, self.sent[:, :, BYTES].T, strict=True))
        return figures.draw_edges(self.edges, sizes, ax)

    def plot_filter(self, ax: Any = None) -> Any:
        """Draw the shares of changes and of bytes that were sent, against the clocks.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None: on a new figure.

        Returns
        -------
        matplotlib Axes
        """
        course = self.course
        shares = {
            "significant changes": course["share"],
            "bytes, of those of all changes": course["bytes"] / course["dense_bytes"],
        }
        return figures.draw_shares(course["clock"], shares, ax)

    def to_dict(self) -> dict[str, Any]:
        """Return all data as JSON types."""
        return {
            "n_centres": self.n_centres,
            "groups": self.groups.tolist(),
            "clocks": self.clocks.tolist(),
            "traffic": self.traffic,
            "significant_share": self.significant_share,
            "small_share": self.small_share,
            "course": {name: one.tolist() for name, one in self.course.items()},
            "waits": {c: self.waits[:, k].tolist() for k, c in enumerate(CAUSES)},
            "holds": {c: self.holds[:, k].tolist() for k, c in enumerate(CAUSES)},
            "passes": self.passes.tolist(),
            "disagreement": self.disagreement,
            "lost": self.lost,
        }
