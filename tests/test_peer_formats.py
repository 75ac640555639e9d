"""Files as other programs write them: read to the numbers that those have, or refused by name.

The texts are what gensim 4.4.0, SciPy 1.17.1, liac-arff 2.5.0, scikit-learn 1.9.1, XGBoost 3.2.0,
LightGBM 4.7.0 and Vowpal Wabbit 9.11.9 wrote of four documents, or a few rows.
"""

import codecs
import gzip
import io
import json
import os
import threading
import zlib

import numpy as np
import pytest
import scipy.io
from scipy import sparse

from hogshare import LatentDirichletAllocation, datasets
from hogshare.cli import options
from hogshare.cli.main import main
from hogshare.io import foreign, readers, sniffing
from hogshare.io.rows import Wanted
from hogshare.io.sources import Source

pytestmark = pytest.mark.usefixtures("plain_environment")

COUNTS = [[2, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0], [1, 0, 1, 2]]
MARKET = """\
%%MatrixMarket matrix coordinate real general
4 4 7                                             \n1 1 2
1 2 1
2 3 1
2 4 1
4 1 1
4 3 1
4 4 2
"""
LDAC = "2 0:2 1:1\n2 2:1 3:1\n0 \n3 0:1 2:1 3:2\n"
UCI = """\
4                   \n4                   \n7                   \n1 1 2
1 2 1
2 3 1
2 4 1
4 1 1
4 3 1
4 4 2
"""
CORPORA = {"corpus.mm": MARKET, "corpus.lda-c": LDAC, "docword.txt": UCI}
ARFF = """\
@RELATION r

@ATTRIBUTE a REAL
@ATTRIBUTE "my attr" NUMERIC
@ATTRIBUTE c {x, 'y z', 'it\\'s'}
@ATTRIBUTE s STRING
@ATTRIBUTE label {no, yes}

@DATA
1,2.5,x,hi,no
?,-3,'y z','a,b',yes
0,0,'it\\'s',?,no
"""
SPARSE_ARFF = """\
% what a filter of Weka made
@relation r
@attribute a numeric
@attribute flag {0,1}
@attribute class {neg,pos}
@data
{ 0 1.5,2 pos }
{  }
% nothing
{1 1}
{1 1,0 -2e1,2 'pos'}
"""
SPARSE_ROWS = [[1.5, 0], [0, 0], [0, 1], [-20, 1]]
SPARSE_LABELS = ["pos", "neg", "neg", "pos"]


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def array_of(X):
    return X.toarray() if sparse.issparse(X) else X


def kind_of(path):
    with Source(path) as source:
        return readers.settled(source, Wanted()).kind


# -- counts of words


@pytest.mark.parametrize("name", CORPORA)
@pytest.mark.parametrize("packed", [False, True])
def test_a_corpus_has_a_row_for_each_document(tmp_path, name, packed):
    content = CORPORA[name].encode()
    path = tmp_path / (name + ".gz" * packed)
    write(path, gzip.compress(content) if packed else content)
    X, y = datasets.load(path, dtype=np.float32)
    assert y is None and isinstance(X, sparse.csr_array) and X.dtype == np.float32
    assert X.indices.dtype == np.int32 and X.nnz == 7
    np.testing.assert_array_equal(X.toarray(), COUNTS)


@pytest.mark.parametrize("name", CORPORA)
def test_topics_of_a_corpus(capsys, tmp_path, name):
    data, model = write(tmp_path / name, CORPORA[name]), tmp_path / "m.npz"
    settings = "--n-topics", 2, "--epochs", 3, "--n-jobs", 1, "--seed", 0
    code, _, err = run(
        *(capsys, "fit", data, "--estimator", "topics", "--model", model, *settings),
    )
    assert code == 0, err
    assert "4 rows, 4 columns, 7 nonzeros" in err and "taken for" not in err
    code, out, err = run(capsys, "predict", model, data)
    assert code == 0, err
    found = np.array([line.split("\t") for line in out.splitlines()], dtype=float)
    expected = LatentDirichletAllocation(
        2, learning_method="online", max_iter=3, n_jobs=1, random_state=0
    ).fit(np.array(COUNTS, float))
    np.testing.assert_allclose(found, expected.transform(np.array(COUNTS, float)), rtol=1e-6)


