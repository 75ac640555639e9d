"""What tasks need besides their numbers, by key: plans, partitions, versions of broadcasts.

Who writes: the caller's thread alone puts things here and drops them. Who reads: executors, which
bring a thing to a worker with the first task that needs it there, and what `Sent` says is needed no
more with the next. Who frees: the caller drops plans that are out of use and versions that no row
refers to, and everything at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hogshare.tasks.work import Key


class Shelf:
    """The caller's things."""

    def __init__(self) -> None:
        self.things: dict[Key, Any] = {}
        self.on_drop: list[Callable[[Key], object]] = []  # of what is dropped

    def put(self, key: Key, thing: Any) -> None:
        """Have a thing ready for tasks."""
        self.things[key] = thing

    def drop(self, key: Key) -> None:
        """Have it no longer."""
        if self.things.pop(key, None) is not None:
            for tell in self.on_drop:
                tell(key)

    def clear(self) -> None:
        """Have nothing any longer, and tell nobody: workers have ended."""
        self.on_drop.clear()
        self.things.clear()


class Sent:
    """Which of the caller's things each worker has, where workers have copies."""

    def __init__(self, shelf: Shelf) -> None:
        self._known: dict[Any, set[Key]] = {}
        self._gone: dict[Any, list[Key]] = {}
        shelf.on_drop.append(self._drop)

    def begin(self, worker: Any) -> None:
        """A worker that has nothing."""
        self._known[worker], self._gone[worker] = set(), []

    def end(self, worker: Any) -> None:
        """A worker that is there no more."""
        self._known.pop(worker, None)
        self._gone.pop(worker, None)

    def missing(self, worker: Any, needs: Iterable[Key]) -> list[Key]:
        """What of its needs a worker has not; it is taken to be sent now."""
        known = self._known[worker]
        found = sorted((key for key in needs if key not in known), key=str)
        known.update(found)
        return found

    def forget(self, worker: Any) -> list[Key]:
        """What a worker need not keep any longer; it is taken to be told now."""
        gone, self._gone[worker] = self._gone[worker], []
        return gone

    def _drop(self, key: Key) -> None:
        for worker, known in self._known.items():
            if key in known:
                known.remove(key)
                self._gone[worker].append(key)
