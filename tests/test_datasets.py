import bz2
import contextlib
import gzip
import io
import lzma
import os
import re
import threading

import numpy as np
import pytest
from scipy import sparse

from hogshare import datasets
from hogshare.io import data_catalogue, libsvm, matrices, readers, sniffing, sources

TEXT = b"1 1:0.5 3:2\n-1 2:1.25\n1\n"
DENSE = np.array([[0.5, 0, 2], [0, 1.25, 0], [0, 0, 0]])
COMPRESS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def small_zipf(**changes):
    values = {"n_samples": 2000, "n_features": 1500, "nnz_per_row": 30.0}
    return datasets.zipf_classification(**(values | changes))


# -- generators


def test_zipf_is_a_valid_csr_matrix():
    X, y = small_zipf(dtype=np.float32)
    X.check_format(full_check=True)
    assert X.has_canonical_format
    assert (X.shape, X.dtype, X.indices.dtype, X.indptr.dtype) == (
        (2000, 1500),
        np.float32,
        np.int32,
        np.int32,
    )
    np.testing.assert_allclose(sparse.linalg.norm(X, axis=1), 1.0, rtol=1e-5)
    assert X.data.min() > 0
    assert set(np.unique(y)) == {0, 1}
    assert abs(y.mean() - 0.5) < 0.01


def test_zipf_has_the_shape_it_was_asked_for():
    X, _ = small_zipf()
    lengths = np.diff(X.indptr)
    assert lengths.mean() == pytest.approx(30.0, rel=0.05)
    assert lengths.min() >= 1
    assert lengths.max() > 60  # log-normal: some rows are long
    frequency = np.sort(np.bincount(X.indices, minlength=1500))[::-1] / 2000
    assert frequency[0] > 0.5
    assert np.median(frequency) < 0.02
    # Zipf: frequency falls like 1 / (rank + offset) where it is not near one
    tail = frequency[50] / frequency[500]
    assert tail == pytest.approx((501 + 2.7) / (51 + 2.7), rel=0.35)


def test_zipf_hot_columns_are_scattered():
    X, _ = small_zipf()
    hottest = np.argsort(np.bincount(X.indices, minlength=1500))[-20:]
    assert np.ptp(hottest) > 500


def test_zipf_goes_by_its_seed():
    (A, a), (B, b), (C, _) = small_zipf(seed=1), small_zipf(seed=1), small_zipf(seed=2)
    assert (A != B).nnz == 0
    np.testing.assert_array_equal(a, b)
    assert (A != C).nnz > 0


def test_zipf_can_be_learnt_but_not_by_heart():
    from sklearn.linear_model import SGDClassifier

    X, y = small_zipf(n_samples=6000)
    model = SGDClassifier(loss="log_loss", random_state=0).fit(X[:4500], y[:4500])
    assert 0.75 < model.score(X[4500:], y[4500:]) < 0.99


@pytest.mark.parametrize("shape", [(1, 1), (1, 50), (50, 1), (3, 2)])
def test_zipf_of_tiny_shapes(shape):
    X, y = datasets.zipf_classification(*shape, nnz_per_row=2.0)
    assert X.shape == shape
    assert y.shape == shape[:1]
    X.check_format(full_check=True)


def test_dense():
    X, y = datasets.dense(5000, 20, dtype=np.float32)
    assert (X.shape, X.dtype, y.dtype) == ((5000, 20), np.float32, np.int64)
    np.testing.assert_allclose(X.std(axis=0), 1.0, atol=0.05)
    assert np.corrcoef(X.T)[0, 1:].mean() == pytest.approx(0.2, abs=0.05)
    _, target = datasets.dense(5000, 20, task="regression", dtype=np.float32)
    assert target.dtype == np.float32
    assert len(np.unique(target)) > 4000
    with pytest.raises(ValueError, match="task"):
        datasets.dense(task="ranking")


# -- names


