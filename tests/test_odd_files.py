"""Odd files and calls: what the command says of each, its exit code, and that nothing is harmed."""

import bz2
import contextlib
import errno
import gzip
import lzma
import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

import hogshare
from hogshare import datasets
from hogshare.cli import fit
from hogshare.cli.main import main
from hogshare.io import csv_records, sources
from hogshare.io.models import model_file

SVM = b"".join(b"%d 1:%d.5 2:%d\n" % (i % 2, i % 2, i % 3) for i in range(24))
CSV = b"age,income,label\n" + b"".join(b"%d,%d.5,%d\n" % (i % 2, i % 3, i % 2) for i in range(24))
FIT = ["--model", "m.npz", "--epochs", "2", "--n-jobs", "1"]
LABELLED = ["--label-column", "label"]
# what is not a number is else filled in, or made a category
MISSING, TEXT = ["--missing", "error"], ["--categories", "error"]


def csv(*lines):
    return ("\n".join(lines) + "\n").encode()


def whole_numbers(n):
    return b"".join(b"%d 1:%d\n" % (i, i % 7) for i in range(n))


# name of the file, its content, further options, exit code, the message that tells it
FITS = [
    # LIBSVM text
    ("ok.svm", SVM, [], 0, "ok.svm: 24 rows, 2 columns, 48 nonzeros, float64"),
    ("rows", SVM, [], 0, "rows: 24 rows, 2 columns"),
    ("bom.svm", b"\xef\xbb\xbf" + SVM, [], 0, "bom.svm: 24 rows"),
    ("cr.svm", SVM.replace(b"\n", b"\r\n"), [], 0, "cr.svm: 24 rows"),
    ("rows.svm.gz", gzip.compress(SVM), [], 0, "rows.svm.gz: 24 rows"),
    ("packed", lzma.compress(SVM), [], 0, "packed: 24 rows"),  # no name says it
    ("rows.svm", bz2.compress(SVM), [], 0, "rows.svm: 24 rows"),
    ("wrong.xz", gzip.compress(SVM), [], 0, "wrong.xz: 24 rows"),
    ("utf16.svm", SVM.decode().encode("utf-16"), [], 1, "utf16.svm: text in UTF-16"),
    ("empty.svm", b"", [], 1, "empty.svm: the file is empty"),
    ("blank.svm", b"\n# nothing\n", [], 1, "blank.svm: the file has no rows"),
    ("cut.svm.gz", gzip.compress(SVM)[:-12], [], 1, "cut.svm.gz: truncated or damaged .gz file"),
    ("plain.gz", SVM, [], 1, "plain.gz: not a .gz file, whatever its name says"),
    ("rows.zst", b"\x28\xb5\x2f\xfd rest", [], 1, "rows.zst: compressed by zstd"),
    ("bad.svm", SVM + b"1 1:x\n", [], 1, "bad.svm, line 25: not LIBSVM text: the value of '1:x'"),
    ("bits", b"\x00\x01\x02\xff" * 99, [], 1, "bits: neither text nor a known file of arrays"),
    ("nan.svm", SVM + b"1 2:nan\n", [], 1, "nan.svm, line 25: a value is nan"),
    ("none.svm", SVM + b"nan 2:1\n", [], 1, "the label of row 25 of none.svm is nan"),
    ("wide.svm", SVM + b"1 4:1\n", ["--n-features", "3"], 1, "wide.svm, line 25: index 4 is beyon"),
    ("three.svm", SVM, ["--n-features", "3"], 0, "three.svm: 24 rows, 3 columns"),
    ("zero.svm", b"1 0:1\n", ["--one-based"], 1, "zero.svm, line 1: index 0, and --one-based says"),
    ("huge.svm", SVM + b"1 2147483647:1\n", [], 1, "huge.svm: 49 values in 2,147,483,647 columns"),
    ("one.svm", b"1 1:1\n1 1:2\n", [], 1, "every label of one.svm is 1, and a classifier needs at"),
    ("ids.svm", whole_numbers(400), [], 1, "the labels of ids.svm are 400 different whole numbers"),
    ("ids.svm", whole_numbers(400), ["--task", "regression"], 0, "ids.svm: 400 rows"),
    ("big.svm", b"1e300 1:1\n0 1:2\n", [], 1, "the label of row 1 of big.svm is 1e+300: whole nu"),
    ("pair.svm", b"1,2 1:1\n", [], 1, "pair.svm, line 1: not LIBSVM text: '1,2' are several labe"),
    (
        "mac.svm",
        SVM.replace(b"\n", b"\r"),
        [],
        1,
        "mac.svm: its lines end in CR alone; convert them: tr '",
    ),
    ("twice.svm.gz", gzip.compress(gzip.compress(SVM)), [], 1, "twice.svm.gz: compressed twice"),
    ("five.svm", whole_numbers(5), [], 0, "five.svm: the labels are 5 classes, from 0 to 4"),
    ("one.svm", b"1 1:1\n0 1:2\n", [], 0, "one.svm: 2 rows, 1 column, 2 nonzeros, float64"),
    ("row.svm", b"1.5 1:1\n", [], 0, "row.svm: 1 row, 1 column, 1 nonzero, float64"),
    # CSV
    ("ok.csv", CSV, [], 0, "ok.csv: the labels are column 3 ('label'), by its name"),
    ("ok.tsv", CSV.replace(b",", b"\t"), LABELLED, 0, "ok.tsv: 24 rows, 2 columns, float64"),
    ("semicolon", CSV.replace(b",", b";"), LABELLED, 0, "semicolon: 24 rows, 2 columns"),
    ("quoted.csv", CSV.replace(b"0.5", b'"0.5"'), LABELLED, 0, "quoted.csv: 24 rows, 2 columns"),
    ("bom.csv", b"\xef\xbb\xbf" + CSV, ["--label-column", "1"], 0, "bom.csv: 24 rows, 2 columns"),
    ("bare.csv", csv("1,2,3", "4,5,6"), [], 1, "bare.csv: which column has the labels?"),
    ("bare.csv", csv("1,2,3", "4,5,6"), ["--label-column", "-1"], 0, "bare.csv: 2 rows, 2 columns"),
    ("who.csv", csv("a,b", "1,2"), ["--label-column", "c"], 1, "who.csv: no column is called 'c'"),
    ("far.csv", csv("1,2", "1,2"), ["--label-column", "3"], 1, "far.csv: --label-column 3, and it"),
    (
        "gap.csv",
        CSV + b"1,,0\n",
        MISSING,
        1,
        "gap.csv, line 26, column 2 ('income'): the value is miss",
    ),
    ("city.csv", CSV + b"1,Rome,0\n", [], 1, "city.csv, line 26, column 2 ('income'): 'Rome' is n"),
    ("short.csv", CSV + b"1,2\n", [], 1, "short.csv, line 26: 2 cells, and the first line has 3"),
    ("inf.csv", CSV + b"1,inf,0\n", [], 1, "inf.csv, line 26, column 2 ('income'): the value is i"),
    ("comma.csv", csv("a;label", "1,5;0"), [], 1, "comma.csv, line 2, column 1 ('a'): '1,5' has a"),
    ("head.csv", b"age,label\n", [], 1, "head.csv: the file has names of columns and no rows"),
    ("twice.csv", csv("a,a,label", "1,2,3"), [], 1, "twice.csv, line 1: two columns are called 'a"),
    ("words.csv", csv("a,label", "1,yes", "0,no"), [], 0, "words.csv: 2 rows, 1 column"),
    ("ok.csv", CSV, ["--zero-based"], 2, "--zero-based is for files of LIBSVM text; ok.csv is non"),
    ("ok.svm", SVM, LABELLED, 2, "--label-column is for files of CSV, JSON lines"),
    ("ok.svm", SVM, ["--format", "npz"], 1, "ok.svm: not a .npz archive of arrays"),
    (
        "lines.csv",
        b'"a\nb",label\n1,0\n2,1\nx,1\n',
        TEXT,
        1,
        "lines.csv, line 5, column 1 ('a\\nb')",
    ),
    ("inner.csv", b'a,label\n1,"o\nh"\n2,no\n', [], 0, "inner.csv: 2 rows, 1 column"),
    (
        "later.csv",
        b'a,label\n1,"o\nh"\n2,no\n,no\n',
        MISSING,
        1,
        "later.csv, line 5, column 1 ('a'): the va",
    ),
    (
        "nan.csv",
        b'a,label\n1,"o\nh"\nnan,no\n',
        MISSING,
        1,
        "nan.csv, line 4, column 1 ('a'): the value",
    ),
    ("open.csv", CSV + b'"1,2,3\n1,2,3\n', [], 1, 'open.csv, line 26: a quote (") opens a cell'),
    ("space.csv", csv("a, label", '1, "x"', '2, "y"'), [], 0, "space.csv: 2 rows, 1 column"),
    ("cr.csv", CSV + b"1,2\r,0\n", [], 1, "cr.csv, line 26: a carriage return in the middle of a"),
    ("mac.csv", CSV.replace(b"\n", b"\r"), [], 1, "mac.csv: its lines end in CR alone"),
    (
        "zero.csv",
        csv("a,label", "1,no", "1,\0no"),
        [],
        1,
        "zero.csv, line 3: a zero byte, which",
    ),
    (
        "latin.csv",
        b"a,label\n1,\xe9\n2,\xe8\n",
        [],
        1,
        "latin.csv, line 2: the byte 0xe9 is not UTF-8",
    ),
    (
        "nothing.csv",
        csv("a,label", "1,0", "2,nan"),
        MISSING,
        1,
        "nothing.csv, line 3, column 2 ('label'): t",
    ),
    (
        "mixed.csv",
        csv("a,label", "1,0", "2,no"),
        [],
        1,
        "mixed.csv, line 3, column 2 ('label'): the ",
    ),
    ("tab.txt", csv("a\tlabel", "1\t0", "2\t1"), [], 0, "1 column, float64, tabs between cells"),
    (
        "semi.txt",
        csv("a;label", "1;0", "2;1"),
        [],
        0,
        "1 column, float64, semicolons between cell",
    ),
    ("sep.csv", csv("sep=;", "a;label", "1;0", "2;1"), [], 0, "float64, semicolons between cells"),
    ("a;b.csv", csv("a;b,label", "1,0", "2,1"), [], 0, "float64, commas between cells"),
    ("sep.csv", b"sep=;\n", ["--label-column", "1"], 1, "sep.csv: the file has no rows"),
    (
        "colon.csv",
        csv("a:label", "1:0", "2:1"),
        ["--delimiter", ":"],
        0,
        "float64, ':' between cells",
    ),
    ("tabs.csv", csv("a\tlabel", "1\t0", "2\t1"), ["--delimiter", r"\t"], 0, "tabs between cells"),
    (
        "x.csv",
        CSV,
        ["--delimiter", "semicolon"],
        1,
        "Set --label-column NAME (age,income,label)",
    ),
    (
        "x.csv",
        CSV,
        ["--delimiter", "5"],
        2,
        "'5' is none of comma, semicolon, tab, bar, blanks and ",
    ),
    ("x.svm", SVM, ["--delimiter", "tab"], 2, "--delimiter is for files of CSV; x.svm is none"),
    (
        "note.csv",
        b"# note\n" + CSV,
        [],
        1,
        "note.csv: line 1 has 1 cell, and line 2 has 3, with com",
    ),
    (
        "thousand.csv",
        csv("a,label", '"1,500.5",0'),
        [],
        1,
        "line 2, column 1 ('a'): '1,500.5' has a com",
    ),
    (
        "hex.csv",
        csv("a,label", "0x10,0"),
        TEXT,
        1,
        "'0x10' is not a number such as 0.5, -3 or 1e-4",
    ),
    (
        "under.csv",
        csv("a,label", "1_0,0"),
        TEXT,
        1,
        "'1_0' is not a number such as 0.5, -3 or 1e-4",
    ),
    ("case.csv", csv("a,Label", "1,0"), LABELLED, 1, "there are a, Label. Did you mean 'Label'?"),
    (
        "slip.csv",
        csv("x,1", "2,0"),
        ["--label-column", "-1"],
        1,
        "slip.csv: the first line was taken f",
    ),
    # what is another kind than it was taken for
    ("words", csv("a b label", "1 2 0"), [], 1, "is not a number; if it is CSV, use --format csv"),
    ("text.svm", CSV, [], 1, "is not a number; if it is CSV, use --format csv"),
    (
        "text.csv",
        SVM,
        [],
        1,
        "'1:0.5' is no cell, but LIBSVM's index:value; if it is LIBSVM text, use --f",
    ),
    (
        "clock.csv",
        csv("12:30,label"),
        LABELLED,
        1,
        "clock.csv: the file has names of columns and no",
    ),
    (
        "a,b",
        csv("a", "1,2"),
        [],
        1,
        "--delimiter sets another separator of cells; if it is LIBSVM tex",
    ),
    ("rows.json", b'[{"a": 1}]', [], 1, "rows.json: JSON, of which lines are read"),
    ("nice.json", b'{\n  "a": [\n    1\n  ]\n}\n', [], 1, "nice.json: JSON, of which lines are "),
    ("nice.json", b'[\r\n  {\r\n    "a": 1', [], 1, "nice.json: JSON, of which lines are read"),
    ("nice.csv", b"[\n [1, 2],\n [3, 4]\n]\n", [], 1, "nice.csv: JSON, of which lines are read"),
    # names with a line break are one line in a message
    ("a\nb.svm", SVM, [], 0, r"a\nb.svm: 24 rows"),
    ("a\nb.svm", SVM + b"1 1:x\n", [], 1, r"a\nb.svm, line 25: not LIBSVM text"),
    ("a\nb.svm", None, [], 1, r"a\nb.svm: No such file or directory"),
    ("who.csv", b'"a\n\x1bb",c\n1,2\n', [], 1, r"Set --label-column NAME (a\n\x1bb, c)"),
    ("page.csv", b"<!DOCTYPE html>\n<html>\n", [], 1, "page.csv: a web page and no data"),
    (
        "lfs.npz",
        b"version https://git-lfs.github.com/spec/v1\n",
        [],
        1,
        "git lfs pull fetches them",
    ),
    (
        "rows.parquet",
        b"PAR1\0\0",
        [],
        1,
        "rows.parquet: not a Parquet file that can be read",
    ),
    ("https://host/rows.svm", None, [], 1, "nothing is fetched from an address: download it first"),
    ("", None, [], 1, "'': this is a folder; name a file"),
    # calls
    ("ok.svm", SVM, ["--model", "ok.svm"], 2, "DATA and --model name one file"),
    ("ok.svm", SVM, ["--json", "./ok.svm"], 2, "DATA and --json name one file"),
    ("ok.svm", SVM, ["--model", "nowhere/m.npz"], 1, "nowhere: there is no such folder"),
    ("ok.svm", SVM, ["--json", "/dev/full"], 1, "/dev/full: No space left on device"),
    (
        "ok.svm",
        SVM,
        ["--model", "-"],
        2,
        "--model - is not standard output; use --model",
    ),
    ("ok.svm", SVM, ["--model", "no/"], 1, "no/: this is a folder; name a file"),
    ("ok.svm", SVM, ["--model", ""], 1, "'': this is a folder; name a file"),
    ("ok.svm", SVM, ["--model", "ok.svm/m"], 1, "ok.svm: this is a file and no folder"),
    ("ok.svm", SVM, ["--checkpoint", "nowhere/c"], 1, "nowhere: there is no such folder"),
    ("ok.svm", SVM, ["--labels", "-", "--model", "m"], 1, "/dev/stdin: labels of shape (3,) for 2"),
    ("ok.svm", SVM, ["--labels", "y.txt"], 1, "y.txt: No such file or directory"),
    ("folder", None, [], 1, "folder: this is a folder; name a file"),
    ("missing.svm", None, [], 1, "missing.svm: No such file or directory"),
    ("-", None, ["--labels", "/dev/stdin"], 2, "DATA and --labels are one pipe"),
    (
        "ok.svm",
        SVM,
        ["--estimator", "logistic", "--penalty", "l1"],
        2,
        "--l1-ratio 1 is its l1 pen",
    ),
    ("ok.svm", SVM, ["--estimator", "sgd", "--C", "1"], 2, "but for auto, logistic; use --al"),
    ("ok.svm", SVM, ["--estimator", "ridge", "--loss", "hinge"], 2, "its loss is the squared erro"),
    (
        "ok.svm",
        SVM,
        ["--runtime", "caller", "--n-jobs", "2"],
        2,
        "but --n-jobs is 2; use --runtime",
    ),
    ("ok.svm", SVM, ["--learning-rate", "pa1", "--loss", "log_loss"], 2, "goes with --loss hinge"),
    ("ok.svm", SVM, ["--learning-rate", "auto", "--average"], 2, "--average is not for --learning"),
]

