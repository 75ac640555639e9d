"""Links of a run on a virtual clock, between workers and the model, and sizes of their messages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hogshare.links.link import Link
from hogshare.links.traffic import MODEL
from hogshare.shm.mailbox import HEADER_BYTES
from hogshare.system.lazy_attribute import once
from hogshare.system.ranges import is_number, of_run

CONTROL_BYTES = 16  # bytes of a worker's number and its clock


@dataclass(frozen=True)
class Network:
    """Links between the workers and the model, and among workers whose plane has edges.

    Parameters
    ----------
    link : Link, default=Link()
        The default link: no latency, and unlimited bandwidth.
    classes : mapping of str to (Link, sequence of int), default={}
        For the name of each class of workers: the link of the class in both directions, and its
        workers.
    edges : mapping of (int, int) to Link, default={}
        Links of single directions ``(from, to)``, between two workers, or between a worker and
        `hogshare.simulation.MODEL`. These links take precedence over the links of classes. Between
        two workers of different classes, the link is the link of the sender's class.
    ceiling : float, default=inf
        Limit on the bytes per virtual second that the model's end sends and receives together.
        Messages above the limit are queued.

    Examples
    --------
    >>> from hogshare.simulation import MODEL, Link, Network
    >>> far = Link(latency=0.1, bandwidth=1e6)
    >>> network = Network(classes={"far": (far, range(8, 16))}, edges={(3, MODEL): far})
    >>> network.up(3) == network.down(9) == far, network.down(3)
    (True, Link(latency=0.0, bandwidth=inf, outages=()))
    """

    link: Link = field(default_factory=Link)
    classes: Mapping[str, tuple[Link, Iterable[int]]] = field(default_factory=dict)
    edges: Mapping[tuple[int, int], Link] = field(default_factory=dict)
    ceiling: float = math.inf

    def __post_init__(self) -> None:
        if not isinstance(self.link, Link):
            raise TypeError(f"link must be a Link; got {self.link!r}.")
        for name in ("classes", "edges"):
            if not isinstance(getattr(self, name), Mapping):
                raise TypeError(f"{name} must be a mapping; got {getattr(self, name)!r}.")
        for name, entry in self.classes.items():
            whole = isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], Link)
            if not whole or not isinstance(entry[1], Iterable):
                raise TypeError(
                    f"class {name!r} must be (Link(...), workers), such as "
                    f"(Link(latency=0.1), range(8)); got {entry!r}."
                )
        for edge, link in self.edges.items():
            ends = edge if isinstance(edge, tuple) and len(edge) == 2 else ()
            if len(set(ends)) != 2 or not isinstance(link, Link):
                raise ValueError(
                    "edges must map (worker, MODEL), (MODEL, worker) or two different workers to "
                    f"a Link; got {edge!r}: {link!r}."
                )
        if not is_number(self.ceiling) or not self.ceiling > 0.0:
            raise ValueError(f"ceiling must be above 0 bytes per second; got {self.ceiling!r}.")

    @once
    def _of_class(self) -> dict[int, Link]:
        return {int(k): link for link, members in self.classes.values() for k in members}

    def up(self, worker: int) -> Link:
        """Return the link from a worker to the model, for the worker's updates."""
        return self.edges.get((worker, MODEL)) or self._of_class.get(worker, self.link)

    def down(self, worker: int) -> Link:
        """Return the link from the model to a worker."""
        return self.edges.get((MODEL, worker)) or self._of_class.get(worker, self.link)

    def between(self, sender: int, to: int) -> Link:
        """Return the link for messages from worker `sender` to worker `to`."""
        classes = self._of_class
        return self.edges.get((sender, to)) or classes.get(sender, classes.get(to, self.link))

    def check(self, n_workers: int) -> None:
        """Refuse links for workers that the run does not have.

        Raises
        ------
        ValueError
        """
        named = {end for edge in self.edges for end in edge if end != MODEL} | set(self._of_class)
        of_run("the network", named, n_workers)


def message_bytes(payload: int, n_columns: int) -> int:
    """Return the bytes of a model or of an update: payload, intercepts, header."""
    return payload + 8 * n_columns + HEADER_BYTES