@pytest.mark.parametrize("name", ["breast_cancer", "diabetes", "digits", "iris", "wine"])
@pytest.mark.quick
def test_bundled_sets(name):
    X, y = datasets.load(name, dtype=np.float32)
    assert X.dtype == np.float32
    assert len(X) == len(y)
    assert np.isfinite(X).all()


def test_unknown_names_and_missing_files(tmp_path):
    with pytest.raises(ValueError, match=r"no data set is called 'nope'; known: zipf"):
        datasets.load("nope")
    with pytest.raises(FileNotFoundError):
        datasets.load(tmp_path / "nope.npz")


def test_local_names_need_their_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("HOGSHARE_DATA", raising=False)
    with pytest.raises(ValueError, match="HOGSHARE_DATA"):
        datasets.load("a9a")
    with pytest.raises(ValueError, match="no file a9a"):
        datasets.load("a9a", data_home=tmp_path)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_local_set_by_environment(tmp_path, monkeypatch, suffix):
    (tmp_path / f"heart_scale{suffix}").write_bytes(COMPRESS[suffix](TEXT))
    monkeypatch.setenv("HOGSHARE_DATA", str(tmp_path))
    X, y = datasets.load("heart")
    assert X.shape == (3, 13)
    np.testing.assert_array_equal(y, [1, -1, 1])


def test_file_of_the_data_folder(tmp_path):
    (tmp_path / "mine.svm").write_bytes(TEXT)
    X, _ = datasets.load("mine.svm", data_home=tmp_path, n_features=7)
    assert X.shape == (3, 7)


def test_word_counts_become_tf_idf(tmp_path):
    from sklearn.feature_extraction.text import TfidfTransformer

    rng = np.random.default_rng(0)
    for stem, rows in (("imdb_train_counts", 40), ("imdb_test_counts", 20)):
        counts = sparse.csr_array(rng.poisson(0.5, (rows, 12)).astype(np.uint8))
        labels = np.arange(rows, dtype=np.int8) // (rows // 2)
        np.savez(
            tmp_path / f"{stem}.npz",
            data=counts.data,
            indices=counts.indices.astype(np.uint16),
            indptr=counts.indptr,
            shape=counts.shape,
            y=labels,
        )
    transformer = TfidfTransformer().fit(matrices.read_npz(tmp_path / "imdb_train_counts.npz")[0])
    for name, stem in (("imdb", "imdb_train_counts"), ("imdb-test", "imdb_test_counts")):
        X, y = datasets.load(name, data_home=tmp_path)
        counts, labels = matrices.read_npz(tmp_path / f"{stem}.npz")
        order = np.random.default_rng(0).permutation(len(labels))
        want = transformer.transform(counts)[order]
        np.testing.assert_allclose(X.toarray(), want.toarray(), atol=1e-12)
        np.testing.assert_array_equal(y, labels[order])
        assert (np.diff(y) != 0).any()


def test_tables_of_numbers(tmp_path):
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.integers(0, 9, (30, 54)), rng.integers(1, 8, 30)])
    text = "\n".join(",".join(map(str, row)) for row in table) + "\n"
    (tmp_path / "covtype.20k.data.xz").write_bytes(lzma.compress(text.encode()))
    X, y = datasets.load("covtype-20k", data_home=tmp_path)
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-12)
    assert y.sum() == (table[:, -1] == 2).sum()
    (tmp_path / "covtype.20k.data.xz").write_bytes(lzma.compress(text.encode())[:-20])
    with pytest.raises(ValueError, match=r"covtype\.20k\.data\.xz"):
        datasets.load("covtype-20k", data_home=tmp_path)


def test_constant_columns_do_not_divide_by_zero():
    X = np.array([[1.0, 2.0], [1.0, 4.0]])
    np.testing.assert_array_equal(data_catalogue.standardised(X), [[0, -1], [0, 1]])


