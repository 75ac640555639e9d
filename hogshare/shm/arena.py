"""One anonymous shared-memory mapping with named arrays.

Ownership. The arena's creator writes the layout once, and the layout never changes afterwards. The
modules that lay out arrays also define the arrays' readers, writers and memory order. Freeing: the
memory has no name. The system frees it when the last mapping and the last descriptor in any process
are gone, even after SIGKILL.

In one process, every array refers to the mapping, and the mapping refers to its descriptor.
Therefore an array can outlive its arena, and a view never points at unmapped memory. The size is
sealed: no process can truncate the memory while another process uses it. Processes of the same user
can open each other's descriptors through procfs, so all processes of the user must be trusted.
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

PIECE = 1 << 28  # bytes per system call: signals are handled between two, or repeat one
LARGE = 1 << 20  # bytes from which the kernel copies, not the mapping

# Live mappings by address. Each read and each write is one step of the interpreter, so no lock is
# needed. (A fork or a signal's handler might find a lock taken.)
_live: dict[int, weakref.ref[_Mapping]] = {}


class _Mapping(mmap.mmap):
    """The mapping with its descriptor; it lives as long as its last view."""

    layout: dict[str, Any]
    address: int
    handle: weakref.ref[Arena]
    file: Descriptor | None = None  # None: the memory cannot be sent to other processes


class Arena:
    """Named arrays in one piece of memory that other processes can map.

    `Arena.create` and `Arena.attach` make an arena. ``arena["w"]`` is a view of the memory, not a
    copy.
    """

    def __init__(self, mapping: _Mapping) -> None:
        self._mapping: _Mapping | None = mapping
        self._layout = mapping.layout
        mapping.handle = weakref.ref(self)

    @classmethod
    def create(cls, arrays: Mapping[str, tuple[Any, Any]]) -> Arena:
        """Make an arena of new arrays, filled with zeros.

        arrays : dict of str to (shape, dtype), the arrays by name; each array starts at a multiple
            of `hogshare.shm.spacing.SPACING` bytes

        Raises MemoryError if the machine, or the process's memory limit, has too little memory. All
        pages are allocated at once, so no later access can fail.
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

        fd : the arena's descriptor, received from that process; it is duplicated, and the caller
            must close its own descriptor
        layout : the return value of `describe` in that process
        """
        have = os.fstat(fd).st_size
        if have < layout["nbytes"]:
            raise ValueError(
                f"fd has {have} bytes, but the layout needs {layout['nbytes']}: they belong to "
                "different arenas; pass the descriptor and the layout of one."
            )
        copy = Descriptor(os.dup, fd)
        try:
            return cls(_map(copy, layout))
        except BaseException:
            copy.close()
            raise

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arrays, in the order of their offsets."""
        return tuple(self._layout["arrays"])

    @property
    def nbytes(self) -> int:
        """Size of the memory, padding included."""
        return self._layout["nbytes"]

    def __getitem__(self, name: str) -> np.ndarray:
        offset, shape, dtype = self._layout["arrays"][name]
        return self.view(offset, dtype, shape)

    def view(self, offset: int, dtype: Any, shape: int | tuple[int, ...]) -> np.ndarray:
        """Return a view of the memory at any offset, for example an offset from `find_arena`.

        offset : the offset of the view's first byte
        dtype : the type of the view's elements
        shape : the shape of the view, which is in C order

        Raises ValueError if the array does not fit into the memory.
        """
        sizes = (shape,) if isinstance(shape, int) else shape
        # frombuffer exports the mapping's buffer: the mapping cannot be closed while the array
        # lives
        return np.frombuffer(self._open(), dtype, math.prod(sizes), offset).reshape(sizes)

    def fill(self, name: str, values: np.ndarray) -> None:
        """Copy values into an array of the same shape and the same kind of dtype.

        The system's kernel copies large arrays. A copy through the mapping would take twice as
        long, because the first access to every page traps.
        """
        target, values = self[name], np.asarray(values)
        if values.shape != target.shape:
            raise ValueError(
                f"values have shape {values.shape}, and the array {name!r} has {target.shape}; "
                "pass values of its shape."
            )
        fd = self._number()
        has_same_bytes = values.dtype == target.dtype and values.flags.c_contiguous
        if fd < 0 or not has_same_bytes or values.nbytes < LARGE:
            np.copyto(target, values, casting="same_kind")
            return
        start, _, _ = self._layout["arrays"][name]
        left = values.reshape(-1).view(np.uint8).data
        while left:
            written = os.pwrite(fd, left[:PIECE], start)
            start, left = start + written, left[written:]

    def describe(self) -> dict[str, Any]:
        """Return the layout for `attach`, as plain data that can be pickled."""
        return self._layout

    def fileno(self) -> int:
        """Return the descriptor to send to other processes; it still belongs to the arena."""
        fd = self._number()
        if fd < 0:
            raise OSError(
                errno.ENOTSUP,
                "This system has no memfd_create, so an arena cannot be sent to another process; "
                'use runtime="threads"',
            )
        return fd

    def close(self) -> None:
        """Close the descriptor; the memory is freed with its last array."""
        if self._mapping is not None:
            _live.pop(self._mapping.address, None)
            if self._mapping.file is not None:
                self._mapping.file.close()
            self._mapping = None

    def _number(self) -> int:
        """Return the descriptor; -1 if the memory cannot be sent to other processes."""
        file = self._open().file
        return -1 if file is None else file.number

    def _open(self) -> _Mapping:
        if self._mapping is None:
            raise ValueError("The arena is closed: use arrays made before close().")
        return self._mapping