ARRAYS = [
    ("rows.npz", {"X": np.eye(4), "y": np.arange(4) % 2}, 0, "rows.npz: 4 rows, 4 columns, float6"),
    ("rows.npz", {"X": np.eye(4)}, 1, "rows.npz has no labels: name them with --labels FILE"),
    ("rows.npz", {"Z": np.eye(4)}, 1, "rows.npz: needs an array X, or data, indices, indptr"),
    ("nan.npz", {"X": np.diag([1, np.nan]), "y": np.arange(2)}, 1, "nan.npz: the value of row 2, "),
    ("bytes.npz", {"X": np.eye(2), "y": np.array([b"a", b"b"])}, 1, "are of the type |S1"),
    ("days.npz", {"X": np.eye(2), "y": np.array(["2020", "2021"], "M8[D]")}, 1, "of the type dat"),
    ("complex.npz", {"X": np.eye(2), "y": np.array([1j, 2])}, 1, "are of the type complex128"),
    (
        "void.npz",
        {"X": np.eye(2), "y": np.array(["", "a"])},
        1,
        "of row 1 of void.npz is '': ",
    ),
    ("half.npz", {"X": np.eye(2), "y": np.array([0.5, 1])}, 0, "half.npz: 2 rows"),
]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch, plain_environment):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    return tmp_path


