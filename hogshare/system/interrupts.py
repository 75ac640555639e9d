"""Ctrl-C and other signals, delivered only at points where nothing is half done.

Python calls signal handlers in the main thread, between any two of its steps. A handler that raises
ends the current operation: a lock that was just taken stays taken, and a thread that was just
requested has no owner. Therefore the main thread takes shared locks only inside a `DeferredSignals`
block, which receives the signals in place of the handlers. When the main thread waits, it waits for
a *bell*, an event that signals set. It *delivers* the signals, which means that it calls their
handlers, at points of its own choosing. User code is called through `DeferredSignals.outside`,
where handlers run at once, as usual.

Only the main thread writes the data of this file, because handlers run only in it. The end of the
block restores the handlers.
"""

from __future__ import annotations

import functools
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol, TypeVar

try:  # `signal` wraps these; its wrappers take ten times as long, and a run calls them 20 times
    from _signal import getsignal  # type: ignore[import-not-found]
    from _signal import signal as set_signal
except ImportError:
    from signal import getsignal
    from signal import signal as set_signal

PATIENCE_SECONDS = 2.0  # a second interrupt after this time does not wait for a stuck operation
NAMES = ["INT", "TERM", "ALRM", "HUP", "USR1", "USR2", "QUIT", "VTALRM", "PROF", "CHLD", "BREAK"]
SIGNALS = [int(getattr(signal, f"SIG{name}")) for name in NAMES if hasattr(signal, f"SIG{name}")]

Handler = Callable[[int, FrameType | None], Any]
T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])

# The block that receives signals now. It changes in one step of the interpreter: before the step
# any handler may raise and after it none, or the other way round.
_deferring: DeferredSignals | None = None


class Rings(Protocol):
    """An event that an interrupt sets: a `hogshare.runtimes.events.Bell` or `News`."""

    def set(self) -> None:
        """Wake the threads that wait for it."""


class _StandIn:
    """A replacement for a handler: it stores signals for the active block.

    If no block is active, the replacement calls the handler. It therefore does no harm if an
    interrupt leaves it in place.
    """

    def __init__(self, handler: Handler, owner: DeferredSignals) -> None:
        self.handler = handler
        self.owner = owner

    def __call__(self, number: int, frame: FrameType | None) -> Any:
        active = _deferring
        if active is None:
            return self.handler(number, frame)
        active.came[number] = self.handler, frame
        for bell in active.bells:
            bell.set()
        return None


