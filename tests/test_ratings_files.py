"""Ratings in files of every kind, by `datasets.read_ratings` and by the command."""

import json

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import hogshare
from hogshare import datasets
from hogshare.cli.main import main

ROWS = [("u1", "7", 4.5), ("u1", "07", 0.0), ("u2", "7", 3.0), ("u2", "7", 1.0)]
TEXTS = {
    "two_colons": "u1::7::4.5::9\nu1::07::0::9\nu2::7::3::9\nu2::7::1::9\n",
    "two_colons_named": "UserID::MovieID::Rating\nu1::7::4.5\nu1::07::0\nu2::7::3\nu2::7::1\n",
    "tabs": "u1\t7\t4.5\t881250949\nu1\t07\t0\t1\nu2\t7\t3\t1\nu2\t7\t1\t1\n",  # ml-100k
    "commas_named": "userId,movieId,rating,timestamp\nu1,7,4.5,1\nu1,07,0,1\nu2,7,3,1\nu2,7,1,1\n",
    "blanks": "u1 7 4.5\nu1 07 0\nu2 7 3\nu2 7 1\n",  # LIBMF
    "bars": "u1|7|4.5\nu1|07|0\nu2|7|3\nu2|7|1\n",
    "semicolons": 'user;item;"rating"\nu1;7;4.5\nu1;07;0\nu2;7;3\nu2;7;1\n',
}


def rows_of(found):
    users, items, ratings = found
    return list(zip(users.tolist(), items.tolist(), ratings.tolist(), strict=True))


@pytest.mark.parametrize("form", TEXTS)
def test_text_of_every_form_has_the_same_ratings(tmp_path, form):
    path = tmp_path / "r.dat"
    path.write_text(TEXTS[form])
    users, items, ratings = datasets.read_ratings(path)
    assert rows_of((users, items, ratings)) == ROWS
    assert (users.dtype.kind, items.dtype.kind, ratings.dtype) == ("U", "U", np.float64)


def test_what_is_between_cells_and_a_header_can_be_said(tmp_path):
    path = tmp_path / "r.txt"
    path.write_text("a,b::c::1\na,d::c::2\n")
    users, items, _ = datasets.read_ratings(path, delimiter="::")
    assert (users.tolist(), items.tolist()) == (["a,b", "a,d"], ["c", "c"])
    path.write_text("who what\na b\n")
    assert datasets.read_ratings(path, header=True, delimiter=" ")[2] is None
    assert datasets.read_ratings(path, header=True)[0].tolist() == ["a"]
    assert datasets.read_ratings(path, header=False)[0].tolist() == ["who", "a"]
    with pytest.raises(ValueError, match=r"delimiter must be a character, '::' or ' '; got ', '"):
        datasets.read_ratings(path, delimiter=", ")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"u1,i1,3\nu\xe92,i2,4\n", "line 2: the byte 0xe9 is not UTF-8"),
        (b"u\xe91,i1,3\nu2,i2,4\n", "line 1: the byte 0xe9 is not UTF-8"),
        (b"u1::i1::3\nu2::i\xe92::4\n", "line 2: the byte 0xe9 is not UTF-8"),
        (b"u1,i1,3\nu\r2,i2,4\n", "line 2: a carriage return in the middle of a line"),
    ],
)
def test_text_that_is_none_is_refused_by_file_and_line(tmp_path, text, why):
    path = tmp_path / "r.dat"
    path.write_bytes(text)
    with pytest.raises(ValueError) as refused:
        datasets.read_ratings(path)
    assert str(refused.value).startswith(f"{path}, {why}")


def test_a_list_of_items_a_line_is_refused(tmp_path):
    path = tmp_path / "ui.txt"
    path.write_text("1 5 6 7\n2 5\n3 6 7\n")
    with pytest.raises(ValueError, match=r"line 1: user and item .* a list of items, as cornac's"):
        datasets.read_ratings(path)


def lines_of_json(path, names, rows=ROWS):
    path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))


