"""Arrays in files, ``.npy`` and ``.npz``, whose size is checked before they are read.

NumPy reads a whole archive, and allocates memory for any size that an array's header claims. This
module does not trust a file. It reads only named arrays. An array's header, the archive's directory
and the file's size must agree on the array's size.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from hogshare.io.sources import Source
from hogshare.system import memory
from hogshare.system.interrupts import DeferredSignals

LONGEST = 10_000  # bytes of an array's header; NumPy has this limit, but reads the header first
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # the methods that NumPy writes
SUFFIX = ".npy"

Choose = Callable[[frozenset[str]], Iterable[str]]


@dataclass(frozen=True)
class Head:
    """The contents of an array's header, and its length."""

    shape: tuple[int, ...]
    dtype: np.dtype
    length: int

    @property
    def nbytes(self) -> int:
        """Number of bytes of the array."""
        size = self.dtype.itemsize
        for n in self.shape:
            size *= int(n)
        return size


def read_array(source: Source, what: str) -> np.ndarray:
    """Read the array of a ``.npy`` file; raise as `use`."""

    def take(file: BinaryIO, size: int) -> np.ndarray:
        if file.read(2) == b"PK":
            raise ValueError("it contains several arrays, as .npz does")
        file.seek(0)
        head = _head(file)
        # `numpy.save` may have appended other arrays, which are not read
        length = min(size, head.length + head.nbytes)
        file.seek(0)
        return _read(file, length, size, source.name)

    array: np.ndarray = _taken(source, what, take)
    return array


def read_arrays(source: Source, what: str, choose: Choose) -> dict[str, np.ndarray]:
    """Read the arrays of a ``.npz`` archive that `choose` selects by name; raise as `use`."""

    def take(archive: Archive) -> dict[str, np.ndarray]:
        return {name: archive.read(name) for name in choose(archive.names)}

    arrays: dict[str, np.ndarray] = use(source, what, take)
    return arrays


def use(source: Source, what: str, take: Callable[[Archive], Any]) -> Any:
    """Open a ``.npz`` archive and return ``take(archive)``.

    Raises
    ------
    ValueError
        If the file is not `what`; all messages begin with the file's name.
    MemoryError
        If memory does not suffice.
    """

    def opened(file: BinaryIO, size: int) -> Any:
        if file.read(6) == b"\x93NUMPY":
            raise ValueError("a single array")
        archive = zipfile.ZipFile(file)
        try:
            return take(Archive(archive, size, source.name))
        finally:
            with (
                DeferredSignals()
            ):  # the destructor closes again, and an interrupt in a destructor is lost
                archive.close()
                del archive

    return _taken(source, what, opened)


class Archive:
    """An open archive, from which arrays are read by name.

    If another file takes the file's name meanwhile, arrays are still read from the opened file.
    """

    def __init__(self, archive: zipfile.ZipFile, size: int, path: str) -> None:
        self._archive, self._size, self._path = archive, size, path
        others = [i.filename for i in archive.infolist() if not i.filename.endswith(SUFFIX)]
        if others and len(others) == len(archive.infolist()):
            raise ValueError(f"it has {others[0]!r} and no array: unpack it; save sheets as CSV")
        self._members = {i.filename.removesuffix(SUFFIX): i for i in archive.infolist()}

    @property
    def names(self) -> frozenset[str]:
        """Names of all arrays."""
        return frozenset(self._members)

    def read(self, name: str) -> np.ndarray:
        """Read an array."""
        info = self._members[name]
        if info.compress_type not in METHODS:
            raise ValueError(f"{info.filename} is compressed in a way that NumPy never uses")
        longest = info.file_size if info.compress_type == zipfile.ZIP_STORED else 0
        if max(info.compress_size, longest) > self._size:
            raise ValueError(f"{info.filename} is longer than the file")
        with self._archive.open(info) as stream:
            return _read(stream, info.file_size, self._size, f"{self._path}: the array {name}")


def _taken(source: Source, what: str, take: Callable[[BinaryIO, int], Any]) -> Any:
    """Return ``take(file, size)`` for a file; a pipe is first read into memory.

    If bytes are damaged, the readers of zip files and of array headers raise errors of a dozen
    kinds, even OSError (from a seek out of range). After opening, every error therefore counts as
    damage.
    """
    file, size = source.whole()
    try:
        return take(file, size)
    except MemoryError as error:
        if str(error).startswith(source.name):
            raise
        raise MemoryError(f"{source.name}: asks for more memory than there is") from error
    except Exception as error:
        text = str(error)
        if isinstance(error, ValueError) and text.startswith(f"{source.name}: "):
            raise
        why = f" ({text})" if text else ""
        raise ValueError(f"{source.name}: not {what}, or cut off{why}") from error


def _read(stream: Any, length: int, size: int, what: str) -> np.ndarray:
    """Read an array of `length` bytes, its header included, from a file of `size` bytes."""
    head = _head(stream)
    if head.dtype.hasobject:  # refused before NumPy reads: objects would be unpickled
        raise ValueError("it contains objects, and those are never loaded")
    if not head.dtype.itemsize or head.dtype.names or head.dtype.subdtype:
        raise ValueError(f"its type is {head.dtype}, and numbers or strings were expected")
    if head.nbytes != length - head.length:
        raise ValueError(
            f"its header says {head.nbytes:,} bytes of numbers, and there are "
            f"{length - head.length:,}"
        )
    memory.require_for_file(head.nbytes, size, what)
    stream.seek(0)
    array: np.ndarray = np.lib.format.read_array(stream, allow_pickle=False)
    return array


def _head(stream: Any) -> Head:
    version = np.lib.format.read_magic(stream)
    width = 2 if version == (1, 0) else 4
    length = int.from_bytes(stream.read(width), "little")
    if length > LONGEST:
        raise ValueError("its header is too long")
    start = np.lib.format.MAGIC_LEN + width
    stream.seek(np.lib.format.MAGIC_LEN)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    else:  # version 3 differs only in the encoding of field names, and these arrays have no fields
        shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    if any(n < 0 for n in shape):
        raise ValueError("its shape is negative")
    return Head(shape, dtype, start + length)
