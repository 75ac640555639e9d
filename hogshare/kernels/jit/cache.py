"""Where kernels' machine code is kept between processes, and whom that is taken from.

One folder for each version of the kernels, below ``HOGSHARE_CACHE_DIR`` or the user's own cache
folder; one file for each kernel and types of arguments. Loading a file runs what it holds. So
nobody else may be able to change the folder or a file in it, nor to put another in the place of
either (`hogshare.system.folders`): what is otherwise counts as not there. A folder that cannot be
written, as of a container's image, is read all the same.

Nothing here ends a fit. What cannot be loaded is compiled, and what cannot be kept, on a full disk
for example, has been compiled already: one warning a process tells.

Files appear whole, by renaming what has been brought to the disk, and begin with a digest of the
rest: a disk that loses what it has taken shows there, and what is compiled then takes the file's
place. They are named by a digest of what they are for, and say it too. So processes
that save at once need no lock. Numba's own cache has an index file instead, looks for a folder that
it can write, next to the source too, and lets errors of the disk through.
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
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)  # nor through a link


def find_folder(version: str) -> tuple[Path | None, str]:
    """The folder of this version's kernels, made if need be; or None, and why there is none."""
    try:
        folder = cache_root().absolute() / version
    except RuntimeError:
        return None, "this user has no home"
    except OSError as error:  # a path from a working directory that is gone
        return None, _reason(error, "HOGSHARE_CACHE_DIR")
    try:
        folders.require(folder, made=True, make=True)
    except OSError as error:
        return None, _reason(error, folder)
    return folder, ""


def _reason(error, otherwise):
    """What is wrong, and with which level of a path."""
    return f"{error.filename or otherwise}: {error.strerror or error}"


class KernelsNotCached(RuntimeWarning):
    """Machine code could not be kept; it runs, and other processes compile their own."""


_WARNED = []


def warn_once(trouble):
    """Warn that something cannot be kept; the first trouble of a process stands for all."""
    if _WARNED:
        return
    _WARNED.append(trouble)
    sentence = (
        f"compiled kernels cannot be kept ({trouble}), so that every process compiles what it "
        "needs, which takes seconds; HOGSHARE_CACHE_DIR can name another folder, which nobody else "
        "may write to"
    )
    warnings.warn(sentence, KernelsNotCached, stacklevel=2)


class KernelsDamaged(RuntimeWarning):
    """A file of machine code is not what was saved: it is compiled anew, and replaced."""


_DAMAGED = []


def warn_of_damage(path):
    """Warn of a file that is cut off or changed; the first of a process stands for all."""
    if _DAMAGED:
        return
    _DAMAGED.append(path)
    sentence = (
        f"{path} is cut off or damaged, as after a loss of power; what is damaged in this folder "
        "is compiled anew where it is needed, and replaced"
    )
    warnings.warn(sentence, KernelsDamaged, stacklevel=2)


class NoCacheFolder(NullCache):
    """Stands for a cache where there is no folder."""

    def __init__(self, trouble):
        self.trouble = trouble

    def save_overload(self, sig, data):
        """Tell that there is none."""
        warn_once(self.trouble)

    def signatures(self, codegen):
        """Types that machine code is there for."""
        return []


class KernelCache(_Cache):
    """The files of one kernel.

    While machine code is loaded LLVM asks Python for it. What is raised there is lost, LLVM goes on
    with an empty module, and Numba writes to where its symbols should be: a segmentation fault. So
    signals wait.
    """

    _index_key = Cache._index_key  # types, processor, code and what it closes over

    def __init__(self, function, folder):
        self._py_func = function
        self._folder = folder
        source = Path(inspect.getfile(function))
        self._stamp = _digest_of_folder(source.parent)
        name = f"{source.stem}.{function.__qualname__}".replace("<", "").replace(">", "")
        self._name = f"{name}-{function.__code__.co_firstlineno}"

    @property
    def cache_path(self):
        """The folder."""
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
        """Return what was compiled for these types, or None."""
        with DeferredSignals():
            target_context.refresh()
            key = self._key(sig, target_context.codegen())
            content = self._read(self._path(key))
            if content is None or pickle.loads(content[0]) != key:
                return None
            return CompileResult._rebuild(target_context, *pickle.loads(content[1]))

    def save_overload(self, sig, data):
        """Keep what was compiled for these types, if that can be."""
        if data.library.has_dynamic_globals or any(not one.can_cache for one in data.lifted):
            warnings.warn(f"{self._name} cannot be kept", NumbaWarning, stacklevel=2)
            return
        key = self._key(sig, data.codegen)
        try:
            with DeferredSignals():
                _write(self._path(key), dumps(key), dumps(data._reduce()))
        except OSError as error:
            warn_once(_reason(error, self._folder))

    def signatures(self, codegen):
        """Types that machine code for this processor is there for."""
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
        """Key and code as pickles; None if there are none, or none that may be taken."""
        try:
            content = folders.read(path, made=True)
        except folders.Unsafe as unsafe:
            warn_once(_reason(unsafe, path))
            return None
        except OSError:
            return None
        digest, rest = content[:DIGEST], memoryview(content)[DIGEST:]
        if digest != _digest(rest):
            warn_of_damage(path)
            return None
        end = LENGTH + int.from_bytes(rest[:LENGTH], "little")
        return rest[LENGTH:end], rest[end:]


def _write(path, key, code):
    """Make a file appear, whole, in a folder that is made if somebody has deleted it."""
    rest = b"".join((len(key).to_bytes(LENGTH, "little"), key, code))
    folders.require(path.parent, made=True, make=True)
    making = path.with_name(f"{path.name}.{uuid.uuid4().hex[:16]}.tmp")
    try:
        descriptor = os.open(making, NEW, 0o600)
        with open(descriptor, "wb") as file:
            file.write(_digest(rest) + rest)
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
    """Of a kernel's file and of those beside it, which may have its helpers."""
    sources = (path.read_bytes() for path in sorted(folder.glob("*.py")))
    return _digest(b"".join(sources)).hex()