@pytest.fixture
def stdin():
    """A function that gives this process other bytes to read."""
    kept = os.dup(0)
    reader, writer = os.pipe()
    os.dup2(reader, 0)
    os.close(reader)

    def give(content):
        def run():
            # who refuses what it is asked reads nothing
            with contextlib.suppress(BrokenPipeError), os.fdopen(writer, "wb") as stream:
                stream.write(content)

        threading.Thread(target=run, daemon=True).start()

    yield give
    os.dup2(kept, 0)
    os.close(kept)


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    ("name", "content", "further", "code", "words"), FITS, ids=[f"{f[0]} {f[4][:24]}" for f in FITS]
)
@pytest.mark.quick
def test_what_fit_says_of_a_file(capsys, seams, stdin, name, content, further, code, words):
    stdin(b"1\n2\n3\n")
    seams.memory.free = lambda **_: 8 << 30
    if content is not None:
        Path(name).write_bytes(content)
    before = {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    found, out, err = run(capsys, "fit", name, *FIT, *further)
    told = [line.removeprefix("hogshare: error: ") for line in err.splitlines()]
    assert found == code, err
    assert any(words in line for line in told), err
    assert "Traceback" not in err and "unexpected" not in err
    if code:
        assert out == "" and err.count("error: ") == 1
        # nothing was written over, and nothing was left
        assert "--json" in further or not Path("m.npz").exists()
        for path, old in before.items():
            assert Path(path).read_bytes() == old


@pytest.mark.parametrize(("name", "arrays", "code", "words"), ARRAYS)
def test_what_fit_says_of_arrays(capsys, name, arrays, code, words):
    np.savez(name, **arrays)
    found, _, err = run(capsys, "fit", name, *FIT)
    assert (found, words in err) == (code, True), err


def test_a_file_that_may_not_be_read(capsys, monkeypatch):
    Path("closed.svm").write_bytes(SVM)
    Path("closed.svm").chmod(0)
    if os.access("closed.svm", os.R_OK):  # root reads everything

        def refused(name, *_, **__):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)

        monkeypatch.setattr(sources, "open", refused, raising=False)
    code, _, err = run(capsys, "fit", "closed.svm", *FIT)
    assert (code, err) == (1, "hogshare: error: closed.svm: Permission denied\n")