def arrow_table(kind):
    def write(path, names, rows=ROWS):
        pyarrow = pytest.importorskip("pyarrow")
        columns = [list(column) for column in zip(*rows, strict=True)]
        table = pyarrow.table(dict(zip(names, columns, strict=True)))
        if kind == "parquet":
            pytest.importorskip("pyarrow.parquet").write_table(table, path)
        else:
            pytest.importorskip("pyarrow.feather").write_feather(table, path)

    return write


TABLES = {"jsonl": lines_of_json, "parquet": arrow_table("parquet"), "arrow": arrow_table("arrow")}


@pytest.mark.parametrize("kind", TABLES)
def test_columns_of_a_table_go_by_their_names_or_their_places(tmp_path, kind):
    path = tmp_path / "r.bin"
    TABLES[kind](path, ("user", "item", "rating"))
    assert rows_of(datasets.read_ratings(path)) == ROWS
    other = [(stars, 17, who, what) for who, what, stars in ROWS]
    TABLES[kind](path, ("stars", "timestamp", "reviewer_id", "movieId"), other)
    assert rows_of(datasets.read_ratings(path)) == ROWS
    TABLES[kind](path, ("who", "what", "how", "more"), [(*row, 1) for row in ROWS])
    assert rows_of(datasets.read_ratings(path)) == ROWS
    TABLES[kind](path, ("who", "what"), [row[:2] for row in ROWS])
    assert datasets.read_ratings(path)[2] is None


@pytest.mark.parametrize("kind", TABLES)
def test_whole_numbers_of_64_bits_are_ids_of_their_own(tmp_path, kind):
    path = tmp_path / "r.bin"
    large = [2**53, 2**53 + 1, -(2**63)]
    TABLES[kind](path, ("user", "item", "rating"), [(k, 5, 1.0 + (k > 0)) for k in large])
    users, items, _ = datasets.read_ratings(path)
    assert users.tolist() == list(map(str, large)) and set(items.tolist()) == {"5"}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize(
    ("row", "names", "said"),
    [
        ((None, "7", 1.0), ("user", "item", "rating"), "2: the user is '', which is not an id"),
        (("u", None, 1.0), ("user", "item", "rating"), "2: the item is '', which is not an id"),
        (("u", "7", None), ("user", "item", "rating"), "2: the rating"),
        (("u", "7", 1.0), ("rate", "user", "item"), "column 2 is 'user', and the columns must be"),
    ],
)
def test_cells_and_columns_that_are_missing_are_refused(tmp_path, kind, row, names, said):
    path = tmp_path / "r.bin"
    TABLES[kind](path, names, [ROWS[0], row])
    with pytest.raises(ValueError, match=said) as caught:
        datasets.read_ratings(path)
    assert str(caught.value).startswith(str(path))


FORMS = [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_array, sp.coo_matrix]


@pytest.mark.parametrize("form", FORMS)
def test_entries_of_a_sparse_matrix_are_ratings_stored_zeros_too(tmp_path, form):
    path = tmp_path / "r.npz"
    entries = [4.5, 0.0, 3.0], ([0, 0, 2], [1, 3, 0])
    sp.save_npz(path, form(sp.coo_array(entries, shape=(4, 5))))
    expected = [("0", "1", 4.5), ("0", "3", 0.0), ("2", "0", 3.0)]
    assert sorted(rows_of(datasets.read_ratings(path))) == expected


def test_pairs_that_are_stored_twice_are_there_twice(tmp_path):
    path = tmp_path / "r.npz"
    repeated = [4.0, 2.0, 3.0], ([0, 0, 1], [1, 1, 0])
    expected = [("0", "1", 4.0), ("0", "1", 2.0), ("1", "0", 3.0)]
    compressed = sp.csr_array(([4.0, 2.0, 3.0], [1, 1, 0], [0, 2, 3]), shape=(2, 2))
    for X in (sp.coo_array(repeated, shape=(2, 2)), compressed):
        sp.save_npz(path, X)
        assert rows_of(datasets.read_ratings(path)) == expected