def test_idx_files(tmp_path):
    folder = tmp_path / "mnist"
    folder.mkdir()
    pixels = np.arange(2 * 3 * 3, dtype=np.uint8)
    head = b"\x00\x00\x08\x03" + np.array([2, 3, 3], ">u4").tobytes()
    images = folder / "train-images-idx3-ubyte.gz"
    images.write_bytes(gzip.compress(head + pixels.tobytes()))
    labels = b"\x00\x00\x08\x01" + np.array([2], ">u4").tobytes() + b"\x00\x07"
    (folder / "train-labels-idx1-ubyte").write_bytes(labels)
    X, y = datasets.load("mnist", data_home=tmp_path)
    np.testing.assert_allclose(X, pixels.reshape(2, 9) / 255)
    np.testing.assert_array_equal(y, [1, 0])
    digits = datasets.load("mnist-digits", data_home=tmp_path)
    np.testing.assert_array_equal(digits[0], X)
    np.testing.assert_array_equal(digits[1], [0, 7])
    for content in (
        b"",
        b"hello",
        gzip.compress(b"\x00\x00\x08\x03\x00"),
        gzip.compress(head),
        gzip.compress(head + pixels.tobytes() + b"x"),
        gzip.compress(b"\x00\x00\x08\x03" + b"\x00\x01\x00\x00" * 3 + bytes(10)),  # 2**48 bytes
        images.read_bytes()[:-9],
    ):
        images.write_bytes(content)
        with pytest.raises(ValueError, match="images"):
            datasets.load("mnist", data_home=tmp_path)


# -- files


@pytest.mark.parametrize("suffix", COMPRESS)
def test_libsvm(tmp_path, suffix):
    path = tmp_path / f"rows.svm{suffix}"
    path.write_bytes(COMPRESS[suffix](TEXT))
    X, y = readers.read_file(path, dtype=np.float32)
    np.testing.assert_array_equal(X.toarray(), DENSE)
    np.testing.assert_array_equal(y, [1, -1, 1])
    assert X.dtype == np.float32
    assert X.indices.dtype == X.indptr.dtype == np.int32
    assert readers.read_file(path, n_features=5)[0].shape == (3, 5)
    with pytest.raises(ValueError, match=r"line 1: index 3 is beyond the 2 columns of n_features"):
        readers.read_file(path, n_features=2)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_truncated_libsvm(tmp_path, suffix):
    path = tmp_path / f"rows.svm{suffix}"
    whole = COMPRESS[suffix](TEXT * (20 if suffix else 5))
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        if not suffix and whole[:end].endswith(b"\n"):
            continue  # cut between two rows: nothing tells
        if not suffix and libsvm.fault(whole[:end].rpartition(b"\n")[2]) is None and end:
            told = pytest.warns(UserWarning, match=r"rows\.svm: the last line has no end")
        else:
            told = pytest.raises(ValueError, match=r"rows\.svm")
        with told:
            readers.read_file(path)


@pytest.mark.parametrize("content", [b"", b"# only a comment\n"])
def test_libsvm_without_rows(tmp_path, content):
    path = tmp_path / "rows.svm"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"rows\.svm: the file (is empty|has no rows)"):
        readers.read_file(path)


WRONG_LINES = {
    b"1 1:2 1:3": "index 1 occurs twice",
    b"1 3:1 2:1 3:1": "index 3 occurs twice",
    b"1 -1:3": "the index of '-1:3' is not between 0 and",
    b"1 4294967296:1": "the index of '4294967296:1' is not between 0 and",
    b"1 99999999999999999999:1": "the index of '99999999999999999999:1' is not between 0 and",
    b"a 1:2": "the label 'a' is not a number",
    b"1 a:2": "the index of 'a:2' is not a whole number",
    b"1 1:b # 2:c": "the value of '1:b' is not a number",
    b"1 qid 1:1": "qid has no number",
    b"1 1": "'1' is not index:value",
    b"1,2,3": "the label '1,2,3' is not a number",
    b"\x00\xff\x80": r"the label '\x00\xff\x80' is not a number",
    b"x" * 100: f"the label '{'x' * 40}...' is not a number",
}


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("line", WRONG_LINES)
def test_malformed_libsvm_names_the_line(tmp_path, line, suffix):
    path = tmp_path / f"rows.svm{suffix}"
    before, place = b"# comment\n\n" + TEXT, f"{path}, line 6: not LIBSVM text: "
    path.write_bytes(COMPRESS[suffix](before + line + b"\n" + TEXT))
    with pytest.raises(ValueError, match=re.escape(place + WRONG_LINES[line])) as caught:
        readers.read_file(path)
    assert "cut off" not in str(caught.value)
    path.write_bytes(COMPRESS[suffix](before + line))
    with pytest.raises(ValueError, match=re.escape(place + WRONG_LINES[line])) as caught:
        readers.read_file(path)
    assert "; the line has no end: the file may be cut off" in str(caught.value)


