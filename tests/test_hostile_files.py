"""Files that are made to harm whoever reads them: an error that names the file, and nothing else.

What takes too much memory is read in a process of its own, whose memory is limited: it ends by an
error there, or it dies.
"""

import bz2
import datetime as dt
import io
import json
import os
import struct
import subprocess
import sys
import textwrap
import uuid
import zipfile
import zlib
from decimal import Decimal

import fleet
import numpy as np
import pandas
import pytest
from scipy import sparse

from hogshare import (
    PSSP,
    LogisticRegressionCV,
    MatrixFactorization,
    RidgeClassifier,
    SGDClassifier,
)
from hogshare.io import readers, sources
from hogshare.io.models import model_file, save_load
from hogshare.system import memory

LINUX = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="limits of Linux")
LIMIT = 1 << 30

# the start of every process here: so much memory more than it has now, and no more time than that
LIMITED = """
    import faulthandler, os, resource, sys, warnings
    from pathlib import Path
    import numpy as np
    from hogshare.system import memory
    {IMPORTS}
    faulthandler.dump_traceback_later(100, exit=True)
    warnings.simplefilter("ignore")
    pages = Path("/proc/self/statm").read_text().split()
    more = {LIMIT}
    for limit, used in ((resource.RLIMIT_DATA, pages[5]), (resource.RLIMIT_AS, pages[0])):
        top = more + int(used) * resource.getpagesize()
        resource.setrlimit(limit, (top, resource.RLIM_INFINITY))
    def peak():
        # `ru_maxrss` begins with what the process was before it was this program
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))
    def tell(read, path):
        try:
            read(path)
        except (ValueError, MemoryError) as error:
            assert str(error).startswith(str(path)), repr(error)
            print(type(error).__name__)
        else:
            print("read")
        assert peak() < more, f"{path}: {peak()} bytes"
"""


READERS = """from sklearn.datasets import load_svmlight_file
from hogshare.io.models import model_file, save_load
from hogshare.io import readers
from hogshare.engine import checkpoints"""


def limited(script, *arguments, limit=LIMIT, imports=READERS):
    """What a script prints, line by line."""
    text = textwrap.dedent(LIMITED).replace("{LIMIT}", str(limit)).replace("{IMPORTS}", imports)
    text += textwrap.dedent(script)
    command = [sys.executable, "-c", text, *map(str, arguments)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert told.returncode == 0, told.stderr[-2000:]
    return told.stdout.split()


def head(shape, kind="<f8"):
    """The header of an array."""
    stream = io.BytesIO()
    said = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, said)
    return stream.getvalue()


def add_zeros(path, name, shape):
    """Add an array of 8-byte zeros to an archive, a thousandth of their size, in no time."""
    nbytes = 8 * int(np.prod(shape, dtype=object))
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = packer.compress(head(shape)) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    rest = packer.compress(bytes(nbytes % (1 << 20))) + packer.flush()
    with zipfile.ZipFile(path, "a") as archive:
        info = zipfile.ZipInfo(f"{name}.npy")
        archive.writestr(info, first + block * (nbytes >> 20) + rest)
        at = archive.getinfo(info.filename).header_offset
    content = bytearray(path.read_bytes())
    size = struct.pack("<I", len(head(shape)) + nbytes)
    entry = content.rfind(b"PK\x01\x02")
    for place, method, length in ((at, 8, 22), (entry, 10, 24)):
        content[place + method] = zipfile.ZIP_DEFLATED
        content[place + length : place + length + 4] = size
    path.write_bytes(content)


def sparse_parts(form, shape, **arrays):
    return {"format": np.array(form), "shape": np.array(shape), "data": np.ones(1), **arrays}


ZERO, ROWS = np.zeros(1, np.int32), 300_000_000
WIDE = {
    "coo": sparse_parts("coo", (ROWS, 1), row=ZERO, col=ZERO),
    "coords": sparse_parts("coo", (ROWS, 1), coords=np.zeros((2, 1), np.int32)),
    "csc": sparse_parts("csc", (ROWS, 1), indices=ZERO, indptr=np.array([0, 1], np.int32)),
    "dia": sparse_parts("dia", (ROWS, 1), data=np.ones((1, 1)), offsets=ZERO),
    "diagonals": sparse_parts("dia", (1, ROWS), data=np.ones((1, 1)), offsets=ZERO),
}