MARKET = "%%MatrixMarket matrix coordinate {}\n% of a test\n{}\n"


@pytest.mark.parametrize(
    ("banner", "lines", "expected"),
    [
        ("real general", "3 5 3\n1 2 4.5\n1 4 0\n3 1 3e0", ["1 2 4.5", "1 4 0.0", "3 1 3.0"]),
        ("integer general", "3 5 2\n3 1 2\n3 1 5", ["3 1 2.0", "3 1 5.0"]),  # twice
        ("real symmetric", "3 3 2\n2 1 4\n3 3 5", ["2 1 4.0", "3 3 5.0", "1 2 4.0"]),
        ("pattern general", "3 5 2\n1 2\n3 1", ["1 2", "3 1"]),
    ],
)
def test_entries_of_matrix_market_are_ratings_by_their_numbers_in_the_file(
    tmp_path, banner, lines, expected
):
    path = tmp_path / "r.mtx"
    path.write_text(MARKET.format(banner, lines))
    users, items, ratings = datasets.read_ratings(path)
    columns = [users.tolist(), items.tolist(), *([] if ratings is None else [ratings.tolist()])]
    assert [" ".join(map(str, row)) for row in zip(*columns, strict=True)] == expected


def test_a_dense_matrix_of_matrix_market_is_refused(tmp_path):
    path = tmp_path / "r.mtx"
    path.write_text("%%MatrixMarket matrix array real general\n2 1\n1.5\n0\n")
    with pytest.raises(ValueError, match="a dense matrix, in which zeros may or may not be"):
        datasets.read_ratings(path)
    path.write_text(MARKET.format("real general", "2 2 1\n1 1 nan"))
    with pytest.raises(ValueError, match="the rating of row 1, col 1 is nan"):
        datasets.read_ratings(path)


def bad_archives():
    coo = sp.coo_array(([1.0], ([0], [1])), shape=(2, 2))
    parts = {"format": np.array(b"coo"), "shape": np.array([2, 2]), "data": np.ones(1)}
    yield lambda p: np.savez(p, X=np.ones((2, 3))), "a dense one"
    yield lambda p: sp.save_npz(p, coo.todia()), "is CSR, CSC or COO, and this is 'dia'"
    yield lambda p: sp.save_npz(p, coo * np.nan), "the rating of row 0, col 1 is nan"
    yield lambda p: sp.save_npz(p, coo * 1j), "must be real numbers, not complex128"
    yield lambda p: np.savez(p, **parts, row=[0], col=[5]), "not a sparse matrix of SciPy"
    yield lambda p: np.savez(p, **parts, row=[-1], col=[0]), "not a sparse matrix of SciPy"
    yield lambda p: np.savez(p, **parts, row=[0.5], col=[0]), "must be whole numbers"
    yield lambda p: np.savez(p, **parts, row=[0]), "must be whole numbers"
    yield lambda p: np.savez(p, user_factors=np.ones((2, 3))), "factors of a model, as implicit"
    yield lambda p: np.savez(p, users=[0]), "needs an array X, or data"
    yield lambda p: sp.save_npz(p, sp.csr_array((3, 3))), "there are no ratings"
    yield lambda p: p.write_bytes(b"PK\x03\x04 and no more"), "not a sparse matrix of SciPy"