def test_ldac_is_no_libsvm_text_and_that_is_said(capsys, tmp_path):
    path, model = write(tmp_path / "corpus.txt", LDAC), tmp_path / "m.npz"
    with pytest.warns(UserWarning, match=r"corpus.txt: .*taken for LDA-C.*format='libsvm'"):
        X, y = datasets.load(path)
    assert y is None
    np.testing.assert_array_equal(X.toarray(), COUNTS)
    np.testing.assert_array_equal(datasets.load(path, format="ldac")[0].toarray(), COUNTS)
    assert datasets.load(path, format="libsvm")[1].tolist() == [2, 2, 0, 3]
    # who says where indices begin has LIBSVM text
    assert datasets.load(path, zero_based=True)[1].tolist() == [2, 2, 0, 3]
    asked = "--estimator", "topics", "--n-topics", 2, "--epochs", 1, "--n-jobs", 1
    code, _, err = run(capsys, "fit", path, "--model", model, *asked)
    assert code == 0 and "corpus.txt: its lines begin with the number of their pairs" in err
    assert "use --format libsvm if it is LIBSVM text" in err and "labels are ignored" not in err
    for said in (["--format", "libsvm"], ["--zero-based"]):
        code, _, err = run(capsys, "fit", path, "--model", model, *asked, *said)
        assert code == 0 and "taken for" not in err and "labels are ignored" in err
    code, _, err = run(capsys, "predict", model, path, "--format", "ldac")
    assert code == 0 and "taken for" not in err


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("2 0:2 3:1\n1 1:4\n", "ldac"),
        ("0\n1 1:4\n", "ldac"),
        ("1 1:4\n1 2:3\n", "libsvm"),  # the same number in all lines may be a label
        ("2 0:2 3:1\n1 1:0.5\n", "libsvm"),
        ("2 0:2 3:1\n1\n", "libsvm"),
        ("2 0:2 3:1\n-1 1:4\n", "libsvm"),
        ("0\n1\n", "libsvm"),
        ("9" * 5000 + " 0:1\n1 1:4\n", "libsvm"),
        ("2\n3\n1\n1 3 4\n", "uci"),
        ("2\n3\n1\n1 3\n", "csv"),
        ("2\n3\n", "libsvm"),
    ],
)
def test_what_lines_of_whole_numbers_look_like(text, kind):
    assert sniffing.kind_of_text(text.encode(), True) == kind


@pytest.mark.parametrize("sparse_fit", [False, True])
def test_a_model_of_scaled_columns_predicts_the_same_rows_of_any_format(
    capsys, tmp_path, sparse_fit
):
    rows = [(1, 0, "a"), (2, 1, "b"), (3, 0, "a"), (0, 1, "b"), (5, 2, "b")]
    head = (
        "@relation r\n@attribute x numeric\n@attribute z numeric\n@attribute class {a,b}\n@data\n"
    )
    other = "@relation r\n@attribute class {a,b}\n@attribute z real\n@attribute x real\n@data\n"
    texts = {
        "d.arff": head + "".join(f"{x},{z},{c}\n" for x, z, c in rows),
        "s.arff": head + "".join(f"{{0 {x},1 {z},2 {c}}}\n" for x, z, c in rows),
        "other.arff": other + "".join(f"{{0 {c},1 {z},2 {x}}}\n" for x, z, c in rows),
        "other.csv": "z,x\n" + "".join(f"{z},{x}\n" for x, z, _ in rows),
        "m.mtx": "%%MatrixMarket matrix coordinate real general\n5 2 10\n"
        + "".join(f"{k} 1 {x}\n{k} 2 {z}\n" for k, (x, z, _) in enumerate(rows, 1)),
    }
    files = [write(tmp_path / name, text) for name, text in texts.items()]
    fitted, model = files[int(sparse_fit)], tmp_path / "m.npz"
    code, _, err = run(capsys, "fit", fitted, "--model", model, "--scale", "--n-jobs", 1)
    assert code == 0, err
    found = [run(capsys, "predict", model, path, "--proba") for path in files]
    assert [(code, out) for code, out, _ in found] == [(0, found[0][1])] * len(files)
    assert not any("feature names" in err for *_, err in found)


@pytest.mark.parametrize("before", [b"", codecs.BOM_UTF8])
def test_large_ldac_is_known_though_its_beginning_ends_inside_a_line(tmp_path, before):
    path = tmp_path / "corpus.txt"
    path.write_bytes(before + b"3 0:1 1:12345 2:1\n1 5:2\n" * 50_000)
    with pytest.warns(UserWarning, match="taken for LDA-C"):
        X, y = datasets.load(path)
    assert y is None and X.shape == (100_000, 6)
    small = before + CORPORA["docword.txt"].encode()
    assert sniffing.kind_of_text(small, True) == "uci"


def test_a_pipe_is_asked_for_more_while_counts_are_the_same(monkeypatch, tmp_path):
    assert sniffing.kind_of_text(b"1 1:4\n1 2:3\n", False) is None
    assert sniffing.kind_of_text(b"1 1:4\n1 2:3\n1 5:0.5\n", False) == "libsvm"
    # unless it is known where indices begin: who sends a row may wait for its prediction
    assert sniffing.kind_of_text(b"1 1:4\n", False, counts=False) == "libsvm"
    with Source(write(tmp_path / "rows", "1 1:4\n2 1:1 2:1\n")) as source:
        monkeypatch.setattr(sniffing, "_counts_pairs", None)
        assert readers.settled(source, Wanted(zero_based=False)).kind == "libsvm"


