"""Files are replaced as a whole or not at all, whatever comes between."""

import os
import stat

import pytest

from hogshare import files


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "kept.npz"
    file.write_bytes(b"old")
    return file


@pytest.mark.parametrize("moment", ["open", "fsync", "chmod", "replace"])
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_an_interruption_leaves_the_old_file_or_the_new_one_and_nothing_else(
    path, monkeypatch, moment, late
):
    """Ctrl-C may come between a system call and the line that takes note of what it did."""
    real = getattr(os, moment)

    def interrupted(*args, **kwargs):
        if late:
            real(*args, **kwargs)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, moment, interrupted)
        files.replace(path, b"new")
    assert os.listdir(path.parent) == [path.name]
    assert path.read_bytes() == (b"new" if moment == "replace" and late else b"old")


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_permissions(path):
    def mode():
        return stat.S_IMODE(path.stat().st_mode)

    path.chmod(0o640)
    files.replace(path, b"new")
    assert mode() == 0o640
    files.replace(path, b"new", private=True)
    assert mode() == 0o600
    path.unlink()
    mask = os.umask(0o027)
    try:
        files.replace(path, b"new")
    finally:
        os.umask(mask)
    assert mode() == 0o640


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_what_is_being_written_by_others_stays(path):
    mine = path.parent / f".{path.name}.{os.getpid()}.abc.tmp"
    dead = path.parent / f".{path.name}.4194304999.abc.tmp"
    other = path.parent / ".other.npz.4194304999.abc.tmp"
    for file in (mine, dead, other):
        file.write_text("half")
    files.sweep(path)
    assert mine.exists() and other.exists() and not dead.exists()
