"""Files that are replaced as a whole or not at all.

The content is written under another name in the same folder, brought to the disk, and renamed.
Whoever reads sees the old file or the new one. The other name holds the number of the process that
writes, so that what a killed one has left can be told from a file in the making. A link stays: what
it points to is replaced. What is no file (a device, a pipe), or somebody's open file under another
name (``/dev/stdout``), is not replaced, but written to.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from hogshare.system.interrupts import DeferredSignals

LONG = 64  # bytes of a name that are written out in other names of the file
PIECE = 1 << 24  # bytes that are written between two looks for signals
LINKS = 40  # that follow each other, at most, as the kernel has it


def check(path: str | Path) -> None:
    """Find out before the work whether a file can be written when it is done.

    Raises
    ------
    OSError
        If there is no such folder, if it is a folder, if it may not be written, if its name is
        longer than the folder takes, or if it is a link that leads to itself.
    """
    name, path = os.fspath(path), Path(path)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        os.stat(name)  # which says that a name is too long, or a link leads to itself
    if not name or name.endswith(os.sep) or path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "this is a folder; name a file", name)
    if not _is_file(path):
        if not _may(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return
    folder = real(path).parent
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "this is a file and no folder", str(folder))
    may = _may(folder, os.W_OK | os.X_OK)
    if not folder.is_dir():  # asked last: it may be gone since a moment
        missing = "there is no such folder; make it first"
        raise FileNotFoundError(errno.ENOENT, missing, str(folder))
    if not may:
        raise PermissionError(errno.EACCES, "nothing can be written in this folder", str(folder))


def real(path: str | Path) -> Path:
    """The path from the root, links followed.

    Raises
    ------
    FileNotFoundError
        If the path begins in the working directory, and that has been removed.
    """
    try:
        return Path(os.path.realpath(path))
    except FileNotFoundError:  # of `os.getcwd`, which names nothing
        gone = "the working directory has been removed; change to another, or name the whole path"
        raise FileNotFoundError(errno.ENOENT, gone, str(path)) from None


def overwrite_each_other(one: str | Path, other: str | Path) -> bool:
    """Whether two outputs are one file, of which the second would replace the first.

    Names of one file (hard links) are two, since a name is what is replaced; devices and pipes take
    what comes.
    """
    one, other = Path(one), Path(other)
    return real(one) == real(other) and _is_file(one)


def replace(path: Path, content: bytes | memoryview, private: bool = False) -> None:
    """Put content in a file's place so that nobody ever sees half of it.

    If it is `private` nobody else may read it. Otherwise it has the permissions of the file that
    it replaces, or those that a new file would get.

    Raises
    ------
    OSError
        If it cannot be written (a full disk, no permission). The old file is as it was; to a pipe
        or a device some of the content may have gone.
    """
    check(path)
    if not _is_file(path):
        with _naming(path), open(path, "ab") as stream:
            stream.write(content)
        return
    # held, or a signal would leave a descriptor, or the file beside
    with _naming(path), DeferredSignals() as held, _draft(real(path), private) as file:
        for start in range(0, len(content), PIECE):
            file.write(content[start : start + PIECE])
            held.deliver()


@contextlib.contextmanager
def replacing(path: Path, private: bool = False) -> Iterator[BinaryIO]:
    """A stream whose content takes a file's place at the end of the ``with`` block.

    As `replace`, for content that comes in pieces, and signals at any moment. The old file stays
    after an error in the block.
    """
    check(path)
    if not _is_file(path):
        with _naming(path), open(path, "ab") as stream:
            yield stream
        return
    with _naming(path), _draft(real(path), private) as file:
        yield file


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Have what the system refuses told of this file, by the name that it was given."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        others = error.filename is not None and not str(error.filename).endswith(".tmp")
        if others or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextlib.contextmanager
def _draft(path: Path, private: bool) -> Iterator[BinaryIO]:
    """A file that is not there, brought to the disk with its permissions, and renamed at the end.

    In this order: a crash could leave the new name with nothing behind it. The name is known before
    the file is there, so that an interruption at any line finds it.
    """
    temporary = path.parent / f"{_start(path)}{os.getpid()}.{secrets.token_hex(4)}.tmp"
    mode = None if private else _mode(path)
    # a new file that is not private is made with the permissions that the system gives one
    opener = _as_new if mode is None and not private else _owner_only
    try:
        with open(temporary, "xb", opener=opener) as file:
            yield file
            with DeferredSignals():
                file.flush()
                if mode is not None:
                    os.chmod(temporary, mode)
                os.fsync(file.fileno())
        with DeferredSignals():
            os.replace(temporary, path)
            _sync_folder(path.parent)
    except BaseException:
        _remove(temporary)
        raise


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def sweep(path: Path) -> None:
    """Remove what processes that were killed while they wrote this file have left beside it."""
    if not os.path.isdir("/proc/self"):
        return  # who is alive cannot be told here, and a file in the making must stay
    path = real(path)
    start = _start(path)
    for name in os.listdir(path.parent):
        process = name.removeprefix(start).partition(".")[0]
        ours = name.startswith(start) and name.endswith(".tmp") and process.isdigit()
        if ours and not os.path.exists(f"/proc/{process}"):
            _remove(path.parent / name)


def _start(path: Path) -> str:
    """How other names of a file in the making begin: by its name, or by a digest of a long one."""
    name = path.name
    if len(os.fsencode(name)) > LONG:
        name = hashlib.blake2b(os.fsencode(name), digest_size=16).hexdigest()
    return f".{name}."


def _is_file(path: Path) -> bool:
    """Whether it is a file, or nothing yet: no device, no pipe, and not open under this name."""
    real(path)  # which there is, or an error that names it
    link = path
    for _ in range(LINKS):
        if str(real(link.parent)).startswith("/proc/"):
            return False
        if not link.is_symlink():
            break
        link = link.parent / os.readlink(link)
    return path.is_file() or not path.exists()


def _may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _owner_only(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _as_new(path: str, flags: int) -> int:
    return os.open(path, flags, 0o666)


def _mode(path: Path) -> int | None:
    """Permissions of the file that is replaced; None if there is none."""
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        return None


def _sync_folder(folder: Path) -> None:
    """Bring the new name to the disk; where folders cannot be opened (Windows), the system does."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