@pytest.mark.parametrize("name", WIDE)
def test_few_bytes_do_not_become_many_rows(tmp_path, name, seams):
    path = tmp_path / "rows.npz"
    np.savez_compressed(path, **WIDE[name])
    with pytest.raises(ValueError, match=r"rows.npz: .* more than 500 times the file's"):
        readers.read_file(path)  # whether or not it would fit
    seams.memory.fold = 1 << 40
    seams.memory.free = lambda **_: 1 << 20
    with pytest.raises(MemoryError, match=r"rows.npz: .* of memory, and 1.00 MiB is free"):
        readers.read_file(path)


def test_other_formats_of_an_ordinary_size_are_read(tmp_path):
    dense = np.arange(12.0).reshape(4, 3) % 5
    for form in ("csr", "csc", "coo", "dia", "bsr"):
        for kind in (sparse.csr_array, sparse.csr_matrix):
            sparse.save_npz(tmp_path / "rows.npz", kind(dense).asformat(form))
            rows, _ = readers.read_file(tmp_path / "rows.npz")
            np.testing.assert_array_equal(rows.toarray(), dense)
    np.savez(tmp_path / "rows.npz", **sparse_parts("coo", (5, 3), coords=np.array([[4], [2]])))
    assert readers.read_file(tmp_path / "rows.npz")[0].toarray()[4, 2] == 1.0


@LINUX
def test_no_file_takes_all_memory(tmp_path):
    folder = tmp_path
    for name, parts in WIDE.items():
        np.savez_compressed(folder / f"{name}.npz", **parts)
    np.savez(folder / "fold.npz", y=np.zeros(3))
    add_zeros(folder / "fold.npz", "X", (100_000_000, 4))
    np.savez(folder / "unused.npz", X=np.eye(3), y=np.arange(3))
    add_zeros(folder / "unused.npz", "Z", (100_000_000, 4))
    (folder / "claims.npy").write_bytes(head((1 << 28, 1)) + bytes(80))
    (folder / "nothing.npy").write_bytes(head((1 << 40, 1), "<U0"))
    (folder / "wide.svm").write_text("1 100000000:1\n")
    (folder / "wider.svm").write_text("1 2147483647:1\n")
    model_file.save(folder / "model.npz", a_model())
    add_zeros(folder / "model.npz", "other", (100_000_000, 4))
    told = limited(
        """
        for name in sorted(os.listdir(sys.argv[1])):
            print(name)
            read = save_load.load if name.startswith("model") else readers.read_file
            tell(read, Path(sys.argv[1]) / name)
        """,
        folder,
    )
    outcome = dict(zip(told[0::2], told[1::2], strict=True))
    assert [name for name, how in outcome.items() if how == "read"] == ["model.npz", "unused.npz"]
    assert outcome["wide.svm"] == outcome["wider.svm"] == "MemoryError"


@pytest.mark.parametrize("content", [b"1 1:1\n" * 400_000, bytes(3_000_000)], ids=["rows", "line"])
def test_text_that_is_made_to_fill_the_memory(tmp_path, seams, monkeypatch, content):
    path = tmp_path / "rows.svm.bz2"
    path.write_bytes(bz2.compress(content))
    monkeypatch.setattr(sources, "CHECK_BYTES", 1 << 18)
    with seams.for_now() as now:
        now.memory.plenty = 1 << 20
        with pytest.raises(ValueError, match=r"rows.svm.bz2: .*made to fill the memory"):
            readers.read_libsvm(path)
    left = iter([10 << 20, 6 << 20, 2 << 20])
    seams.memory.free = lambda: next(left)
    with pytest.raises(MemoryError, match=r"rows.svm.bz2: the rows do not fit into memory"):
        readers.read_libsvm(path)


