"""Tables as the command reads them: text, missing values, JSON lines, Parquet."""

import gzip
import json
import os
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hogshare
from hogshare.cli.main import main

pa = pytest.importorskip("pyarrow")
feather = pytest.importorskip("pyarrow.feather")

N_ROWS = 400


def people(n_rows=N_ROWS):
    draws = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": draws.integers(18, 80, n_rows).astype(float),
            "city": draws.choice(["Rome", "Oslo", "Bern"], n_rows),
            "member": draws.random(n_rows) < 0.5,
        }
    )
    odds = (table["age"] - 45) / 8 + 2 * (table["city"] == "Rome") - table["member"]
    table["label"] = np.where(odds + draws.normal(0, 0.3, n_rows) > 0, "buys", "goes")
    return table


def lacking(table):
    table = table.copy()
    table.loc[::7, "age"] = np.nan
    table.loc[::11, "city"] = None
    return table


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, plain_environment):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(capsys):
    """Run the command; its exit code, and what it printed on both streams."""

    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def fit(run):
    """Fit a file; the model (None if that failed), and what was said."""

    def call(path, *options):
        code, _, said = run("fit", path, "--model", "m.npz", "--n-jobs", "1", *options)
        return (None if code else hogshare.load("m.npz")), said

    return call


def predicted(run, path, *options):
    code, out, said = run("predict", "m.npz", path, *options)
    assert code == 0, said
    return out.splitlines(), said


def lines_of(table):
    return "".join(f"{row.dropna().to_json()}\n" for _, row in table.iterrows())