def test_a_name_that_says_ldac_comes_before_where_the_models_indices_begin(capsys, tmp_path):
    rows, model = write(tmp_path / "rows.svm", "1 1:5\n0 2:1\n1 1:3 3:1\n0 3:2\n"), tmp_path / "m"
    code, _, err = run(capsys, "fit", rows, "--model", model, "--one-based", "--n-jobs", 1)
    assert code == 0, err
    terms = write(tmp_path / "new.ldac", "1 1:7\n2 1:5 2:1\n")  # terms from 0
    same = write(tmp_path / "new.svm", "0 2:7\n0 2:5 3:1\n")
    one, other = (run(capsys, "predict", model, path, "--proba")[:2] for path in (terms, same))
    assert one == other
    code, _, err = run(capsys, "predict", model, terms, "--one-based")
    assert code == 2 and "--one-based is for files of LIBSVM text" in err


def test_fewer_terms_than_the_model_has_and_more(capsys, tmp_path):
    model = tmp_path / "m.npz"
    data = write(tmp_path / "c.ldac", LDAC)
    asked = "--estimator", "topics", "--n-topics", 2, "--epochs", 1, "--n-jobs", 1
    assert run(capsys, "fit", data, "--model", model, *asked, "--n-features", 6)[0] == 0
    few = write(tmp_path / "few.ldac", "1 0:3\n2 0:1 9:1\n")
    code, out, err = run(capsys, "predict", model, few)
    assert code == 0 and len(out.splitlines()) == 2, err
    assert "few.ldac: 1 value beyond the 6 columns of the model left out" in err
    code, _, err = run(capsys, "fit", data, "--model", model, *asked, "--n-features", 2)
    assert code == 1 and "c.ldac, line 2: index 3 is beyond the 2 columns of --n-features" in err


def test_a_format_by_its_name(tmp_path):
    assert set(options.FORMATS) == set(readers.NAMED)
    path = write(tmp_path / "rows", MARKET)
    with pytest.raises(ValueError, match=r"format must be None or one of libsvm, .*; got 'mm'"):
        datasets.load(path, format="mm")
    with pytest.raises(ValueError, match="format is for files, and this is the name of a data set"):
        datasets.load("zipf-small", format="csv")
    with pytest.raises(ValueError, match=r"rows: n_features is for files of LIBSVM text or LDA-C"):
        datasets.load(path, n_features=4)


# -- MatrixMarket


def market(head, *lines):
    return "\n".join([f"%%MatrixMarket matrix {head}", *lines, ""])


SCIPY = {
    "real": ("coordinate real general", "%", "3 3 4", "1 1 1", "1 3 2.5", "3 2 1E-12", "3 3 3"),
    "integer": ("coordinate integer general", "%", "3 3 4", "1 1 1", "1 3 2", "3 2 0", "3 3 3"),
    "pattern": ("coordinate pattern general", "3 2 2", "1 1", "3 2"),
    "symmetric": ("coordinate real symmetric", "%", "3 3 4", "1 1 1", "2 1 2", "3 2 3", "3 3 4"),
    "upper": ("coordinate real symmetric", "3 3 2", "1 2 1", "3 3 2"),
    "skew": ("coordinate real skew-symmetric", "%", "2 2 1", "2 1 -2"),
    "zero": ("coordinate real general", "%", "1 2 2", "1 1 0", "1 2 1"),
    "twice": ("coordinate real general", "2 2 4", "1 2 1", "2 1 5", "1 2 2", "1 2 -3"),
    "empty": ("coordinate real general", "2 3 0"),
    "dense": ("array real general", "%", "3 2", "1", "0", "0", "0", "0", "1E-12"),
    "triangle": ("array integer symmetric", "2 2", "1", "2", "3"),
}


@pytest.mark.parametrize("name", SCIPY)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_matrix_is_what_scipy_reads(tmp_path, name, end):
    text = market(*SCIPY[name]).replace("\n", end)
    expected = scipy.io.mmread(io.BytesIO(text.encode()))
    X, y = datasets.load(write(tmp_path / "rows.mtx", text))
    assert y is None and X.shape == expected.shape
    assert isinstance(X, np.ndarray) != sparse.issparse(expected)
    np.testing.assert_array_equal(array_of(X), array_of(expected))
    if sparse.issparse(X):
        assert X.nnz == sparse.csr_array(expected).nnz  # zeros that are stored stay


