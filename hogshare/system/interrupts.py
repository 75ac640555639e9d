"""Ctrl-C and other signals, let through only where nothing is left half done.

Python calls the handlers of signals in the main thread, between any two steps of it, and one that
raises ends whatever was there: a lock that had just been taken stays taken, a thread that had just
been sent for is nobody's. So the main thread does with others' locks what it does while a
`DeferredSignals` is there, which takes the signals in the handlers' stead; where it waits, it waits
for a bell that they ring; and it lets them through at points of its own choosing. Code of the
user's is called through `DeferredSignals.outside`, where handlers are called at once, as ever.

Who writes: the main thread alone, for handlers run nowhere else. `_deferring` says who takes
signals now; it changes in one step of the interpreter, after which no handler can raise, or any
can. What stands in for a handler is harmless without a holder, since it calls the handler: so it
does not matter if an interrupt leaves it in place. Who frees: the block's end puts the handlers
back.
"""

from __future__ import annotations

import functools
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol, TypeVar

try:  # what `signal` wraps: its own take ten times as long, and each run asks twenty times
    from _signal import getsignal  # type: ignore[import-not-found]
    from _signal import signal as set_signal
except ImportError:
    from signal import getsignal
    from signal import signal as set_signal

PATIENCE_SECONDS = 2.0  # after which who interrupts again need not wait for what is stuck
NAMES = ["INT", "TERM", "ALRM", "HUP", "USR1", "USR2", "QUIT", "VTALRM", "PROF", "CHLD", "BREAK"]
SIGNALS = [int(getattr(signal, f"SIG{name}")) for name in NAMES if hasattr(signal, f"SIG{name}")]

Handler = Callable[[int, FrameType | None], Any]
T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])

_deferring: DeferredSignals | None = None


class Rings(Protocol):
    """What an interrupt sets: a `hogshare.runtimes.events.Bell` or `News`."""

    def set(self) -> None:
        """Wake whoever waits."""


class _StandIn:
    """Takes a handler's signals for the holder, if there is one."""

    def __init__(self, handler: Handler, owner: DeferredSignals) -> None:
        self.handler = handler
        self.owner = owner

    def __call__(self, number: int, frame: FrameType | None) -> Any:
        holder = _deferring
        if holder is None:
            return self.handler(number, frame)
        holder.came[number] = self.handler, frame
        for bell in holder.bells:
            bell.set()
        return None


