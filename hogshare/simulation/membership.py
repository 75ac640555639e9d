"""The full view: everybody knows who is there, and draws from the list."""

from __future__ import annotations

import numpy as np

from hogshare.system.ranges import count, whole


class Membership:
    """Who is in the run, known to everybody.

    A sample is drawn without replacement, each set of others as likely as any other, and takes no
    messages besides those to its members. What it takes is that every worker is told of everybody
    who joins or leaves: n messages each time, which `Overlay` spares.

    Parameters
    ----------
    n_workers : int
        Workers 0 to n_workers - 1 are in it at first.
    seed : int, default=0
        Of the draws.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> from hogshare.simulation import Membership
    >>> everybody = Membership(5, seed=1)
    >>> everybody.leave(3)
    >>> sorted(everybody.sample(0, 3).tolist())
    [1, 2, 4]
    """

    def __init__(self, n_workers: int, *, seed: int = 0) -> None:
        count(1, n_workers=n_workers)
        whole(seed=seed)
        self._workers = list(range(n_workers))  # in no order
        self._place = {k: k for k in self._workers}
        self._named = n_workers
        self._random = np.random.default_rng(seed)

    @property
    def n_workers(self) -> int:
        """How many there are."""
        return len(self._workers)

    @property
    def workers(self) -> np.ndarray:
        """Their numbers, ascending, int64."""
        return np.sort(np.array(self._workers, np.int64))

    def sample(self, me: int, size: int) -> np.ndarray:
        """Draw others without replacement.

        Parameters
        ----------
        me : int
            Who asks; not in the sample.
        size : int
            At most as many as there are others.

        Returns
        -------
        ndarray of shape (size,), int64
            Their numbers.

        Raises
        ------
        ValueError
            If `me` is not there, or the sample is larger than the number of others.
        """
        mine = self._place_of(me)
        check_sample(size, self.n_workers)
        drawn = self._random.choice(self.n_workers - 1, size, replace=False)
        drawn += drawn >= mine
        return np.array([self._workers[place] for place in drawn], np.int64)

    def join(self, worker: int | None = None) -> int:
        """Take one in: a number that is not there, or None for one that never was.

        Returns
        -------
        int
            The worker's number.

        Raises
        ------
        ValueError
            If that worker is there.
        """
        worker = self._named if worker is None else worker
        count(0, worker=worker)
        if worker in self._place:
            raise ValueError(f"worker {worker} is there already.")
        self._named = max(self._named, worker + 1)
        self._place[worker] = len(self._workers)
        self._workers.append(worker)
        return worker

    def leave(self, worker: int) -> None:
        """Let one go.

        Raises
        ------
        ValueError
            If that worker is not there, or the only one.
        """
        place = self._place_of(worker)
        check_leaving(worker, self.n_workers)
        last = self._workers.pop()
        if last != worker:
            self._workers[place] = last
            self._place[last] = place
        del self._place[worker]

    def _place_of(self, worker: int) -> int:
        if worker not in self._place:
            raise ValueError(f"worker {worker!r} is not there: it never joined, or has left.")
        return self._place[worker]


def check_sample(size: int, n_workers: int) -> None:
    """Refuse a sample of more than there are others.

    Raises
    ------
    ValueError
    """
    count(0, size=size)
    if size > n_workers - 1:
        raise ValueError(
            f"A sample of {size} cannot be drawn without replacement: there are {n_workers - 1} "
            "others. Take a smaller one, or a barrier that watches everybody, as BSP() and SSP(4)."
        )


def check_leaving(worker: int, n_workers: int) -> None:
    """Refuse that the last one leaves.

    Raises
    ------
    ValueError
    """
    if n_workers == 1:
        raise ValueError(f"worker {worker} is the only one left: let another join first.")
