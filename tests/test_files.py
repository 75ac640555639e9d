"""Files are replaced as a whole or not at all, whatever comes between."""

import errno
import os
import stat
from pathlib import Path

import pytest

from hogshare.system import files


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


@pytest.mark.skipif(os.name != "posix", reason="needs links and pipes")
def test_a_link_stays_and_what_it_points_to_is_replaced(path):
    link = path.parent / "link.npz"
    link.symlink_to(path)
    files.replace(link, b"new")
    assert link.is_symlink() and path.read_bytes() == b"new"
    dangling = path.parent / "dangling.npz"
    dangling.symlink_to(path.parent / "later.npz")
    files.replace(dangling, b"first")
    assert dangling.is_symlink() and (path.parent / "later.npz").read_bytes() == b"first"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_is_written_to(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        files.replace(pipe, b"all of it")
        assert reader.read() == b"all of it"
    assert stat.S_ISFIFO(pipe.stat().st_mode) and os.listdir(tmp_path) == ["pipe"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux")
def test_a_device_is_written_to_and_its_error_is_told(tmp_path, monkeypatch, seams):
    def refused(*args):
        raise AssertionError("the machine's own device would be lost")

    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    seams.files.private = refused
    monkeypatch.setattr(os, "replace", refused)
    with pytest.raises(OSError, match="No space left") as raised:
        files.replace(full, b"x" * 100_000)
    assert raised.value.filename == str(full)
    with pytest.raises(OSError, match="No space left") as raised, files.replacing(full) as stream:
        stream.write(b"x" * 100_000)
        stream.flush()
    assert raised.value.filename == str(full)
    with pytest.raises(FileNotFoundError) as raised, files.replacing(full):
        (tmp_path / "another").read_bytes()
    assert raised.value.filename == str(tmp_path / "another")
    assert os.listdir(tmp_path) == ["full"] and full.is_symlink()


def test_what_cannot_be_written_is_known_before(tmp_path, monkeypatch):
    files.check(tmp_path / "new.npz")
    assert os.listdir(tmp_path) == []
    with pytest.raises(IsADirectoryError, match="this is a folder"):
        files.check(tmp_path)
    with pytest.raises(FileNotFoundError, match="no such folder; make it first") as raised:
        files.check(tmp_path / "nowhere" / "new.npz")
    assert raised.value.filename == str(tmp_path / "nowhere")
    for folder in (f"{tmp_path}/nowhere/", ""):
        with pytest.raises(IsADirectoryError, match="this is a folder"):
            files.check(folder)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        files.check(tmp_path / "loop")
    (tmp_path / "loop").unlink()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError, match="this is a file and no folder"):
        files.check(tmp_path / "file" / "new.npz")
    monkeypatch.setattr(os, "access", lambda path, mode, **_: False)  # root may write anywhere
    with pytest.raises(PermissionError, match="nothing can be written in this folder"):
        files.check(tmp_path / "new.npz")


def test_a_folder_that_goes_while_it_is_looked_at_is_missing(tmp_path, monkeypatch):
    folder, may = tmp_path / "gone", files._may

    def late(path, mode):
        folder.rmdir()
        return may(path, mode)

    folder.mkdir()
    monkeypatch.setattr(files, "_may", late)
    with pytest.raises(FileNotFoundError, match="there is no such folder"):
        files.check(folder / "run.npz")


def test_a_folder_that_appears_meanwhile_is_told_and_stays(tmp_path):
    path = tmp_path / "new.npz"
    with pytest.raises(IsADirectoryError) as raised, files.replacing(path) as stream:
        stream.write(b"new")
        path.mkdir()
    assert raised.value.filename == str(path) and os.listdir(tmp_path) == ["new.npz"]


@pytest.mark.skipif(not hasattr(os, "pathconf"), reason="limits of POSIX")
def test_a_name_may_be_as_long_as_the_folder_takes(tmp_path):
    longest = tmp_path / ("n" * os.pathconf(tmp_path, "PC_NAME_MAX"))
    files.check(longest)
    files.replace(longest, b"new")
    assert longest.read_bytes() == b"new" and os.listdir(tmp_path) == [longest.name]
    with pytest.raises(OSError, match="name too long") as raised:
        files.check(f"{longest}n")
    assert raised.value.errno == errno.ENAMETOOLONG


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_what_is_left_of_a_long_name_is_swept(tmp_path, monkeypatch):
    path = tmp_path / ("n" * 200)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: 4194304999)  # a process that is no more
        patch.setattr(os, "unlink", lambda _: None)  # and could not clean up
        patch.setattr(os, "fsync", unwritten)
        with pytest.raises(OSError):
            files.replace(path, b"new")
    assert len(os.listdir(tmp_path)) == 1
    files.sweep(path)
    assert os.listdir(tmp_path) == []


def unwritten(_):
    raise OSError


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_no_other_thread_makes_files_for_all_meanwhile(tmp_path, monkeypatch):
    def called(_):
        raise AssertionError("the mask is the whole process's")

    monkeypatch.setattr(os, "umask", called)
    files.replace(tmp_path / "new", b"new")


def test_a_working_directory_that_has_been_removed_is_told(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for use in (files.check, files.sweep, lambda path: files.replace(path, b"")):
        with pytest.raises(FileNotFoundError, match="working directory has been removed") as raised:
            use(Path("new.npz"))
        assert raised.value.filename == "new.npz"


@pytest.mark.skipif(os.name != "posix", reason="needs links")
def test_outputs_that_are_one_file(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text("old")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "folder").symlink_to(tmp_path)
    (tmp_path / "later").symlink_to("new")
    os.link(tmp_path / "a", tmp_path / "second name")

    def one(first, second):
        return files.overwrite_each_other(tmp_path / first, tmp_path / second)

    assert one("a", "link") and one("folder/a", "a") and one("later", "new") and one("c", "c")
    assert not one("a", "b") and not one("a", "second name") and not one("c", "d")
    assert not files.overwrite_each_other(os.devnull, os.devnull)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_an_open_file_is_written_to(path):
    """As ``/dev/stdout`` is one that the shell has opened."""
    with open(path, "ab") as file:
        files.check(f"/dev/fd/{file.fileno()}")
        files.replace(Path(f"/dev/fd/{file.fileno()}"), b" and new")
        file.write(b" and more")
    assert path.read_bytes() == b"old and new and more"
    assert os.listdir(path.parent) == [path.name]