class DeferredSignals:
    """A block that defers signal handlers until it delivers the signals or ends.

    Outside the main thread, the block does nothing. Inside another block, it only adds its bell,
    and the handlers are called at the end of the outer block. Of several signals with the same
    number only one is stored, as in the system.

    Parameters
    ----------
    bell : Rings, optional
        An event that every signal sets; code that waits in the block waits for this event.
    """

    def __init__(self, bell: Rings | None = None) -> None:
        self.came: dict[int, tuple[Handler, FrameType | None]] = {}
        self.bells: list[Rings] = [] if bell is None else [bell]
        self.is_open = False
        self._active: DeferredSignals | None = None  # the block that receives this block's signals
        self._stand_ins: list[tuple[int, _StandIn]] = []

    def __enter__(self) -> DeferredSignals:
        global _deferring
        if threading.current_thread() is not threading.main_thread():
            return self
        if _deferring is not None:
            self._active = _deferring
            _deferring.bells += self.bells
            return self
        try:
            self.is_open = True
            self._stand_in()
        except BaseException:  # interrupted, before anything has begun
            self.is_open = False
            self._give_back()
            raise
        # Python assigns from left to right. The store to `_deferring` begins the deferral; after
        # this store no handler raises.
        self._active = _deferring = self
        return self

    def __exit__(self, *_: object) -> None:
        global _deferring
        if self._active is not self:
            if self._active is not None:
                for bell in self.bells:
                    self._active.bells.remove(bell)
            return
        self.is_open = False
        _deferring = None
        try:
            self._give_back()
        except BaseException:  # from a signal, which is no longer deferred
            self._give_back()
            raise
        finally:
            self._active = None  # breaks the block's cycle with itself: the bell is freed now
            self._call()

    def deliver(self) -> None:
        """Call the handlers of all signals received so far, which may raise."""
        if self._active is not None and self._active.came:
            self.outside(_nothing)

    def patience(self) -> Callable[[], bool]:
        """Return a function that tests whether a signal was received; False for some seconds."""
        active, end = self._active, time.monotonic() + PATIENCE_SECONDS
        return lambda: active is not None and bool(active.came) and time.monotonic() > end

    def outside(self, function: Callable[..., T], *args: Any) -> T:
        """Call a user's function, which a signal may interrupt at once."""
        global _deferring
        active = self._active
        if active is None or _deferring is not active:
            return function(*args)
        try:
            _deferring = None
            active._call()
            return function(*args)
        finally:
            _deferring = active  # one step after the call: no signal comes in between
            active._stand_in()  # for handlers that the function may have installed

    def let_through(self, function: Callable[..., T]) -> Callable[..., T]:
        """Wrap a user's function: this thread calls it through `outside`, others directly."""
        me = threading.get_ident()

        def call(*args: Any) -> T:
            if threading.get_ident() != me:
                return function(*args)
            return self.outside(function, *args)

        call.__qualname__ = getattr(function, "__qualname__", None) or repr(function)
        return call

    def _call(self) -> None:
        """Call the handlers of all received signals; raise the gravest of their exceptions."""
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
            # the error's traceback refers to this frame, and thereby to the run's memory
            del error

    def _stand_in(self) -> None:
        """Install a stand-in for every Python handler that has none."""
        for number in SIGNALS:
            handler = getsignal(number)
            while isinstance(handler, _StandIn) and not handler.owner.is_open:
                handler = handler.handler  # a stand-in that an interrupt left in place
            if callable(handler) and not isinstance(handler, _StandIn):
                stand_in = _StandIn(handler, self)
                self._stand_ins.append((number, stand_in))
                set_signal(number, stand_in)

    def _give_back(self) -> None:
        for number, stand_in in self._stand_ins:
            if getsignal(number) is stand_in:  # preserve a handler that the user has set
                set_signal(number, stand_in.handler)
        self._stand_ins.clear()


class errstate:
    """NumPy's `errstate` with deferred signals.

    A signal at the start or the end of NumPy's own block would leave the state changed.

    The block defers signals, so use it for short operations. Call longer operations in it through
    `outside`, which does not defer signals.
    """

    def __init__(self, **kinds: Any) -> None:
        import numpy as np  # not at the top: `hogshare --help` imports this module, through `forks`

        self._deferred = DeferredSignals()
        self._state = np.errstate(**kinds)

    def __enter__(self) -> DeferredSignals:
        self._deferred.__enter__()
        try:
            self._state.__enter__()
        except BaseException:
            self._deferred.__exit__()
            raise
        return self._deferred

    def __exit__(self, *error: Any) -> None:
        try:
            self._state.__exit__(*error)
        finally:
            self._deferred.__exit__()


def leaves_numpy(function: Function) -> Function:
    """Decorate a function to restore NumPy's error state when it raises an exception.

    NumPy's seeding, scikit-learn's checks and SciPy's solvers enter `numpy.errstate`. An interrupt
    at the start or the end of such a block would leave the state changed for good, so public
    functions restore it. Code of this package should use `errstate` of this file instead.
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
            except BaseException:  # from a second signal: restore the state before it propagates
                np.seterr(**before)
                raise
            raise

    return call  # type: ignore[return-value]


def _nothing() -> None:
    """Do nothing: `outside` delivers the signals."""


def forget_deferral() -> None:
    """End the deferral in a forked child, whose main thread is the thread that forked."""
    global _deferring
    active, _deferring = _deferring, None
    if active is not None:
        active._give_back()