LEGAL = {
    "unsorted": b"1 3:2 1:0.5\n-1 2:1.25\n1\n",
    "unsorted later": b"1 1:0.5 3:2\n-1 2:1.25 1:0\n1\n",
    "blank lines": b"\n1 1:0.5 3:2\n  \t\n-1 2:1.25\n1\n\n",
    "comments": b"# 1 1:7\n1 1:0.5 3:2 # 4:1\n-1 2:1.25#\n1 #\n",
    "CRLF": b"1 1:0.5 3:2\r\n-1 2:1.25\r\n1\r\n\r\n",
    "qid": b"1 qid:3 1:0.5 3:2\n-1 qid:4 2:1.25\n1 qid:9\n",
    "qid, unsorted": b"1 qid:3 3:2 1:0.5 # 0\n-1 qid:4 2:1.25\n\n1 qid:9\n",
    "tabs": b"1\t1:0.5   3:2 \n -1 2:1.25\n+1.0\n",
    "numbers": b"1 01:5e-1 3:+2.\n-1e0 2:1.25\n1\n",
}


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("name", LEGAL)
def test_what_is_legal_in_libsvm_text(tmp_path, name, suffix):
    path = tmp_path / f"rows.svm{suffix}"
    path.write_bytes(COMPRESS[suffix](LEGAL[name]))
    X, y = readers.read_file(path)
    np.testing.assert_array_equal(X.toarray(), DENSE)
    np.testing.assert_array_equal(y, [1, -1, 1])
    assert X.has_canonical_format


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("content", [TEXT, LEGAL["unsorted"], LEGAL["CRLF"].rstrip() + b"\n"])
def test_a_last_line_without_an_end(tmp_path, content, suffix):
    """A decompressor knows that its file is whole; of plain text nobody does."""
    path = tmp_path / f"rows.svm{suffix}"
    path.write_bytes(COMPRESS[suffix](content[:-1]))
    told = pytest.warns(UserWarning, match=r"rows\.svm: the last line has no end")
    with contextlib.nullcontext() if suffix else told:
        X, y = readers.read_file(path)
    np.testing.assert_array_equal(X.toarray(), DENSE)
    np.testing.assert_array_equal(y, [1, -1, 1])


def test_lines_in_any_order_are_told_by_number(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_bytes(b"1 2:1 1:1\n\n1 1:1 0:1\n1 4:1 3:x\n")
    with pytest.raises(ValueError, match=r"line 4: .* the value of '3:x' is not a number"):
        readers.read_libsvm(path)
    with pytest.raises(ValueError, match=r"line 3: index 0"):
        readers.read_libsvm(path, zero_based=False)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a pipe with a name")
@pytest.mark.parametrize("content", [TEXT, LEGAL["unsorted"]])
def test_a_pipe_is_read_once(tmp_path, content):
    path = tmp_path / "rows"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(content,), daemon=True)
    writer.start()
    np.testing.assert_array_equal(readers.read_libsvm(path)[0].toarray(), DENSE)
    writer.join(10)
    assert not writer.is_alive()


def test_the_line_is_known_in_a_file_of_many_chunks(tmp_path):
    path = tmp_path / "rows.svm.gz"
    good = b"1 1:0.5 2:0.25 3:0.125\n" * 60_000
    path.write_bytes(gzip.compress(good + b"1 " + b" " * 2_500_000 + b"2:x\n" + TEXT, 1))
    with pytest.raises(ValueError, match=r"line 60001: .*'2:x'"):
        readers.read_file(path)


