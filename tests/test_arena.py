"""The arena: shared memory without a name, without a leak, without a way to crash."""

import gc
import os
import pickle
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from hogshare.shm import arena as arena_module
from hogshare.shm.arena import Arena
from hogshare.shm.shared_rows import find, share
from hogshare.shm.spacing import SPACING
from hogshare.system import memory

ROOT = Path(arena_module.__file__).parents[2]

ATTACH = """
import pickle, socket, sys
from hogshare.shm.arena import Arena
sock = socket.socket(fileno=int(sys.argv[1]))
data, (fd,), _, _ = socket.recv_fds(sock, 1 << 16, 1)
arena = Arena.attach(fd, pickle.loads(data))
arena["b"][...] = arena["a"].sum()
sock.close()
"""


def open_fds():
    return sorted(os.listdir("/proc/self/fd"))


def mapped():
    return Path("/proc/self/maps").read_text().count("memfd:hogshare")


def test_arrays_are_zero_aligned_named_and_apart():
    arena = Arena.create(
        {"w": ((3, 5), "float32"), "n": (7, np.int64), "none": ((0, 4), "f8"), "one": ((), "u1")}
    )
    assert arena.names == ("w", "n", "none", "one")
    assert arena["w"].shape == (3, 5) and arena["w"].dtype == np.float32
    assert arena["n"].shape == (7,) and arena["none"].shape == (0, 4) and arena["one"].shape == ()
    for value, name in enumerate(arena.names, 1):
        assert not arena[name].any()
        assert arena[name].ctypes.data % SPACING == 0 or arena[name].size == 0
        arena[name][...] = value
    assert [arena[name].max() for name in ("w", "n", "one")] == [1, 2, 4]
    assert arena.nbytes >= 3 * 128
    with pytest.raises(KeyError):
        arena["v"]
    arena.close()