# -- pipes


def content_of(kind):
    if kind == "svm":
        return SVM
    if kind == "csv":
        return CSV
    import io

    stream = io.BytesIO()
    X = np.array([[i % 2 + 0.5, i % 3] for i in range(24)])
    np.savez(stream, X=X, y=np.arange(24) % 2) if kind == "npz" else np.save(stream, X)
    return stream.getvalue()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress], ids=["", "gz", "xz"])
@pytest.mark.parametrize("kind", ["svm", "csv", "npz", "npy"])
def test_every_kind_comes_through_standard_input(capsys, stdin, kind, pack):
    stdin(pack(content_of(kind)))
    np.save("y.npy", np.arange(24) % 2)
    labels = ["--labels", "y.npy"] if kind == "npy" else []
    code, _, err = run(capsys, "fit", "-", *FIT, *labels)
    assert code == 0, err
    assert "standard input: 24 rows, 2 columns" in err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a pipe with a name")
def test_rows_and_labels_come_through_pipes_with_names(capsys):
    np.save("y.npy", np.arange(24) % 2)
    for name, content in (("rows", content_of("npy")), ("y", Path("y.npy").read_bytes())):
        os.mkfifo(name)
        threading.Thread(target=Path(name).write_bytes, args=(content,), daemon=True).start()
    code, _, err = run(capsys, "fit", "rows", "--labels", "y", *FIT)
    assert code == 0, err
    assert "rows: 24 rows, 2 columns" in err


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ("0\n1\n" * 12, None),
        ("no\nyes\n" * 12, None),
        ("0\n1\n", "y.txt: labels of shape (2,) for 24 rows"),
        ("0\n\n1\n", "y.txt, line 2: there is no label"),
        ("", "y.txt: the file is empty"),
        (
            "0\nyes\n" * 12,
            "y.txt, line 2: the label 'yes' is not a number, as the labels before it are",
        ),
        ("label\n" + "0\n1\n" * 12, "is its first line, 'label', a name?"),
        ("0,1\n" * 24, "y.txt, line 1: 2 numbers, and one label was expected"),
    ],
)
def test_labels_are_text_as_well(capsys, labels, words):
    Path("rows.npy").write_bytes(content_of("npy"))
    Path("y.txt").write_text(labels)
    code, _, err = run(capsys, "fit", "rows.npy", "--labels", "y.txt", *FIT)
    assert code == (0 if words is None else 1), err
    assert words is None or words in err


