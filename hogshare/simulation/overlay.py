"""The structured overlay: sampling of other workers when no worker knows all of them.

Workers are on a ring (`hogshare.simulation.ring`). Each of n workers knows O(log n) other workers,
and reaches the owner of any point in O(log n) hops. A hop is a message from a worker to a worker
that it knows. Source: Wang, Catterall and Mortier 2017. The paper assumes that the owner of a
random point is a random worker. This is not so: an owner's chance is proportional to its zone (the
points that it owns), and zones are about exponentially distributed. Among 1000 workers, the worker
with the largest zone is drawn about seven times too often, and a tenth of the workers are drawn
less than a tenth as often as they should be.

Uniform draws
-------------
A try draws a point and a number j, from 0 to K - 1. It goes to the point's owner, and then to the
owner's j-th successor. If this worker is less than L points after the point, the try accepts it;
otherwise the next try begins. Consider one worker. For exactly L of the 2^bits points, the worker
is less than L points after the point. For each of these L points, exactly one j leads to the
worker. So a try accepts the worker with the chance ``L / (2^bits K)``, the same for all workers.

The draw is exact if no arc of L points has more than K workers; in a fuller arc the last workers
are never reached. With ``L = s 2^bits / n`` the number of workers in an arc is about Poisson with
mean s. So a small K fails with a chance below 10^-9: with ``s = log2 n``, K is 40 for 1000 workers.
A draw then takes 4 tries. Each try takes about ``log2(n) / 2 + 1`` hops to the point, and nearly s
hops along the ring. That is O(log n): 55 hops for 1000 workers, whereas the biased draw takes 6
hops. If a try meets more than K workers in an arc, the result reports this (`Drawn.crowded`).

Alternatives, for 1000 workers:

- Accept an owner with the chance (least zone) / (owner's zone). This is exact. But the least of n
  zones is about 1 / n^2 of the ring, so a draw takes about n tries (6000 hops). A worker must also
  know the least zone.
- Accept an owner with the chance (c / n) / (owner's zone), with a larger constant c. This is quick
  (1.6 tries for c = 1), but still biased: workers with zones below c / n are still drawn too
  rarely. For c = 1, these are six workers of ten.
- Average zones: continue by a random number of successors below s, and accept with the chance ``c /
  (n * average of the last s zones)``. This is as exact and about as expensive as the draw of this
  file, but a worker must know s predecessors.
- King and Saia, "Choosing a random peer" (PODC 2004): the surplus of a long zone goes to the next
  workers. This is as exact as the draw of this file, with the same tail of failures. It takes 7
  tries with the paper's constants.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import pdtrc

from hogshare.simulation import ring
from hogshare.simulation.membership import check_leaving, check_sample
from hogshare.system.messages import nearest
from hogshare.system.ranges import at_least_one, count, is_count, whole

MOST_BITS = 62  # sums of two points fit in int64
CROWDED = 1e-9  # chance that any arc has more workers than `Window.most`
METHODS = ("uniform", "point")
MOST_AT_ONCE = 1 << 18  # tries made at once; they take a few tens of megabytes
MOST_TRIES = 10_000  # mean tries for a draw; a larger mean indicates a mistaken size


@dataclass(frozen=True)
class Window:
    """The parameters of uniform draws; see `Overlay.window`.

    Attributes
    ----------
    length : int
        Number of points of an arc (L in the notes of this file).
    most : int
        Largest number of workers in an arc for which draws are uniform (K).
    """

    length: int
    most: int


@dataclass(frozen=True)
class Drawn:
    """The drawn workers, and the number of messages that the draws took.

    Attributes
    ----------
    workers : ndarray of shape (n_draws,), int64
        Numbers of the drawn workers.
    hops : ndarray of shape (n_draws,), int64
        Number of hops until each worker was reached. It includes the hops of failed tries, and of
        tries whose worker was already in the sample.
    tries : ndarray of shape (n_draws,), int64
        Number of points that were drawn for each worker.
    crowded : int
        Number of tries that met an arc with more workers than `Window.most`. Draws are uniform
        except in such arcs. The number is 0 unless the assumed number of workers is far too small.
    """

    workers: np.ndarray
    hops: np.ndarray
    tries: np.ndarray
    crowded: int


@dataclass(frozen=True)
class SizeEstimate:
    """An estimate of the number of workers, from a count of the workers in one zone.

    Attributes
    ----------
    size : float
        The estimate.
    seen : int
        Number of workers counted in the zone.
    relative_sd : float
        Predicted standard deviation, relative to the number of workers: ``sqrt((2^l - 1) / size)``,
        for a prefix of l bits.
    """

    size: float
    seen: int
    relative_sd: float


class Overlay:
    """Workers on a ring of 2^bits points; each knows its neighbours and its fingers.

    Parameters
    ----------
    workers : int or array-like of int
        An int is the number of workers, which then get random identifiers. An array contains the
        identifiers, all different; worker k has the identifier at index k.
    bits : int, default=62
        Number of bits of an identifier; at most 62.
    seed : int, default=0
        Seed for identifiers and draws.

    Raises
    ------
    ValueError
        If a number is out of its range, identifiers are not all different or not on the ring, or
        the ring has fewer points than there are workers.

    Notes
    -----
    A join or a leave changes this object. It copies the array of sorted identifiers, which takes
    O(n) time. This time is independent of the number of messages that a network would need.

    Examples
    --------
    >>> from hogshare.simulation import Overlay
    >>> overlay = Overlay(1000, seed=1)
    >>> biased = overlay.draw(10_000, me=0, method="point")
    >>> uniform = overlay.draw(10_000, me=0)
    >>> import numpy as np
    >>> [int(np.bincount(drawn.workers).max()) > 40 for drawn in (biased, uniform)]
    [True, False]
    """

    def __init__(self, workers: Any, *, bits: int = MOST_BITS, seed: int = 0) -> None:
        count(1, bits=bits)
        if bits > MOST_BITS:
            raise ValueError(f"bits must be at most {MOST_BITS}; got {bits!r}.")
        whole(seed=seed)
        self.bits = bits
        self._random = np.random.default_rng(seed)
        if is_count(workers):
            count(1, workers=workers)
            self._check_capacity(workers)
            given = self._random.choice(1 << bits, workers, replace=False)
        else:
            given = self._check_identifiers(workers)
        order = np.argsort(given)
        self._identifiers = given[order]
        self._workers = order.astype(np.int64)
        self._named = len(given)
        self._find_places()

    @property
    def n_workers(self) -> int:
        """The number of workers."""
        return len(self._workers)

    @property
    def workers(self) -> np.ndarray:
        """The workers' numbers in the order of the ring, int64."""
        return self._workers.copy()

    @property
    def identifiers(self) -> np.ndarray:
        """The workers' identifiers in the order of the ring, int64."""
        return self._identifiers.copy()

    @property
    def zones(self) -> np.ndarray:
        """The number of points that each worker owns, in the order of the ring, int64."""
        return ring.zones(self._identifiers, self.bits)

    # -- routing ----------------------------------------------------------------------------------

    def owners(self, points: Any) -> np.ndarray:
        """Return the number of each point's owner, the first worker at or after the point."""
        return self._workers[ring.owners(self._identifiers, self._check_points(points))]

    def hops(self, senders: Any, points: Any) -> np.ndarray:
        """Return, for each message, the number of hops until it reaches its point's owner.

        Parameters
        ----------
        senders : int or array-like of shape (n_messages,)
            The sending workers.
        points : array-like of shape (n_messages,)
            The points on the ring to which the messages go.

        Returns
        -------
        ndarray of shape (n_messages,), int64
            Numbers of hops; about ``log2(n_workers) / 2 + 1`` on average.

        Raises
        ------
        ValueError
            If a sender is not a member, or a point is not on the ring.
        """
        points = self._check_points(points)
        senders = np.broadcast_to(self._places_of(senders), points.shape)
        return ring.hops(self._identifiers, self.bits, senders, points)

    # -- size -------------------------------------------------------------------------------------

    def estimate_size(
        self, prefix_bits: int, prefix: int | None = None, *, me: int | None = None
    ) -> SizeEstimate:
        """Estimate the number of workers by the density of a zone.

        A zone contains the workers whose identifiers begin with a given prefix of l bits. If these
        are k workers, the estimate is ``k 2^l``. The estimate is unbiased over random prefixes, and
        over random identifiers. Its relative standard deviation is ``sqrt((2^l - 1) / n)`` for n
        workers. For a relative deviation of e, choose ``2^l`` near ``e^2 n``.

        Parameters
        ----------
        prefix_bits : int
            Number of bits of the prefix (l); with 0, all workers are counted.
        prefix : int or None, default=None
            The zone's prefix. If None, the prefix is the prefix of `me`, or random if `me` is None.
        me : int or None, default=None
            Worker whose own zone is counted. This zone always contains the worker, so ``k 2^l``
            would be ``2^l - 1`` too large on average. The estimate is therefore
            ``(k - 1) 2^l + 1``, which is unbiased.

        Returns
        -------
        SizeEstimate

        Raises
        ------
        ValueError
            If the prefix is out of range, `me` is not a member, or both are given.

        Examples
        --------
        >>> from hogshare.simulation import Overlay
        >>> overlay = Overlay([0, 3, 9, 11, 13], bits=4)
        >>> overlay.estimate_size(1, prefix=1).size
        6.0
        """
        count(0, prefix_bits=prefix_bits)
        if prefix_bits > self.bits:
            raise ValueError(f"prefix_bits must be at most {self.bits}; got {prefix_bits!r}.")
        zones = 1 << prefix_bits
        shift = self.bits - prefix_bits
        if me is not None:
            if prefix is not None:
                raise ValueError(
                    f"Give prefix or me, not both, because me implies its own prefix; got "
                    f"prefix={prefix!r} and me={me!r}."
                )
            prefix = int(self._identifiers[self._place_of(me)]) >> shift
        elif prefix is None:
            prefix = int(self._random.integers(zones))
        count(0, prefix=prefix)
        if prefix >= zones:
            raise ValueError(
                f"prefix must be below {zones} with prefix_bits={prefix_bits}; got {prefix!r}."
            )
        start = np.array([prefix << shift])
        seen = int(ring.inhabitants(self._identifiers, self.bits, start, 1 << shift)[0])
        size = float(seen * zones if me is None else (seen - 1) * zones + 1)
        return SizeEstimate(size, seen, math.sqrt((zones - 1) / size) if size else math.inf)

    # -- draws ------------------------------------------------------------------------------------

    def window(self, size: float | None = None) -> Window:
        """Return the length of an arc that makes draws uniform, and its largest number of workers.

        Parameters
        ----------
        size : float or None, default=None
            The assumed number of workers, for example from `estimate_size`. If None, it is the true
            number. If the assumed number is too large, draws take more tries. If it is far too
            small, arcs are crowded.

        Returns
        -------
        Window

        Raises
        ------
        ValueError
            If the size is below 1, or so large that a draw would take over 10,000 tries.
        """
        size = float(self.n_workers) if size is None else size
        at_least_one(size=size)
        expected = max(1.0, math.log2(size))
        most = math.ceil(expected)
        # a union bound over the arcs that begin at a worker; each may have `most - 1` others
        while size * pdtrc(most - 1, expected) > CROWDED:
            most += 1
        length = int(min(1.0, expected / size) * (1 << self.bits))
        # a try succeeds with a chance of length * n_workers / (most * 2^bits)
        if length * self.n_workers * MOST_TRIES < most << self.bits:
            raise ValueError(
                f"size={size!r} is too far above the overlay's {self.n_workers} workers: a draw "
                f"would take more than {MOST_TRIES} tries. Use a size from estimate_size()."
            )
        return Window(length, most)

    def crowd(self, window: Window) -> int:
        """Return the largest number of workers in an arc; draws are uniform up to `most`."""
        arcs = ring.inhabitants(self._identifiers, self.bits, self._identifiers, window.length)
        return int(arcs.max())

    def draw(
        self, n_draws: int, *, me: int, method: str = "uniform", size: float | None = None
    ) -> Drawn:
        """Draw workers independently, with replacement; the drawing worker may be drawn.

        Parameters
        ----------
        n_draws : int
            Number of workers to draw.
        me : int
            The drawing worker, from which messages start.
        method : {"uniform", "point"}, default="uniform"
            With "uniform", all workers have the same chance. With "point", the owner of a random
            point is drawn. This is biased: a worker's chance is proportional to its zone.
        size : float or None, default=None
            The assumed number of workers, as in `window`.

        Returns
        -------
        Drawn

        Raises
        ------
        ValueError
            If `me` is not a member, the method is unknown, or `window` refuses `size`.
        """
        count(0, n_draws=n_draws)
        mine = self._place_of(me)
        return self._collect(n_draws, mine, self._chosen(method, size), again=True)

    def sample(
        self, me: int, size: int, *, method: str = "uniform", believed: float | None = None
    ) -> Drawn:
        """Draw other workers without replacement, as a barrier's sample.

        Parameters
        ----------
        me : int
            The drawing worker, which is not in the sample.
        size : int
            Number of workers to draw, at most the number of other workers. It should be a small
            part of their number: whenever a worker is drawn twice, another draw is needed.
        method : {"uniform", "point"}, default="uniform"
            As in `draw`. Only with "uniform" are all sets equally likely.
        believed : float or None, default=None
            The assumed number of workers, as `size` in `window`.

        Returns
        -------
        Drawn

        Raises
        ------
        ValueError
            If `me` is not a member, the sample is larger than the number of other workers, the
            method is unknown, or `window` refuses `believed`.
        """
        mine = self._place_of(me)
        check_sample(size, self.n_workers)
        return self._collect(size, mine, self._chosen(method, believed), again=False)

    def _collect(self, size: int, mine: int, window: Window | None, *, again: bool) -> Drawn:
        """Try until `size` workers are drawn; with `again`, draw with replacement.

        Tries are independent, and many are made at once. The tries after the last needed try do not
        count.
        """
        places, hops, crowded = np.empty((3, 0), np.int64)
        ends = places
        rate = 1.0
        if window is not None:
            rate = window.length * self.n_workers / (window.most << self.bits)
        while len(ends) < size:
            # the expected number of tries; if most draws are repeats, twice as many as before
            more = max(int(1.2 * (size - len(ends)) / rate) + 3, len(places))
            tries = self._try(min(more, MOST_AT_ONCE), mine, window)
            places, hops, crowded = np.hstack([(places, hops, crowded), tries])
            ends = np.flatnonzero(places >= 0)
            if not again:
                # the first try of each other worker counts, in the order of tries
                ends = ends[places[ends] != mine]
                ends = np.sort(ends[np.unique(places[ends], return_index=True)[1]])
        ends = ends[:size]
        made = ends[-1] + 1 if size else 0
        return Drawn(
            workers=self._workers[places[ends]],
            # a draw's hops include the hops of the failed tries before it
            hops=np.diff(np.cumsum(hops)[ends], prepend=0),
            tries=np.diff(ends, prepend=-1),
            crowded=int(crowded[:made].sum()),
        )

    def _try(self, n_tries: int, mine: int, window: Window | None) -> np.ndarray:
        """Return three rows: places (-1: a failed try), hops, and whether arcs were crowded."""
        points = self._random.integers(1 << self.bits, size=n_tries)
        first = ring.owners(self._identifiers, points)
        hops = ring.hops(self._identifiers, self.bits, np.full(n_tries, mine), points)
        if window is None:
            return np.stack([first, hops, np.zeros_like(hops)])
        further = self._random.integers(window.most, size=n_tries)
        in_arc = ring.inhabitants(self._identifiers, self.bits, points, window.length)
        places = np.where(further < in_arc, (first + further) % self.n_workers, -1)
        # a try ends at the arc's last worker, which knows that its successor is outside
        hops += np.minimum(further, np.maximum(in_arc - 1, 0))
        return np.stack([places, hops, in_arc > window.most])

    # -- members ----------------------------------------------------------------------------------

    def join(self, worker: int | None = None, identifier: int | None = None) -> int:
        """Add a worker.

        Parameters
        ----------
        worker : int or None, default=None
            A number that no current member has. If None, a number that was never used.
        identifier : int or None, default=None
            The worker's identifier. If None, a random identifier.

        Returns
        -------
        int
            The worker's number.

        Raises
        ------
        ValueError
            If the worker is a member, or the identifier is in use or not on the ring.
        """
        worker = self._named if worker is None else worker
        count(0, worker=worker)
        if worker < len(self._places) and self._places[worker] >= 0:
            raise ValueError(f"worker {worker} is a member already: use another number, or None.")
        self._check_capacity(self.n_workers + 1)
        identifier = self._free_identifier() if identifier is None else identifier
        point = self._check_points([identifier])
        place = int(np.searchsorted(self._identifiers, point)[0])
        # modulo: a point after the last identifier has place n_workers
        if self._identifiers[place % self.n_workers] == identifier:
            raise ValueError(f"identifier {identifier} is taken: use another one, or None.")
        self._identifiers = np.insert(self._identifiers, place, identifier)
        self._workers = np.insert(self._workers, place, worker)
        self._named = max(self._named, worker + 1)
        self._find_places()
        return worker

    def leave(self, worker: int) -> None:
        """Remove a worker; its zone goes to its successor.

        Raises
        ------
        ValueError
            If the worker is not a member, or is the only member.
        """
        place = self._place_of(worker)
        check_leaving(worker, self.n_workers)
        self._identifiers = np.delete(self._identifiers, place)
        self._workers = np.delete(self._workers, place)
        self._find_places()

    # -- help -------------------------------------------------------------------------------------

    def _find_places(self) -> None:
        """Set the place of each worker by its number, and -1 for numbers without a member."""
        self._places = np.full(self._workers.max() + 1, -1, np.int64)
        self._places[self._workers] = np.arange(len(self._workers))

    def _places_of(self, workers: Any) -> Any:
        numbers = np.asarray(workers)
        known = numbers.dtype.kind in "iu"
        if known and numbers.size:
            known = numbers.min() >= 0 and numbers.max() < len(self._places)
            known = bool(known) and bool((self._places[numbers] >= 0).all())
        if not known:
            raise ValueError(f"worker {workers!r} is not a member: it never joined, or has left.")
        return self._places[numbers]

    def _place_of(self, worker: int) -> int:
        place = self._places_of(worker)
        if place.ndim:
            raise ValueError(f"the worker must be one number; got {worker!r}.")
        return int(place)

    def _chosen(self, method: str, size: float | None) -> Window | None:
        if method not in METHODS:
            near = nearest(method, METHODS)
            raise ValueError(f"method must be one of {', '.join(METHODS)}; got {method!r}.{near}")
        return self.window(size) if method == "uniform" else None

    def _check_capacity(self, n_workers: int) -> None:
        if n_workers > 1 << self.bits:
            raise ValueError(
                f"{n_workers} workers need as many points, but bits={self.bits} gives "
                f"{1 << self.bits}: use more bits."
            )

    def _check_points(self, points: Any) -> np.ndarray:
        given = np.asarray(points)
        if given.size and given.dtype.kind not in "iu":
            raise ValueError(f"points must be whole numbers; got an array of {given.dtype}.")
        if given.size and not (given.min() >= 0 and given.max() < 1 << self.bits):
            raise ValueError(
                f"points must be on the ring, from 0 to 2^{self.bits} - 1; got {given.min()} to "
                f"{given.max()}."
            )
        return given.astype(np.int64)

    def _check_identifiers(self, given: Any) -> np.ndarray:
        identifiers = self._check_points(given)
        if identifiers.ndim != 1 or not identifiers.size:
            raise ValueError(
                f"workers must be the number of workers, or a list of their identifiers; got "
                f"{given!r}."
            )
        if len(np.unique(identifiers)) < len(identifiers):
            raise ValueError(f"identifiers must all be different; got {given!r}.")
        return identifiers

    def _free_identifier(self) -> int:
        while True:
            point = self._random.integers(1 << self.bits)
            if (
                self._identifiers[np.searchsorted(self._identifiers, point) % self.n_workers]
                != point
            ):
                return int(point)