@pytest.mark.parametrize("size", range(1, 12))
def test_every_line_is_known_wherever_blocks_end(tmp_path, seams, size):
    seams.pieces.read = size
    lines = [b"one\n", b"\n", b"a longer one, of several blocks\n", b"\n", b"two\n", b"no end"]
    (tmp_path / "rows").write_bytes(b"".join(lines))
    with sources.Source(tmp_path / "rows") as source:
        blocks = list(source.lines())
    assert b"".join(block.text for block in blocks) == b"".join(lines)
    found = []
    for block in blocks:
        end = 0
        while end < len(block.text):
            end = block.text.find(b"\n", end) + 1 or len(block.text)
            begin, line = block.before(end)
            found.append((block.place(begin).rpartition(" ")[2], line))
    assert found == [(str(number), line) for number, line in enumerate(lines, 1)]


# -- where indices begin

FROM_0, FROM_1 = b"1 0:0.5 2:2\n-1 1:1.25\n1\n", TEXT
FROM_2 = b"1 2:1\n-1 4:2\n"


def read(path, content, **options):
    path.write_bytes(content)
    return datasets.load(path, **options)[0].toarray()


def test_indices_begin_where_it_is_said(tmp_path):
    path = tmp_path / "rows.svm"
    for zero_based in ("auto", True, np.True_):
        np.testing.assert_array_equal(read(path, FROM_0, zero_based=zero_based), DENSE)
    for zero_based in ("auto", False, np.False_):
        np.testing.assert_array_equal(read(path, FROM_1, zero_based=zero_based), DENSE)
    shifted = np.column_stack([np.zeros(3), DENSE])
    np.testing.assert_array_equal(read(path, FROM_1, zero_based=True), shifted)
    with pytest.raises(ValueError, match=r"rows\.svm, line 1: index 0, and zero_based=False says"):
        read(path, FROM_0, zero_based=False)
    with pytest.raises(ValueError, match=r"rows\.svm, line 4: index 0"):
        read(path, FROM_1 + FROM_0, zero_based=False)


@pytest.mark.parametrize("content", [FROM_0, FROM_1, FROM_2, b"1 0:2\n", b"1 1:2\n"])
def test_auto_is_scikit_learns(tmp_path, recwarn, content):
    from sklearn.datasets import load_svmlight_file

    path = tmp_path / "rows.svm"
    np.testing.assert_array_equal(
        read(path, content), load_svmlight_file(io.BytesIO(content))[0].toarray()
    )
    for zero_based in (True, False):
        if zero_based or b" 0:" not in content:
            want = load_svmlight_file(io.BytesIO(content), zero_based=zero_based)[0]
            np.testing.assert_array_equal(
                read(path, content, zero_based=zero_based), want.toarray()
            )


def test_a_guess_that_nothing_speaks_for_is_told(tmp_path):
    path = tmp_path / "rows.svm"
    with pytest.warns(UserWarning, match=r"rows\.svm: indices were taken .* the smallest is 2;"):
        assert read(path, FROM_2).shape == (2, 4)
    # no warning: it is said, or index 4 has no place in four columns that begin at 0
    assert read(path, FROM_2, zero_based=False).shape == (2, 4)
    assert read(path, FROM_2, zero_based=True).shape == (2, 5)
    assert read(path, FROM_2, n_features=4).tolist() == [[0, 1, 0, 0], [0, 0, 0, 2]]
    assert read(path, b"1\n-1\n").shape == (2, 1)


def test_a_base_is_for_libsvm_text(tmp_path, monkeypatch):
    np.save(tmp_path / "rows.npy", DENSE)
    with pytest.raises(ValueError, match=r"rows\.npy: zero_based is for files of LIBSVM text"):
        datasets.load(tmp_path / "rows.npy", zero_based=False)
    with pytest.raises(ValueError, match="digits: zero_based is for files"):
        datasets.load("digits", zero_based=True)
    for name in (tmp_path / "rows.npy", "digits"):
        with pytest.raises(ValueError, match="must be True, False or 'auto'; got 1"):
            datasets.load(name, zero_based=1)
    with pytest.raises(ValueError, match="must be True, False or 'auto'; got 'yes'"):
        read(tmp_path / "rows.svm", FROM_1, zero_based="yes")


