"""The full view: every worker knows all members, and draws samples from their list."""

from __future__ import annotations

import numpy as np

from hogshare.system.ranges import count, whole


class Membership:
    """The members of a run, as every worker knows them.

    A sample is drawn without replacement; each set of other workers has the same chance. To draw a
    sample takes no messages; only its members need to be asked. The price is that every worker must
    be notified of each join and leave, with n messages each time for n workers. `Overlay` needs
    fewer messages for a join or leave.

    Parameters
    ----------
    n_workers : int
        The initial number of workers. Their numbers are 0 to n_workers - 1.
    seed : int, default=0
        Seed for the draws.

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
        self._workers = list(range(n_workers))  # unordered after a leave
        self._place = {k: k for k in self._workers}
        self._named = n_workers
        self._random = np.random.default_rng(seed)

    @property
    def n_workers(self) -> int:
        """The number of workers."""
        return len(self._workers)

    @property
    def workers(self) -> np.ndarray:
        """The workers' numbers, ascending, int64."""
        return np.sort(np.array(self._workers, np.int64))

    def sample(self, me: int, size: int) -> np.ndarray:
        """Draw other workers without replacement.

        Parameters
        ----------
        me : int
            The drawing worker, which is not in the sample.
        size : int
            Number of workers to draw, at most the number of other workers.

        Returns
        -------
        ndarray of shape (size,), int64
            Numbers of the drawn workers.

        Raises
        ------
        ValueError
            If `me` is not a member, or the sample is larger than the number of other workers.
        """
        mine = self._place_of(me)
        check_sample(size, self.n_workers)
        drawn = self._random.choice(self.n_workers - 1, size, replace=False)
        drawn += drawn >= mine  # skip the drawing worker's place
        return np.array([self._workers[place] for place in drawn], np.int64)

    def join(self, worker: int | None = None) -> int:
        """Add a worker.

        Parameters
        ----------
        worker : int or None, default=None
            A number that no current member has. If None, the method takes a number that was never
            used.

        Returns
        -------
        int
            The worker's number.

        Raises
        ------
        ValueError
            If the worker is a member.
        """
        worker = self._named if worker is None else worker
        count(0, worker=worker)
        if worker in self._place:
            raise ValueError(f"worker {worker} is a member already: use another number, or None.")
        self._named = max(self._named, worker + 1)
        self._place[worker] = len(self._workers)
        self._workers.append(worker)
        return worker

    def leave(self, worker: int) -> None:
        """Remove a worker.

        Raises
        ------
        ValueError
            If the worker is not a member, or is the only member.
        """
        place = self._place_of(worker)
        check_leaving(worker, self.n_workers)
        # the last worker takes the free place: no other place changes
        last = self._workers.pop()
        if last != worker:
            self._workers[place] = last
            self._place[last] = place
        del self._place[worker]

    def _place_of(self, worker: int) -> int:
        if worker not in self._place:
            raise ValueError(f"worker {worker!r} is not a member: it never joined, or has left.")
        return self._place[worker]


def check_sample(size: int, n_workers: int) -> None:
    """Refuse a sample that is larger than the number of other workers.

    Raises
    ------
    ValueError
        If `size` is larger than ``n_workers - 1``.
    """
    count(0, size=size)
    if size > n_workers - 1:
        raise ValueError(
            f"A sample of {size} cannot be drawn without replacement from {n_workers - 1} others. "
            "Use a smaller sample, or a barrier on all workers, such as BSP() or SSP(4)."
        )


def check_leaving(worker: int, n_workers: int) -> None:
    """Refuse to let the last worker leave.

    Raises
    ------
    ValueError
        If `n_workers` is 1.
    """
    if n_workers == 1:
        raise ValueError(f"worker {worker} is the only one left: add another one first.")
