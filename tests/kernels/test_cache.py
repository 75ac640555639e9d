"""Machine code between processes: what is kept, what is taken, and what no disk may break."""

import errno
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from hogshare.kernels.jit import cache, decorators
from hogshare.system import folders

ROOT = Path(decorators.__file__).parents[2]

compiles = pytest.mark.skipif(decorators.JIT_DISABLED, reason="nothing is compiled")
posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX's")


@pytest.fixture
def folder(tmp_path, seams, monkeypatch):
    """A new folder for what this test's kernels leave."""
    folder = tmp_path / "kernels"
    folder.mkdir(mode=0o700)
    seams.kernels.folder = folder
    seams.kernels.told = []
    monkeypatch.setattr(cache, "_DAMAGED", [], raising=False)
    return folder


@pytest.fixture
def warned():
    """The warnings so far."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield lambda: [str(warning.message) for warning in caught]


def made():
    """A kernel as another process has it: new to Numba, of the same code."""

    @decorators.kernel
    def next_number(x):
        return x + 1

    return next_number


def hits(kernel):
    """How often its machine code was loaded."""
    return sum(kernel.dispatcher.stats.cache_hits.values())


def use(of=2):
    """Call a new kernel; how often its machine code was loaded."""
    kernel = made()
    assert kernel(of) == of + 1
    return hits(kernel)


@compiles
def test_code_is_loaded_by_the_next_and_by_its_types(folder):
    assert use() == 0
    assert use() == 1
    assert use(2.5) == 0
    assert use(2.5) == 1 == use()
    assert len(list(folder.iterdir())) == 2, "one file for each, and nothing else"
    assert {path.stat().st_mode & 0o077 for path in folder.iterdir()} == {0}


@compiles
def test_types_that_are_kept_are_told_and_deleted(folder):
    for of in (2, 2.5):
        use(of)
    kept = made().dispatcher
    codegen = kept.targetctx.codegen()
    assert {str(types[0]) for types in kept._cache.signatures(codegen)} == {"int64", "float64"}
    another = SimpleNamespace(magic_tuple=lambda: ("another", "processor", ""))
    assert not list(kept._cache.signatures(another))
    kept._cache.flush()
    assert not list(folder.iterdir())


STEPS = {"make the folder": (os, "mkdir"), "open": (os, "open"), "rename": (os, "replace")}
FAILURES = [
    ("make the folder", errno.EACCES),
    ("open", errno.EROFS),
    ("open", errno.ENOSPC),
    ("rename", errno.EDQUOT),
]


@compiles
@pytest.mark.parametrize(("step", "reason"), FAILURES)
def test_what_cannot_be_kept_runs_and_is_told_once(folder, warned, monkeypatch, step, reason):
    def fail(*_, **__):
        raise OSError(reason, os.strerror(reason))

    if step == "make the folder":
        folder.rmdir()  # somebody has, since it was found
    with monkeypatch.context() as patch:
        patch.setattr(*STEPS[step], fail)
        assert use() == use(2.5) == 0
    (message,) = warned()
    for part in (str(folder), os.strerror(reason), "HOGSHARE_CACHE_DIR"):
        assert part in message
    assert not list(folder.glob("*"))
    assert use() == 0 and use() == 1, "there is space again"


FULL = """
import resource
import numpy as np
from hogshare.kernels.rows.sums import total
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
print(total(np.ones(5)), total(np.ones(5, np.float32)))
"""


def run(code, folder):
    """Return what a process with that cache folder prints."""
    environment = {**os.environ, "HOGSHARE_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


@compiles
@posix
def test_a_disk_that_takes_the_beginning_of_a_file(tmp_path):
    done = run(FULL, tmp_path)
    assert (done.returncode, done.stdout) == (0, "5.0 5.0\n"), done.stderr
    assert done.stderr.count("HOGSHARE_CACHE_DIR") == 1
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@compiles
def test_an_interrupted_save_leaves_nothing(folder, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "replace", interrupted)
        use()
    assert not list(folder.iterdir())


@compiles
def test_a_filled_folder_that_cannot_be_written_is_read(folder, warned, monkeypatch):
    """By root too, who may write where the mode forbids it: hence the failing calls."""
    use()

    def fail(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def read_only(path, flags, *mode, open=os.open):
        return fail() if flags & os.O_CREAT else open(path, flags, *mode)

    folder.chmod(0o500)
    try:
        monkeypatch.setenv("HOGSHARE_CACHE_DIR", str(folder.parent))
        for step in STEPS.values():
            monkeypatch.setattr(*step, fail)
        monkeypatch.setattr(os, "open", read_only)
        assert cache.find_folder(folder.name) == (folder, "")
        assert use() == 1
        assert not warned()
        assert use(2.5) == 0, "what is not there is compiled"
        assert len(warned()) == 1
    finally:
        folder.chmod(0o700)


AS_NOBODY = """
import os
import numpy as np
from hogshare.kernels.jit import decorators
from hogshare.kernels.rows.sums import total
decorators.load_registries()
nobody = 65534
os.setgroups([]), os.setgid(nobody), os.setuid(nobody)
decorators.CACHE_FOLDER, why_not = decorators.cache.find_folder(decorators._digest())
assert decorators.CACHE_FOLDER is not None, why_not
print(total(np.ones(5)), sum(total.dispatcher.stats.cache_hits.values()))
"""


@compiles
@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="needs root, to be another")
def test_a_folder_that_root_has_filled_serves_others():
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to others
        made_by_root = Path(name)
        code = "import numpy as np; from hogshare.kernels.rows.sums import total; total(np.ones(5))"
        assert run(code, made_by_root).returncode == 0
        for path in (made_by_root, *made_by_root.rglob("*")):
            path.chmod(0o755)
        done = run(AS_NOBODY, made_by_root)
        assert (done.returncode, done.stdout, done.stderr) == (0, "5.0 1\n", "")


@posix
@pytest.mark.parametrize(
    ("owner", "mode", "trusted"),
    [
        ("me", 0o700, True),
        ("me", 0o755, True),
        ("root", 0o755, True),
        ("root", 0o555, True),
        ("another", 0o700, False),
        ("another", 0o555, False),
        ("me", 0o770, False),
        ("root", 0o775, False),
        ("me", 0o702, False),
        ("root", 0o1777, False),
    ],
)
def test_whose_files_are_run(monkeypatch, owner, mode, trusted):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    uid = {"me": 1000, "root": 0, "another": 1001}[owner]
    status = SimpleNamespace(st_uid=uid, st_gid=0, st_mode=mode)
    assert (folders.distrust(status, "") == "") == trusted


@compiles
@posix
def test_a_file_that_others_may_write_is_compiled_anew_and_replaced(folder, warned):
    use()
    (file,) = folder.iterdir()
    file.chmod(0o666)
    assert use() == 0
    assert "others may write" in warned()[0] and str(file) in warned()[0]
    assert use() == 1, "the new file is this user's alone"


@compiles
@posix
def test_a_folder_that_others_may_write_is_not_used(tmp_path, seams, monkeypatch, warned):
    monkeypatch.setenv("HOGSHARE_CACHE_DIR", str(tmp_path))
    seams.kernels.told = []
    folder = tmp_path / "version"
    folder.mkdir()
    folder.chmod(0o777)
    found, why_not = cache.find_folder("version")
    assert found is None and str(folder) in why_not and "others may write" in why_not
    seams.kernels.folder = None
    seams.kernels.no_folder = why_not
    assert use() == use() == 0
    assert not list(folder.iterdir())
    (message,) = warned()
    assert why_not in message


def test_a_folder_that_cannot_be_made_is_none(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOGSHARE_CACHE_DIR", str(tmp_path / "file"))
    found, why_not = cache.find_folder("version")
    assert found is None and os.strerror(errno.ENOTDIR) in why_not


def test_a_user_without_a_home_has_no_folder(seams):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    seams.kernels.root = homeless
    assert cache.find_folder("version") == (None, "this user has no home")


def cut(left):
    return lambda content: content[: int(left * len(content))]


def flipped(place):
    def flip(content):
        content = bytearray(content)
        content[place] ^= 1
        return content

    return flip


DAMAGES = {
    "empty": cut(0.0),
    "cut at the start": cut(0.001),
    "cut at the end": cut(0.999),
    "a bit of the digest": flipped(0),
    "a bit of the key": flipped(16),
    "a bit of the code": flipped(-1000),
}


@compiles
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_is_damaged_is_compiled_anew_told_of_once_and_replaced(folder, warned, damage):
    """By whoever finds it; who comes after loads again, and is told nothing."""
    use()
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(DAMAGES[damage](whole))
    assert use() == 0  # compiled code has counters in its names: a new file may be a byte longer
    assert use() == 1 and list(folder.iterdir()) == [file]
    (message,) = warned()
    assert str(file) in message and "damaged" in message
    file.write_bytes(b"")
    assert use() == 0 and len(warned()) == 1


@compiles
def test_a_file_is_on_the_disk_before_it_has_its_name(folder, monkeypatch):
    steps, sync, rename = [], os.fsync, os.replace

    def synced(descriptor):
        steps.append(os.fstat(descriptor).st_size)
        sync(descriptor)

    def renamed(before, after):
        steps.append(os.path.getsize(before))
        rename(before, after)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    use()
    (file,) = folder.iterdir()
    assert steps == [file.stat().st_size] * 2


@compiles
def test_a_file_says_what_it_is_for(folder):
    """Its name is short, and two may come to have the same."""
    use(2)
    (of_int,) = folder.iterdir()
    use(2.5)
    (of_float,) = set(folder.iterdir()) - {of_int}
    shutil.copy(of_int, of_float)
    assert use(2.5) == 0 and use(2.5) == 1


@compiles
def test_the_users_setting_of_numba_changes_nothing(folder, monkeypatch):
    from numba.core import config

    monkeypatch.setattr(config, "CACHE_LOCATOR_CLASSES", "InTreeCacheLocator", raising=False)
    use()
    assert len(list(folder.iterdir())) == 1


@compiles
def test_arrays_and_tuples_are_told_apart(folder):
    @decorators.kernel
    def first(x):
        return x[0]

    kinds = [np.ones(2), np.ones(2, np.float32), np.ones(4)[::2], (1, 2), (1, 2.0)]
    assert [first(kind) for kind in kinds] == [1.0] * len(kinds)
    assert len(list(folder.iterdir())) == len(kinds)


def test_a_kernels_key_covers_the_files_beside_its_own(tmp_path):
    """A helper in another file of the folder is part of its code, which Numba's key leaves out."""
    stamps = []
    for place, helper in (("a", "ONE = 1"), ("b", "ONE = 1"), ("c", "ONE = 2")):
        (tmp_path / place).mkdir()
        (tmp_path / place / "helpers.py").write_text(helper)
        source = tmp_path / place / "kernels.py"
        source.write_text("def function():\n    return 1\n")
        module = runpy.run_path(str(source))
        stamps.append(cache.KernelCache(module["function"], tmp_path)._stamp)
    assert stamps[0] == stamps[1] != stamps[2]