@pytest.mark.parametrize("is_in_order", [True, False])
def test_a_file_and_a_pipe_give_one_model(capsys, stdin, is_in_order):
    rng = np.random.default_rng(0)
    lines = []
    for i in range(400):
        features = [b"%d:%.4f" % (j, rng.standard_normal()) for j in rng.permutation(9)[:4] + 1]
        features = sorted(features) if is_in_order else features
        lines.append(b" ".join([b"%d" % (i % 2), *features]))
    content = b"\n".join(lines) + b"\n"
    fit = ["--model", "m.npz", "--seed", "0", "--n-jobs", "1", "--epochs", "3", "--tol", "none"]
    Path("rows.svm").write_bytes(content)
    assert run(capsys, "fit", "rows.svm", *fit)[0] == 0
    want = model_file.load("m.npz").attributes["coef_"]
    stdin(content)
    assert run(capsys, "fit", "-", *fit)[0] == 0
    np.testing.assert_array_equal(model_file.load("m.npz").attributes["coef_"], want)


def model_of(capsys, content, name="rows.svm", *further):
    Path(name).write_bytes(content)
    assert run(capsys, "fit", name, *FIT, *further)[0] == 0


FOLLOWED = """
import resource, sys
from hogshare.cli import fit
from hogshare.cli.main import main
main(["predict", "m.npz", "few.svm", "--out", "/dev/null"])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
main(["predict", "m.npz", "-"])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_long_pipe_is_predicted_while_it_comes_and_in_little_memory(capsys):
    model_of(capsys, SVM)
    line = b"1 " + b" ".join(b"%d:0.125" % j for j in range(1, 40)) + b"\n"
    Path("few.svm").write_bytes(line * 3)
    with subprocess.Popen(
        [sys.executable, "-c", FOLLOWED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        for row in (b"1 1:1.5\n", b"0 2:3\n", b"1 7:3\n"):
            process.stdin.write(row)
            process.stdin.flush()
            assert process.stdout.readline().strip() in (b"0", b"1")
        out, err = process.communicate(line * 60_000, timeout=120)
    *labels, more = out.split()
    assert len(labels) == 60_000
    assert int(more) < 20_000  # KiB; the rows would take 28 MB, and their text 20
    assert b"standard input: 60,003 rows, 2 columns, 120,002 nonzeros" in err
    assert b"2,220,001 values beyond the 2 columns of the model left out" in err
    assert b"accuracy against" in err


def test_what_is_predicted_in_parts_is_what_is_predicted_at_once(capsys, seams):
    content = b"".join(b"%d.5 1:%d 2:%d\n" % (i, i, i % 3) for i in range(200))
    model_of(capsys, content, "rows.svm", "--learning-rate", "auto")
    code, whole, told = run(capsys, "predict", "m.npz", "rows.svm")
    assert code == 0 and len(whole.splitlines()) == 200
    seams.pieces.read = 100
    code, parts, again = run(capsys, "predict", "m.npz", "rows.svm")
    assert (code, parts, again) == (0, whole, told)
    assert "R2 against the file's labels: " in told


def test_an_error_in_the_middle_replaces_nothing(capsys):
    model_of(capsys, SVM)
    Path("out.txt").write_text("old")
    Path("bad.svm").write_bytes(SVM + b"1 1:x\n")
    code, out, err = run(capsys, "predict", "m.npz", "bad.svm", "--out", "out.txt")
    assert (code, out) == (1, "") and "bad.svm, line 25: " in err
    assert Path("out.txt").read_text() == "old"
    assert not [path for path in Path().iterdir() if path.name.endswith(".tmp")]


def test_labels_in_an_archive_are_told_what_to_do(capsys):
    Path("rows.npy").write_bytes(content_of("npy"))
    np.savez("y.npz", y=np.arange(24) % 2)
    code, _, err = run(capsys, "fit", "rows.npy", "--labels", "y.npz", *FIT)
    assert code == 1 and "name it .npz" not in err
    assert "y.npz: an archive of arrays, and labels are one array: write it with numpy.save" in err


# -- CSV that is predicted


def test_columns_are_found_by_their_names(capsys):
    model_of(capsys, CSV, "train.csv")
    saved = model_file.load("m.npz")
    assert saved.attributes["feature_names_in_"].tolist() == ["age", "income"]
    _, want, told = run(capsys, "predict", "m.npz", "train.csv")
    assert "accuracy against the file's labels" in told
    rows = [line.split(b",") for line in CSV.splitlines()]
    other = b"\n".join(b",".join((row[1], b"Rome", row[0])) for row in rows)
    Path("other.csv").write_bytes(other.replace(b"Rome", b"city", 1) + b"\n")
    code, out, err = run(capsys, "predict", "m.npz", "other.csv")
    assert (code, out) == (0, want)
    assert "left out columns that the model does not have: city" in err and "accuracy" not in err
    assert "other.csv: columns in another order than the model's were found by their names" in err
    Path("short.csv").write_bytes(b"age,incme\n1,2\n")
    code, out, err = run(capsys, "predict", "m.npz", "short.csv")
    assert (code, out) == (1, "")
    assert "short.csv: no column is called 'income', and m.npz was fitted to it; there are" in err
    assert err.endswith("there are age, incme. Did you mean 'incme'?\n")
    Path("small.csv").write_bytes(b"Age,Income\n1,2\n")
    _, _, err = run(capsys, "predict", "m.npz", "small.csv")
    assert "no column is called 'age' (1 more are missing), and m.npz" in err and "'Age'?" in err


@pytest.mark.parametrize("column", ["income", "2", "-2"])
def test_labels_are_none_of_the_models_columns(capsys, column):
    model_of(capsys, CSV, "train.csv")
    code, out, err = run(capsys, "predict", "m.npz", "train.csv", "--label-column", column)
    assert (code, out) == (1, "")
    assert f"train.csv: --label-column {column} is 'income', which m.npz was fitted to" in err


def test_columns_without_names_are_taken_in_their_order(capsys):
    body = CSV.split(b"\n", 1)[1]
    model_of(capsys, body, "train.csv", "--label-column", "-1")
    _, want, told = run(capsys, "predict", "m.npz", "train.csv")
    assert "train.csv: the labels are column 3" in told and "accuracy against" in told
    Path("test.csv").write_bytes(b"\n".join(x.rpartition(b",")[0] for x in body.splitlines()))
    code, out, err = run(capsys, "predict", "m.npz", "test.csv", "--header", "no")
    assert (code, out) == (0, want) and "accuracy" not in err
    Path("wide.csv").write_bytes(b"1,2,3,4\n")
    code, _, err = run(capsys, "predict", "m.npz", "wide.csv")
    assert code == 1 and "wide.csv: 4 columns, and m.npz was fitted to 2" in err


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.ones((3, 3)), "rows.npy: 3 columns, and m.npz was fitted to 2"),
        (np.empty((0, 2)), "rows.npy: the file has no rows"),
        (np.empty((2, 0)), "rows.npy: the file has no columns"),
    ],
)
def test_arrays_of_another_shape(capsys, array, words):
    model_of(capsys, SVM)
    np.save("rows.npy", array)
    code, out, err = run(capsys, "predict", "m.npz", "rows.npy")
    assert (code, out) == (1, "") and words in err
    if 0 in array.shape:
        code, _, err = run(capsys, "fit", "rows.npy", "--labels", "y.txt", *FIT)
        assert code == 1 and words in err
    code, _, err = run(capsys, "predict", "m.npz", "digits")
    assert code == 1 and "digits: 64 columns, and m.npz was fitted to 2" in err


def test_a_model_without_names_says_how_it_takes_columns(capsys):
    model_of(capsys, CSV.split(b"\n", 1)[1], "bare.csv", "--label-column", "3")
    Path("named.csv").write_bytes(b"income,age\n1,2\n")
    code, _, err = run(capsys, "predict", "m.npz", "named.csv")
    assert code == 0 and "m.npz has no names of columns; they are taken in their order" in err


def test_advice_is_something_that_the_command_has(capsys):
    Path("k.svm").write_bytes(SVM)
    settings = ["--estimator", "logistic", "--epochs", "1", "--model", "m.npz"]
    _, _, err = run(capsys, "fit", "k.svm", *settings)
    assert "Increase --epochs, or scale the data (StandardScaler)." in err and "solver=" not in err


def test_labels_may_be_words(capsys):
    model_of(capsys, csv("x,label", *["1,yes", "-1,no"] * 9), "w.csv", "--learning-rate", "auto")
    code, out, err = run(capsys, "predict", "m.npz", "w.csv")
    assert code == 0 and out.split() == ["yes", "no"] * 9 and ": 1.0000" in err
    code, _, err = run(capsys, "fit", "w.csv", *FIT, "--task", "regression")
    assert code == 1 and "the labels of w.csv are words ('yes'), and a regression needs" in err


def test_a_header_alone_is_no_warning(capsys):
    """The rows in memory have no names, the model has."""
    Path("train.csv").write_bytes(CSV)
    _, _, err = run(capsys, "fit", "train.csv", "--model", "m.npz", "--tol", "none")
    assert "warning" not in err, err
    _, _, err = run(capsys, "predict", "m.npz", "train.csv")
    assert "warning" not in err, err


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (["1,5,yes", "2,6,"], "labels are not compared: some are missing"),
        (["1,5,?", "2,6,nan"], "labels are not compared: some are missing"),
        (["1,5,1", "2,6,0"], "are not compared: they are numbers, and the model predicts words"),
        (["1,5,yes", "2,6,no"], "accuracy against"),
    ],
)
def test_labels_that_are_only_compared_may_be_missing(capsys, rows, told):
    model_of(capsys, csv("a,b,label", "1,5,yes", "2,6,no"), "train.csv")
    Path("test.csv").write_bytes(csv("a,b,label", *rows))
    code, out, err = run(capsys, "predict", "m.npz", "test.csv")
    assert code == 0 and len(out.split()) == 2, err
    assert told in err


def test_labels_are_not_compared_with_several_targets(capsys):
    rows = np.eye(4)
    hogshare.save(hogshare.Ridge().fit(rows, np.ones((4, 2))), "m.npz")
    Path("test.svm").write_bytes(b"1 1:1\n1 4:1\n")
    code, out, err = run(capsys, "predict", "m.npz", "test.svm")
    assert code == 0 and len(out.splitlines()) == 2, err
    assert "are not compared: the model predicts 2 columns, and a file has one" in err


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_a_quoted_cell_may_have_lines_wherever_blocks_end(capsys, seams, piece):
    seams.pieces.read = piece
    rows = [f'{k},"say ""{k}"",\n  then\n\n{k % 2}"' for k in range(9)]
    Path("rows.csv").write_bytes(csv("a,label", *rows))
    X, y = datasets.load("rows.csv", label_column="label")
    assert X.ravel().tolist() == list(range(9))
    assert y.tolist() == [f'say "{k}",\n  then\n\n{k % 2}' for k in range(9)]
    Path("rows.csv").write_bytes(csv("a,label", *rows, "x,1"))
    with pytest.raises(ValueError, match=r"rows\.csv, line 38, column 1 \('a'\): 'x'"):
        datasets.load("rows.csv", label_column="label")


def test_a_quote_that_nothing_closes_does_not_take_the_file_along(seams, monkeypatch):
    monkeypatch.setattr(csv_records, "LONGEST", 100)
    seams.pieces.read = 50
    Path("rows.csv").write_bytes(csv("a,label", '"1,2', *["1,2"] * 1000, '3",4'))
    with pytest.raises(ValueError, match=r'rows\.csv, line 2: a quote \("\) opens a cell'):
        datasets.load("rows.csv", label_column="label")


@pytest.mark.parametrize(
    ("line", "marks", "cells"),
    [
        ('a,5" disk,b', ",", ["a", '5" disk', "b"]),
        ('a, "x, y" ,"b""c"', ",", ["a", "x, y", 'b"c']),
        ('"a b"  1\t"c"', csv_records.BLANKS, ["a b", "1", "c"]),
        ('a,"",b', ",", ["a", "", "b"]),
        ("a,,", ",", ["a", "", ""]),
        ('a;"b,c', ",", ['a;"b', "c"]),
        ('5" disk,"x', ",", None),
        ('"a""",b', ",", ['a"', "b"]),
        ('""a","b', ",", None),
    ],
)
def test_cells_of_a_record(line, marks, cells):
    lines = sources.Lines(line.encode(), 1, "rows.csv")
    if cells is None:
        with pytest.raises(ValueError, match="a quote"):
            list(csv_records.whole(iter([lines]), marks))
        return
    assert [csv_records.split(r, marks) for _, r in csv_records.records(lines, marks)] == [cells]
    assert [block.text for block in csv_records.whole(iter([lines]), marks)] == [lines.text]


