"""Ordinary files by the command's defaults: their scores and a careful scikit-learn pipeline's.

Each file is made from a seed, with the features of ordinary files: scales, categories, missing
values, dates, headers or none, delimiters, quotes, compression, Parquet, JSON lines. ``hogshare
fit`` gets only the name of the labels' column, and ``hogshare predict`` rows that were not fitted.
The pipeline gets the same rows as data frames: means for missing numbers, standard scores, one
column for each category, and LogisticRegression or Ridge. If the command refuses a file, or warns
about its result, the option that the message offers is used, and compared ("ours"). Usage::

    python bench/ordinary_files.py --json bench/results/ordinary_files.json
"""

from __future__ import annotations

import contextlib
import gzip
import io
import lzma
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import script
from sklearn import datasets
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from hogshare.cli.main import main

WITHIN = 0.01
SPLITS = 5  # of the rows of each file, into those that are fitted and those that are predicted
SCALE = "--scale gives columns equal scales"  # ends the message on a poor fit
Frame = pd.DataFrame


@dataclass
class File:
    """What a file has, and how it is written.

    change : of the table of rows, before it is split
    offered : options that the command's sentence offers, where it refuses the file or doubts
    """

    rows: Callable[[], Frame]
    change: Callable[[Frame], Frame] = lambda table: table
    suffix: str = ".csv"
    text: dict[str, Any] = field(default_factory=dict)  # of DataFrame.to_csv
    after: Callable[[str], str] = lambda text: text
    offered: list[str] = field(default_factory=list)
    label_column: str = "label"


# -- rows


def of_sklearn(loader: Callable[..., Any], words: bool = False) -> Callable[[], Frame]:
    def rows() -> Frame:
        found = loader(as_frame=True)
        table = found.data.rename(columns=lambda name: str(name).replace(",", ""))
        labels = found.target
        if words:
            labels = pd.Series(found.target_names[found.target])
        return table.assign(label=labels.to_numpy())

    return rows


def generated(regression: bool = False, **settings: Any) -> Callable[[], Frame]:
    def rows() -> Frame:
        given = {"n_samples": 1_500, "n_features": 10, "random_state": 0, **settings}
        made = datasets.make_regression if regression else datasets.make_classification
        X, y = made(**given)
        return Frame(X, columns=[f"x{k}" for k in range(X.shape[1])]).assign(label=y)

    return rows


def drawn(n_rows: int = 1_500, n_cities: int = 8) -> tuple[Frame, Any]:
    """Who renewed a contract: by age, income, city, plan and membership, with noise."""
    draws = np.random.default_rng(7)
    city = draws.integers(0, n_cities, n_rows)
    table = Frame(
        {
            "age": draws.integers(18, 80, n_rows).astype(float),
            "income": np.round(draws.lognormal(10, 0.6, n_rows), 2),
            "city": [f"city {k}" for k in city],
            "plan": draws.choice(["basic", "plus", "gold"], n_rows, p=[0.6, 0.3, 0.1]),
            "visits": draws.poisson(4, n_rows).astype(float),
            "member": draws.choice(["yes", "no"], n_rows),
        }
    )
    odds = (
        (table["age"] - 45) / 15
        + np.log(table["income"] / 22_000)
        + draws.normal(0, 1.2, n_cities)[city]
        + table["plan"].map({"basic": -0.5, "plus": 0.5, "gold": 1.5})
        + 0.2 * (table["visits"] - 4)
        + 0.8 * (table["member"] == "yes")
    )
    table["label"] = np.where(draws.random(n_rows) < 1 / (1 + np.exp(-odds)), "renewed", "left")
    return table, odds + draws.normal(0, 0.7, n_rows)


def people(n_rows: int = 1_500, n_cities: int = 8) -> Frame:
    return drawn(n_rows, n_cities)[0]


def houses() -> Frame:
    """The same with a number to predict."""
    table, odds = drawn()
    return table.assign(label=np.round(odds * 10 + 100, 3))


