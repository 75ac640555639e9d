"""Folders of ours in places where others may do what they like: what is refused, and what is not.

Who is another is told by the number of the user that the process says it is, so that no test needs
to be root; one that is lets a child be somebody else in earnest.
"""

import contextlib
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from hogshare.kernels.jit import cache
from hogshare.system import folders, machine

pytestmark = pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX's")

ROOT = Path(folders.__file__).parents[2]
ME = os.geteuid() if hasattr(os, "geteuid") else 0
ANOTHER = 54_321
is_root = pytest.mark.skipif(ME != 0, reason="needs root, to be another")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder that is safe, and one of ours in it that is not there."""
    monkeypatch.setenv("HOGSHARE_CACHE_DIR", str(tmp_path / "shared" / "hogshare"))
    monkeypatch.delenv("HOGSHARE_MACHINE")
    machine.load.cache_clear()
    (tmp_path / "shared").mkdir()
    yield tmp_path / "shared" / "hogshare"
    machine.load.cache_clear()


@pytest.fixture
def owners(monkeypatch):
    """Whose a path is said to be, whoever's it is; for `lstat` and `fstat`."""
    said, look, look_at_open = {}, os.lstat, os.fstat

    def told(status, path):
        fields = list(status[:10])  # as `os.stat_result` takes them
        fields[stat.ST_UID] = said.get(str(path), status.st_uid)
        return os.stat_result(fields)

    monkeypatch.setattr(os, "lstat", lambda path, **options: told(look(path, **options), path))
    monkeypatch.setattr(
        os, "fstat", lambda fd: told(look_at_open(fd), os.readlink(f"/proc/self/fd/{fd}"))
    )
    return said


def refused(level, reason):
    """No kernels are kept, nor what was measured, and both say where and why."""
    found, why_not = cache.find_folder("version")
    assert (found, why_not) == (None, f"{level}: {reason}")
    with pytest.raises(OSError, match="constants could not be stored") as raised:
        machine.store(machine.Machine(miss_ns=90.0, measured=("miss_ns",)))
    assert why_not in str(raised.value)


def taken(place):
    """Kernels are kept there, and what was measured is found again."""
    found, why_not = cache.find_folder("version")
    assert (found, why_not) == (place / "version", "")
    measured = machine.Machine(miss_ns=90.0, measured=("miss_ns",))
    machine.store(measured)
    assert machine.load() == measured
    assert {path.name.partition("-")[0] for path in place.iterdir()} == {"version", "machine"}


def test_what_we_make_is_this_users_alone(place):
    place.parent.rmdir()
    mask = os.umask(0)
    try:
        taken(place)
    finally:
        os.umask(mask)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (place.parent, place, place / "version")]
    assert modes == [0o755, 0o700, 0o700]


@pytest.mark.parametrize("what", ["link", "dangling link"])
def test_a_planted_link_is_not_followed_and_its_target_is_as_it_was(place, owners, tmp_path, what):
    target = tmp_path / "target"
    if what == "link":
        target.mkdir(mode=0o755)
    place.parent.chmod(0o1777)
    place.symlink_to(target)
    owners[str(place)] = ANOTHER
    refused(place, "it belongs to another user")
    assert not target.exists() or (not list(target.iterdir()) and target.stat().st_mode & 0o055)


def test_a_link_in_the_place_of_the_versions_folder_is_nobodys(place, tmp_path):
    """Not even this user's: we alone make that level."""
    target = tmp_path / "target"
    target.mkdir()
    place.mkdir()
    (place / "version").symlink_to(target)
    assert cache.find_folder("version") == (None, f"{place / 'version'}: it is a link")
    assert not list(target.iterdir())


def test_a_folder_of_another_user_is_refused(place, owners):
    place.parent.chmod(0o1777)
    place.mkdir()
    owners[str(place)] = ANOTHER
    refused(place, "it belongs to another user")
    assert not list(place.iterdir())


def test_somebody_is_faster(place, owners, monkeypatch):
    """Between the look that finds nothing and the folder's making."""
    make = os.mkdir

    def planted(path, mode):
        make(path, mode)
        owners[str(path)] = ANOTHER
        make(path, mode)

    monkeypatch.setattr(os, "mkdir", planted)
    refused(place, "it belongs to another user")


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o707])
def test_a_folder_of_ours_that_others_may_write_is_refused_and_stays_as_it_is(place, mode):
    place.mkdir()
    place.chmod(mode)
    refused(place, "others may write to it")
    assert stat.S_IMODE(place.stat().st_mode) == mode and not list(place.iterdir())


def test_who_may_write_above_may_rename_ours(place):
    place.parent.chmod(0o777)
    refused(place.parent, "others may write to it")
    place.parent.chmod(0o1777)  # there they may not
    taken(place)


def test_a_sticky_folder_is_its_owners_all_the_same(place, owners):
    place.parent.chmod(0o1777)
    owners[str(place.parent)] = ANOTHER
    refused(place.parent, "it belongs to another user")


