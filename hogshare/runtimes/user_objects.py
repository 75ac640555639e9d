"""Objects of the user's on their way to worker processes: barriers, laws of stragglers, gradients.

A member of the crew knows nothing of the user's `__main__`, of a notebook's cells or of a function
within a function, and may have imported an older state of a module. So what the user has defined
travels with its code (cloudpickle, by value), and what is ours or the standard library's by name.

Large arrays that such an object refers to do not travel with it: they are handed out beside it, to
be put into shared memory once.

Who writes: cloudpickle's list of the modules whose content it takes by value is the whole
process's, and the user may have entered some. `_lock` is held while ours are on it, or a second
thread's pickle would find them gone; `_entered` says which they are. Who frees: whoever entered
takes out, whatever has happened, and a forked child what its parent's other threads had entered.
"""

from __future__ import annotations

import functools
import os
import pickle
import sys
import sysconfig
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from hogshare.barriers import name_of
from hogshare.shm.arena import Arena
from hogshare.system.interrupts import DeferredSignals

LARGE = 1 << 16  # bytes of an array that is worth memory of its own: a socket takes some 200,000
_lock = threading.RLock()  # again by the same thread: to pickle may be to fit, and a handler may
_entered: list[ModuleType] = []


def packed(
    what: str,
    thing: Any,
    large: list[memoryview] | None = None,
    remedy: str = "runtime='threads'",
) -> bytes:
    """Pickle an object of the user's with the code of its function or class.

    what : what it is, for the error: "barrier"
    thing : `None`, and instances of our own classes, need no code; unless those name what is the
        user's in them (`users`)
    large : where the bytes of large arrays go, in the order in which `pickle.loads` wants them
    remedy : what needs no sending, as the caller of this would write it

    Raises ValueError if that cannot be done.
    """
    users = [one for one in getattr(thing, "users", (thing,)) if one is not None]
    # a list, and no generator: one that an interrupt closes complains of it
    foreign = [one for one in users if not _is_ours(type(one).__module__)]

    def is_small(buffer: pickle.PickleBuffer) -> bool:
        content = buffer.raw()
        if large is None or content.nbytes < LARGE:
            return True
        large.append(content)
        return False

    if not foreign:
        return pickle.dumps(thing, 5, buffer_callback=is_small)
    import cloudpickle

    modules = [module for one in users for module in _modules_of(one)]
    try:
        with DeferredSignals() as held, _lock:
            before = len(_entered)
            try:
                _enter(modules)
                content: bytes = held.outside(cloudpickle.dumps, thing, 5, is_small)
            finally:
                _take_out(before)
    except Exception as error:
        raise ValueError(
            f"The {what} {name_of(users[0])} cannot be sent to worker processes ({error}); do "
            f"without open files, locks or the like in it, or use {remedy}."
        ) from error
    return content


@dataclass(frozen=True)
class Parcel:
    """A pickle on its way, and the layout of the shared memory with its large arrays, if any.

    Who frees the memory: the caller, who has the arena; descriptors travel beside the parcel.
    """

    content: bytes
    layout: dict[str, Any] | None = None
    arena: Arena | None = None  # the caller's

    @classmethod
    def of(cls, what: str, thing: Any, **how: str) -> Parcel:
        """Pack as `packed`; large arrays are copied once, for all processes."""
        large: list[memoryview] = []
        content = packed(what, thing, large, **how)
        if not large:
            return cls(content)
        arena = Arena.create({f"{k}": (part.nbytes, "uint8") for k, part in enumerate(large)})
        for k, part in enumerate(large):
            arena.fill(f"{k}", np.frombuffer(part, np.uint8))
        return cls(content, arena.describe(), arena)

    def opened(self, files: Iterator[int]) -> Any:
        """What is in it; takes the next of the descriptors, if it has a layout.

        Large arrays stay in shared memory, and are read-only: others read them, too.
        """
        buffers: list[memoryview] = []
        if self.layout is not None:
            arena = Arena.attach(next(files), self.layout)
            buffers = [arena[name].data.toreadonly() for name in arena.names]
            arena.close()
        return pickle.loads(self.content, buffers=buffers)

    def __getstate__(self) -> dict[str, Any]:
        return {"content": self.content, "layout": self.layout, "arena": None}


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
    """Whether a member of the crew imports the same: what is ours, Python's own, or installed."""
    top = name.partition(".")[0]
    if _is_ours(name) or top in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(top), "__file__", None)
    return file is not None and file.startswith(_installed())


@functools.cache
def _installed() -> tuple[str, ...]:
    """Folders of installed packages, which nobody edits between two fits."""
    return tuple({sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib")})


def forget_packing() -> None:
    """In a forked child, where nobody else packs."""
    global _lock
    _lock = threading.RLock()  # another thread's, perhaps, which is not here
    if _entered:
        _take_out(0)