def a_model(**changes):
    values = {
        "coef_": np.ones((1, 3)),
        "intercept_": np.zeros(1),
        "classes_": np.arange(2),
    }
    return model_file.SavedModel(
        class_name="SGDClassifier",
        n_features=3,
        attributes={name: a for name, a in (values | changes).items() if a is not None},
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"intercept_": None},
        {"intercept_": np.zeros(2)},
        {"intercept_": np.zeros((1, 1))},
        {"intercept_": np.array(["0"])},
        {"classes_": np.arange(3)},
        {"classes_": np.arange(2).reshape(2, 1)},
        {"coef_": np.ones((1, 4))},
        {"coef_": np.ones((1, 3), int)},
        {"coef_": np.ones((1, 1, 3))},
        {"coef_": None},
        {"_average_coef": np.ones(3)},
        {"_average_coef": np.ones(4), "_average_intercept": np.zeros(1)},
        {"_standard_coef": 1.0, "_standard_intercept": np.zeros(1)},
        {"feature_names_in_": np.array(["a", "b"], object)},
        {"feature_names_in_": np.array(["a", "b", 3], object)},
        {"t_": float("nan")},
        {"t_": [1.0]},
    ],
)
def test_models_without_what_they_need(tmp_path, changes, monkeypatch):
    path = tmp_path / "model.npz"
    with pytest.raises(ValueError, match="_"):
        model_file.save(path, a_model(**changes))
    assert not path.exists()
    with monkeypatch.context() as patch:
        patch.setattr(model_file, "check", lambda model: None)
        model_file.save(path, a_model(**changes))
    with pytest.raises(ValueError, match=r"model.npz: not a hogshare model \(.*_"):
        save_load.load(path)


@pytest.mark.parametrize("depth", [100, 50_000])
@pytest.mark.parametrize("part", ["format", "params", "attributes"])
def test_a_models_header_that_is_nested_deeply(tmp_path, depth, part):
    said = {"format": model_file.FORMAT, "format_version": 2, "class_name": "Ridge", part: "HERE"}
    text = json.dumps(said).replace('"HERE"', "[" * depth + "]" * depth)
    np.savez(tmp_path / "m.npz", header=np.frombuffer(text.encode(), np.uint8))
    for read in (model_file.load, save_load.load):
        with pytest.raises(ValueError, match=r"m.npz: not a hogshare model .*nested too deeply"):
            read(tmp_path / "m.npz")


def test_a_classifier_without_classes(tmp_path):
    model_file.save(tmp_path / "model.npz", a_model(classes_=None))
    with pytest.raises(ValueError, match=r"model.npz: .* with the wrong arrays"):
        save_load.load(tmp_path / "model.npz")


@pytest.mark.parametrize("params", [{"loss": "other"}, {"alpha": []}, {"nothing": 1}])
def test_models_with_parameters_of_no_estimator(tmp_path, params):
    saved = a_model()
    saved.params = params
    model_file.save(tmp_path / "m.npz", saved)
    with pytest.raises(ValueError, match=r"m.npz: the model's parameters do not fit"):
        save_load.load(tmp_path / "m.npz")


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("1 1_000:1_0", "1_000:1_0"),
        ("1_0 1:1", "1_0"),
        ("1 1:1_0 # a comment", "1:1_0"),
        ("1 qid:1_0 1:1", "qid:1_0"),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_underscores_are_in_no_number(tmp_path, seams, line, word, size):
    path = tmp_path / "rows.svm"
    path.write_text(f"1 1:1 # one_and_all\n-1 1:2\n{line}\n1 1:1\n")
    seams.pieces.read = size
    with pytest.raises(ValueError, match=r"rows.svm, line 3: not LIBSVM text: .* underscore") as e:
        readers.read_libsvm(path)
    assert f"'{word}'" in str(e.value)
    path.write_text("1 1:1 # one_and_all\n# by_the_way\n-1 1:2 #_\n")
    assert readers.read_libsvm(path)[0].shape == (2, 1)