def test_what_scipy_writes_is_read(tmp_path):
    draws = np.random.default_rng(0)
    rows = sparse.random_array((40, 30), density=0.2, rng=draws, format="csr")
    for matrix in (rows, rows.astype(bool), (9 * rows).astype(int), rows.toarray()):
        scipy.io.mmwrite(tmp_path / "rows.mtx", matrix)
        X = array_of(datasets.load(tmp_path / "rows.mtx")[0])
        np.testing.assert_array_equal(X, array_of(scipy.io.mmread(tmp_path / "rows.mtx")))


def test_a_matrix_that_is_read_in_many_blocks(tmp_path, seams):
    seams.pieces.read = 64
    lines = [f"{k // 7 + 1} {k % 7 + 1} {k}" for k in range(140)]
    path = write(tmp_path / "m.mtx", market("coordinate real general", "20 7 140", *lines))
    np.testing.assert_array_equal(datasets.load(path)[0].toarray(), np.arange(140.0).reshape(20, 7))


REAL = "coordinate real general"
HUGE = 10**15
WRONG_MARKETS = [
    (("coordinate complex general", "1 1 1", "1 1 1 0"), "m.mtx: the matrix is complex"),
    (("array complex hermitian", "1 1", "1 0"), "m.mtx: the matrix is complex"),
    (("coordinate real", "1 1 1", "1 1 1"), "m.mtx: not MatrixMarket, whose first line is"),
    (("list real general", "1 1 1", "1 1 1"), "m.mtx: a matrix of MatrixMarket that is not read"),
    (("array pattern general", "1 1", "1"), "m.mtx: a matrix of MatrixMarket that is not read"),
    ((REAL,), "m.mtx: the file ends in its header"),
    ((REAL, "% 2 2 2"), "m.mtx: the file ends in its header"),
    ((REAL, "2 2"), "m.mtx, line 2: rows, columns and entries of the matrix were expected"),
    ((REAL, "2 2 -1"), "m.mtx, line 2: rows, columns and entries"),
    ((REAL, "2 2 nan"), "m.mtx, line 2: rows, columns and entries"),
    ((REAL, f"2 2 {'9' * 5000}"), "m.mtx, line 2: rows, columns and entries"),
    ((REAL, "2 2 2", "1 1 1"), "m.mtx: its header says 2 entries, but the file has 1: it may"),
    ((REAL, "2 2 1", "1 1 1", "2 2 2"), "m.mtx: its header says 1 entry, but the file has more"),
    ((REAL, f"2 2 {HUGE}", "1 1 1"), "m.mtx: its header says 1,000,000,000,000,000 entries"),
    ((REAL, f"{HUGE} 2 1", "1 1 1"), "m.mtx: .* more than 500 times the file's"),
    ((REAL, "2 2 1", "0 1 1"), "m.mtx, line 3: row 0 must be a whole number from 1 to 2"),
    (
        (REAL, "2 2 2", "1 1 1", "1 3 1"),
        "m.mtx, line 4: column 3 must be a whole number from 1 to 2",
    ),
    ((REAL, "2 2 1", "-1 1 1"), "m.mtx, line 3: row -1"),
    ((REAL, "2 2 1", "1.5 1 1"), "m.mtx, line 3: row 1.5"),
    ((REAL, "2 2 1", "nan 1 1"), "m.mtx, line 3: row nan"),
    ((REAL, "2 2 1", "1 1"), "m.mtx, line 3: 3 numbers were expected, got '1 1'"),
    ((REAL, "2 2 1", "1 1 1 5"), "m.mtx, line 3: 3 numbers were expected"),
    ((REAL, "2 2 2", "1 1 1", "", "1 2 x"), "m.mtx, line 5: 3 numbers were expected"),
    ((REAL, "2 2 1", "1 1 1_0"), "m.mtx, line 3: 3 numbers were expected"),
    ((REAL, "2 2 1", "1 1 1\0"), "m.mtx, line 3: 3 numbers were expected"),
    (("coordinate integer general", "2 2 1", "1 1 1.5"), "m.mtx, line 3: the value is 1.5, and th"),
    (("coordinate real symmetric", "2 3 1", "1 1 1"), "m.mtx, line 2: 2 rows and 3 columns are no"),
    (("coordinate real symmetric", "2 2 2", "1 2 1", "2 1 1"), "m.mtx: a symmetric matrix, and en"),
    (
        ("coordinate real skew-symmetric", "2 2 1", "2 2 1"),
        "m.mtx: a skew-symmetric matrix, and en",
    ),
    (
        ("array real general", "2 2", "1", "2", "3"),
        "m.mtx: its header says 4 numbers, but the file",
    ),
    (
        ("array real general", "1 1", "1", "2"),
        "m.mtx: its header says 1 numbers, but the file has mo",
    ),
    (("array real general", f"{HUGE} {HUGE}", "1"), "m.mtx: its header says 1,000,000,000,000,000"),
    (("array real symmetric", f"{HUGE} {HUGE}", "1"), "m.mtx: its header says 500,000,000,000,000"),
]