WRITE = {
    "t.csv": lambda table, path: table.to_csv(path, index=False),
    "t.tsv": lambda table, path: table.to_csv(path, index=False, sep="\t"),
    "t.csv.gz": lambda table, path: table.to_csv(path, index=False),
    "t": lambda table, path: table.to_csv(path, index=False, sep=";"),
    "t.parquet": lambda table, path: table.to_parquet(path, row_group_size=90),
    "rows": lambda table, path: table.to_parquet(path),
    "t.feather": lambda table, path: feather.write_feather(table, path),
    "t.arrow": lambda table, path: feather.write_feather(table, path, chunksize=50),
    "t.jsonl": lambda table, path: path.write_text(lines_of(table)),
    "lines": lambda table, path: path.write_text(lines_of(table)),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", WRITE)
def test_a_table_is_the_same_whatever_the_file_is(folder, fit, run, name):
    table = lacking(people())
    WRITE[name](table, folder / name)
    model, said = fit(name, "--label-column", "label")
    names = model[0].feature_names_in_.tolist()  # of lines of JSON as they come up
    kinds = {"age": "number", "city": "category", "member": "number"}
    assert dict(zip(names, model[0].kinds_, strict=True)) == kinds
    assert f"{name}: age: 58 of 400 missing, filled with the mean" in said
    assert "categories: city (3 and missing)" in said
    assert "400 rows, 3 columns, of which 6 columns are made" in said
    expected = hogshare.TableEncoder().fit(table[names])
    np.testing.assert_allclose(model[0].means_, expected.means_, rtol=1e-12)
    lines, said = predicted(run, name)
    assert lines == model.predict(table[names]).tolist()
    assert "accuracy against the file's labels: 0.8900" in said


def test_a_model_predicts_files_of_other_kinds(folder, fit, run):
    table = people()
    WRITE["t.parquet"](table, folder / "t.parquet")
    model, _ = fit("t.parquet")
    expected = model.predict(table.drop(columns="label")).tolist()
    for name in WRITE:
        WRITE[name](table, folder / name)
        assert predicted(run, name)[0] == expected, name
    table[["member", "label", "city", "age"]].to_csv("other.csv", index=False)
    assert predicted(run, "other.csv")[0] == expected


def test_plain_numbers_make_the_model_that_they_made(folder, fit):
    table = people().drop(columns=["city"]).assign(member=lambda t: t["member"].astype(int))
    table.to_csv("t.csv", index=False)
    model, _ = fit("t.csv", "--seed", "0")
    assert type(model).__name__ == "LogisticRegression"
    assert model.feature_names_in_.tolist() == ["age", "member"]
    rows = table[["age", "member"]].to_numpy(float)
    ours = hogshare.LogisticRegression(random_state=0, n_jobs=1).fit(rows, table["label"])
    # sums of NumPy's libraries go by where arrays lie, down to the last bits
    np.testing.assert_allclose(model.coef_, ours.coef_, rtol=1e-12)
    table.to_parquet("t.parquet")
    other, _ = fit("t.parquet", "--seed", "0")
    np.testing.assert_allclose(other.coef_, model.coef_, rtol=1e-12)


def test_rows_without_a_label_are_left_out_and_said(fit, run):
    table = people()
    table.loc[::10, "label"] = None
    table.to_csv("t.csv", index=False)
    model, said = fit("t.csv")
    assert "left out 40 rows without a label" in said and "360 rows" in said
    assert model[-1].classes_.tolist() == ["buys", "goes"]
    whole = table.dropna()
    whole.to_csv("whole.csv", index=False)
    other, _ = fit("whole.csv")
    np.testing.assert_allclose(other[-1].coef_, model[-1].coef_, rtol=1e-12)
    assert "not compared: some are missing" in predicted(run, "t.csv")[1]
    assert (
        "t.csv, line 2, column 4 ('label'): the label is missing"
        in fit("t.csv", "--missing", "error")[1]
    )


def test_plain_numbers_with_missing_labels_have_no_encoder(fit):
    table = people().drop(columns=["city", "member"])
    table.loc[3, "label"] = None
    table.to_csv("t.csv", index=False)
    model, said = fit("t.csv")
    assert type(model).__name__ == "LogisticRegression" and "1 row without a label" in said


@pytest.mark.parametrize("how", ["mean", "indicator", "drop", "error"])
def test_missing_values(fit, run, how):
    lacking(people()).to_csv("t.csv", index=False)
    model, said = fit("t.csv", "--missing", how)
    if how == "error":
        assert model is None
        assert "t.csv, line 2, column 1 ('age'): the value is missing; --missing mean fills" in said
        return
    names = model[0].get_feature_names_out().tolist()
    assert ("age missing" in names) == (how == "indicator")
    assert ("city missing" in names) == (how != "drop")
    if how == "drop":
        assert "left out 89 rows without a value" in said
        complete = people().iloc[[k for k in range(N_ROWS) if k % 7 and k % 11]]
        assert np.isclose(model[0].means_[0], complete["age"].mean())
    lines, said = predicted(run, "t.csv")
    assert len(lines) == N_ROWS and "age: 58 missing, filled with the mean" in said


def test_text_may_be_refused_and_categories_may_be_more(fit):
    table = people().assign(street=[f"street {k % 150}" for k in range(N_ROWS)])
    table.to_csv("t.csv", index=False)
    _, said = fit("t.csv", "--categories", "error")
    assert "t.csv, line 2, column 2 ('city'): " in said and "is not a number" in said
    assert "--categories auto makes a column of 0 and 1 for each text, --drop city leaves" in said
    model, said = fit("t.csv", "--categories", "100")
    assert model is None and "'street') has more than 100 different texts" in said
    assert "--drop street leaves the column out, --categories N takes up to N" in said
    model, said = fit("t.csv", "--categories", "150", "--dtype", "float32")
    assert model[0].is_sparse_ and "nonzeros, float32" in said


def test_what_is_new_is_said_by_column(fit, run):
    people().to_csv("t.csv", index=False)
    fit("t.csv")
    later = people(50)
    later.loc[:4, "city"] = ["Paris", "Paris", "Nice", "Bern", None]
    later.to_csv("later.csv", index=False)
    _, said = predicted(run, "later.csv", "-q")
    assert "column 2 ('city'): 3 values that the fit did not have ('Paris', 'Nice')" in said
    _, said = predicted(run, "later.csv")
    assert "city: 1 missing, encoded as no category" in said
    later.assign(age="old").to_csv("old.csv", index=False)
    code, _, said = run("predict", "m.npz", "old.csv")
    assert code == 1 and "old.csv, line 2, column 1 ('age'): 'old' is not a number, and the" in said


def test_dates_ids_and_free_text_are_refused_by_name(folder, fit):
    days = pd.date_range("2020-01-01", periods=N_ROWS)
    table = people().assign(joined=days)
    for name in ("t.csv", "t.parquet", "t.feather", "t.jsonl"):
        WRITE[name](table if name != "t.jsonl" else table.astype({"joined": str}), folder / name)
        model, said = fit(name)
        assert model is None and "has dates or times" in said, name
        assert said.rstrip().endswith("--drop joined leaves the column out")
        assert fit(name, "--drop", "joined")[0] is not None
    people().assign(note=[f"note {k}" for k in range(N_ROWS)]).to_csv("t.csv", index=False)
    assert "column 5 ('note') has 400 different texts in 400 rows" in fit("t.csv")[1]
    table = people().assign(id=range(N_ROWS))
    table.to_csv("t.csv", index=False)
    assert "t.csv: id rises from row to row like an id" in fit("t.csv")[1]
    table.drop(columns=["city", "member"]).to_csv("t.csv", index=False)
    assert "--drop id leaves it out" in fit("t.csv")[1]


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        (["--columns", "city,age"], ["age", "city"]),
        (["--columns", "1-2"], ["age", "city"]),
        (["--columns=-2,1"], ["age", "member"]),
        (["--drop", "member"], ["age", "city"]),
        (["--columns", "1-3", "--drop", "2"], ["age", "member"]),
        (["--columns", "label,age"], ["age"]),
    ],
)
def test_columns_that_are_named(folder, fit, run, options, columns):
    people().to_csv("t.csv", index=False)
    model, _ = fit("t.csv", *options)
    first = model[0] if hasattr(model, "steps") else model
    assert first.feature_names_in_.tolist() == columns
    lines, said = predicted(run, "t.csv")
    assert len(lines) == N_ROWS and "left out columns that the model does not have" in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--drop", "citty"],
            "no column is called 'citty' (--drop); there are age, city, member, ",
        ),
        (["--columns", "9"], "--columns 9, and it has 4 columns"),
        (["--columns", "3-2"], "--columns 3-2: the range ends before it begins"),
        (["--drop", "1-3"], "--columns and --drop leave only the labels' column"),
    ],
)
def test_columns_that_are_not_there(fit, options, words):
    people().to_csv("t.csv", index=False)
    model, said = fit("t.csv", *options)
    assert model is None and words in said