def test_links_of_the_users_own_are_followed(place, tmp_path, monkeypatch):
    """Of a home that lies elsewhere, in a sticky folder too, and of the folder itself."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    place.parent.chmod(0o1777)
    place.symlink_to(Path("..") / "shared" / ".." / "elsewhere" / "deep")
    (tmp_path / "home").symlink_to(place.parent)
    named = tmp_path / "home" / "hogshare"
    monkeypatch.setenv("HOGSHARE_CACHE_DIR", str(named))
    taken(named)
    assert stat.S_IMODE((elsewhere / "deep").stat().st_mode) == 0o700
    elsewhere.chmod(0o777)
    refused(elsewhere, "others may write to it")


def test_a_link_to_the_folder_above_is_looked_at_as_ours(place):
    place.parent.chmod(0o1777)
    place.symlink_to(".." + os.sep + "shared" + os.sep + ".")
    refused(place.parent, "others may write to it")
    place.unlink()
    place.symlink_to(place.parent / "deep" / "..")
    (place.parent / "deep").mkdir()
    refused(place.parent, "others may write to it")


def test_links_in_a_circle_are_an_end(place):
    place.symlink_to(place)
    refused(place, "it is a link")


def test_a_relative_path_is_looked_at_from_the_root(place, monkeypatch):
    monkeypatch.chdir(place.parent)
    monkeypatch.setenv("HOGSHARE_CACHE_DIR", "hogshare")
    taken(place)
    place.parent.chmod(0o777)
    refused(place.parent, "others may write to it")


def test_a_file_is_no_folder(place):
    place.touch()
    refused(place, "Not a directory")


@pytest.mark.parametrize("what", ["link", "pipe", "folder", "another's", "open to others"])
def test_files_of_others_are_not_read(place, owners, tmp_path, what):
    """Nor waited for."""
    taken(place)
    (file,) = place.glob("machine-*")
    machine.load.cache_clear()
    if what == "another's":
        owners[str(file)] = ANOTHER
    elif what == "open to others":
        file.chmod(0o606)
    elif what == "link":
        file.rename(tmp_path / "target")
        file.symlink_to(tmp_path / "target")
    else:
        file.unlink()
        file.mkdir() if what == "folder" else os.mkfifo(file)
    assert machine.load() == machine.Machine()
    with pytest.raises(folders.Unsafe) as raised:
        folders.read(file)
    assert raised.value.filename == str(file)


@pytest.fixture
def group(monkeypatch):
    """A group of the user's own, as many systems give each."""
    import grp
    import pwd

    group = SimpleNamespace(gr_name="me", gr_mem=[])
    user = SimpleNamespace(pw_name="me", pw_gid=os.getegid())
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: user)
    monkeypatch.setattr(grp, "getgrgid", lambda gid: group)
    return group


@pytest.mark.skipif(not hasattr(os, "getxattr"), reason="needs Linux")
def test_a_group_of_the_user_alone_is_nobody_else(place, group, monkeypatch):
    place.mkdir()
    place.chmod(0o775)
    os.chown(place, -1, os.getegid())
    taken(place)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getxattr", lambda *args, **options: b"a list of who may write")
        refused(place, "others may write to it")
    group.gr_mem = ["me", "you"]
    refused(place, "others may write to it")
    group.gr_mem, group.gr_name = [], "users"
    refused(place, "others may write to it")


def test_who_has_the_root_folder_may_have_what_is_above_ours_only(place, owners):
    """In a container without root that is a number which stands for all who are not there."""
    place.mkdir()
    for path in place.parents:
        owners[str(path)] = ANOTHER
    taken(place)
    owners[str(place)] = ANOTHER
    refused(place, "it belongs to another user")


AS_NOBODY = """
import os, sys
os.setgroups([]), os.setgid(65534), os.setuid(65534)
os.symlink(sys.argv[2], sys.argv[1])
"""

AS_ROOT = """
import sys
from hogshare.system import machine
from hogshare.kernels.jit import cache
print(cache.find_folder("version"))
try:
    machine.store(machine.Machine(miss_ns=90.0, measured=("miss_ns",)))
except OSError as error:
    print(error)
"""


@is_root
def test_what_nobody_plants_for_root():
    with tempfile.TemporaryDirectory() as name:
        above, target = Path(name) / "open", Path(name) / "target"
        os.chmod(name, 0o755)
        for folder, mode in ((above, 0o1777), (target, 0o755)):
            folder.mkdir()
            folder.chmod(mode)
        place = above / "hogshare"
        subprocess.run([sys.executable, "-c", AS_NOBODY, place, target], check=True)
        environment = {**os.environ, "HOGSHARE_CACHE_DIR": str(place), "PYTHONPATH": str(ROOT)}
        environment["NUMBA_DISABLE_JIT"] = "1"  # nothing of it is needed
        with contextlib.suppress(KeyError):
            del environment["HOGSHARE_MACHINE"]
        command = [sys.executable, "-c", AS_ROOT]
        told = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout
        assert told.count(f"{place}: it belongs to another user") == 2
        assert not list(target.iterdir()) and stat.S_IMODE(target.stat().st_mode) == 0o755