@pytest.mark.parametrize(("lines", "why"), WRONG_MARKETS)
def test_a_matrix_that_is_malformed_names_its_file(tmp_path, lines, why):
    path = write(tmp_path / "m.mtx", market(*lines))
    with pytest.raises(ValueError, match=why) as caught:
        datasets.load(path)
    assert str(caught.value).startswith(str(path))


def test_values_that_are_not_finite(capsys, tmp_path):
    text = market(REAL, "2 2 2", "1 1 1", "2 2 nan")
    path = write(tmp_path / "m.mtx", text)
    assert np.isnan(datasets.load(path)[0].toarray()[1, 1])
    labels = write(tmp_path / "y.txt", "1\n0\n")
    asked = "fit", path, "--labels", labels, "--model", tmp_path / "m.npz"
    code, _, err = run(capsys, *asked)
    assert code == 1 and "m.mtx: the value of row 2, column 2 is nan, and a model needs" in err
    write(path, text.replace("nan", "3"))
    assert run(capsys, *asked, "--n-jobs", 1)[0] == 0
    code, _, err = run(capsys, "fit", path, "--model", tmp_path / "m.npz")
    assert code == 1 and "m.mtx has no labels: name them with --labels FILE" in err


def test_a_matrix_is_no_list_of_labels(tmp_path):
    path = write(tmp_path / "y.mtx", market("array real general", "2 1", "1", "0"))
    with pytest.raises(ValueError, match=r"y.mtx: a matrix, and labels are one array, or text"):
        readers.read_labels(path)


# -- bags of words, and LDA-C


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2\n3\n", "bag: the file ends in its header"),
        ("2\n3\nx\n1 1 1\n", "bag, line 3: the number of entries was expected, got 'x'"),
        ("2\n3\n2\n1 1 1\n", "bag: its header says 2 entries, but the file has 1"),
        ("2\n3\n1\n1 1 1\n1 2 1\n", "bag: its header says 1 entry, but the file has more"),
        ("2\n3\n1\n3 1 1\n", "bag, line 4: row 3 must be a whole number from 1 to 2"),
        ("2\n3\n1\n1 4 1\n", "bag, line 4: column 4 must be a whole number from 1 to 3"),
        ("2\n3\n1\n1 0 1\n", "bag, line 4: column 0"),
        ("2\n3\n1\n1 1 nan\n", "bag, line 4: the value is nan, and the header says"),
        ("2\n3\n1\n1 1 1.5\n", "bag, line 4: the value is 1.5, and the header says"),
        ("2\n3\n1\n1 1 -2\n", "bag: entry 1 is a count of -2"),
        ("2\n3\n1\n1 1 1\0\n", "bag, line 4: 3 numbers were expected"),
        (f"{HUGE}\n3\n1\n1 1 1\n", "bag: .* more than 500 times the file's"),
        (f"2\n3\n{HUGE}\n1 1 1\n", "bag: its header says 1,000,000,000,000,000 entries"),
    ],
)
def test_a_bag_of_words_that_is_malformed(tmp_path, text, why):
    path = write(tmp_path / "bag", text)
    with pytest.raises(ValueError, match=why) as caught:
        datasets.load(path, format="uci")
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2 0:2 1:1\n3 0:1\n", "c.ldac, line 2: not LDA-C: the line begins with 3, and has 1 pair"),
        ("\n1 0:2\n1.5 0:1\n", "c.ldac, line 3: not LDA-C: the line begins with 1.5, and has 1 p"),
        ("x 0:2\n", "c.ldac, line 1: not LDA-C: the count 'x' is not a number"),
        ("1 -1:2\n", "c.ldac, line 1: not LDA-C: the index of '-1:2' is not between 0"),
        ("1 99999999999:2\n", "c.ldac, line 1: not LDA-C: the index of '99999999999:2' is not"),
        ("2 1:2 1:3\n", "c.ldac, line 1: not LDA-C: index 1 occurs twice"),
        ("1 1:x\n", "c.ldac, line 1: not LDA-C: the value of '1:x' is not a number"),
        ("1 1:2\0\n", "c.ldac, line 1: not LDA-C"),
        ("2 1:2 3", "c.ldac, line 1: not LDA-C: '3' is not index:value; the line has no end"),
        ("", "c.ldac: the file is empty"),
    ],
)
def test_ldac_that_is_malformed(tmp_path, text, why):
    path = write(tmp_path / "c.ldac", text)
    with pytest.raises(ValueError, match=why) as caught:
        datasets.load(path)
    assert str(caught.value).startswith(str(path))


# -- ARFF


