"""Files that are replaced as a whole or not at all.

The content is written under another name in the same folder, brought to the disk, and renamed.
Whoever reads sees the old file or the new one. The other name holds the number of the process that
writes, so that what a killed one has left can be told from a file in the making.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path


def replace(path: Path, content: bytes | memoryview, private: bool = False) -> None:
    """Put content in a file's place so that nobody ever sees half of it.

    Parameters
    ----------
    path : Path
    content : bytes or memoryview
    private : bool, default=False
        Let nobody else read it. Otherwise it keeps the permissions of the file that it replaces,
        or has those that a new file would get.

    Raises
    ------
    OSError
        If it cannot be written (a full disk, no permission). The old file is as it was.
    """
    temporary = path.parent / f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp"
    try:
        # The name is known before the file is there, so an interruption at any line finds it.
        # `tempfile` tells the name after it has made the file; Ctrl-C between leaves it behind.
        with open(temporary, "xb", opener=_owner_only) as file:
            file.write(content)
            file.flush()
            # before the new name: a crash could leave that with nothing behind it
            os.fsync(file.fileno())
        if not private:
            os.chmod(temporary, _mode(path))
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(path.parent)


def sweep(path: Path) -> None:
    """Remove what processes that were killed while they wrote this file have left beside it."""
    if not os.path.isdir("/proc/self"):
        return  # who is alive cannot be told here, and a file in the making must stay
    start = f".{path.name}."
    for name in os.listdir(path.parent):
        process = name.removeprefix(start).partition(".")[0]
        ours = name.startswith(start) and name.endswith(".tmp") and process.isdigit()
        if ours and not os.path.exists(f"/proc/{process}"):
            with contextlib.suppress(OSError):
                os.unlink(path.parent / name)


def _owner_only(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _mode(path: Path) -> int:
    """Permissions of the file that is replaced, or those that a new file would get."""
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    """Bring the new name to the disk; where folders cannot be opened (Windows), the system does."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
