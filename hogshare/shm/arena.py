"""One anonymous shared-memory mapping that holds named arrays.

Ownership. The arena's creator writes its layout once; nobody changes it afterwards. Who reads and
writes the arrays, and in which order, is the business of whoever laid them out. The memory has no
name, so nothing can be left behind: it is freed by the kernel when the last mapping and the last
descriptor in any process are gone, also after SIGKILL.

Inside one process the mapping belongs to its views: every array keeps it (and its descriptor)
alive, so that an array outlives its arena and a view never points at unmapped memory. The size is
sealed, so that no process can cut the memory away under another. Processes of the same user can
open each other's descriptors through procfs; the user is the boundary of trust.
"""

from __future__ import annotations

import errno
import math
import mmap
import os
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np

from hogshare.shm.descriptor import Descriptor
from hogshare.shm.spacing import SPACING
from hogshare.system import memory

PIECE = 1 << 28  # bytes per call of the kernel: a signal is noticed between two, or repeats one
LARGE = 1 << 20  # bytes from which the kernel copies

# By address; read and written in one step of the interpreter each, so that no lock is needed, which
# a fork or the handler of a signal might find taken.
_live: dict[int, weakref.ref[_Mapping]] = {}


class _Mapping(mmap.mmap):
    """The mapping with its descriptor; lives as long as the last view."""

    layout: dict[str, Any]
    address: int
    handle: weakref.ref[Arena]
    file: Descriptor | None = None  # of memory that can be handed on