@pytest.mark.parametrize(
    ("lines", "mark"),
    [
        (["a,b", "1,2"], ","),
        (['"a;b",c', '"d;e",f'], ","),
        (["a|b,c", "1,2"], ","),
        (["1,5;2,5", "1,5;2,5"], ";"),
        (["a b", "1 2"], csv_records.BLANKS),
        (["a", "1"], ","),
    ],
)
def test_what_is_between_cells(lines, mark):
    text = "\n".join(lines).encode()
    assert csv_records.delimiter_of(sources.Lines(text, 1, "rows.csv")) == mark


def test_an_archive_of_other_files_is_told(capsys):
    with zipfile.ZipFile("rows.zip", "w") as archive:
        archive.writestr("rows.csv", CSV)
    code, _, err = run(capsys, "fit", "rows.zip", *FIT)
    assert code == 1 and "it has 'rows.csv' and no array: unpack it" in err


# -- through a shell


SHELL = [
    ("predict m.npz rows.svm --out /dev/full", 1, "/dev/full: No space left on device"),
    ("fit rows.svm --model /dev/stdout --epochs 2 | predict - rows.svm", 0, "accuracy against"),
    ("fit rows.svm --model /dev/stdout --json - > both", 2, "would both go to standard output"),
    ("fit - --model n.npz 0> written", 1, "/dev/stdin: Bad file descriptor"),
    ("fit - --model n.npz <&-", 1, "/dev/stdin: standard input is closed"),
    ("predict m.npz rows.svm > /dev/full", 1, "standard output: No space left on device"),
    ("predict <(cat m.npz) <(gzip -c rows.svm)", 0, "24 rows"),
]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
def test_through_a_shell(capsys):
    model_of(capsys, SVM)
    prelude = "".join(
        f'{name}() {{ {sys.executable} -m hogshare {name} "$@"; }}\n' for name in ("fit", "predict")
    )
    calls = [f"{call} 2> err{k}; echo $? > code{k}" for k, (call, _, _) in enumerate(SHELL)]
    script = prelude + "\n".join(f"( {call} ) &" for call in calls) + "\nwait"
    subprocess.run(["bash", "-c", script], check=True, timeout=120, capture_output=True)
    for k, (call, code, words) in enumerate(SHELL):
        err = Path(f"err{k}").read_text()
        assert int(Path(f"code{k}").read_text()) == code, (call, err)
        assert words in err and "Traceback" not in err and "Exception" not in err, (call, err)
    assert Path("rows.svm").read_bytes() == SVM


