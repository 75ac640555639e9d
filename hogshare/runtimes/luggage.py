"""Objects of the user's on their way to worker processes: barriers, laws of stragglers.

A member of the crew knows nothing of the user's `__main__`, of a notebook's cells or of a function
within a function, and may have imported an older state of a module. So what the user has defined
travels with its code (cloudpickle, by value), and what is ours or the standard library's by name.

Who writes: cloudpickle's list of the modules whose content it takes by value is the whole
process's, and the user may have entered some. `_lock` is held while ours are on it, or a second
thread's pickle would find them gone; `_entered` says which they are. Who frees: whoever entered
takes out, whatever has happened, and a forked child what its parent's other threads had entered.
"""

from __future__ import annotations

import functools
import pickle
import sys
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from hogshare.barriers import name_of
from hogshare.interrupts import Holding

_lock = threading.RLock()  # again by the same thread: to pickle may be to fit, and a handler may
_entered: list[ModuleType] = []


def packed(what: str, thing: Any) -> bytes:
    """Pickle an object of the user's with the code of its function or class.

    Parameters
    ----------
    what : str
        What it is, for the error: "barrier".
    thing : object
        `None`, and instances of our own classes, need no code.

    Raises
    ------
    ValueError
        If that cannot be done.
    """
    if thing is None or _is_ours(type(thing).__module__):
        return pickle.dumps(thing)
    import cloudpickle

    modules = list(_modules_of(thing))
    try:
        with Holding() as held, _lock:
            before = len(_entered)
            try:
                _enter(modules)
                content: bytes = held.outside(cloudpickle.dumps, thing)
            finally:
                _take_out(before)
    except Exception as error:
        raise ValueError(
            f"The {what} {name_of(thing)} cannot be sent to worker processes ({error}); do without "
            "open files, locks or the like in it, or use runtime='threads'."
        ) from error
    return content


def _enter(modules: list[ModuleType]) -> None:
    import cloudpickle

    known = cloudpickle.list_registry_pickle_by_value()
    for module in modules:
        if module.__name__ not in known:
            _entered.append(module)  # first: what is not on the list is taken out in vain
            cloudpickle.register_pickle_by_value(module)


def _take_out(before: int) -> None:
    import cloudpickle

    while len(_entered) > before:
        module = _entered.pop()
        if module.__name__ in cloudpickle.list_registry_pickle_by_value():
            cloudpickle.unregister_pickle_by_value(module)


def _modules_of(thing: Any) -> Iterator[ModuleType]:
    """The user's modules in which its function or class, and that one's bases, are defined."""
    while isinstance(thing, functools.partial):
        thing = thing.func
    bound = getattr(thing, "__self__", None)
    names = {getattr(thing, "__module__", None)}
    for one in (thing, bound):
        names.update(base.__module__ for base in type(one).__mro__)
    for name in sorted(name for name in names if isinstance(name, str)):
        module = sys.modules.get(name)
        if module is not None and name != "__main__" and not _is_everywhere(name):
            yield module


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] == __name__.partition(".")[0]


def _is_everywhere(name: str) -> bool:
    return _is_ours(name) or name.partition(".")[0] in sys.stdlib_module_names


def forget_luggage() -> None:
    """In a forked child, where nobody else packs."""
    global _lock
    _lock = threading.RLock()  # another thread's, perhaps, which is not here
    if _entered:
        _take_out(0)