def test_another_process_sees_the_same_memory():
    arena = Arena.create({"a": (1000, "float64"), "b": (1, "float64")})
    arena["a"][...] = 2
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with subprocess.Popen(
            [sys.executable, "-c", ATTACH, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        ) as process:
            socket.send_fds(ours, [pickle.dumps(arena.describe())], [arena.fileno()])
        assert process.returncode == 0
    assert arena["b"][0] == 2000
    arena.close()


def test_attach_maps_the_same_pages_and_leaves_the_descriptor():
    arena = Arena.create({"a": (4, "int64")})
    fd = os.dup(arena.fileno())
    twin = Arena.attach(fd, arena.describe())
    os.close(fd)  # still ours
    twin["a"][2] = 5
    assert arena["a"].tolist() == [0, 0, 5, 0]
    arena.close()
    assert twin["a"][2] == 5 and twin.fileno() >= 0
    twin.close()


def test_attach_refuses_a_descriptor_that_is_too_small():
    small, large = Arena.create({"a": (4, "int8")}), Arena.create({"a": (10**6, "int8")})
    with pytest.raises(ValueError, match="different arenas"):
        Arena.attach(small.fileno(), large.describe())
    small.close()
    large.close()


@pytest.mark.parametrize("in_order", [True, False], ids=["as it is", "another order"])
@pytest.mark.parametrize("kind", ["float64", "float32"])
@pytest.mark.parametrize("n_rows", [0, 3, 50_001])
def test_values_are_copied_into_their_place(seams, n_rows, kind, in_order):
    seams.pieces.arena = 300_000  # more than one for the large ones
    shape = (n_rows, 8)
    arena = Arena.create({"before": (9, "u1"), "rows": (shape, "float64"), "after": (9, "u1")})
    values = np.random.default_rng(0).standard_normal(shape).astype(kind)
    arena.fill("rows", values if in_order else np.asfortranarray(values))
    assert np.array_equal(arena["rows"], values)
    assert not arena["before"].any() and not arena["after"].any()
    with pytest.raises(ValueError, match="shape"):
        arena.fill("rows", values.ravel())
    with pytest.raises(TypeError, match="cast"):
        arena.fill("before", np.ones(9))
    arena.close()


def test_values_of_a_masked_array_are_its_data():
    values = np.ma.masked_array(np.arange(200_000.0), mask=np.arange(200_000) % 2 == 0)
    arena = Arena.create({"a": (len(values), "float64")})
    arena.fill("a", values)
    assert np.array_equal(arena["a"], values.data)
    arena.close()


def test_large_values_are_not_copied_page_by_page(monkeypatch):
    """The kernel writes them; and what it leaves over of a piece is written next."""
    pieces = []

    def little(fd, values, place):
        pieces.append(len(values))
        return pwrite(fd, values[:400_000], place)

    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", little)
    values = np.arange(150_000.0)
    arena = Arena.create({"small": (3, "float64"), "large": (len(values), "float64")})
    arena.fill("small", values[:3])
    assert not pieces
    arena.fill("large", values)
    assert np.array_equal(arena["large"], values)
    assert pieces == [1_200_000, 800_000, 400_000]
    arena.close()


def test_views_outlive_the_arena():
    arena = Arena.create({"a": (100_000, "float64")})
    view = arena["a"][::7]
    view[...] = 3
    arena.close()
    arena.close()
    with pytest.raises(ValueError, match="closed"):
        arena["a"]
    with pytest.raises(ValueError, match="closed"):
        arena.fileno()
    del arena
    gc.collect()
    assert view.sum() == 3 * len(view)
    assert find(view) is None


@pytest.mark.parametrize("close", [True, False])
def test_nothing_leaks(close):
    gc.collect()
    fds, maps = open_fds(), mapped()
    for _ in range(50):
        arena = Arena.create({"a": (10_000, "float32")})
        twin = Arena.attach(arena.fileno(), arena.describe())
        view = arena["a"][1:]
        if close:
            arena.close()
            twin.close()
        del arena, twin, view
    assert open_fds() == fds and mapped() == maps


def test_a_file_cannot_be_cut_under_its_users():
    arena = Arena.create({"a": (10_000, "float32")})
    with pytest.raises(PermissionError):
        os.ftruncate(arena.fileno(), 0)
    arena.close()


def test_too_much_is_a_memory_error_that_says_how_much():
    fds = open_fds()
    with pytest.raises(MemoryError, match=r"1,040.00 GiB was asked for, but only .* GiB"):
        Arena.create({"a": (2**40, "uint8"), "b": (2**34, "uint8")})
    with pytest.raises(MemoryError, match="was asked for"):
        Arena.create({"a": ((2**62, 2**62), "float64")})
    assert open_fds() == fds


def test_a_full_file_system_is_a_memory_error(monkeypatch):
    def full(fd, start, length):
        raise OSError(28, "No space left on device")

    fds = open_fds()
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(MemoryError, match="was asked for"):
        Arena.create({"a": (10, "uint8")})
    assert open_fds() == fds


def test_the_limit_of_a_control_group_counts(tmp_path):
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("700000\n")
    (tmp_path / "memory.stat").write_text("anon 5\ninactive_file 100000\n")
    assert memory._capacity(tmp_path, "memory.max", "memory.current") == 400_000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory._capacity(tmp_path, "memory.max", "memory.current") is None


@pytest.mark.parametrize(("shape", "dtype"), [((3,), object), ((-1,), "f8")])
def test_bad_layouts_are_refused(shape, dtype):
    with pytest.raises(ValueError, match="'a' has"):
        Arena.create({"a": (shape, dtype)})


def test_without_memfd_there_is_memory_for_threads_only(monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    arena = Arena.create({"a": (10, "float32")})
    arena["a"][...] = 1
    assert arena["a"].sum() == 10
    with pytest.raises(OSError, match="threads"):
        arena.fileno()
    assert find(arena["a"]) is None
    arena.close()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_share_dense(order, dtype):
    X = np.asarray(np.random.default_rng(0).normal(size=(30, 4)), dtype, order=order)
    shared = share(X)
    assert type(shared) is np.ndarray and shared.dtype == X.dtype and shared.flags.c_contiguous
    np.testing.assert_array_equal(shared, X)
    assert find(X) is None
    arena, offset = find(shared)
    assert offset == 0
    copy = np.ndarray(X.shape, dtype, Arena.attach(arena.fileno(), arena.describe())["rows"])
    np.testing.assert_array_equal(copy, X)
    assert share(shared) is shared


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_share_csr(kind, index):
    X = kind(sp.random(50, 20, 0.1, random_state=0, format="csr"))
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    shared = share(X)
    assert type(shared) is kind and shared.shape == X.shape
    for name in ("data", "indices", "indptr"):
        ours, theirs = getattr(shared, name), getattr(X, name)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    places = [find(getattr(shared, name)) for name in ("data", "indices", "indptr")]
    assert len({id(arena) for arena, _ in places}) == 1
    for (arena, offset), name in zip(places, ("data", "indices", "indptr"), strict=True):
        assert arena.describe()["arrays"][name][0] == offset
    assert (abs(shared @ np.ones(20) - X @ np.ones(20)) < 1e-12).all()
    assert share(shared) is shared


def test_share_of_nothing():
    assert share(np.empty((0, 3))).shape == (0, 3)
    assert share(sp.csr_matrix((0, 3))).shape == (0, 3)
    assert find(share(np.empty((0, 3)))) is None


@pytest.mark.parametrize("X", [[1, 2], sp.csc_matrix((3, 3)), "rows", np.array([{}, None])])
def test_share_refuses_what_it_cannot_keep(X):
    with pytest.raises(TypeError, match=r"share\(\)"):
        share(X)


def test_a_shared_array_frees_its_memory():
    fds, maps = open_fds(), mapped()
    shared = share(np.ones(1000))
    place = find(shared)
    assert mapped() == maps + 1
    del shared, place
    assert open_fds() == fds and mapped() == maps


def test_find_gives_the_offset_of_the_first_element():
    arena = Arena.create({"pad": (1, "u1"), "a": ((10, 6), "float32"), "b": (5, "int64")})
    start = arena.describe()["arrays"]["a"][0]
    a = arena["a"]
    for view, offset in [
        (a, 0),
        (a[3:], 3 * 24),
        (a[::-1], 9 * 24),
        (a[2:4, 5:0:-2], 2 * 24 + 20),
        (a.T[1], 4),
        (memoryview(a).cast("B")[8:16], 8),
    ]:
        found = find(np.asarray(view))
        assert found is not None
        assert found[0] is arena and found[1] == start + offset
    assert find(arena["b"])[1] == arena.describe()["arrays"]["b"][0]
    assert find(a.copy()) is None
    assert find(a[:0]) is None
    np.testing.assert_array_equal(arena.view(start + 24, "float32", (2, 6)), a[1:3])
    assert arena.view(start, np.float32, 7).shape == (7,)
    with pytest.raises(ValueError, match="buffer"):
        arena.view(arena.nbytes - 8, "float64", 2)
    del a, view, found
    arena.close()


@pytest.mark.parametrize("way", ["create", "attach"])
def test_an_interrupted_arena_closes_its_descriptor_once(monkeypatch, way):
    """A number that is closed twice may be somebody else's file by then."""
    whole = Arena.create({"a": ((3,), "float64")})
    before = open_fds()

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(Arena, "__init__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        if way == "create":
            Arena.create({"a": ((3,), "float64")})
        else:
            Arena.attach(whole.fileno(), whole.describe())
    number = os.open(os.devnull, os.O_RDONLY)  # the lowest one that is free
    gc.collect()
    os.close(number)
    assert open_fds() == before