def has_arenas() -> bool:
    """Whether any arena is live; most processes that fit in threads never have one."""
    return bool(_live)  # one step of the interpreter, so without a lock


def find_arena(low: int, high: int) -> tuple[Arena, int] | None:
    """Return the live arena with the addresses from `low` to `high`, and the offset of `low`."""
    mappings = [reference() for reference in list(_live.values())]
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
            raise ValueError(
                f"{name!r} has dtype {kind}: Python objects cannot be shared; use numbers."
            )
        sizes = tuple(int(n) for n in (shape if np.iterable(shape) else (shape,)))
        if any(n < 0 for n in sizes):
            raise ValueError(f"{name!r} has shape {sizes}: a size cannot be negative.")
        offset = -(-end // SPACING) * SPACING
        places[name] = (offset, sizes, kind.str if kind.names is None else kind.descr)
        end = offset + math.prod(sizes) * kind.itemsize
    nbytes = max(-(-end // mmap.PAGESIZE), 1) * mmap.PAGESIZE
    return {"nbytes": nbytes, "arrays": places}


def _map(file: Descriptor | None, layout: dict[str, Any]) -> _Mapping:
    # mmap duplicates the descriptor, but gives no access to the duplicate
    mapping = _Mapping(-1 if file is None else file.number, layout["nbytes"])
    mapping.layout = layout
    mapping.address = np.frombuffer(mapping, np.uint8).ctypes.data
    if file is not None:
        mapping.file = file
        address = mapping.address  # no other mapping has this address before this one is unmapped
        _live[address] = weakref.ref(mapping, lambda _: _live.pop(address, None))
    return mapping


def _allocate(fd: int, nbytes: int) -> None:
    """Allocate the file's pages now: after ftruncate, the first access could die of SIGBUS."""
    try:
        for start in range(0, nbytes, PIECE):
            os.posix_fallocate(fd, start, min(PIECE, nbytes - start))
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG):
            raise MemoryError(_too_much(nbytes, memory.free(private=False))) from error
        raise


def _require_memory(nbytes: int) -> None:
    # A memfd counts as used memory. If the memfd is larger than the free memory, the system raises
    # no error, but kills a process.
    available = memory.free(private=False)
    if available is not None and nbytes > available:
        raise MemoryError(_too_much(nbytes, available))


def _too_much(nbytes: int, available: int | None) -> str:
    found = "less" if available is None else f"only {available / 2**30:,.2f} GiB"
    return (
        f"Shared memory of {nbytes / 2**30:,.2f} GiB was asked for, but {found} is available. "
        "Use fewer rows, float32 instead of float64, or more memory."
    )