def test_columns_without_names_are_named_again_to_predict(fit, run):
    people().to_csv("t.csv", index=False, header=False)
    model, said = fit("t.csv", "--label-column", "4", "--drop", "2")
    assert model is not None, said
    code, _, said = run("predict", "m.npz", "t.csv")
    assert code == 1 and "--columns and --drop which are used" in said
    lines, said = predicted(run, "t.csv", "--drop", "2", "--label-column", "4")
    assert len(lines) == N_ROWS and "accuracy" in said


@pytest.mark.parametrize("decimal", ["comma", "point"])
@pytest.mark.parametrize("header", [True, False])
def test_decimals_and_thousands(fit, run, decimal, header):
    table = people().drop(columns="member").assign(value=np.linspace(-3e6, 3e6, N_ROWS).round(2))
    model, _ = fit_table(fit, table)
    marked = [f"{value:,.2f}" for value in table["value"]]
    if decimal == "comma":
        marked = [text.translate(str.maketrans(",.", ".,")) for text in marked]
    other = table.assign(value=marked, age=[f"{age:.0f}" for age in table["age"]])
    other.to_csv("t.csv", index=False, sep=";", header=header)
    assert "has a comma" in (said := fit("t.csv", "--label-column", "3", "--header", "auto")[1])
    assert f"--decimal {decimal} reads" in said or f"--decimal {decimal} such" in said
    again, said = fit("t.csv", "--label-column", "3", "--decimal", decimal)
    np.testing.assert_allclose(again[0].means_, model[0].means_, atol=1e-6)
    options = ["--label-column", "3", "--decimal", decimal]
    assert predicted(run, "t.csv", *options)[0] == again.predict(named_as(again, table)).tolist()


def fit_table(fit, table):
    table.to_csv("plain.csv", index=False)
    return fit("plain.csv")


def named_as(model, table):
    rows = table.drop(columns="label")
    return rows if hasattr(model[0], "feature_names_in_") else rows.to_numpy(object)


def test_numbers_with_the_other_mark_are_refused(fit):
    rows = ["a;b;label", *(f"{k},5;x{k % 2};{k % 2}" for k in range(30)), "1.5;x1;0"]
    with open("t.csv", "w") as file:
        file.write("\n".join(rows) + "\n")
    _, said = fit("t.csv", "--decimal", "comma")
    assert "t.csv, line 32, column 1 ('a'): '1.5' is not a number with a decimal ','" in said


