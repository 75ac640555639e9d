"""Homes of workers, and their mail, on planes with homes (`hogshare.planes.protocol`).

Writers: a worker writes its own home, which is its row of the copies and its local fields. The
caller writes all homes while no worker works. Readers: a worker reads its own home. The caller
reads any home at any moment for a snapshot, which may contain a part of a step under way. Freeing:
the session's owner. For messages between homes see `hogshare.shm.mailbox`.

The workers of a plane may be at several sites (`hogshare.engine.world`). The plane identifies all
workers by their numbers. Each site has the plane's arrays, the mail and the table of all workers.
The runtime brings the writes of other sites.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from hogshare.engine.emulated_links import Delayed
from hogshare.engine.home_vectors import HomeVectors
from hogshare.engine.workspace import Workspace
from hogshare.kernels import layout
from hogshare.planes.protocol import Plane, edges_of
from hogshare.shm.mailbox import AT_ONCE, RegisterEdge


class Homes(HomeVectors):
    """The homes of one run.

    plane : a plane with homes
    """

    def __init__(self, session: Workspace, plane: Plane) -> None:
        super().__init__(session, plane)
        self._ends = edges_of(plane, self.n_workers)
        self.links = plane.edge_links(self.n_workers)
        item = session.vector.w.dtype.itemsize
        self._delayed = Delayed(self.links, item) if self.links else None
        box = session.mail.box
        self.boxes = [
            RegisterEdge(box, k, self._delayed or AT_ONCE) for k in range(len(self._ends))
        ]
        self.edges = dict(zip(self._ends, self.boxes, strict=True))
        self._are_read_locally = np.array([to in self.local_workers for _, to in self._ends], bool)
        self.is_finished = False

        def call(function: Callable[..., Any], *args: Any) -> Any:
            return function(*args)

        call.__qualname__ = f"{self.name}.after_block"
        self.call: Callable[..., Any] = call  # `Session.call_users_by` wraps it

    def carry_by(self, transport: Any, edges: Iterable[int] | None = None) -> None:
        """Set the `RegisterTransport` that brings the messages of `edges`, or of all edges.

        If a plane sends only mail, a `Transport` suffices, because no registers are overwritten.
        """
        for k in range(len(self.boxes)) if edges is None else edges:
            self.boxes[k] = RegisterEdge(self.session.mail.box, k, transport)
        self.edges = dict(zip(self._ends, self.boxes, strict=True))

    def mail_is_under_way(self) -> bool:
        """Whether a transport has yet to deliver a message."""
        box = self.session.mail.box
        sent, come = (box.counters[:, which] for which in (layout.M_POSTED, layout.M_ARRIVED))
        return bool((sent != come)[self._are_read_locally].any()) or (
            self._delayed is not None and self._delayed.has_mail(box)
        )

    def ends(self, edge: int) -> tuple[int, int]:
        """Return the sender and the reader of an edge."""
        sender, to = self._ends[edge]
        return sender, self.plane.reader_of(edge, to, self.arrays)

    def scatter(self) -> None:
        """Start every worker from the run's vector; called while no worker works."""
        super().scatter()
        if self._delayed:
            self._delayed.begin(self.session.mail.box)

    def finish(self) -> None:
        """Let the plane finish its exchanges, once, when no worker works any more."""
        if not self.is_finished:
            self.is_finished = True
            self.plane.finish(self.arrays)

    def account(self) -> Any:
        """Return the plane's account of the run; call it after the run's end."""
        try:
            return self.plane.account(self.arrays, self.n_workers)
        except Exception as error:
            raise self.error("account", error) from error