class Arena:
    """Named arrays in one piece of memory that other processes can map.

    Made by `Arena.create` or `Arena.attach`. ``arena["w"]`` is an array on the memory itself.
    """

    def __init__(self, mapping: _Mapping) -> None:
        self._mapping: _Mapping | None = mapping
        self._layout = mapping.layout
        mapping.handle = weakref.ref(self)

    @classmethod
    def create(cls, arrays: Mapping[str, tuple[Any, Any]]) -> Arena:
        """Make an arena of new arrays, all zeros: memory fresh from the kernel is.

        arrays : dict of str to (shape, dtype); what to hold. Every array starts on a multiple of
            `hogshare.shm.spacing.SPACING`.

        Raises MemoryError if the machine (or its memory limit) cannot hold that much. Asked for at
        once, so that no later touch of the memory can fail.
        """
        layout = _lay_out(arrays)
        nbytes = layout["nbytes"]
        _require_memory(nbytes)
        if not hasattr(os, "memfd_create"):
            return cls(_map(None, layout))
        file = Descriptor(os.memfd_create, "hogshare", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            import fcntl  # Unix only

            _allocate(file.number, nbytes)
            fcntl.fcntl(file.number, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
            return cls(_map(file, layout))
        except BaseException:
            file.close()
            raise

    @classmethod
    def attach(cls, fd: int, layout: dict[str, Any]) -> Arena:
        """Map an arena that another process made.

        fd : its descriptor, received from that process. It is duplicated: the caller still closes
            the one that it has.
        layout : what `describe` returned there
        """
        have = os.fstat(fd).st_size
        if have < layout["nbytes"]:
            raise ValueError(
                f"The descriptor holds {have} bytes, but the layout needs {layout['nbytes']}: "
                "they belong to different arenas."
            )
        copy = Descriptor(os.dup, fd)
        try:
            return cls(_map(copy, layout))
        except BaseException:
            copy.close()
            raise

    @property
    def names(self) -> tuple[str, ...]:
        """The arrays, in the order of their places."""
        return tuple(self._layout["arrays"])

    @property
    def nbytes(self) -> int:
        """Size of the memory, padding included."""
        return self._layout["nbytes"]

    def __getitem__(self, name: str) -> np.ndarray:
        offset, shape, dtype = self._layout["arrays"][name]
        return self.view(offset, dtype, shape)

    def view(self, offset: int, dtype: Any, shape: int | tuple[int, ...]) -> np.ndarray:
        """Return an array on any place of the memory, such as one that `find` has told.

        offset : where it starts, in bytes
        dtype : of its elements
        shape : its shape, in C order. What does not fit into the memory is a ValueError.
        """
        sizes = (shape,) if isinstance(shape, int) else shape
        # frombuffer exports the mapping's buffer, so that nothing can unmap it under the array
        return np.frombuffer(self._open(), dtype, math.prod(sizes), offset).reshape(sizes)

    def fill(self, name: str, values: np.ndarray) -> None:
        """Copy values into the array of that name; they must have its shape, and a type like its.

        The kernel copies what is large: through the mapping every page traps when it is touched
        for the first time, and the copy takes twice as long.
        """
        target, values = self[name], np.asarray(values)
        if values.shape != target.shape:
            raise ValueError(f"{name!r} has shape {target.shape}, not {values.shape}.")
        fd = self._number()
        as_they_are = values.dtype == target.dtype and values.flags.c_contiguous
        if fd < 0 or not as_they_are or values.nbytes < LARGE:
            np.copyto(target, values, casting="same_kind")
            return
        start, _, _ = self._layout["arrays"][name]
        left = values.reshape(-1).view(np.uint8).data
        while left:
            written = os.pwrite(fd, left[:PIECE], start)
            start, left = start + written, left[written:]

    def describe(self) -> dict[str, Any]:
        """Return the layout: plain data to pickle, from which `attach` finds the arrays."""
        return self._layout

    def fileno(self) -> int:
        """Return the descriptor to hand to other processes; it stays the arena's."""
        fd = self._number()
        if fd < 0:
            raise OSError(
                errno.ENOTSUP,
                "This system has no memfd_create, so an arena cannot be handed to another "
                'process; use runtime="threads"',
            )
        return fd

    def close(self) -> None:
        """Give the descriptor back; the memory goes once no array lies in it any more."""
        if self._mapping is not None:
            _live.pop(self._mapping.address, None)
            if self._mapping.file is not None:
                self._mapping.file.close()
            self._mapping = None

    def _number(self) -> int:
        """The descriptor; -1 where the memory cannot be handed on."""
        file = self._open().file
        return -1 if file is None else file.number

    def _open(self) -> _Mapping:
        if self._mapping is None:
            raise ValueError("The arena is closed.")
        return self._mapping


def has_arenas() -> bool:
    """Whether any arena is live; most processes that fit in threads never have one."""
    return bool(_live)  # one step of the interpreter, for which nobody has to wait


def find_arena(low: int, high: int) -> tuple[Arena, int] | None:
    """Return the live arena that holds the addresses low to high, and the offset of `low`."""
    mappings = [there() for there in list(_live.values())]
    for mapping in mappings:
        if mapping is None:
            continue
        if mapping.address <= low and high <= mapping.address + len(mapping):
            return mapping.handle() or Arena(mapping), low - mapping.address
    return None


def _lay_out(arrays: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    places = {}
    end = 0
    for name, (shape, dtype) in arrays.items():
        kind = np.dtype(dtype)
        if kind.hasobject:
            raise ValueError(f"{name!r} has dtype {kind}: Python objects cannot be shared.")
        sizes = tuple(int(n) for n in (shape if np.iterable(shape) else (shape,)))
        if any(n < 0 for n in sizes):
            raise ValueError(f"{name!r} has shape {sizes}: a size cannot be negative.")
        offset = -(-end // SPACING) * SPACING
        places[name] = (offset, sizes, kind.str if kind.names is None else kind.descr)
        end = offset + math.prod(sizes) * kind.itemsize
    nbytes = max(-(-end // mmap.PAGESIZE), 1) * mmap.PAGESIZE
    return {"nbytes": nbytes, "arrays": places}


def _map(file: Descriptor | None, layout: dict[str, Any]) -> _Mapping:
    # it keeps a duplicate of the descriptor, which we cannot get at
    mapping = _Mapping(-1 if file is None else file.number, layout["nbytes"])
    mapping.layout = layout
    mapping.address = np.frombuffer(mapping, np.uint8).ctypes.data
    if file is not None:
        mapping.file = file
        address = mapping.address  # nobody else's before this one is unmapped
        _live[address] = weakref.ref(mapping, lambda _: _live.pop(address, None))
    return mapping


def _allocate(fd: int, nbytes: int) -> None:
    """Give the file its pages now: ftruncate would succeed and the first touch die of SIGBUS."""
    try:
        for start in range(0, nbytes, PIECE):
            os.posix_fallocate(fd, start, min(PIECE, nbytes - start))
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG):
            raise MemoryError(_too_much(nbytes, memory.free(private=False))) from error
        raise


def _require_memory(nbytes: int) -> None:
    # A memfd counts as memory in use, so allocating more than there is ends in the kernel killing
    # some process, not in an error.
    available = memory.free(private=False)
    if available is not None and nbytes > available:
        raise MemoryError(_too_much(nbytes, available))


def _too_much(nbytes: int, available: int | None) -> str:
    rest = "is available" if available is None else f"{available / 2**30:,.2f} GiB is available"
    less = "no more than that " if available is None else "only "
    return (
        f"Shared memory of {nbytes / 2**30:,.2f} GiB was asked for, but {less}{rest}. "
        "Use fewer rows, float32 instead of float64, or more memory."
    )