class DeferredSignals:
    """A block in which handlers of signals wait until it says so, or ends.

    Does nothing in another thread than the main one, and, but for its bell, within another's block,
    whose end they wait for. Of several signals of one number one is remembered, as the system does.

    Parameters
    ----------
    bell : Rings, optional
        What a signal rings: whoever waits in the block waits for that.
    """

    def __init__(self, bell: Rings | None = None) -> None:
        self.came: dict[int, tuple[Handler, FrameType | None]] = {}
        self.bells: list[Rings] = [] if bell is None else [bell]
        self.is_there = False
        self._holder: DeferredSignals | None = None  # who takes signals in this block
        self._stand_ins: list[tuple[int, _StandIn]] = []

    def __enter__(self) -> DeferredSignals:
        global _deferring
        if threading.current_thread() is not threading.main_thread():
            return self
        if _deferring is not None:
            self._holder = _deferring
            _deferring.bells += self.bells
            return self
        try:
            self.is_there = True
            self._stand_in()
        except BaseException:  # interrupted, before anything has begun
            self.is_there = False
            self._give_back()
            raise
        self._holder = _deferring = self  # from here on nothing raises
        return self

    def __exit__(self, *_: object) -> None:
        global _deferring
        if self._holder is not self:
            if self._holder is not None:
                for bell in self.bells:
                    self._holder.bells.remove(bell)
            return
        self.is_there = False
        _deferring = None
        try:
            self._give_back()
        except BaseException:  # a signal that need not wait any more
            self._give_back()
            raise
        finally:
            self._holder = None  # itself, with its bell, till that is collected
            self._call()

    def deliver(self) -> None:
        """Call the handlers of what has come, if anything has: a point where one may raise."""
        if self._holder is not None and self._holder.came:
            self.outside(_nothing)

    def patience(self) -> Callable[[], bool]:
        """What says, from some seconds after this call on, whether a signal waits."""
        holder, end = self._holder, time.monotonic() + PATIENCE_SECONDS
        return lambda: holder is not None and bool(holder.came) and time.monotonic() > end

    def outside(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function of the user's, which a signal may interrupt at once."""
        global _deferring
        holder = self._holder
        if holder is None or _deferring is not holder:
            return function(*args)
        try:
            _deferring = None
            holder._call()
            return function(*args)
        finally:
            _deferring = holder  # one step after the call: no signal comes in between
            holder._stand_in()  # for what the function may have put in its place

    def let_through(self, function: Callable[..., T]) -> Callable[..., T]:
        """A function of the user's that several threads call: as `outside` in the calling one."""
        me = threading.get_ident()

        def call(*args: Any) -> T:
            if threading.get_ident() != me:
                return function(*args)
            return self.outside(function, *args)

        call.__qualname__ = getattr(function, "__qualname__", None) or repr(function)
        return call

    def _call(self) -> None:
        """Call the handlers of what has come, all of them; raise the gravest of what they raise."""
        error: BaseException | None = None
        while self.came:
            number, (handler, frame) = self.came.popitem()
            try:
                handler(number, frame)
            except BaseException as raised:
                if error is None or not isinstance(raised, Exception):
                    error = raised
        try:
            if error is not None:
                raise error
        finally:
            del error  # it holds this frame, and with it the run's memory till that is collected

    def _stand_in(self) -> None:
        """Stand in for every handler of Python's for which nobody does."""
        for number in SIGNALS:
            handler = getsignal(number)
            while isinstance(handler, _StandIn) and not handler.owner.is_there:
                handler = handler.handler  # an interrupt left it in place
            if callable(handler) and not isinstance(handler, _StandIn):
                stand_in = _StandIn(handler, self)
                self._stand_ins.append((number, stand_in))
                set_signal(number, stand_in)

    def _give_back(self) -> None:
        for number, stand_in in self._stand_ins:
            if getsignal(number) is stand_in:  # and not one that the user has set meanwhile
                set_signal(number, stand_in.handler)
        self._stand_ins.clear()


class errstate:
    """NumPy's `errstate`, which an interrupt leaves changed for good where it comes at its ends.

    Signals wait in the block. So it is for what ends soon; what may take long is called through
    `outside`, where they do not.
    """

    def __init__(self, **kinds: Any) -> None:
        import numpy as np  # not above: forks import this module, and `hogshare --help` them

        self._held = DeferredSignals()
        self._state = np.errstate(**kinds)

    def __enter__(self) -> DeferredSignals:
        self._held.__enter__()
        try:
            self._state.__enter__()
        except BaseException:
            self._held.__exit__()
            raise
        return self._held

    def __exit__(self, *error: Any) -> None:
        try:
            self._state.__exit__(*error)
        finally:
            self._held.__exit__()


def leaves_numpy(function: Function) -> Function:
    """Have NumPy warn of what it warned of before, where an exception leaves the function.

    NumPy's seeding, scikit-learn's checks and SciPy's solvers enter `numpy.errstate`, and an
    interrupt at its ends leaves it changed for good. So the functions that a user calls put it
    back; what is called by ourselves is better called within `errstate`.
    """
    import numpy as np

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        before = np.geterr()
        try:
            return function(*args, **kwargs)
        except BaseException:
            try:
                np.seterr(**before)
            except BaseException:  # a second signal, which would leave it changed after all
                np.seterr(**before)
                raise
            raise

    return call  # type: ignore[return-value]


def _nothing() -> None:
    """What lies between two steps of a run."""


def forget_deferral() -> None:
    """In a forked child, whose main thread is the one that forked: have handlers called again."""
    global _deferring
    holder, _deferring = _deferring, None
    if holder is not None:
        holder._give_back()
