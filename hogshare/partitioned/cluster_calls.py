"""Calls on a cluster's workers, which survive the loss of the workers that they prefer.

The scheduler drops a preference for a lost worker if another worker is running at that moment. If
no other worker is running, the call waits in the state "no-worker", which ends only if the lost
worker returns. A call whose worker has left is therefore made again, once, from the arguments and
without a preference. Every call that depends on it is also made again. Further failures are left to
the scheduler and its ``allowed-failures``.

Writers: the thread that makes the call; a thread of the Dask client calls `notify` with the result.
Readers: the same threads. Freeing: `release`, or the deletion of the call, frees the data that the
cluster stores for the call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any

from hogshare.system.clusters import fetch, large_graphs

Fetched = Future[Any]


class ClusterCall:
    """A function call on a worker, which is submitted at once, and never again after `release`.

    args : arguments of the function; a call or a future among them stands for its result
    address : address of the preferred worker; None for any worker
    """

    def __init__(
        self,
        client: Any,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        address: str | None = None,
    ) -> None:
        self._client, self._function, self._args = client, function, args
        self.address = address
        self._notify: Callable[[ClusterCall, Fetched], object] | None = None
        self._is_released = False
        self._given: list[Any] = []  # futures of the calls among the arguments
        self.future: Any = None
        self.fetched: Fetched | None = None  # the future of the result in this process
        self._make()

    def _make(self) -> None:
        place: dict[str, Any] = {}
        if self.address is not None:
            place = {"workers": [self.address], "allow_other_workers": True}
        self._given = [arg.future for arg in self._args if isinstance(arg, ClusterCall)]
        args = [arg.future if isinstance(arg, ClusterCall) else arg for arg in self._args]
        with large_graphs():
            # not pure, since a repeated pure call would have the old task's key, but must be a new
            # task
            self.future = self._client.submit(self._function, *args, pure=False, **place)

    def fetch(self, notify: Callable[[ClusterCall, Fetched], object] | None = None) -> Fetched:
        """Begin to fetch the result, and return its future.

        When the result arrives, a thread of the Dask client calls ``notify(call, fetched)``. If
        `fetched` is not ``call.fetched``, the call has been made again, and this result is out of
        date.
        """
        self._notify = notify
        self.fetched = fetched = fetch(self._client, self.future)
        if notify is not None:
            fetched.add_done_callback(lambda _: notify(self, fetched))
        return fetched

    def settle(self, present: Collection[str]) -> None:
        """Repeat the call if it, or a call among its arguments, prefers a lost worker.

        present : addresses of the present workers
        """
        if self._is_released:
            return
        calls = [arg for arg in self._args if isinstance(arg, ClusterCall)]
        for call in calls:
            call.settle(present)
        if self.address is not None and self.address not in present:
            self.address = None
        elif all(call.future is given for call, given in zip(calls, self._given, strict=True)):
            return  # no argument's call has been made again
        old = self.future
        self._make()
        if self._notify is not None:
            self.fetch(self._notify)
        # not `cancel`, which fails in the scheduler if no task that depends on this call is wanted
        old.release()

    def release(self) -> None:
        """Release the result that the cluster stores, and the call's arguments."""
        self.future.release()
        self._args, self._given, self._is_released = (), [], True