def test_a_dense_table(capsys, tmp_path):
    data, model = write(tmp_path / "t.arff", "% note\n\n" + ARFF), tmp_path / "m.npz"
    assert kind_of(data) == "arff"
    code, _, err = run(capsys, "fit", data, "--model", model, "--n-jobs", 1)
    assert code == 0, err
    assert "the labels are column 5 ('label'), by its name" in err
    assert "a: 1 of 3 missing, filled with the mean 0.5" in err
    assert "categories: c (3), s (2 and missing)" in err
    code, out, err = run(capsys, "predict", model, data)
    assert (code, out.split()) == (0, ["no", "yes", "no"]), err
    # columns are found by their names, in whatever file
    csv = write(tmp_path / "t.csv", 'my attr,c,s,a\n2.5,x,hi,1\n-3,y z,"a,b",\n0,it\'s,,0\n')
    code, out, err = run(capsys, "predict", model, csv)
    assert (code, out.split()) == (0, ["no", "yes", "no"]), err


def test_numbers_of_a_dense_table(tmp_path):
    text = "@relation r\n@attribute a real\n@attribute class{-1, 1}\n@data\n1.5 ,\t1\n?, -1\n"
    text = text.replace(",\t", ",")
    X, y = datasets.load(write(tmp_path / "t", text), label_column="class")
    np.testing.assert_array_equal(X, [[1.5], [np.nan]])
    assert y.tolist() == [1, -1]
    tabs = text.replace(" ,1", "\t1").replace("?, -1", "?\t -1")
    np.testing.assert_array_equal(datasets.load(write(tmp_path / "t", tabs))[0][:, 1], [1, -1])


def test_sparse_rows(tmp_path):
    path = write(tmp_path / "t.arff", SPARSE_ARFF)
    assert kind_of(path) == "sparse-arff"
    for label in ("class", -1):
        X, y = datasets.load(path, label_column=label, dtype=np.float32)
        assert isinstance(X, sparse.csr_array) and X.dtype == np.float32 and X.has_sorted_indices
        np.testing.assert_array_equal(X.toarray(), np.array(SPARSE_ROWS, np.float32))
        # what a row leaves out is the first value that is declared
        assert y.tolist() == SPARSE_LABELS
    with pytest.raises(ValueError, match=r"t.arff: column 3 \('class'\) is text, and sparse"):
        datasets.load(path)


def test_sparse_rows_of_the_command(capsys, tmp_path):
    data, model = write(tmp_path / "t.arff", SPARSE_ARFF), tmp_path / "m.npz"
    for more in ([], ["--scale"], ["--drop", "flag"]):
        code, _, err = run(capsys, "fit", data, "--model", model, "--n-jobs", 1, *more)
        assert code == 0 and "the labels are column 3 ('class'), by its name" in err, err
        assert f"4 rows, {1 if '--drop' in more else 2} column" in err
        code, out, err = run(capsys, "predict", model, data)
        assert code == 0 and len(out.split()) == 4, err
    assert run(capsys, "fit", data, "--model", model, "--n-jobs", 1)[0] == 0
    first, *_, last = run(capsys, "predict", model, data)[1].split()
    # columns are found by their names, in another order
    other = "@relation r\n@attribute flag {0,1}\n@attribute a real\n@data\n{1 1.5}\n{0 1,1 -20}\n"
    code, out, err = run(capsys, "predict", model, write(tmp_path / "o.arff", other))
    assert (code, out.split()) == (0, [first, last]) and first != last, err


