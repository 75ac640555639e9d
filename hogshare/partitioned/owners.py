"""The assignment of partitions to workers, their owners.

A partition's owner changes only if the owner leaves, or if the owner has too many partitions. The
partitions of a lost worker go to the workers that have the fewest partitions. A new worker takes
partitions from the workers that have the most, until the numbers of partitions are even. No more
partitions move, because each moved partition is copied or computed again.
(`hogshare.tasks.partitions.owner_of` is for partitions that can be moved without cost.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable


class Owners:
    """The owner of each partition, by address.

    owners : address of each partition's present owner

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
        """Return each owner's partitions, in the order of their numbers or in `order`."""
        mine: dict[str, list[int]] = {}
        for p in range(len(self.of)) if order is None else order:
            mine.setdefault(self.of[p], []).append(int(p))
        return mine

    def settle(self, present: Collection[str]) -> int:
        """Assign every partition to a present worker, with even numbers of partitions.

        Changes `of`. Returns the number of partitions whose owner has changed.

        present : addresses of the present workers; at least one
        """
        # sorted, so that ties between workers always have the same result
        mine: dict[str, list[int]] = {address: [] for address in sorted(present)}
        orphans = []
        for p, address in enumerate(self.of):
            mine[address].append(p) if address in mine else orphans.append(p)
        moved = len(orphans)
        for p in orphans:
            self._give(p, min(mine, key=lambda address: len(mine[address])), mine)
        # one at a time until the numbers differ by at most 1, so that no partition moves without
        # need
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
