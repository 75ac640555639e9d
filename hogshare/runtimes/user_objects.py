"""Pickling of the user's objects for worker processes: barriers, straggler models, gradients.

A member of the crew lacks the user's `__main__`, the cells of a notebook and nested functions, and
may have imported an older version of a module. So the user's definitions are sent with their code
(cloudpickle, by value); definitions of this package and of the standard library are sent by name.

Large arrays of such an object are not sent with the pickle: they are returned separately, and
copied to shared memory once.

Writers: cloudpickle has one list, for the whole process, of the modules that it pickles by value.
The user may have added modules to this list. `_entered` lists the modules that this file has added.
`_lock` is taken while these modules are on cloudpickle's list: otherwise a second thread's pickle
would miss them. The thread that added modules removes them in any case. A forked child removes the
modules that other threads of its parent had added.
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

LARGE = 1 << 16  # bytes from which an array gets memory of its own: a socket takes some 200,000
# reentrant: a signal's handler, or an object's own pickling, may fit and so pickle again
_lock = threading.RLock()
_entered: list[ModuleType] = []


def packed(
    what: str,
    thing: Any,
    large: list[memoryview] | None = None,
    remedy: str = "runtime='threads'",
) -> bytes:
    """Return a pickle of a user's object, with the code of its function or class.

    what : the object's name in an error message, such as "barrier"
    thing : the object. If it is None, or an instance of this package's classes, no code is sent,
        unless the object lists objects of the user that it contains (`users`).
    large : list to which this function appends views of the bytes of large arrays, in the order
        that `pickle.loads` requires; if None, the pickle contains these arrays
    remedy : advice for the error message: an argument with which the caller need not send the
        object

    Raises ValueError if the object cannot be pickled.
    """
    users = [one for one in getattr(thing, "users", (thing,)) if one is not None]
    # a list, not a generator: a generator closed by an interrupt prints a complaint
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
        with DeferredSignals() as deferred, _lock:
            before = len(_entered)
            try:
                _enter(modules)
                content: bytes = deferred.outside(cloudpickle.dumps, thing, 5, is_small)
            finally:
                _remove_since(before)
    except Exception as error:
        raise ValueError(
            f"The {what} {name_of(users[0])} cannot be sent to worker processes ({error}); remove "
            f"open files, locks and the like from it, or use {remedy}."
        ) from error
    return content


@dataclass(frozen=True)
class Parcel:
    """A pickle to send, and the layout of the shared memory with its large arrays, if any.

    Freeing: the caller owns the arena and frees it. The arena's descriptor is sent separately.
    """

    content: bytes
    layout: dict[str, Any] | None = None
    arena: Arena | None = None  # the caller's

    @classmethod
    def of(cls, what: str, thing: Any, **how: str) -> Parcel:
        """Pack as `packed` does; large arrays are copied once, for all processes."""
        large: list[memoryview] = []
        content = packed(what, thing, large, **how)
        if not large:
            return cls(content)
        arena = Arena.create({f"{k}": (part.nbytes, "uint8") for k, part in enumerate(large)})
        for k, part in enumerate(large):
            arena.fill(f"{k}", np.frombuffer(part, np.uint8))
        return cls(content, arena.describe(), arena)

    def opened(self, files: Iterator[int]) -> Any:
        """Return the unpickled object.

        files : descriptors of arenas; if this parcel has a layout, one descriptor is taken

        Large arrays are read-only views of the shared memory, because other processes read them,
        too.
        """
        buffers: list[memoryview] = []
        if self.layout is not None:
            arena = Arena.attach(next(files), self.layout)
            buffers = [arena[name].data.toreadonly() for name in arena.names]
            arena.close()
        return pickle.loads(self.content, buffers=buffers)

    def __getstate__(self) -> dict[str, Any]:
        return {"content": self.content, "layout": self.layout, "arena": None}


def pickled(thing: Any, buffers: list[pickle.PickleBuffer] | None = None) -> bytes:
    """Pickle a message; functions and classes that no name finds are sent with their code.

    buffers : list that receives the memory of arrays; None: this memory is part of the pickle
    """
    take = None if buffers is None else buffers.append
    try:
        return pickle.dumps(thing, 5, buffer_callback=take)
    except (pickle.PicklingError, AttributeError, TypeError):
        import cloudpickle

        if buffers is not None:
            buffers.clear()
        content: bytes = cloudpickle.dumps(thing, 5, buffer_callback=take)
        return content


def _enter(modules: list[ModuleType]) -> None:
    import cloudpickle

    known = cloudpickle.list_registry_pickle_by_value()
    for module in modules:
        if module.__name__ not in known:
            _entered.append(module)  # first: removing a module that is not on the list is harmless
            cloudpickle.register_pickle_by_value(module)


def _remove_since(before: int) -> None:
    import cloudpickle

    while len(_entered) > before:
        module = _entered.pop()
        if module.__name__ in cloudpickle.list_registry_pickle_by_value():
            cloudpickle.unregister_pickle_by_value(module)


def _modules_of(thing: Any) -> Iterator[ModuleType]:
    """Yield the user's modules that define an object's function or class, and its bases."""
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
    """Whether members of the crew import the same module: ours, Python's, or an installed one."""
    top = name.partition(".")[0]
    if _is_ours(name) or top in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(top), "__file__", None)
    return file is not None and file.startswith(_installed())


@functools.cache
def _installed() -> tuple[str, ...]:
    """Return the folders of installed packages, which do not change between two fits."""
    return tuple({sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib")})


def forget_packing() -> None:
    """Reset the lock and the list of modules in a forked child; its only thread calls this."""
    global _lock
    _lock = threading.RLock()  # the old one may be taken by a thread that the child lacks
    if _entered:
        _remove_since(0)