def test_text_alone_has_names_in_its_first_line_unless_that_is_like_a_row(fit, run):
    draws = np.random.default_rng(0)
    rows = pd.DataFrame(draws.choice(list("abc"), (60, 4)), columns=["p", "q", "r", "label"])
    rows.to_csv("t.csv", index=False)
    model, said = fit("t.csv")
    assert model[0].feature_names_in_.tolist() == ["p", "q", "r"] and "60 rows" in said
    rows.to_csv("t.csv", index=False, header=False)
    model, said = fit("t.csv", "--label-column", "4")
    assert model[0].n_features_in_ == 3 and not hasattr(model[0], "feature_names_in_")
    assert "60 rows" in said and len(predicted(run, "t.csv", "--label-column", "4")[0]) == 60


def test_errors_name_the_column_of_the_file_where_labels_come_first(fit):
    table = people()[["label", "age", "city", "member"]].assign(age="")
    table.loc[1:, "age"] = [f"n{k}" for k in range(N_ROWS - 1)]
    table.to_csv("t.csv", index=False, header=False)
    _, said = fit("t.csv", "--label-column", "1", "--header", "no")
    assert "column 2 has 399 different texts" in said and "--drop 2 leaves" in said


@pytest.mark.parametrize("name", ["t.csv", "t.npz", "t.svm"])
def test_scaled_columns_are_those_of_the_model(fit, run, name):
    draws = np.random.default_rng(0)
    means = np.array([1e5, 1.0, 0.0]) * (name != "t.svm")  # sparse rows are not centred
    rows = draws.normal(means, [1e4, 1e-3, 1], (N_ROWS, 3))
    labels = (rows[:, 0] - means[0]) / 1e4 + (rows[:, 1] - means[1]) * 1e3 > 0
    if name == "t.csv":
        pd.DataFrame(rows).assign(label=labels.astype(int)).to_csv(name, index=False)
    elif name == "t.npz":
        np.savez(name, X=rows, y=labels.astype(int))
    else:
        with open(name, "w") as file:
            for row, label in zip(rows, labels, strict=True):
                cells = " ".join(f"{k}:{value!r}" for k, value in enumerate(row.tolist(), 1))
                file.write(f"{int(label)} {cells}\n")
    _, said = fit(name, "--estimator", "sgd", "--seed", "0")
    assert "differ" in said and "use --scale to give them equal scales" in said
    model, said = fit(name, "--estimator", "sgd", "--seed", "0", "--scale")
    assert "differ" not in said
    np.testing.assert_allclose(model[0].scales_, rows.std(axis=0))
    _, said = predicted(run, name)
    assert float(said.rpartition(" ")[2]) > 0.95


def test_columns_of_small_numbers_are_said(fit):
    draws = np.random.default_rng(0)
    rows = draws.normal(size=(N_ROWS, 3))
    table = pd.DataFrame(rows * [1, 1e-4, 1], columns=list("abc"))
    table.assign(label=rows.sum(axis=1)).to_csv("t.csv", index=False)
    model, said = fit("t.csv", "--no-scale")
    assert "column 'b' of small numbers: the penalty removes most" in said
    assert (
        "--scale gives columns equal scales" in said and model.score(table, rows.sum(axis=1)) < 0.8
    )
    model, said = fit("t.csv")
    assert "column 'b' of small numbers: columns are scaled" in said
    assert said.count("400 rows") == 1 and model.score(table, rows.sum(axis=1)) > 0.99
    assert "--scale gives columns equal scales" in fit("t.csv", "--estimator", "ridge")[1]
    model, said = fit("t.csv", "--scale")
    assert "small numbers" not in said and model.score(table, rows.sum(axis=1)) > 0.99
    assert "small numbers" not in fit("t.csv", "--estimator", "ridge", "--alpha", "1e-9")[1]


def from_pipe(content):
    """Descriptor 0 gives these bytes."""
    reader, writer = os.pipe()
    saved = os.dup(0)
    os.dup2(reader, 0)
    os.close(reader)

    def write():
        with os.fdopen(writer, "wb") as stream:
            stream.write(content)

    threading.Thread(target=write, daemon=True).start()
    return saved


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_pipe_is_read_once_and_used_twice(fit, run, packed, kind):
    table = lacking(people(30_000))  # more than stays in memory
    text = table.to_csv(index=False) if kind == "csv" else lines_of(table.iloc[:2_000])
    content = gzip.compress(text.encode(), 1) if packed else text.encode()
    saved = from_pipe(content)
    try:
        model, said = fit("-")
    finally:
        os.dup2(saved, 0)
        os.close(saved)
    assert model is not None, said
    assert f"standard input: {30_000 if kind == 'csv' else 2_000:,} rows" in said