def test_sets_with_a_name_begin_at_1(tmp_path):
    (tmp_path / "heart_scale").write_bytes(b"1 7:1\n")
    assert datasets.load("heart", data_home=tmp_path)[0].nonzero()[1].tolist() == [6]
    assert (data_catalogue.zero_based("heart"), data_catalogue.zero_based("imdb")) == (False, None)


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_plain_text_under_a_compressed_name(tmp_path, suffix):
    path = tmp_path / f"rows{suffix}"
    path.write_bytes(TEXT)
    with pytest.raises(ValueError, match=r"rows\."):
        readers.read_file(path)


def test_npz_of_every_kind(tmp_path):
    y = np.array([0, 1, 0])
    X = sparse.csr_array(DENSE)
    np.savez(tmp_path / "dense.npz", X=DENSE, y=y)
    parts = {"data": X.data, "indptr": X.indptr.astype(np.uint8), "shape": X.shape}
    np.savez(tmp_path / "parts.npz", indices=X.indices.astype(np.uint16), y=y, **parts)
    for name in ("dense.npz", "parts.npz"):
        rows, labels = readers.read_file(tmp_path / name, dtype=np.float32)
        np.testing.assert_array_equal(
            rows.toarray() if sparse.issparse(rows) else rows, DENSE.astype(np.float32)
        )
        np.testing.assert_array_equal(labels, y)
        assert rows.dtype == np.float32
    assert readers.read_file(tmp_path / "parts.npz")[0].indices.dtype == np.int32
    for kind in ("csr", "csc", "coo"):
        sparse.save_npz(tmp_path / "scipy.npz", X.asformat(kind))
        rows, labels = readers.read_file(tmp_path / "scipy.npz")
        np.testing.assert_array_equal(rows.toarray(), DENSE)
        assert labels is None


def test_npy(tmp_path):
    np.save(tmp_path / "rows.npy", DENSE)
    X, y = datasets.load(tmp_path / "rows.npy")
    np.testing.assert_array_equal(X, DENSE)
    assert y is None


CSR = {
    "data": np.ones(2),
    "indices": np.array([0, 1]),
    "indptr": np.array([0, 1, 2]),
    "shape": np.array([2, 3]),
}


@pytest.mark.parametrize(
    "arrays",
    [
        CSR | {"indices": np.array([0, 9])},
        CSR | {"indices": np.array([0, -1])},
        CSR | {"indices": np.array([0, 2**40])},
        CSR | {"indices": np.array([0.0, 1.0])},
        CSR | {"indices": np.array([[0, 1]])},
        CSR | {"indptr": np.array([0, 2, 1])},
        CSR | {"indptr": np.array([-1, 1, 2])},
        CSR | {"indptr": np.array([0, 1])},
        CSR | {"shape": np.array([2, 3, 4])},
        CSR | {"shape": np.array([2, -3])},
        CSR | {"data": np.array(["a", "b"])},
        CSR | {"data": np.ones(3)},
        CSR | {"format": np.array([1, 2])},
        CSR | {"format": np.array(b"nope")},
        {"X": np.eye(3), "y": np.arange(2)},
        {"X": np.array(["a"])},
        {"X": np.ones(3)},
        {"X": np.array([{}], dtype=object)},
        {"z": np.ones(2)},
        {},
    ],
)
def test_malformed_npz(tmp_path, arrays):
    path = tmp_path / "rows.npz"
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=r"rows\.npz: "):
        readers.read_file(path)


