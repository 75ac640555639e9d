"""The structured overlay: sampling of the others without anybody who knows them all.

Workers stand on a ring (`hogshare.simulation.ring`), know O(log n) others each, and reach the owner
of any point in O(log n) hops. Source: Wang, Catterall and Mortier 2017, who take it for granted
that the owner of a random point is a random worker. It is not: the chance is the owner's zone,
zones are about exponentially distributed, and of 1000 workers the luckiest is drawn some seven
times too often, and a tenth of them less than a tenth as often as they should be.

What makes draws uniform
------------------------
Draw a point and a number j below K; go to the point's owner and on to its j-th successor; take it
if it lies less than L points behind the point, else begin anew. Each worker is within L points of
exactly L of the 2^bits points, and then is the j-th from there for exactly one j: its chance is
``L / (2^bits K)``, the same for all. That is exact as long as no arc of L points has more than K
workers, for otherwise the last of them are never reached. With ``L = s 2^bits / n`` an arc has s
workers on average, and about Poisson many, so a K for which that fails with a chance of less than
one in 10^9 is small: with ``s = log2 n`` it is 40 for 1000 workers, hence 4 tries a draw, each of
some ``log2(n) / 2 + 1`` hops to the point and nearly s along the ring. In all O(log n): 55 hops,
where the biased draw takes 6. A worker that does meet more than K says so (`Drawn.crowded`).

Others that were considered, for 1000 workers:

- accept an owner with chance (least zone) / (its zone): exact, but the least of n zones is about
  1 / n^2, so that it takes some n tries, 6000 hops, and somebody who knows the least zone;
- the same with a larger constant c / n: quick (1.6 tries for c = 1), and biased again, since all
  zones below it are as unlikely as before: for c = 1, six
  workers of ten;
- average zones: go on by a random number of successors below s, accept with
  ``c / (n * average of the last s zones)``. As exact as ours and about as dear, but a worker has to
  know s predecessors;
- King and Saia, "Choosing a random peer" (PODC 2004), where a long zone's surplus is handed on to
  the next workers. As exact, for it fails by the same tail; 7 tries with their constants.
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
CROWDED = 1e-9  # chance that an arc anywhere has more than `Window.most`
METHODS = ("uniform", "point")
MOST_AT_ONCE = 1 << 18  # tries; a few tens of megabytes
MOST_TRIES = 10_000  # on average; more is a mistaken size


@dataclass(frozen=True)
class Window:
    """How uniform draws are made, see `Overlay.window`.

    Attributes
    ----------
    length : int
        L, points of an arc.
    most : int
        K, workers that one may have.
    """

    length: int
    most: int


@dataclass(frozen=True)
class Drawn:
    """Workers that were drawn, and what it took.

    Attributes
    ----------
    workers : ndarray of shape (n_draws,), int64
        Their numbers.
    hops : ndarray of shape (n_draws,), int64
        Times that a message was handed on until it was with the worker; tries that failed, and
        draws that were given up because the worker was there already, are counted in.
    tries : ndarray of shape (n_draws,), int64
        Points that were drawn for it.
    crowded : int
        Tries that met an arc with more workers than `Window.most`. 0 unless the believed size is
        far too small: draws are uniform up to such arcs.
    """

    workers: np.ndarray
    hops: np.ndarray
    tries: np.ndarray
    crowded: int


@dataclass(frozen=True)
class SizeEstimate:
    """How many workers there are, by a count of one zone.

    Attributes
    ----------
    size : float
        The estimate.
    seen : int
        Workers counted.
    relative_sd : float
        Predicted standard deviation, as a share of the number: ``sqrt((2^l - 1) / size)``.
    """

    size: float
    seen: int
    relative_sd: float


class Overlay:
    """Workers on a ring of 2^bits points, who know their neighbours and their fingers.

    Parameters
    ----------
    workers : int or array-like of int
        How many there are, with identifiers drawn at random; or their identifiers, worker k's at
        place k, all different.
    bits : int, default=62
        Of identifiers; at most 62.
    seed : int, default=0
        Of identifiers and draws.

    Raises
    ------
    ValueError
        If a number is out of its range, identifiers are not all different or not on the ring, or
        the ring has fewer points than there are workers.

    Notes
    -----
    A join or a leave copies the sorted identifiers: O(n) at memory's speed here, however many
    messages it is in a network.

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
        """How many there are."""
        return len(self._workers)

    @property
    def workers(self) -> np.ndarray:
        """Their numbers in the order of the ring, int64."""
        return self._workers.copy()

    @property
    def identifiers(self) -> np.ndarray:
        """Their identifiers in the order of the ring, int64."""
        return self._identifiers.copy()

    @property
    def zones(self) -> np.ndarray:
        """Points that each owns, in the order of the ring, int64."""
        return ring.zones(self._identifiers, self.bits)

    # -- routing ----------------------------------------------------------------------------------

    def owners(self, points: Any) -> np.ndarray:
        """Numbers of the workers that own the points: the first at or behind each."""
        return self._workers[ring.owners(self._identifiers, self._check_points(points))]

    def hops(self, senders: Any, points: Any) -> np.ndarray:
        """How many times messages are handed on until they are with the points' owners.

        Parameters
        ----------
        senders : int or array-like of shape (n_messages,)
            Workers.
        points : array-like of shape (n_messages,)

        Returns
        -------
        ndarray of shape (n_messages,), int64
            About ``log2(n_workers) / 2 + 1`` on average.

        Raises
        ------
        ValueError
            If a sender is not there, or a point is not on the ring.
        """
        points = self._check_points(points)
        senders = np.broadcast_to(self._places_of(senders), points.shape)
        return ring.hops(self._identifiers, self.bits, senders, points)

    # -- size -------------------------------------------------------------------------------------

    def estimate_size(
        self, prefix_bits: int, prefix: int | None = None, *, me: int | None = None
    ) -> SizeEstimate:
        """Estimate the number of workers by the density of a zone.

        k workers whose identifiers begin with a prefix of l bits stand for ``k 2^l``. Over
        prefixes, or identifiers, that is right on average, with a relative standard deviation of
        ``sqrt((2^l - 1) / n)``. To have that at e, take ``2^l`` near ``e^2 n``.

        Parameters
        ----------
        prefix_bits : int
            l; 0 counts everybody.
        prefix : int or None, default=None
            Which zone; None: a random one, or that of `me`.
        me : int or None, default=None
            Count in this worker's own zone. It is there itself, so that zone is not any zone:
            ``k 2^l`` would be ``2^l - 1`` too many on average, and ``(k - 1) 2^l + 1`` is right.

        Returns
        -------
        SizeEstimate

        Raises
        ------
        ValueError
            If there is no such prefix or worker, or both are given.

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
                raise ValueError("Give prefix or me, not both: me stands for its own prefix.")
            prefix = int(self._identifiers[self._place_of(me)]) >> shift
        elif prefix is None:
            prefix = int(self._random.integers(zones))
        count(0, prefix=prefix)
        if prefix >= zones:
            raise ValueError(f"prefix must be below {zones} with that many bits; got {prefix!r}.")
        start = np.array([prefix << shift])
        seen = int(ring.inhabitants(self._identifiers, self.bits, start, 1 << shift)[0])
        size = float(seen * zones if me is None else (seen - 1) * zones + 1)
        return SizeEstimate(size, seen, math.sqrt((zones - 1) / size) if size else math.inf)

    # -- draws ------------------------------------------------------------------------------------

    def window(self, size: float | None = None) -> Window:
        """The arc by which draws are made uniform, and how many workers it may have.

        Parameters
        ----------
        size : float or None, default=None
            What the number of workers is believed to be, as of `estimate_size`; None: what it is.
            One that is too large costs more tries, one that is far too small makes arcs crowded.

        Returns
        -------
        Window

        Raises
        ------
        ValueError
            If the size is below 1, or so large that a draw would hardly ever end.
        """
        size = float(self.n_workers) if size is None else size
        at_least_one(size=size)
        expected = max(1.0, math.log2(size))
        most = math.ceil(expected)
        while size * pdtrc(most - 1, expected) > CROWDED:
            most += 1
        length = int(min(1.0, expected / size) * (1 << self.bits))
        if length * self.n_workers * MOST_TRIES < most << self.bits:
            raise ValueError(
                f"size={size!r} is so far above the {self.n_workers} workers there are that a draw "
                f"would take more than {MOST_TRIES} tries. Take one from estimate_size()."
            )
        return Window(length, most)

    def crowd(self, window: Window) -> int:
        """Most workers that any arc of a window's length has; uniform up to `Window.most`."""
        arcs = ring.inhabitants(self._identifiers, self.bits, self._identifiers, window.length)
        return int(arcs.max())

    def draw(
        self, n_draws: int, *, me: int, method: str = "uniform", size: float | None = None
    ) -> Drawn:
        """Draw workers, each draw by itself: with replacement, and the asker among them.

        Parameters
        ----------
        n_draws : int
        me : int
            Who asks: where messages start.
        method : {"uniform", "point"}, default="uniform"
            "point" is the owner of a random point, drawn with its zone's chance: biased.
        size : float or None, default=None
            As of `window`.

        Returns
        -------
        Drawn

        Raises
        ------
        ValueError
            If the asker is not there, there is no such method, or as `window` does.
        """
        count(0, n_draws=n_draws)
        mine = self._place_of(me)
        return self._collect(n_draws, mine, self._chosen(method, size), again=True)

    def sample(
        self, me: int, size: int, *, method: str = "uniform", believed: float | None = None
    ) -> Drawn:
        """Draw others without replacement, as a barrier's sample.

        Parameters
        ----------
        me : int
            Who asks; not in the sample.
        size : int
            At most as many as there are others; meant for a small part of them, because who is
            drawn again is drawn in vain.
        method : {"uniform", "point"}, default="uniform"
            As of `draw`. Every set is equally likely with the first only.
        believed : float or None, default=None
            What the number of workers is believed to be, as `size` of `window`.

        Returns
        -------
        Drawn

        Raises
        ------
        ValueError
            If `me` is not there, the sample is larger than the number of others, or as `draw` does.
        """
        mine = self._place_of(me)
        check_sample(size, self.n_workers)
        return self._collect(size, mine, self._chosen(method, believed), again=False)

    def _collect(self, size: int, mine: int, window: Window | None, *, again: bool) -> Drawn:
        """Try until there are so many: with replacement, or other ones each time.

        Tries are independent, so they are made many at once, and those behind the last that was
        needed were never made.
        """
        places, hops, crowded = np.empty((3, 0), np.int64)
        ends = places
        rate = 1.0
        if window is not None:
            rate = window.length * self.n_workers / (window.most << self.bits)
        while len(ends) < size:
            # as many as it may take; where most are drawn again, twice as many as before
            more = max(int(1.2 * (size - len(ends)) / rate) + 3, len(places))
            tries = self._try(min(more, MOST_AT_ONCE), mine, window)
            places, hops, crowded = np.hstack([(places, hops, crowded), tries])
            ends = np.flatnonzero(places >= 0)
            if not again:
                ends = ends[places[ends] != mine]
                ends = np.sort(ends[np.unique(places[ends], return_index=True)[1]])
        ends = ends[:size]
        made = ends[-1] + 1 if size else 0
        return Drawn(
            workers=self._workers[places[ends]],
            hops=np.diff(np.cumsum(hops)[ends], prepend=0),
            tries=np.diff(ends, prepend=-1),
            crowded=int(crowded[:made].sum()),
        )

    def _try(self, n_tries: int, mine: int, window: Window | None) -> np.ndarray:
        """Places drawn (-1: in vain), hops made, and whether arcs were crowded: three rows."""
        points = self._random.integers(1 << self.bits, size=n_tries)
        first = ring.owners(self._identifiers, points)
        hops = ring.hops(self._identifiers, self.bits, np.full(n_tries, mine), points)
        if window is None:
            return np.stack([first, hops, np.zeros_like(hops)])
        further = self._random.integers(window.most, size=n_tries)
        there = ring.inhabitants(self._identifiers, self.bits, points, window.length)
        places = np.where(further < there, (first + further) % self.n_workers, -1)
        # the last in the arc knows that its successor is not
        hops += np.minimum(further, np.maximum(there - 1, 0))
        return np.stack([places, hops, there > window.most])

    # -- who is there -----------------------------------------------------------------------------

    def join(self, worker: int | None = None, identifier: int | None = None) -> int:
        """Take one in.

        Parameters
        ----------
        worker : int or None, default=None
            A number that is not there; None: one that never was.
        identifier : int or None, default=None
            None: drawn at random.

        Returns
        -------
        int
            The worker's number.

        Raises
        ------
        ValueError
            If the worker is there, or the identifier is taken or not on the ring.
        """
        worker = self._named if worker is None else worker
        count(0, worker=worker)
        if worker < len(self._places) and self._places[worker] >= 0:
            raise ValueError(f"worker {worker} is there already.")
        self._check_capacity(self.n_workers + 1)
        identifier = self._free_identifier() if identifier is None else identifier
        point = self._check_points([identifier])
        place = int(np.searchsorted(self._identifiers, point)[0])
        if self._identifiers[place % self.n_workers] == identifier:
            raise ValueError(f"identifier {identifier} is taken.")
        self._identifiers = np.insert(self._identifiers, place, identifier)
        self._workers = np.insert(self._workers, place, worker)
        self._named = max(self._named, worker + 1)
        self._find_places()
        return worker

    def leave(self, worker: int) -> None:
        """Let one go; its zone is its successor's.

        Raises
        ------
        ValueError
            If that worker is not there, or the only one.
        """
        place = self._place_of(worker)
        check_leaving(worker, self.n_workers)
        self._identifiers = np.delete(self._identifiers, place)
        self._workers = np.delete(self._workers, place)
        self._find_places()

    # -- help -------------------------------------------------------------------------------------

    def _find_places(self) -> None:
        """Place of each worker by its number, -1 where it is not there."""
        self._places = np.full(self._workers.max() + 1, -1, np.int64)
        self._places[self._workers] = np.arange(len(self._workers))

    def _places_of(self, workers: Any) -> Any:
        numbers = np.asarray(workers)
        known = numbers.dtype.kind in "iu"
        if known and numbers.size:
            known = numbers.min() >= 0 and numbers.max() < len(self._places)
            known = bool(known) and bool((self._places[numbers] >= 0).all())
        if not known:
            raise ValueError(f"worker {workers!r} is not there: it never joined, or has left.")
        return self._places[numbers]

    def _place_of(self, worker: int) -> int:
        place = self._places_of(worker)
        if place.ndim:
            raise ValueError(f"one worker is wanted; got {worker!r}.")
        return int(place)

    def _chosen(self, method: str, size: float | None) -> Window | None:
        if method not in METHODS:
            near = nearest(method, METHODS)
            raise ValueError(f"method must be one of {', '.join(METHODS)}; got {method!r}.{near}")
        return self.window(size) if method == "uniform" else None

    def _check_capacity(self, n_workers: int) -> None:
        if n_workers > 1 << self.bits:
            raise ValueError(
                f"{n_workers} workers need as many points, and {self.bits} bits are "
                f"{1 << self.bits}: give more bits."
            )

    def _check_points(self, points: Any) -> np.ndarray:
        given = np.asarray(points)
        if given.size and given.dtype.kind not in "iu":
            raise ValueError(f"points must be whole numbers; got {given.dtype}.")
        if given.size and not (given.min() >= 0 and given.max() < 1 << self.bits):
            raise ValueError(f"points must be on the ring, from 0 to 2^{self.bits} - 1.")
        return given.astype(np.int64)

    def _check_identifiers(self, given: Any) -> np.ndarray:
        identifiers = self._check_points(given)
        if identifiers.ndim != 1 or not identifiers.size:
            raise ValueError(
                "workers must be how many there are, or a list of their identifiers; "
                f"got {given!r}."
            )
        if len(np.unique(identifiers)) < len(identifiers):
            raise ValueError("identifiers must all be different.")
        return identifiers

    def _free_identifier(self) -> int:
        while True:
            point = self._random.integers(1 << self.bits)
            if (
                self._identifiers[np.searchsorted(self._identifiers, point) % self.n_workers]
                != point
            ):
                return int(point)