def test_rows_that_do_not_fit_into_memory_are_in_a_file_meanwhile(folder, fit, seams, monkeypatch):
    table = people()
    table.to_csv("t.csv", index=False)
    small, _ = fit("t.csv", "--seed", "0")
    seams.memory.free = lambda **_: 15_000
    monkeypatch.setattr("hogshare.system.memory.LITTLE", 1)
    monkeypatch.setattr("hogshare.cli.fit.check_memory", lambda *_: None)
    monkeypatch.setattr("hogshare.system.memory.require", lambda *_: None)
    before = set(os.listdir(os.environ.get("TMPDIR", "/tmp")))
    model, said = fit("t.csv", "--seed", "0")
    assert "of rows do not fit into memory; they are in a temporary file" in said
    np.testing.assert_allclose(model[-1].coef_, small[-1].coef_, rtol=1e-3)  # read by windows
    left = set(os.listdir(os.environ.get("TMPDIR", "/tmp"))) - before
    assert not [name for name in left if name.startswith("hogshare-")]


def test_options_of_tables_are_refused_where_there_is_none(fit, run):
    np.savez("t.npz", X=np.eye(4), y=np.arange(4) % 2)
    code, _, said = run("fit", "t.npz", "--model", "m.npz", "--drop", "2")
    assert (
        code == 2
        and "--drop is for files of CSV, JSON lines, ARFF or Parquet; t.npz is none" in said
    )
    people().to_csv("t.csv", index=False)
    for option in (["--scale"], ["--missing", "mean"], ["--categories", "auto"]):
        code, _, said = run("fit", "t.csv", "--model", "m", "--estimator", "topics", *option)
        assert code == 2 and "whose file has counts" in said
        code, _, said = run("fit", "t.csv", "--model", "m", "--estimator", "factorisation", *option)
        assert code == 2 and "whose file has ratings" in said
    assert run("fit", "t.csv", "--model", "m", "--categories", "few")[0] == 2
    code, _, said = run("fit", "t.csv", "--model", "m", "--labels", "y", "--missing", "drop")
    assert code == 2 and "--missing drop is not for --labels" in said


JSON_LINES = [
    (
        '{"a": 1, "label": 0}\n{"a": [1], "label": 1}\n',
        "t.jsonl, line 2, column 'a': a list is not",
    ),
    ('{"a": 1, "label": 0}\n{"a": 1, \n', "t.jsonl, line 2: not an object of JSON"),
    ('{"a": 1, "label": 0}\n[1]\n', "t.jsonl, line 2: JSON, but not an object with names"),
    ("\n", "t.jsonl: the file is empty"),
    ("{}\n{}\n", "t.jsonl: the objects of its lines are empty"),
]


@pytest.mark.parametrize(("text", "words"), JSON_LINES)
def test_lines_that_are_no_rows(folder, fit, text, words):
    (folder / "t.jsonl").write_text(text)
    model, said = fit("t.jsonl")
    assert model is None and words in said