@pytest.mark.parametrize(
    ("content", "arguments", "code", "words"),
    [
        (SVM, ["m.npz", "-"], 0, "standard input: 24 rows"),
        (b"", ["m.npz", "/dev/stdin"], 1, "/dev/stdin: the file is empty"),
        (b"\n#\n", ["m.npz", "-"], 1, "/dev/stdin: the file has no rows"),
        (
            gzip.compress(SVM, mtime=0)[:50],
            ["m.npz", "-"],
            1,
            "/dev/stdin: truncated or damaged .gz file",
        ),
        (SVM[:-3], ["m.npz", "-"], 1, "/dev/stdin, line 24: not LIBSVM text: '2' is not"),
        (SVM, ["-", "-"], 2, "DATA and MODEL are one pipe, which can be read only once"),
        (SVM, ["m.npz", "-", "--proba"], 1, "with loss hinge has no probabilities"),
        (SVM, ["-", "rows.svm"], 1, "/dev/stdin: not a hogshare model"),
    ],
)
def test_what_predict_says_of_a_pipe(capsys, stdin, content, arguments, code, words):
    model_of(capsys, SVM, "rows.svm", "--estimator", "sgd")
    stdin(content)
    found, _, err = run(capsys, "predict", *arguments)
    assert (found, words in err) == (code, True), err