HEAD = "@relation r\n@attribute a numeric\n@attribute c {x,y}\n@data\n"
WRONG_ARFFS = [
    ("@relation r\n@data\n1\n", "t.arff: there are no attributes before @data"),
    ("@relation r\n@attribute a numeric\n", "t.arff: not ARFF, or cut off: there is no line @data"),
    ("@relation r\n@atribute a\n@data\n1\n", "t.arff, line 2: not ARFF: '@atribute a' is no"),
    (
        "@relation r\n@attribute a\n@data\n1\n",
        "t.arff, line 2: the attribute 'a' is of the type ''",
    ),
    ("@relation r\n@attribute a {x\n@data\n1\n", "t.arff, line 2: the attribute 'a' is of the typ"),
    (
        "@relation r\n@attribute b relational\n@attribute a real\n@end b\n@data\n1\n",
        r"t.arff, line 2: the attribute 'b' is a table itself \(relational\)",
    ),
    (
        "@relation r\n@attribute a real\n@attribute a real\n@data\n1,2\n",
        "t.arff, line 3: two attributes are called 'a'",
    ),
    ("@relation r\n@attribute d date\n@data\n'2020-01-01'\n", r"column 1 \('d'\) has dates or tim"),
    (HEAD, "t.arff: the file has no rows"),
    (HEAD + "1,x\n1\n", "t.arff, line 6: 1 cell, separated by commas, for 2 attri"),
    (HEAD + "1,x,{2}\n", "t.arff, line 5: a row with its weight in braces"),
    (HEAD + "1,x\nz,x\n", r"t.arff, line 6, column 1 \('a'\): 'z' is not a number"),
    (HEAD + "1,x\n1,z\n", r"t.arff, line 6, column 2 \('c'\): 'z' is none of its values"),
    (
        HEAD + "1,x\n,x\n",
        r"t.arff, line 6, column 1 \('a'\): '' is not a number; \? says that a val",
    ),
    (HEAD + "1,'x\n", "t.arff, line 5: a quote is not closed"),
    (HEAD + "1_0,x\n", r"t.arff, line 5, column 1 \('a'\): '1_0' is not a number"),
    (HEAD + "1,x\0\n", "t.arff, line 5: a zero byte"),
    (HEAD + "1,x\n{0 1}\n", "t.arff, line 6: a sparse row, and the first one is not"),
    (HEAD + "{0 1}\n1,x\n", "t.arff, line 6: not a sparse row"),
    (HEAD + "{0 1}\n{0 1\n", "t.arff, line 6: not a sparse row"),
    (HEAD + "{0 1}\n{0 1}, {2}\n", "t.arff, line 6: a row with its weight in braces"),
    (HEAD + "{0 1}\n{2 1}\n", "t.arff, line 6: index 2 is not below the number of attributes, 2"),
    (HEAD + "{0 1}\n{-1 1}\n", "t.arff, line 6: '-1 1' is not INDEX VALUE"),
    (
        HEAD + "{0 1}\n{%s 1}\n" % ("9" * 5000),
        "t.arff, line 6: index 9{20} is not below the number of attributes, 2",
    ),
    (HEAD + "{0 1}\n{0 1,0 2}\n", "t.arff, line 6: index 0 occurs twice"),
    (HEAD + "{0 1}\n{0}\n", "t.arff, line 6: '0' is not INDEX VALUE"),
    (HEAD + "{0 1}\n{1 z}\n", r"t.arff, line 6, column 2 \('c'\): 'z' is none of its values"),
    (HEAD + "{0 1}\n{0 z}\n", r"t.arff, line 6, column 1 \('a'\): 'z' is not a number"),
    (HEAD + "{0 1}\n{1 ?}\n", r"t.arff, line 6, column 2 \('c'\): the label is missing"),
    (HEAD + "{0 1}\n{1 'y}\n", "t.arff, line 6: a quote is not closed"),
    (
        HEAD.replace("x,y", "x,none") + "1,x\n",
        r"column 2 \('c'\): the label 'none' would be read as mis",
    ),
    (
        HEAD.replace("{x,y}", "string") + "{0 1}\n",
        r"column 2 \('c'\) is a string, which has no first value",
    ),
    (
        HEAD.replace("numeric", "{1,0}") + "{1 y}\n",
        r"column 1 \('a'\): sparse rows leave out its f",
    ),
]


@pytest.mark.parametrize(("text", "why"), WRONG_ARFFS)
def test_arff_that_is_malformed(tmp_path, text, why):
    path = write(tmp_path / "t.arff", text)
    label = "c" if "attribute c" in text else None
    with pytest.raises(ValueError, match=why) as caught:
        datasets.load(path, label_column=label)
    assert str(caught.value).startswith(str(path))


def test_missing_numbers_of_sparse_rows(capsys, tmp_path):
    path = write(tmp_path / "t.arff", HEAD + "{0 1}\n{0 ?,1 y}\n")
    X, _ = datasets.load(path, label_column="c")
    assert np.isnan(X.toarray()[1, 0])
    code, _, err = run(
        *(capsys, "fit", path, "--label-column", "c", "--model", tmp_path / "m.npz"),
    )
    assert code == 1 and "t.arff, line 6, column 1 ('a'): the value is missing, and sparse" in err


# -- what is refused by name


