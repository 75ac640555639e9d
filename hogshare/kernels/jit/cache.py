"""The cache of kernels' machine code, shared by processes, and the files that it trusts.

Each version of the kernels has a folder, below ``HOGSHARE_CACHE_DIR`` or the user's own cache
folder. The folder contains one file for each kernel and each set of argument types. Loading a file
runs its content. So no other user may be able to change or replace the folder or a file in it
(`hogshare.system.folders`): an unsafe file counts as missing. If a folder cannot be written, as in
a container's image, its files are still read.

No error in this file ends a fit. Code that cannot be loaded is compiled. Code that cannot be saved,
for example on a full disk, has been compiled already, and the process warns once.

Files appear whole, by a rename after the content is on the disk. A file begins with a digest of its
remaining bytes. If a disk has lost data, the digest does not match, and newly compiled code
replaces the file. A file's name contains a digest of its key, and its content contains the key. So
processes that save at the same time need no lock. Numba's own cache differs in three ways: it has
an index file, it searches for a writable folder (among others next to the source), and it raises
errors of the disk.
"""

import contextlib
import functools
import hashlib
import inspect
import os
import pickle
import uuid
import warnings
from pathlib import Path

from numba.core.caching import Cache, NullCache, _Cache
from numba.core.compiler import CompileResult
from numba.core.errors import NumbaWarning
from numba.core.serialize import dumps

from hogshare.system import folders
from hogshare.system.folders import cache_root
from hogshare.system.interrupts import DeferredSignals

DIGEST = 16  # bytes
LENGTH = 8  # bytes of a length
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)  # O_EXCL: follows no link


def find_folder(version: str) -> tuple[Path | None, str]:
    """Find or make the folder of this version's kernels; return it and ``""``.

    On failure return None and the reason.
    """
    try:
        folder = cache_root().absolute() / version
    except RuntimeError:
        return None, "this user has no home"
    except OSError as error:  # a relative path from a working directory that is gone
        return None, _reason(error, "HOGSHARE_CACHE_DIR")
    try:
        folders.require(folder, made=True, make=True)
    except OSError as error:
        return None, _reason(error, folder)
    return folder, ""


def _reason(error, otherwise):
    """Describe an error of the disk, with the file or folder that it concerns."""
    return f"{error.filename or otherwise}: {error.strerror or error}"


class KernelsNotCached(RuntimeWarning):
    """Machine code could not be cached; it runs, and other processes compile their own."""


_WARNED = []


def warn_once(trouble):
    """Warn that machine code cannot be cached; only the first warning of a process is issued."""
    if _WARNED:
        return
    _WARNED.append(trouble)
    sentence = (
        f"compiled kernels cannot be cached ({trouble}), so every process compiles the kernels "
        "that it needs, which takes seconds; set HOGSHARE_CACHE_DIR to a folder that no other user "
        "may write to"
    )
    warnings.warn(sentence, KernelsNotCached, stacklevel=2)


class KernelsDamaged(RuntimeWarning):
    """A file of machine code differs from the saved file: it is compiled anew, and replaced."""


_DAMAGED = []


def warn_of_damage(path):
    """Warn of a file that is cut off or changed; only the first warning of a process is issued."""
    if _DAMAGED:
        return
    _DAMAGED.append(path)
    sentence = (
        f"{path} is cut off or damaged, as after a loss of power; damaged files in this folder "
        "are compiled anew when they are needed, and replaced"
    )
    warnings.warn(sentence, KernelsDamaged, stacklevel=2)


class NoCacheFolder(NullCache):
    """Stand-in for a cache without a folder."""

    def __init__(self, trouble):
        self.trouble = trouble

    def save_overload(self, sig, data):
        """Warn that there is no cache."""
        warn_once(self.trouble)

    def signatures(self, codegen):
        """Return the types for which machine code is cached: none."""
        return []