def test_damaged_archives_never_crash(tmp_path):
    path = tmp_path / "rows.npz"
    np.savez_compressed(path, y=np.arange(2), **CSR)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for end in range(0, len(content), 29):
        path.write_bytes(content[:end])
        with pytest.raises(ValueError, match=r"rows\.npz"):
            readers.read_file(path)
    for _ in range(200):
        broken = bytearray(content)
        for place in rng.integers(0, len(content), 3):
            broken[place] = rng.integers(256)
        path.write_bytes(broken)
        try:
            X, _ = readers.read_file(path)
        except (ValueError, MemoryError) as error:
            assert "rows.npz" in str(error)
        else:
            X.check_format(full_check=True)


def test_nothing_is_unpickled(tmp_path):
    np.save(tmp_path / "rows.npy", np.array([{}], dtype=object))
    (tmp_path / "pickled.npy").write_bytes(b"\x80\x04N.")
    for name in ("rows.npy", "pickled.npy"):
        with pytest.raises(ValueError, match=name) as caught:
            readers.read_file(tmp_path / name)
        assert "unsafely" not in str(caught.value)


def test_a_folder_does_not_hide_a_file_of_the_data_home(tmp_path, monkeypatch):
    (tmp_path / "here" / "rows").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "rows").write_text("1 1:2\n")
    monkeypatch.chdir(tmp_path / "here")
    X, _ = datasets.load("rows", data_home=tmp_path / "home")
    assert X.shape == (1, 1)
    with pytest.raises(IsADirectoryError, match="this is a folder; name a file"):
        datasets.load("rows", data_home=tmp_path)


# -- CSV, and what a file is when nobody says it


def test_csv(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a,y,b\n1,-1,2.5\n3,1,4\n")
    X, y = datasets.load(path, dtype=np.float32, label_column="y")
    np.testing.assert_array_equal(X, [[1, 2.5], [3, 4]])
    assert X.dtype == np.float32 and X.flags.c_contiguous and y.tolist() == [-1, 1]
    np.testing.assert_array_equal(datasets.load(path, label_column=-1)[1], [2.5, 4])
    X, y = datasets.load(path)
    assert X.shape == (2, 3) and y is None
    for wrong in ("c", 3, -4):
        with pytest.raises(ValueError, match=r"rows\.csv: (no column|there is no column)"):
            datasets.load(path, label_column=wrong)
    for name, options in (("digits", {"n_features": 3}), ("digits", {"label_column": 1})):
        with pytest.raises(ValueError, match=r"digits: .* is for files"):
            datasets.load(name, **options)
    (tmp_path / "rows.svm").write_bytes(TEXT)
    with pytest.raises(ValueError, match="label_column is for files of"):
        datasets.load(tmp_path / "rows.svm", label_column=1)


@pytest.mark.parametrize("size", [1, 13, 1 << 20])
def test_csv_is_read_wherever_blocks_end(tmp_path, seams, size):
    seams.pieces.read = size
    want = np.random.default_rng(0).standard_normal((9, 3)).round(3)
    lines = [", ".join(f'"{v}"' if k % 2 else str(v) for k, v in enumerate(row)) for row in want]
    (tmp_path / "rows.csv").write_text("\n  \n".join(lines))
    np.testing.assert_array_equal(datasets.load(tmp_path / "rows.csv")[0], want)
    (tmp_path / "rows.csv").write_text("\n".join([*lines, "1,2"]))
    with pytest.raises(ValueError, match=r"rows\.csv, line 10: 2 cells"):
        datasets.load(tmp_path / "rows.csv")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b"1 1:2 3:4\n", "libsvm"),
        (b"1\n-1\n", "libsvm"),
        (b"1\n-1 2:1\n", "libsvm"),
        (b"# 1,2\n1\t1:0.5\n", "libsvm"),
        (b"1 qid:3 1:2\n", "libsvm"),
        (b"a 1:x,y\n", "csv"),
        (b"1,2\n", "csv"),
        (b"1 2 3\n", "csv"),
        (b"1;2\n", "csv"),
        (b"words of a text\n", "libsvm"),
    ],
)
def test_what_text_looks_like(text, kind):
    assert sniffing.kind_of_text(text, True) == kind
    assert sniffing.kind_of_text(text[:1], False) is None