def test_names_of_json_that_come_late_are_left_out_and_said(folder, fit):
    rows = [{"a": k % 5, "c": f"t{k % 3}", "label": k % 2, "pad": "x" * 900} for k in range(2_500)]
    rows[2_400]["late"] = 1
    (folder / "t.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    _, said = fit("t.jsonl")
    assert "left out names that the first lines do not have: late (line 2401)" in said


ARROW = {
    "integers": pa.array([1, None, 3, 4] * 9),
    "small": pa.array([1, 2, 3, 4] * 9, pa.int8()),
    "half": pa.array(np.array([1, 2, 3, 4] * 9, np.float16)),
    "decimals": pa.array([1, None, 3, 4] * 9).cast(pa.decimal128(22, 2)),
    "truths": pa.array([True, None, False, True] * 9),
    "texts": pa.array(["x", None, "y", "x"] * 9, pa.large_string()),
    "coded": pa.array(["x", None, "y", "x"] * 9).dictionary_encode(),
    "coded numbers": pa.array([7, None, 8, 7] * 9).dictionary_encode(),
    "nothing": pa.nulls(36),
}


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_types_of_arrow(folder, fit, run, name):
    labels = pa.array([True, False, True, False] * 9)
    table = pa.table({**ARROW, "a.b": pa.array(range(36)), "label": labels})
    write = pa.parquet.write_table if name == "t.parquet" else feather.write_feather
    write(table, folder / name)
    model, said = fit(name)
    kinds = dict(zip(model[0].feature_names_in_.tolist(), model[0].kinds_, strict=True))
    text = {"texts", "coded"}
    assert {name for name, kind in kinds.items() if kind == "category"} == text
    assert kinds["nothing"] == "empty" and "left out columns without any value: nothing" in said
    assert model[-1].classes_.tolist() == ["False", "True"]
    assert set(predicted(run, name)[0]) <= {"False", "True"}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (pa.array([[1]] * 4), "column 'odd': values of the type list<"),
        (pa.array([b"x"] * 4), "column 'odd': values of the type binary"),
        (pa.array([1] * 4, pa.date32()), "column 'odd' has dates or times"),
        (pa.array([1] * 4, pa.duration("s")), "column 'odd' has dates or times"),
    ],
)
def test_types_of_arrow_that_are_refused(folder, fit, values, words):
    table = pa.table({"odd": values, "a": [1, 2, 3, 4], "label": [0, 1, 0, 1]})
    pa.parquet.write_table(table, folder / "t.parquet")
    model, said = fit("t.parquet")
    assert model is None and words in said and "--drop odd leaves the column out" in said
    assert fit("t.parquet", "--drop", "odd")[0] is not None


def test_files_that_are_damaged_are_refused_by_name(folder, fit):
    people().to_parquet("t.parquet")
    whole = (folder / "t.parquet").read_bytes()
    (folder / "t.parquet").write_bytes(whole[: len(whole) // 2])
    assert "t.parquet: not a Parquet file that can be read" in fit("t.parquet")[1]
    (folder / "t.arrow").write_bytes(b"ARROW1\0\0" + bytes(50))
    assert "t.arrow: not an Arrow file that can be read" in fit("t.arrow")[1]


def test_a_model_of_a_table_without_names_takes_the_first_line_for_a_row(fit, run):
    table = people()[["city", "label"]]
    table.to_csv("h.csv", index=False, header=False)
    assert fit("h.csv", "--label-column", "-1")[0] is not None
    Path("new.csv").write_text("Quito\nRome\nOslo\n")
    code, out, said = run("predict", "m.npz", "new.csv", "--format", "csv")
    assert code == 0 and len(out.splitlines()) == 3, said


def test_a_first_row_that_lacks_a_value_is_a_row(fit):
    lines = ["Rome,,yes"] + [
        f"{('Rome', 'Oslo')[k % 2]},{k}.5,{('yes', 'no')[k % 2]}" for k in range(60)
    ]
    Path("g.csv").write_text("\n".join(lines) + "\n")
    model, said = fit("g.csv", "--label-column", "-1")
    assert "61 rows" in said and not hasattr(model[0], "feature_names_in_")


def test_names_alone_are_no_rows(fit, run):
    people().to_csv("t.csv", index=False)
    assert fit("t.csv")[0] is not None
    Path("names.csv").write_text("age,city,member\n")
    code, _, said = run("predict", "m.npz", "names.csv")
    assert code == 1 and "no rows" in said and "unexpected" not in said


def test_truth_values_are_the_same_labels_in_every_format(fit, run):
    pytest.importorskip("pyarrow")
    table = people()
    table["label"] = table["label"] == "buys"
    table.to_csv("b.csv", index=False)
    table.to_parquet("b.parquet")
    table.to_json("b.jsonl", orient="records", lines=True)
    for name in ("b.csv", "b.parquet", "b.jsonl"):
        assert fit(name)[0] is not None
        for other in ("b.csv", "b.parquet", "b.jsonl"):
            _, said = predicted(run, other)
            assert float(said.rpartition(" ")[2]) > 0.8, (name, other, said)


def test_columns_without_names_are_called_by_their_numbers(fit, run):
    draws = np.random.default_rng(0)
    table = pd.DataFrame(draws.normal(size=(80, 3)), columns=["", " ", "a"])
    table["label"] = np.where(table[""] > 0, "yes", "no")
    lines = table.to_csv(index=False, header=False)
    Path("u.csv").write_text(",,a,label\n" + lines)
    model, _ = fit("u.csv", "--scale")
    assert list(model[0].feature_names_in_) == ["column 1", "column 2", "a"]
    _, said = predicted(run, "u.csv")
    assert float(said.rpartition(" ")[2]) > 0.9
