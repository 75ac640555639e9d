"""Files that are replaced as a whole or not at all.

The content is written to a *draft*, a file with another name in the same folder. The draft is
synced to disk, and then renamed. A reader therefore sees the old file or the new file. The draft's
name contains the number of the process that writes it, which distinguishes the draft of a running
process from the draft of a killed process. If the path is a link, the link is preserved and its
target is replaced. A device, a pipe, or an open file under another name (``/dev/stdout``) is
written to, not replaced.
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

LONG = 64  # bytes: a longer name is replaced by its digest in the draft's name
PIECE = 1 << 24  # bytes that are written between two checks for signals
LINKS = 40  # largest number of links in a row, as in the kernel


def check(path: str | Path) -> None:
    """Check, before a long computation, that a file can be written after it.

    Raises
    ------
    OSError
        If the path's folder does not exist; if the path is a folder, may not be written, or is a
        link that leads to itself; or if its name is longer than the folder allows.
    """
    name, path = os.fspath(path), Path(path)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        os.stat(name)  # raises if the name is too long, or a link leads to itself
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
    if not folder.is_dir():  # checked last: another process may just have removed it
        missing = "there is no such folder; make it first"
        raise FileNotFoundError(errno.ENOENT, missing, str(folder))
    if not may:
        raise PermissionError(errno.EACCES, "nothing can be written in this folder", str(folder))


def real(path: str | Path) -> Path:
    """Return the path from the root, with links followed.

    Raises
    ------
    FileNotFoundError
        If the path is relative to the working directory, and this directory has been removed.
    """
    try:
        return Path(os.path.realpath(path))
    except FileNotFoundError:  # from `os.getcwd`, without a file name
        gone = "the working directory has been removed; change to another, or name the whole path"
        raise FileNotFoundError(errno.ENOENT, gone, str(path)) from None


def overwrite_each_other(one: str | Path, other: str | Path) -> bool:
    """Return whether two outputs are the same file, so the second would replace the first.

    Two hard links to the same file count as different files, because a name is replaced, not the
    file. Devices and pipes accept several outputs.
    """
    one, other = Path(one), Path(other)
    return real(one) == real(other) and _is_file(one)


def replace(path: Path, content: bytes | memoryview, private: bool = False) -> None:
    """Replace a file's content in one step; no reader sees half of it.

    With `private`, only this user may read the file. Otherwise the file has the permissions of the
    file that it replaces, or of a new file.

    Raises
    ------
    OSError
        If the file cannot be written (a full disk, no permission). The old file is then unchanged,
        but a pipe or a device may have received a part of the content.
    """
    check(path)
    if not _is_file(path):
        with _naming(path), open(path, "ab") as stream:
            stream.write(content)
        return
    # deferred: otherwise a signal might leave an open descriptor, or the draft
    with _naming(path), DeferredSignals() as deferred, _draft(real(path), private) as file:
        for start in range(0, len(content), PIECE):
            file.write(content[start : start + PIECE])
            deferred.deliver()


@contextlib.contextmanager
def replacing(path: Path, private: bool = False) -> Iterator[BinaryIO]:
    """Open a stream whose content replaces a file at the end of the ``with`` block.

    Like `replace`, but content is written in pieces, and signals are not deferred in the block.
    After an error in the block the old file is unchanged.
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
    """In a with block, make the system's errors name this file as the caller has written it."""
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
    """Open a draft; at the end of the with block, set its permissions, sync it and rename it.

    After an error in the block, the draft is removed.
    """
    # the name is known before the file exists: after an interrupt at any line, the file is removed
    temporary = path.parent / f"{_start(path)}{os.getpid()}.{secrets.token_hex(4)}.tmp"
    mode = None if private else _mode(path)
    # a new file that is not private gets the system's default permissions
    opener = _as_new if mode is None and not private else _owner_only
    try:
        with open(temporary, "xb", opener=opener) as file:
            yield file
            with DeferredSignals():
                file.flush()
                if mode is not None:
                    os.chmod(temporary, mode)
                # before the rename: a crash could otherwise leave the new name without content
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
    """Remove the drafts of this file that killed processes have left in its folder."""
    if not os.path.isdir("/proc/self"):
        return  # without /proc a live process cannot be recognised: leave all drafts
    path = real(path)
    start = _start(path)
    for name in os.listdir(path.parent):
        process = name.removeprefix(start).partition(".")[0]
        ours = name.startswith(start) and name.endswith(".tmp") and process.isdigit()
        if ours and not os.path.exists(f"/proc/{process}"):
            _remove(path.parent / name)


def _start(path: Path) -> str:
    """Return the prefix of a draft's name: the file's name, or the digest of a long one."""
    name = path.name
    if len(os.fsencode(name)) > LONG:
        name = hashlib.blake2b(os.fsencode(name), digest_size=16).hexdigest()
    return f".{name}."


def _is_file(path: Path) -> bool:
    """Return whether a path is a file or does not exist; False for a device, pipe or descriptor."""
    real(path)  # raises, with the path in the message, if the working directory is gone
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
    """Return the permissions of the file to replace; None if there is none."""
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        return None


def _sync_folder(folder: Path) -> None:
    """Sync the new name to disk; if folders cannot be opened (Windows), the system does it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