FOREIGN = [
    ("rows.vw", "0 1 | 0:1 1:2\n1 1 | 0:3 1:4\n", "text of Vowpal Wabbit"),
    ("rows", "1 | a:1.5 b=x\n-1 | a:2.0 b=z", "text of Vowpal Wabbit"),
    ("rows", "1 2 'tag|f x:3 y |g z\n|f x:1\n", "text of Vowpal Wabbit"),
    ("rows.vw", "1 |f the cat\n", "text of Vowpal Wabbit"),
    ("rows", "1 |f a b c\n-1 |f b d |g a\n", "text of Vowpal Wabbit.*--format csv"),
    ("x.buffer", b"\x01\xab\xff\xffversion:\x03\0\0\0", "a binary DMatrix of XGBoost"),
    ("l.bin", b"______LightGBM_Binary_File_Token______\n\0\x98\0", "a binary data set of LightGBM"),
    ("m.txt", "tree\nversion=v4\nnum_class=1\n", "a model of LightGBM and no rows"),
    ("m.json", '{"name": "tree", "version": "v4", "num_class": 1}', "a model of LightGBM"),
    ("m.json", '{"learner":{"attributes":{},"feature_names":[]}}', "a model of XGBoost and no ro"),
    ("m.ubj", b"{L\0\0\0\0\0\0\0\x07learner{L\0", "a model of XGBoost"),
    ("dump.txt", "booster[0]:\n0:[f0<10] yes=1,no=2,missing=2\n", "a model of XGBoost"),
    *((f"p{k}", bytes([0x80, k]) + b"}q\0.", "a pickle, never loaded") for k in (2, 3, 4, 5)),
    ("p0", "(dp0\nVa\np1\nI1\ns.", "a pickle, never loaded"),
    ("m.joblib", zlib.compress(b"\x80\x04\x95" + bytes(99), 3), "compressed by zlib, as joblib"),
    ("a.mat", b"MATLAB 5.0 MAT-file Platform: posix\0\x01IM", "a MAT-file of Matlab"),
    ("a.rds", gzip.compress(b"X\n\0\0\0\x03\0\x04", mtime=0), "data of R: write CSV"),
    ("a.xml", '<?xml version="1.0"?>\n<dataset/>', "XML: write CSV"),
]


@pytest.mark.parametrize(("name", "content", "why"), FOREIGN)
def test_what_is_refused_by_its_name(tmp_path, name, content, why):
    path = write(tmp_path / name, content)
    with pytest.raises(ValueError, match=why) as caught:
        datasets.load(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_line_of_digits_is_read_once():
    assert not foreign.is_vowpal(b"1" * 1_000_000 + b"\n")
    assert not foreign.is_vowpal(b"1 |" + b"1" * 1_000_000 + b"\n")


@pytest.mark.parametrize(
    "text",
    ["1|2|3\n4|5|6\n", "1 | 2 | 3\n4 | 5 | 6\n", "a|b\n1|the cat\n", "1 |2\n3 |a\n"],
)
def test_bars_between_cells_are_not_of_vowpal_wabbit(tmp_path, text):
    assert not foreign.is_vowpal(text.encode())
    assert kind_of(write(tmp_path / "rows", text)) == "csv"


def test_a_header_that_begins_as_bzip2_does_is_text(tmp_path):
    X, _ = datasets.load(write(tmp_path / "hours", "BZhours,b\n1,2\n"))
    np.testing.assert_array_equal(X, [[1, 2]])


@pytest.mark.parametrize("name, text", CORPORA.items())
def test_a_last_line_without_an_end_is_doubted(tmp_path, name, text):
    path = write(tmp_path / name, text.rstrip("\n"))
    with pytest.warns(UserWarning, match="the last line has no end; if the file was cut off"):
        datasets.load(path)
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(text.rstrip("\n").encode()))
    datasets.load(packed)


@pytest.mark.parametrize("end", ["", "\n", "\r\n", '\n{"name": "bush"}\n'])
def test_json_lines_are_no_model(tmp_path, end):
    path = write(tmp_path / "rows", json.dumps({"name": "tree", "height": 4}) + end)
    assert kind_of(path) == "jsonl"


def test_an_object_that_comes_in_pieces():
    reading, writing = os.pipe()
    os.write(writing, b'{"name": "tree", ')
    later = threading.Timer(0.05, os.write, [writing, b'"height": 4}\n'])
    with Source(f"/dev/fd/{reading}") as source:
        later.start()
        assert sniffing.kind_of(source) == "jsonl"
    later.join()
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("name", ["rows", "rows.svm"])
def test_a_weight_behind_the_label_is_not_lost(tmp_path, name):
    path = write(tmp_path / name, "1 1:2\n1:0.5 1:2 2:3\n")
    with pytest.raises(ValueError, match=r"line 2: .*'1:0.5' is a label with its weight"):
        datasets.load(path)


# -- labels


def test_labels_that_liblinear_takes_for_one_class(capsys, tmp_path):
    """It casts labels to whole numbers: 1.2 and 1.8 are one class to it."""
    data, model = write(tmp_path / "rows.svm", "1.2 1:1\n1.8 1:2\n" * 4), tmp_path / "m.npz"
    code, _, err = run(capsys, "fit", data, "--model", model, "--task", "classification")
    assert code == 1 and "the labels of" in err and "are continuous, and classes are not" in err
    assert not model.exists()
    code, _, err = run(capsys, "fit", data, "--model", model, "--n-jobs", 1)
    assert code == 0 and "the labels are numbers: fitting Ridge" in err
    code, out, _ = run(capsys, "predict", model, data)
    low, high = map(float, out.split()[:2])
    assert code == 0 and 1.2 <= low < high <= 1.8
