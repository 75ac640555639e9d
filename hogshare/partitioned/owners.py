"""Whose partitions are whose: who has one keeps it while it is there and has not too many.

A worker that has gone leaves its partitions to those that have the fewest. One that has come takes
some of those that have the most, no more than make them even, since each that moves is a copy or is
computed again. (`hogshare.tasks.partitions.owner_of` is for partitions that cost nothing to move.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable


class Owners:
    """The owner of each partition, by address.

    owners : who has each of them now

    Examples
    --------
    >>> from hogshare.partitioned.owners import Owners
    >>> owners = Owners(["a", "a", "b", "b"])
    >>> owners.settle({"a", "c"}), owners.of
    (2, ['a', 'a', 'c', 'c'])
    """

    def __init__(self, owners: list[str]) -> None:
        self.of = list(owners)

    def partitions(self, order: Iterable[int] | None = None) -> dict[str, list[int]]:
        """What each owner has, in the order of their numbers or another one."""
        mine: dict[str, list[int]] = {}
        for p in range(len(self.of)) if order is None else order:
            mine.setdefault(self.of[p], []).append(int(p))
        return mine

    def settle(self, there: Collection[str]) -> int:
        """Have every partition owned by one of those that are there, evenly.

        there : addresses of the workers; at least one

        Returns how many partitions have another owner now.
        """
        mine: dict[str, list[int]] = {address: [] for address in sorted(there)}
        orphans = []
        for p, address in enumerate(self.of):
            mine[address].append(p) if address in mine else orphans.append(p)
        moved = len(orphans)
        for p in orphans:
            self._give(p, min(mine, key=lambda address: len(mine[address])), mine)
        while True:
            least = min(mine, key=lambda address: len(mine[address]))
            most = max(mine, key=lambda address: len(mine[address]))
            if len(mine[most]) - len(mine[least]) < 2:
                return moved
            self._give(mine[most].pop(), least, mine)
            moved += 1

    def _give(self, p: int, address: str, mine: dict[str, list[int]]) -> None:
        mine[address].append(p)
        self.of[p] = address
