"""The objects that tasks need, by key: plans, partitions, versions of broadcasts.

Writers: only the caller's thread adds and drops objects. Readers: executors. An executor sends an
object to a worker with the first task that needs the object. It sends the keys of dropped objects
(`Sent`) with the next task. Freeing: the caller drops unused plans, and versions of broadcasts
without references; at the end it drops all objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hogshare.tasks.work import Key


class Shelf:
    """The caller's objects, by key."""

    def __init__(self) -> None:
        self.things: dict[Key, Any] = {}
        self.on_drop: list[Callable[[Key], object]] = []  # called with each dropped key
        self.on_failed_delivery: list[Callable[[Any], object]] = []  # called with the worker

    def put(self, key: Key, thing: Any) -> None:
        """Add an object."""
        self.things[key] = thing

    def drop(self, key: Key) -> None:
        """Drop an object, and call the functions in `on_drop` with its key."""
        if self.things.pop(key, None) is not None:
            for notify in self.on_drop:
                notify(key)

    def send_again(self, worker: Any) -> None:
        """Let a worker receive again what was sent with its last task, whose delivery failed."""
        for notify in self.on_failed_delivery:
            notify(worker)

    def clear(self) -> None:
        """Drop all objects, without a notification because the workers have ended."""
        self.on_drop.clear()
        self.on_failed_delivery.clear()
        self.things.clear()


class Sent:
    """The keys of the caller's objects of which each worker has a copy."""

    def __init__(self, shelf: Shelf) -> None:
        self._known: dict[Any, set[Key]] = {}
        self._gone: dict[Any, list[Key]] = {}
        self._last: dict[Any, list[Key]] = {}  # sent with the worker's last task
        shelf.on_drop.append(self._drop)
        shelf.on_failed_delivery.append(self._send_again)

    def begin(self, worker: Any) -> None:
        """Register a worker that has no objects."""
        self._known[worker], self._gone[worker], self._last[worker] = set(), [], []

    def end(self, worker: Any) -> None:
        """Remove a worker that is gone."""
        self._known.pop(worker, None)
        self._gone.pop(worker, None)
        self._last.pop(worker, None)

    def missing(self, worker: Any, needs: Iterable[Key]) -> list[Key]:
        """Return the keys of objects that a worker lacks, and mark them as sent to it."""
        known = self._known[worker]
        found = sorted((key for key in needs if key not in known), key=str)
        known.update(found)
        self._last[worker] = found
        return found

    def forget(self, worker: Any) -> list[Key]:
        """Return the keys that a worker should drop, and mark the worker as notified."""
        gone, self._gone[worker] = self._gone[worker], []
        return gone

    def _drop(self, key: Key) -> None:
        for worker in self._known:
            self._drop_at(worker, key)

    def _send_again(self, worker: Any) -> None:
        for key in self._last.get(worker, ()):
            self._drop_at(worker, key)  # the worker may have received some of them

    def _drop_at(self, worker: Any, key: Key) -> None:
        # a worker without the object needs no notification
        if key in self._known[worker]:
            self._known[worker].remove(key)
            self._gone[worker].append(key)
