"""Where kernels' machine code is kept between processes, and whom that is taken from.

One folder for each version of the kernels, below ``HOGSHARE_CACHE_DIR`` or the user's own cache
folder; one file for each kernel and types of arguments. Loading a file runs what it holds. So the
folder and every file in it must belong to this user or to root, and nobody else may be able to
write to them: what is otherwise counts as not there. A folder that cannot be written, as of a
container's image, is read all the same.

Nothing here ends a fit. What cannot be loaded is compiled, and what cannot be kept, on a full disk
for example, has been compiled already: one warning a process tells.

Files appear whole, by renaming, and begin with a digest of the rest: a disk that loses what it has
taken shows there. They are named by a digest of what they are for, and say it too. So processes
that save at once need no lock. Numba's own cache has an index file instead, looks for a folder that
it can write, next to the source too, and lets errors of the disk through.
"""

import contextlib
import functools
import hashlib
import inspect
import os
import pickle
import stat
import sys
import uuid
import warnings
from pathlib import Path

from numba.core.caching import Cache, NullCache, _Cache
from numba.core.compiler import CompileResult
from numba.core.errors import NumbaWarning
from numba.core.serialize import dumps

from hogshare.kernels.interrupts import interrupts_held

DIGEST = 16  # bytes
LENGTH = 8  # bytes of a length


def cache_root() -> Path:
    """The user's folder of all that is kept: one folder per version of the kernels, and what the
    machine's constants were measured to be.

    Raises
    ------
    RuntimeError
        If the user has no home.
    """
    if chosen := os.environ.get("HOGSHARE_CACHE_DIR"):
        return Path(chosen)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home())
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "hogshare"


def find_folder(version: str) -> tuple[Path | None, str]:
    """The folder of this version's kernels, made if need be; or None, and why there is none."""
    try:
        folder = cache_root() / version
    except RuntimeError:
        return None, "this user has no home"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        reason = distrust(folder.stat())
    except OSError as error:
        reason = error.strerror or str(error)
    return (None, f"{folder}: {reason}") if reason else (folder, "")


def distrust(status: os.stat_result) -> str:
    """Say why what is there may be somebody else's; nothing if it is this user's or root's."""
    if os.name != "posix":
        return ""
    if status.st_uid not in (0, os.geteuid()):
        return "it belongs to another user"
    if stat.S_IMODE(status.st_mode) & 0o022:
        return "others may write to it"
    return ""


class KernelsNotKept(RuntimeWarning):
    """Machine code could not be kept; it runs, and other processes compile their own."""


_TOLD = []


def tell_once(trouble):
    """Warn that something cannot be kept; the first trouble of a process stands for all."""
    if _TOLD:
        return
    _TOLD.append(trouble)
    sentence = (
        f"compiled kernels cannot be kept ({trouble}), so that every process compiles what it "
        "needs, which takes seconds; HOGSHARE_CACHE_DIR can name another folder, which nobody else "
        "may write to"
    )
    warnings.warn(sentence, KernelsNotKept, stacklevel=2)


class NowhereToKeep(NullCache):
    """Stands for a cache where there is no folder."""

    def __init__(self, trouble):
        self.trouble = trouble

    def save_overload(self, sig, data):
        """Tell that there is none."""
        tell_once(self.trouble)

    def signatures(self, codegen):
        """Types that machine code is there for."""
        return []


class KernelCache(_Cache):
    """The files of one kernel.

    While machine code is loaded LLVM asks Python for it. What is raised there is lost, LLVM goes on
    with an empty module, and Numba writes to where its symbols should be: a segmentation fault. So
    Ctrl-C waits.

    Parameters
    ----------
    function : function
        In Python.
    folder : Path
    """

    _index_key = Cache._index_key  # types, processor, code and what it closes over

    def __init__(self, function, folder):
        self._py_func = function
        self._folder = folder
        source = Path(inspect.getfile(function))
        self._stamp = _digest_of_file(source)
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
        with interrupts_held():
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
            with interrupts_held():
                _write(self._path(key), dumps(key), dumps(data._reduce()))
        except OSError as error:
            tell_once(f"{self._folder}: {error.strerror or error}")

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
            with open(path, "rb") as file:
                if reason := distrust(os.fstat(file.fileno())):
                    tell_once(f"{path}: {reason}")
                    return None
                content = file.read()
        except OSError:
            return None
        digest, rest = content[:DIGEST], memoryview(content)[DIGEST:]
        if digest != _digest(rest):
            return None
        end = LENGTH + int.from_bytes(rest[:LENGTH], "little")
        return rest[LENGTH:end], rest[end:]


def _write(path, key, code):
    """Make a file appear, whole."""
    rest = b"".join((len(key).to_bytes(LENGTH, "little"), key, code))
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    making = path.with_name(f"{path.name}.{uuid.uuid4().hex[:16]}.tmp")
    try:
        descriptor = os.open(making, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:
            file.write(_digest(rest) + rest)
        os.replace(making, path)
    except BaseException:
        with contextlib.suppress(OSError):
            making.unlink()
        raise


def _digest(content):
    return hashlib.blake2b(content, digest_size=DIGEST).digest()


@functools.cache
def _digest_of_file(path):
    return _digest(path.read_bytes()).hex()