def test_columns_that_are_many_for_the_values(tmp_path, seams):
    path = tmp_path / "rows.svm"
    path.write_text("1 100000000:1\n")
    with pytest.warns(UserWarning, match=r"1 values in 100,000,000 columns.* Set n_features"):
        readers.read_libsvm(path, zero_based=False)
    readers.read_libsvm(path, 100_000_000)
    seams.memory.free = lambda **_: 1 << 30
    with pytest.raises(MemoryError, match=r"rows.svm: 1 values .* Set n_features"):
        readers.read_libsvm(path)
    readers.read_libsvm(path, 100_000_000)


def test_a_fit_that_does_not_fit_says_so(seams):
    X = sparse.csr_array(([1.0, 1.0], ([0, 1], [0, 9_999_999])))
    seams.memory.free = lambda **_: 1 << 20
    with pytest.raises(
        MemoryError, match=r"A fit of 10,000,000 features needs .* of memory, and 1.00 MiB"
    ):
        SGDClassifier(n_jobs=1).fit(X, [0, 1])


@LINUX
def test_limits_of_the_process_count():
    script = """
        print(memory.free() <= more, memory.free() > more // 2)
        few = np.ones(more // 4, np.uint8)
        print(memory.free() < more - more // 4)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
        print(memory.free() < more)
    """
    assert limited(script, limit=1 << 29, imports="") == ["True"] * 4
    least = memory.free(swap=False)
    assert least is not None and 0 < least <= 1.1 * memory.free()


def test_amounts_in_words():
    assert [memory.amount(n) for n in (0, 1 << 10, 3 << 19, 5 << 30)] == [
        "0 bytes",
        "1.00 KiB",
        "1.50 MiB",
        "5.00 GiB",
    ]


# -- whatever stands in a file


FUZZ = """
    import io, json, zipfile
    from hogshare import Stop, problems, solve
    folder, seed, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng = np.random.default_rng(seed)
    kinds = {"model": save_load.load, "run": checkpoints.load}
    sizes = [0, 1, 2, 255, 1 << 31, 10**9, 10**12, 1 << 62, 1 << 64, 10**30, -1]

    def arrays_in(content):
        with np.load(io.BytesIO(content)) as archive:
            return dict(archive)

    def head(array):
        # one that may say anything
        stream = io.BytesIO()
        shape = tuple(int(sizes[rng.integers(len(sizes))]) for _ in range(rng.integers(3)))
        said = [array.dtype.str, "<f8", "|u1", "<U0", "|O", "1000f8", "<i2", "|V8", ">u4"]
        told = {"descr": said[rng.integers(len(said))], "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_2_0(stream, told)
        return stream.getvalue()

    def changed_archive(content):
        parts = arrays_in(content)
        names, stream = sorted(parts), io.BytesIO()
        victim = names[rng.integers(len(names))]
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, array in parts.items():
                body = io.BytesIO()
                how = rng.integers(6) if name == victim else -1
                if how == 0:
                    continue
                if how == 1 and array.size and array.dtype.kind in "iuf":
                    array = array.copy()
                    with np.errstate(all="ignore"):
                        value = np.array(sizes[rng.integers(len(sizes))] & (1 << 62) - 1)
                        array.flat[rng.integers(array.size)] = value.astype(array.dtype)
                if how == 2:
                    kind = rng.choice(["f8", "i4", "U1"])
                    array = np.zeros(int(rng.choice([0, 1, 1 << 20])), kind)
                if how == 3 and name == "header":
                    said = json.loads(array.tobytes())
                    place = said
                    while True:  # on a way into it, to an end or not so far
                        keys = sorted(place) if isinstance(place, dict) else range(len(place))
                        key = keys[rng.integers(len(keys))]
                        inner = place[key]
                        if not inner or not isinstance(inner, dict | list) or rng.random() < 0.3:
                            break
                        place = inner
                    place[key] = [None, [], {}, "x", 1e400, -5, {"a": {}}, 10**40][rng.integers(8)]
                    array = np.frombuffer(json.dumps(said).encode(), np.uint8)
                np.save(body, array)
                told = body.getvalue()
                if how >= 4:
                    told = head(array) + told[rng.integers(len(told)) :]
                archive.writestr(name + ".npy", told)
        return stream.getvalue()

    def damaged(content):
        broken = bytearray(content)
        for place in rng.integers(0, len(broken), rng.integers(1, 5)):
            broken[place] = rng.integers(256)
        return bytes(broken[: rng.integers(1, len(broken) + 1)] if rng.random() < 0.2 else broken)

    whole = {path: path.read_bytes() for path in sorted(folder.iterdir())}
    for path, content in whole.items():
        read = kinds.get(path.name.split(".")[0], readers.read_file)
        for _ in range(rounds):
            archive = path.suffix == ".npz" and rng.random() < 0.7
            path.write_bytes(changed_archive(content) if archive else damaged(content))
            try:
                read(path)
            except (ValueError, MemoryError, OSError) as error:
                assert path.name in str(error), repr(error)
                print("refused")
            else:
                print("read")
    assert peak() < more, peak()
"""