# -- changes


def lacking(*columns: str, share: float = 0.1, marks: tuple[Any, ...] = (None,)) -> Any:
    def change(table: Frame) -> Frame:
        draws = np.random.default_rng(3)
        for name in columns:
            which = draws.random(len(table)) < share
            column = table[name].astype(object)
            column[which] = draws.choice(np.array(marks, dtype=object), which.sum())
            table[name] = column
        return table

    return change


def labels(*words: Any) -> Callable[[Frame], Frame]:
    """Other names for who left and who renewed."""
    return lambda table: table.assign(
        label=table["label"].map(dict(zip(("left", "renewed"), words, strict=True)))
    )


def with_column(name: str, make: Callable[[int], Any], first: bool = False) -> Any:
    def change(table: Frame) -> Frame:
        table.insert(0 if first else table.shape[1] - 1, name, make(len(table)))
        return table

    return change


def unseen(table: Frame) -> Frame:
    """Cities of the last rows, which are those that are predicted, are new in part."""
    draws = np.random.default_rng(4)
    last = np.arange(len(table)) >= len(table) * 0.7
    table.loc[last & (draws.random(len(table)) < 0.05), "city"] = "new city"
    return table


def scaled_by(*powers: int) -> Callable[[Frame], Frame]:
    def change(table: Frame) -> Frame:
        for name, power in zip(table.columns, powers, strict=False):
            table[name] = table[name] * 10.0**power
        return table

    return change


def imbalanced(table: Frame) -> Frame:
    rare = np.flatnonzero(table["label"] == "renewed")[12::13]
    return table.iloc[np.sort(np.r_[np.flatnonzero(table["label"] == "left"), rare])]


def days(n: int) -> Any:
    return pd.date_range("2021-03-01", periods=n, freq="7h")


def texts(n: int) -> list[str]:
    return [f"called on day {k}, and will call again" for k in range(n)]


def thousands(table: Frame) -> Frame:
    return table.assign(income=[f"{value:,.2f}" for value in table["income"]])


