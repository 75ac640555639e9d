"""Calls on a cluster's workers that outlive the worker that they prefer.

The scheduler drops a preference for a worker that is gone where another one runs in that moment.
Where none does, the call waits in the state "no-worker", from which the scheduler takes it for
nobody but the worker that is gone. So a call whose worker has left is made again without a
preference, and with it every call that waits for it: anew from the arguments, once, after which all
is left to the scheduler and its ``allowed-failures``.

Who writes: the master's thread; the client's calls `tell` with what it has fetched. Who frees:
`release`, and whoever drops a call lets go of what the cluster has of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any

from hogshare.system.clusters import fetch, large_graphs

Fetched = Future[Any]


class ClusterCall:
    """A function of things and of what other calls come to.

    args : calls and futures among them stand for what they come to
    address : of the worker that is preferred; None: any
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
        self._tell: Callable[[ClusterCall, Fetched], object] | None = None
        self._given: list[Any] = []  # futures of the calls among its arguments
        self.future: Any = None
        self.fetched: Fetched | None = None  # what this comes to, on the way
        self._make()

    def _make(self) -> None:
        place: dict[str, Any] = {}
        if self.address is not None:
            place = {"workers": [self.address], "allow_other_workers": True}
        self._given = [arg.future for arg in self._args if isinstance(arg, ClusterCall)]
        args = [arg.future if isinstance(arg, ClusterCall) else arg for arg in self._args]
        with large_graphs():
            self.future = self._client.submit(self._function, *args, pure=False, **place)

    def fetch(self, tell: Callable[[ClusterCall, Fetched], object] | None = None) -> Fetched:
        """Begin to fetch what it comes to, and tell in a thread of the client's when that is there.

        ``tell(call, fetched)`` is about a call that has been made again where `fetched` is another.
        """
        self._tell = tell
        self.fetched = fetched = fetch(self._client, self.future)
        if tell is not None:
            fetched.add_done_callback(lambda _: tell(self, fetched))
        return fetched

    def settle(self, there: Collection[str]) -> None:
        """Make it again if it, or a call that it waits for, prefers a worker that is gone."""
        calls = [arg for arg in self._args if isinstance(arg, ClusterCall)]
        for call in calls:
            call.settle(there)
        if self.address is not None and self.address not in there:
            self.address = None
        elif all(call.future is given for call, given in zip(calls, self._given, strict=True)):
            return
        old = self.future
        self._make()
        if self._tell is not None:
            self.fetch(self._tell)
        old.release()  # `cancel` fails in the scheduler where nobody wants what depends on it

    def release(self) -> None:
        """Let go of what the cluster has of it, and of what it was made from."""
        self.future.release()
        self._args, self._given = (), []
