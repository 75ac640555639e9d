"""Folders that no other user can change or replace: they contain files that are executed.

A path is checked level by level from the root. A level is safe if it belongs to this user or to
root, and no other user may write to it. Above this package's own folders, two more kinds of levels
are safe: (1) a sticky level, such as ``/tmp``, where other users can neither remove nor rename this
user's entries; (2) a level that belongs to the owner of the root folder, who may be "nobody" in a
container without root. A link that belongs to this user or to root is followed, and its target is
checked in the same way.

Nothing is repaired. A level that is not safe is refused, and the error names the level. On Windows
nothing is checked, because owners and modes differ from POSIX.
"""

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

POSIX = os.name == "posix"
READ = os.O_RDONLY  # further flags: refuse a link, and do not wait for the other end of a pipe
for _flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):
    READ |= getattr(os, _flag, 0)
LINKS = 40  # largest number of links in a row, as in the kernel
ABOVE, OURS, MADE = range(3)  # kinds; only we make a `MADE` level, so it is never a link


class Unsafe(OSError):
    """Other users may change a path or may have changed it, or the path is a forbidden link."""

    def __init__(self, reason: str, path: str) -> None:
        super().__init__(errno.EPERM, reason, path)


def cache_root() -> Path:
    """Return the user's cache folder, which may not exist yet.

    It contains the compiled kernels of each version, and the machine's constants.

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


def require(folder: Path, made: bool = False, make: bool = False) -> None:
    """Raise an error unless a folder of this package is safe.

    made : True if only hogshare makes the folder, within another folder of hogshare; False if the
        user may have made or named it
    make : whether missing levels are made; hogshare's own levels are made for this user only

    Raises
    ------
    Unsafe
        If the folder is not safe; the error's `filename` is the unsafe level.
    OSError
        If the folder does not exist, or cannot be made.
    """
    if not POSIX:
        if make:
            folder.mkdir(parents=True, exist_ok=True)
        return
    kinds = [OURS, MADE] if made else [OURS]
    left = _levels(folder.absolute().parts[1:], kinds)
    level, n_links = "/", 0
    root = os.lstat(level)
    owners = {0, os.geteuid()}
    _examine(level, root, ABOVE, owners | {root.st_uid})
    # Levels are checked from the root down. Once all levels above are safe, no other user can
    # change this level. It therefore cannot change between check and use, and no descriptor must
    # stay open.
    while left:
        name, kind = left.pop()
        level = os.path.dirname(level) if name == ".." else os.path.join(level, name)
        status = _status(level, kind, make)
        if stat.S_ISLNK(status.st_mode):
            n_links += 1
            if kind == MADE or n_links > LINKS:
                raise Unsafe("it is a link", level)
            _examine_owner(level, status, owners)
            path = Path(os.readlink(level))
            level = "/" if path.is_absolute() else os.path.dirname(level)
            left += _levels(path.parts[path.is_absolute() :], [kind])
        else:
            _examine(level, status, kind, owners if kind else owners | {root.st_uid})


def read(path: Path, made: bool = False) -> bytes:
    """Return the content of a file in a folder of this package.

    Raises
    ------
    Unsafe
        If another user may have written the file or its folder, or if it is a link or not a file.
    OSError
        If the file does not exist, or cannot be read.
    """
    require(path.parent, made)
    try:
        descriptor = os.open(path, READ)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Unsafe("it is a link", str(path)) from None
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Unsafe("it is not a file", str(path))
        if reason := distrust(status, str(path)):
            raise Unsafe(reason, str(path))
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def distrust(status: os.stat_result, path: str) -> str:
    """Return why another user may have written a file; "" if only this user or root may have."""
    if not POSIX:
        return ""
    if status.st_uid not in (0, os.geteuid()):
        return "it belongs to another user"
    if _others_may_write(status, path):
        return "others may write to it"
    return ""


def _levels(names: Sequence[str], kinds: list[int]) -> list[tuple[str, int]]:
    """Return pairs (name, kind) in reverse order, for `list.pop`.

    kinds : the kinds of the last names; the names before them are `ABOVE`
    """
    names = list(names)
    kinds = [ABOVE] * (len(names) - len(kinds)) + kinds[max(0, len(kinds) - len(names)) :]
    return list(zip(names, kinds, strict=True))[::-1]


def _status(level: str, kind: int, make: bool) -> os.stat_result:
    try:
        return os.lstat(level)
    except FileNotFoundError:
        if not make:
            raise
    with contextlib.suppress(FileExistsError):  # made by another process meanwhile
        os.mkdir(level, 0o755 if kind == ABOVE else 0o700)
    return os.lstat(level)


def _examine(level: str, status: os.stat_result, kind: int, owners: set[int]) -> None:
    if not stat.S_ISDIR(status.st_mode):
        raise Unsafe(os.strerror(errno.ENOTDIR), level)
    _examine_owner(level, status, owners)
    is_sticky = kind == ABOVE and status.st_mode & stat.S_ISVTX
    if not is_sticky and _others_may_write(status, level):
        raise Unsafe("others may write to it", level)


def _examine_owner(level: str, status: os.stat_result, owners: set[int]) -> None:
    if status.st_uid not in owners:
        raise Unsafe("it belongs to another user", level)


def _others_may_write(status: os.stat_result, path: str) -> bool:
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not _is_private(status, path)


def _is_private(status: os.stat_result, path: str) -> bool:
    """Return whether this user alone is in the group, and no access list lets others write.

    Many systems give each user such a group, and make new folders writable for it.
    """
    me = os.geteuid()
    if status.st_uid != me:
        return False
    try:
        import grp
        import pwd

        user, group = pwd.getpwuid(me), grp.getgrgid(status.st_gid)
    except (ImportError, KeyError):
        return False
    if user.pw_gid != status.st_gid or group.gr_name != user.pw_name:
        return False
    if set(group.gr_mem) - {user.pw_name} or not hasattr(os, "getxattr"):
        return False
    try:
        os.getxattr(path, "system.posix_acl_access", follow_symlinks=False)
    except OSError as error:
        return error.errno in (errno.ENODATA, errno.ENOTSUP)
    return False