NUMBERS = ("age", "income", "visits")
FILES = {
    "measurements, unlike scales": File(of_sklearn(datasets.load_breast_cancer)),
    "three classes": File(of_sklearn(datasets.load_wine)),
    "labels that are words": File(of_sklearn(datasets.load_iris, words=True)),
    "ten classes, constant columns": File(of_sklearn(datasets.load_digits)),
    "numbers to predict": File(
        of_sklearn(datasets.load_diabetes), offered=["--task", "regression"]
    ),
    "numbers and categories": File(people),
    "a number to predict, categories": File(houses),
    "tabs": File(people, suffix=".tsv", text={"sep": "\t"}),
    "semicolons": File(people, text={"sep": ";"}),
    "bars, no suffix": File(people, suffix="", text={"sep": "|"}),
    "blanks, no header": File(
        generated(), suffix=".txt", text={"sep": " ", "header": False}, label_column="-1"
    ),
    "every cell quoted": File(people, text={"quoting": 1}),
    "byte order mark, CRLF": File(people, after=lambda text: "\ufeff" + text.replace("\n", "\r\n")),
    "gzip": File(people, suffix=".csv.gz"),
    "xz": File(houses, suffix=".csv.xz"),
    "no header": File(people, text={"header": False}, label_column="-1"),
    "pandas' index": File(people, text={"index": True}),
    "an id that rises": File(people, with_column("id", lambda n: np.arange(n) + 5_000, True)),
    "quoted line breaks and commas": File(
        people, lambda table: table.assign(city=table["city"] + ',\n"of old"')
    ),
    "missing numbers": File(people, lacking(*NUMBERS)),
    "missing numbers, many": File(houses, lacking(*NUMBERS, share=0.35)),
    "marks of missing": File(
        people, lacking(*NUMBERS, "city", marks=("NA", "?", "null", "n/a", "NaN", ""))
    ),
    "missing categories": File(people, lacking("city", "plan", share=0.2)),
    "missing labels": File(people, lacking("label", share=0.1)),
    "many categories": File(lambda: people(6_000, 300)),
    "categories that are new": File(people, unseen),
    "codes such as 3+": File(
        people,
        lambda table: table.assign(
            visits=table["visits"].astype(int).clip(upper=5).astype(str).replace("5", "5+")
        ),
    ),
    "true and false": File(people, lambda table: table.assign(member=table["member"] == "yes")),
    "labels 0 and 1": File(people, labels(0, 1)),
    "labels -1 and +1": File(people, labels(-1, 1)),
    "labels true and false": File(people, labels(False, True)),
    "one in forty": File(lambda: people(8_000), imbalanced),
    "constant and empty columns": File(
        people,
        lambda table: table.assign(same=1, nothing=np.nan)[["same", "nothing", *table.columns]],
    ),
    "from 1e-6 to 1e6": File(generated(n_informative=6), scaled_by(-6, -3, 0, 3, 6, -4, 4)),
    "small numbers, a number to predict": File(
        generated(regression=True, noise=20.0), scaled_by(-4, -3, -2, -1)
    ),
    "a day": File(people, with_column("joined", days), offered=["--drop", "joined"]),
    "free text": File(people, with_column("notes", texts), offered=["--drop", "notes"]),
    "thousands with commas": File(people, thousands, offered=["--decimal", "point"]),
    "decimal commas": File(
        people, text={"sep": ";", "decimal": ","}, offered=["--decimal", "comma"]
    ),
    "Parquet, missing values": File(people, lacking(*NUMBERS, "city"), suffix=".parquet"),
    "Parquet, categories and a day": File(
        lambda: people().assign(joined=days(1_500)),
        lambda table: table.astype({"city": "category"})[["joined", *table.columns.drop("joined")]],
        suffix=".parquet",
        offered=["--drop", "joined"],
    ),
    "Feather": File(houses, suffix=".feather"),
    "JSON lines, names absent": File(people, lacking(*NUMBERS, "plan"), suffix=".jsonl"),
}


# -- files, and both of the contestants


def write(table: Frame, file: File, path: Path) -> None:
    if file.suffix in (".parquet", ".feather"):
        table = table.copy()
        for name in table.columns:  # of objects, so that what is missing is null
            if table[name].dtype == object:
                table[name] = table[name].convert_dtypes()
        table = table.reset_index(drop=True)
        table.to_parquet(path) if file.suffix == ".parquet" else table.to_feather(path)
        return
    if file.suffix == ".jsonl":
        lines = [row.dropna().to_json(force_ascii=False) for _, row in table.iterrows()]
        path.write_text("\n".join(lines) + "\n")
        return
    text = file.after(table.to_csv(**{"index": False, **file.text})).encode()
    packers = {".gz": gzip.compress, ".xz": lzma.compress}
    path.write_bytes(packers.get(path.suffix, bytes)(text))


def command(*arguments: str) -> tuple[int, str]:
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = main(list(arguments))
    return code, said.getvalue()


def ours(file: File, folder: Path, options: list[str]) -> tuple[list[str], str]:
    """Predictions, as they are printed, and the sentence that refuses the file or doubts it."""
    train, test = (folder / f"{name}{file.suffix}" for name in ("train", "test"))
    model, out = str(folder / "model.npz"), folder / "labels.txt"
    label = ["--label-column", file.label_column]
    code, said = command("fit", str(train), "--model", model, *label, *options)
    lines = [line.removeprefix("hogshare: error: ") for line in said.splitlines()]
    doubts = lines[-1:] if code else [line for line in lines if line.endswith(SCALE)]
    doubt = "".join(doubts).replace(f"{folder}/", "")
    if code:
        return [], doubt
    again = options if options[:1] == ["--decimal"] else []
    code, said = command("predict", model, str(test), *label, *again, "--out", str(out), "-q")
    if code:
        raise RuntimeError(said)
    return out.read_text().splitlines(), doubt


