"""The workers of a run, and the site of each.

A *site* is a process with memory of its own; processes that share an arena are one site. A worker
has the same number at every site, and every site has the table of all workers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class World:
    """The distribution of a run's workers over sites.

    sites : tuple with the number of workers of each site
    site : number of the site of this process

    Examples
    --------
    >>> from hogshare.engine.world import World
    >>> world = World((2, 3), site=1)
    >>> world.n_workers, world.local_workers, world.site_of.tolist()
    (5, range(2, 5), [0, 0, 1, 1, 1])
    """

    sites: tuple[int, ...]
    site: int = 0

    @property
    def n_workers(self) -> int:
        """Number of workers of all sites."""
        return sum(self.sites)

    @property
    def first(self) -> int:
        """The number of this site's first worker."""
        return sum(self.sites[: self.site])

    @property
    def local_workers(self) -> range:
        """Numbers of this site's workers."""
        return range(self.first, self.first + self.sites[self.site])

    @property
    def is_one(self) -> bool:
        """Whether the run has only one site."""
        return len(self.sites) == 1

    @property
    def site_of(self) -> np.ndarray:
        """The site of each worker: int64 of shape (n_workers,)."""
        return np.repeat(np.arange(len(self.sites)), self.sites)