@pytest.mark.parametrize(("write", "said"), list(bad_archives()), ids=lambda v: str(v)[:30])
def test_archives_without_ratings_are_refused(tmp_path, write, said):
    path = tmp_path / "r.npz"
    write(path)
    with pytest.raises(ValueError, match=said) as caught:
        datasets.read_ratings(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("begin", ["", "UserID::MovieID::Rating::Timestamp\n"])
def test_ratings_with_two_colons_are_no_rows_and_it_is_said_what_reads_them(tmp_path, begin):
    path = tmp_path / "ratings.dat"
    path.write_text(f"{begin}1::1193::5::978300760\n1::661::3::978302109\n")
    with pytest.raises(ValueError, match="two colons between cells, and no rows: hogshare"):
        datasets.load(path)
    path.write_text("a::b,1\nc::d,2\n")
    with pytest.raises(ValueError, match="'a::b' is not a number"):  # a table with a column of text
        datasets.load(path)


@pytest.mark.parametrize(
    ("head", "what"),
    [
        (b"\7\0\0\x009.11.9\0\1\0\0\0\0m\0\0\0\0", "a model"),
        (b"\6\0\0\0\0\0\0\x009.9.0\0c\x12\0\0\0", "a cache"),
    ],
)
def test_models_and_caches_of_vowpal_wabbit_are_refused_by_name(tmp_path, head, what):
    path = tmp_path / "r.dat"
    path.write_bytes(head)
    for read in (datasets.load, datasets.read_ratings):
        with pytest.raises(ValueError, match=rf"r\.dat: {what} of Vowpal Wabbit"):
            read(path)


def test_what_has_no_ratings_is_refused_by_name(tmp_path):
    path = tmp_path / "r.npy"
    np.save(path, np.ones((3, 3)))
    with pytest.raises(ValueError, match=r"r\.npy: no ratings, but npy: ratings are read of text"):
        datasets.read_ratings(path)
    path = tmp_path / "r.jsonl"
    lines_of_json(path, ("user", "item", "rating"))
    with pytest.raises(ValueError, match="header is for files of CSV"):
        datasets.read_ratings(path, header=True)
    with pytest.raises(FileNotFoundError):
        datasets.read_ratings(tmp_path / "none.dat")


@pytest.mark.usefixtures("plain_environment")
@pytest.mark.parametrize("kind", ["dat", "npz", "mtx", "jsonl", "parquet", "arrow"])
def test_the_command_fits_and_predicts_them(capsys, tmp_path, kind):
    rng = np.random.default_rng(0)
    users, items = np.unique(rng.integers(1, 20, size=(150, 2)), axis=0).T
    stars = rng.integers(1, 11, size=len(users)) / 2
    data, model = tmp_path / f"r.{kind}", tmp_path / "m.npz"
    rows = list(zip(users.tolist(), items.tolist(), stars.tolist(), strict=True))
    if kind == "dat":
        data.write_text("".join(f"{u}::{i}::{r}\n" for u, i, r in rows))
    elif kind == "npz":
        sp.save_npz(data, sp.coo_array((stars, (users, items))))
    elif kind == "mtx":
        scipy.io.mmwrite(data, sp.coo_array((stars, (users - 1, items - 1))))
    else:
        TABLES[kind](data, ("user", "item", "rating"), rows)
    options = "--estimator", "factorisation", "--n-factors", "2", "--epochs", "2", "--n-jobs", "1"
    assert main(["fit", str(data), "--model", str(model), "--seed", "0", *options]) == 0
    capsys.readouterr()
    assert main(["predict", str(model), str(data)]) == 0
    captured = capsys.readouterr()
    assert "R2: " in captured.err and "in no fit" not in captured.err
    expected = hogshare.MatrixFactorization(2, max_iter=2, n_jobs=1, random_state=0)
    words = users.astype(str), items.astype(str)
    expected = expected.fit(*words, stars).predict(*words)
    np.testing.assert_allclose([float(x) for x in captured.out.splitlines()], expected, 1e-6)


@pytest.mark.usefixtures("plain_environment")
def test_a_format_that_the_file_has_not_is_refused(capsys, tmp_path):
    data = tmp_path / "r.jsonl"
    lines_of_json(data, ("user", "item", "rating"))
    arguments = "--estimator", "factorisation", "--model", str(tmp_path / "m.npz")
    assert main(["fit", str(data), *arguments, "--format", "parquet"]) == 2
    assert "--format parquet does not fit" in capsys.readouterr().err
    assert main(["fit", str(data), *arguments, "--header", "yes"]) == 2
    assert "--header is for files of CSV" in capsys.readouterr().err