class KernelCache(_Cache):
    """The files of one kernel.

    LLVM loads machine code by a callback to Python. An exception that is raised in this callback is
    lost: LLVM goes on with an empty module, Numba writes to the missing symbols' addresses, and the
    process ends by a segmentation fault. So signals are deferred while code is loaded.
    """

    _index_key = Cache._index_key  # types, processor, code and the variables of its closure

    def __init__(self, function, folder):
        self._py_func = function
        self._folder = folder
        source = Path(inspect.getfile(function))
        self._stamp = _digest_of_folder(source.parent)
        name = f"{source.stem}.{function.__qualname__}".replace("<", "").replace(">", "")
        self._name = f"{name}-{function.__code__.co_firstlineno}"

    @property
    def cache_path(self):
        """Return the kernel's cache folder."""
        return str(self._folder)

    def enable(self):
        """Do nothing: it is always on."""

    def disable(self):
        """Do nothing: it is always on."""

    def flush(self):
        """Delete the files, for all types."""
        for path in self._files():
            path.unlink(missing_ok=True)

    def load_overload(self, sig, target_context):
        """Return the code compiled for these types, or None."""
        with DeferredSignals():
            target_context.refresh()
            key = self._key(sig, target_context.codegen())
            content = self._read(self._path(key))
            # the whole key is compared: the file's name contains only a part of its digest
            if content is None or pickle.loads(content[0]) != key:
                return None
            return CompileResult._rebuild(target_context, *pickle.loads(content[1]))

    def save_overload(self, sig, data):
        """Save the code compiled for these types, if possible."""
        if data.library.has_dynamic_globals or any(not one.can_cache for one in data.lifted):
            warnings.warn(f"{self._name} cannot be cached", NumbaWarning, stacklevel=2)
            return
        key = self._key(sig, data.codegen)
        try:
            with DeferredSignals():
                _write(self._path(key), dumps(key), dumps(data._reduce()))
        except OSError as error:
            warn_once(_reason(error, self._folder))

    def signatures(self, codegen):
        """Yield the types for which machine code for this processor is cached."""
        for path in self._files():
            content = self._read(path)
            if content is not None:
                key = pickle.loads(content[0])
                if key == self._key(key[0], codegen):
                    yield key[0]

    def _key(self, sig, codegen):
        return (*self._index_key(sig, codegen), self._stamp)

    def _path(self, key):
        types, *others = key
        digest = hashlib.sha256(repr((str(types), others)).encode()).hexdigest()[:16]
        return self._folder / f"{self._name}.{digest}.nbc"

    def _files(self):
        return sorted(self._folder.glob(f"{self._name}.*.nbc"))

    def _read(self, path):
        """Read key and code as pickles; return None if the file is missing, unsafe or damaged."""
        try:
            content = folders.read(path, made=True)
        except folders.Unsafe as unsafe:
            warn_once(_reason(unsafe, path))
            return None
        except OSError:
            return None
        digest, body = content[:DIGEST], memoryview(content)[DIGEST:]
        if digest != _digest(body):
            warn_of_damage(path)
            return None
        end = LENGTH + int.from_bytes(body[:LENGTH], "little")
        return body[LENGTH:end], body[end:]


def _write(path, key, code):
    """Make a file appear as a whole; make its folder if that has been deleted."""
    body = b"".join((len(key).to_bytes(LENGTH, "little"), key, code))
    folders.require(path.parent, made=True, make=True)
    making = path.with_name(f"{path.name}.{uuid.uuid4().hex[:16]}.tmp")
    try:
        descriptor = os.open(making, NEW, 0o600)
        with open(descriptor, "wb") as file:
            file.write(_digest(body) + body)
            file.flush()
            os.fsync(descriptor)  # before the new name: a loss of power could leave that empty
        os.replace(making, path)
    except BaseException:
        with contextlib.suppress(OSError):
            making.unlink()
        raise


def _digest(content):
    return hashlib.blake2b(content, digest_size=DIGEST).digest()


@functools.cache
def _digest_of_folder(folder):
    """Return a digest of all files of a kernel's source folder; all of them may have helpers."""
    sources = (path.read_bytes() for path in sorted(folder.glob("*.py")))
    return _digest(b"".join(sources)).hex()