def test_a_link_to_an_input_that_appears_meanwhile_is_not_followed(capsys, monkeypatch):
    Path("rows.svm").write_bytes(SVM)

    def linked(*arguments, **further):
        Path("m.npz").symlink_to("rows.svm")
        return fitted(*arguments, **further)

    fitted = fit.fitted
    monkeypatch.setattr(fit, "fitted", linked)
    code, _, err = run(capsys, "fit", "rows.svm", *FIT)
    assert code == 2 and "DATA and --model name one file" in err
    assert Path("rows.svm").read_bytes() == SVM


def test_standard_output_that_feeds_its_input_is_refused(capsys, monkeypatch):
    model_of(capsys, SVM)
    with open("rows.svm", "a") as stream:
        monkeypatch.setattr(sys, "__stdout__", stream)
        code, _, err = run(capsys, "predict", "m.npz", "rows.svm")
    assert code == 2 and "DATA and standard output are one file" in err


def test_standard_output_that_is_closed_is_told(capsys, monkeypatch):
    model_of(capsys, SVM)
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["predict", "m.npz", "rows.svm"]) == 1
    assert "standard output: it is closed" in capsys.readouterr().err


@pytest.mark.parametrize("estimator", ["sgd", "logistic", "ridge", "lasso"])
def test_columns_that_are_many_are_told_whatever_is_fitted(capsys, seams, estimator):
    seams.memory.free = lambda **_: 1 << 30
    Path("slip.svm").write_bytes(SVM + b"1 100000000:1\n")
    code, _, err = run(capsys, "fit", "slip.svm", *FIT[:2], "--estimator", estimator)
    assert code == 1
    assert (
        "slip.svm: 49 values in 100,000,000 columns, by the largest index. Set --n-features" in err
    )
    said = ["--estimator", estimator, "--n-features", "100000000"]
    code, _, err = run(capsys, "fit", "slip.svm", *FIT[:2], *said)
    assert code == 1
    assert "slip.svm: a model of 100,000,000 columns needs 3.73 GiB of memory, and 1.00 GiB" in err
    code, _, err = run(capsys, "bench", "speedup", "--data", "slip.svm")
    assert code == 1 and "Set --n-features" in err


def test_an_input_of_a_bench_is_no_output(capsys):
    Path("rows.svm").write_bytes(SVM)
    code, _, err = run(capsys, "bench", "speedup", "--data", "rows.svm", "--json", "rows.svm")
    assert code == 2 and "--data and --json name one file" in err
    assert Path("rows.svm").read_bytes() == SVM