MARKS = ["NA", "?", "null", "n/a", "NaN", ""]


def theirs(train: Frame, test: Frame, is_class: bool) -> Any:
    """What a careful person would fit."""
    train, test = (table.drop(columns="label").replace(MARKS, None) for table in (train, test))
    numbers, categories = [], []
    for name in train.columns[train.notna().any()]:
        as_numbers = pd.to_numeric(train[name], errors="coerce")
        is_number = as_numbers.notna().sum() == train[name].notna().sum()
        (numbers if is_number else categories).append(name)
    for table in (train, test):
        table[numbers] = table[numbers].apply(pd.to_numeric).astype(float)
        table[categories] = table[categories].astype(object).where(table[categories].notna(), None)
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), numbers),
            ("categories", OneHotEncoder(handle_unknown="ignore"), categories),
        ]
    )
    last = LogisticRegression(max_iter=2_000) if is_class else Ridge()
    return make_pipeline(columns, last), train, test


def one(file: File) -> dict[str, Any]:
    """Both scores of a file."""
    table = file.change(file.rows().reset_index(drop=True)).reset_index(drop=True)
    in_order = file.change is unseen
    found = []
    for seed in range(1 if in_order else SPLITS):
        state = None if in_order else seed
        parts = train_test_split(table, test_size=0.3, random_state=state, shuffle=not in_order)
        found.append(split(file, parts))
    said = found[0]["said"]
    scores = ("by defaults", "ours", "theirs")
    means = {
        k: None if found[0][k] is None else float(np.mean([one[k] for one in found]))
        for k in scores
    }
    return {**means, "difference": means["ours"] - means["theirs"], "said": said}


def split(file: File, parts: list[Frame]) -> dict[str, Any]:
    """Both scores of one way to divide the rows."""
    label = pd.concat(parts)["label"].dropna()
    is_class = label.dtype.kind != "f" or label.nunique() < 20
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part, stem in zip(parts, ("train", "test"), strict=True):
            write(part, file, folder / f"{stem}{file.suffix}")
        found, said = ours(file, folder, [])
        by_defaults = found
        if said:  # what it offers
            found, again = ours(file, folder, file.offered)
            if not found:
                raise RuntimeError(again)
    dropped = file.offered[1].split(",") if file.offered[:1] == ["--drop"] else []
    train, test = (part.drop(columns=dropped).dropna(subset="label") for part in parts)
    known = parts[1]["label"].notna().to_numpy()
    pipeline, X, X_test = theirs(train, test, is_class)
    pipeline.fit(X, train["label"].tolist())
    labels = test["label"].tolist()
    score = accuracy_score if is_class else r2_score
    wanted = score(labels, pipeline.predict(X_test))

    def scored(lines: list[str]) -> float | None:
        if not lines:
            return None
        mine = [text.lower() for text, is_known in zip(lines, known, strict=True) if is_known]
        if is_class:
            return accuracy_score([str(label).lower() for label in labels], mine)
        return r2_score(labels, [float(text) for text in mine])

    return {
        "by defaults": scored(by_defaults),
        "ours": scored(found),
        "theirs": wanted,
        "said": said,
    }


def measure(options: Any) -> dict[str, Any]:
    """All files, or those whose names have a word."""
    found = {name: one(file) for name, file in FILES.items() if options.only in name}
    script.show(
        {name: {k: v for k, v in row.items() if k != "said"} for name, row in found.items()},
        "accuracy, or R2 of numbers, of rows that were not fitted",
    )
    for name, row in found.items():
        if row["said"]:
            print(f"{name}: {row['said']}")
    far = [name for name, row in found.items() if abs(row["difference"]) > WITHIN]
    print(f"{len(found) - len(far)} of {len(found)} within {WITHIN}")
    print(f"others: {', '.join(far) or 'none'}")
    return {"within": WITHIN, "files": found}


if __name__ == "__main__":
    script.run(__doc__, measure, only="")