def models_of_all_kinds():
    """Models whose files hold every form that a value can have."""
    X = fleet.rows()
    y = np.array(["a", "b", "c"])[np.arange(60) % 3]
    plain = {**fleet.CLASSIFIERS["LogisticRegressionCV"], "use_legacy_attributes": True}
    chosen = LogisticRegressionCV(**{**plain, "l1_ratios": None, "Cs": (0.1, np.float64(1.0))})
    sparse_one = SGDClassifier(barrier=PSSP(2, 3), class_weight={"a": 2.0}, average=True)
    named = pandas.DataFrame(X, columns=list("abcde"))
    ids = ["a", b"b", 2**70, dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.date(2020, 1, 1)]
    ids += [
        ("c", 1, None),
        frozenset([1.5]),
        uuid.UUID(int=5),
        np.datetime64(1, "ns"),
        Decimal("1.5"),
    ]
    rated = MatrixFactorization(1, max_iter=1, n_jobs=1).fit(ids, ids, np.arange(10))
    return {
        "rated": rated,
        "chosen": fleet.fit(chosen, X, y),
        "sparse": fleet.fit(sparse_one, named, y).sparsify(),
        "labels": fleet.fit(RidgeClassifier(), X, np.eye(3, dtype=int)[np.arange(60) % 3]),
    }


@LINUX
def test_whatever_stands_in_a_file(tmp_path, rounds, cancer):
    from hogshare import Checkpoint, Stop, problems, solve

    X, y = cancer
    X, y = np.where(abs(X[:50, :6]) > 0.5, X[:50, :6], 0.0), y[:50]
    rows = sparse.csr_array(X)
    np.save(tmp_path / "rows.npy", X)
    np.savez(tmp_path / "dense.npz", X=X, y=y)
    parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    np.savez(tmp_path / "parts.npz", shape=np.array(X.shape), y=y, **parts)
    for form in ("csr", "csc", "coo", "dia", "bsr"):
        sparse.save_npz(tmp_path / f"{form}.npz", rows.asformat(form))
    lines = [
        " ".join([f"{label}", *(f"{j + 1}:{x:.3g}" for j, x in enumerate(row) if x)])
        for label, row in zip(y, X, strict=True)
    ]
    text = ("\n".join(lines) + "\n").encode()
    for suffix, opener in {"": open, **sources.OPENERS}.items():
        with opener(tmp_path / f"rows.svm{suffix}", "wb") as file:
            file.write(text)
    model_file.save(tmp_path / "model.npz", a_model())
    for name, model in models_of_all_kinds().items():
        save_load.save(model, tmp_path / f"model.{name}.npz")
    saved = Checkpoint(tmp_path / "run.npz")
    stop = Stop(epochs=4, relative_gap=1e-9)
    solve(problems.linear(X, y, alpha=0.1), stop=stop, seed=0, checkpoint=saved)
    n_files, n = len(os.listdir(tmp_path)), rounds(200)
    told = limited(FUZZ, tmp_path, 0, n)
    assert len(told) == n_files * n
    assert told.count("refused") > len(told) // 4 and told.count("read") > len(told) // 50
