"""`hogshare fit --eval`: scores on rows that are not fitted, after the fit and after its epochs."""

import argparse
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file

import hogshare
from hogshare.cli import evaluation
from hogshare.cli.main import main

N_ROWS = 600


def rows(n_classes=2):
    draws = np.random.default_rng(0)
    X = draws.normal(size=(N_ROWS, 4))
    values = X @ [1.0, -1.0, 0.5, 0.0] + draws.normal(0, 0.5, N_ROWS)
    places = np.digitize(values, [-1.0, 1.0]) if n_classes == 3 else (values > 0).astype(int)
    table = pd.DataFrame(X, columns=list("abcd"))
    table["kind"] = draws.choice(["x", "y"], N_ROWS)
    return table, places, values


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, plain_environment):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def fit(capsys):
    """Fit one file and evaluate on another; what JSON has of it, what was printed, and said."""

    def call(table, labels, *options):
        table = table.assign(label=labels)
        table.iloc[:400].to_csv("train.csv", index=False)
        table.iloc[400:].to_csv("eval.csv", index=False)
        command = ["fit", "train.csv", "--model", "m.npz", "--n-jobs", "1", "--seed", "0"]
        code = main([*command, "--eval", "eval.csv", "--json", "r.json", *map(str, options)])
        captured = capsys.readouterr()
        if code:
            return code, captured.out, captured.err
        with open("r.json") as file:
            return json.load(file)["eval"], captured.out, captured.err

    return call


def score_of_file(capsys):
    assert main(["predict", "m.npz", "eval.csv"]) == 0
    return float(capsys.readouterr().err.rpartition(" ")[2])


@pytest.mark.quick
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    ("options", "patience"),
    [
        (["--estimator", "sgd", "--tol", "0"], 5),
        (["--estimator", "sgd", "--average"], 5),
        (["--estimator", "mlp", "--hidden", "8", "--tol", "1e-3"], 10),
    ],
)
def test_epochs_are_scored_and_the_best_ones_model_is_stored(
    fit, capsys, options, patience, n_classes
):
    table, places, _ = rows(n_classes)
    names = np.array(["few", "some", "many"])[places]
    found, out, said = fit(table, names, "-v", *options)
    scores = found["epochs"]
    assert found["score"] == "accuracy" and len(scores) >= patience
    assert found["best_epoch"] == int(np.argmax(scores)) + 1
    assert found["final"] == max(scores)
    assert score_of_file(capsys) == pytest.approx(max(scores), abs=1e-4)
    assert f"epoch {len(scores)}: eval accuracy {scores[-1]:.4f}" in said
    assert "eval accuracy" in out and "best epoch" in out
    assert len(scores) < 150, "it ends when nothing is gained any more"


def test_a_fit_ends_after_as_many_epochs_without_a_gain(fit):
    table, places, _ = rows()
    found, out, _ = fit(table, places, "--estimator", "sgd", "--tol", "0.5")
    assert len(found["epochs"]) <= 6
    assert "ended because" in out


@pytest.mark.parametrize("estimator", ["sgd", "mlp"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_numbers_are_scored_by_r2(fit, capsys, estimator):
    table, _, values = rows()
    found, out, _ = fit(table, values, "--estimator", estimator, "--epochs", "60")
    assert found["score"] == "R2" and "eval R2" in out
    assert found["final"] == max(found["epochs"])
    assert score_of_file(capsys) == pytest.approx(found["final"], abs=1e-3)


@pytest.mark.parametrize("options", [[], ["--estimator", "ridge"], ["--scale", "--C", "3"]])
def test_other_estimators_are_scored_after_the_fit(fit, capsys, options):
    table, places, _ = rows()
    table.loc[::9, "a"] = np.nan
    found, out, _ = fit(table, places, *options)
    assert found["epochs"] == [] and found["best_epoch"] is None and "best epoch" not in out
    assert score_of_file(capsys) == pytest.approx(found["final"], abs=1e-4)


def test_rows_of_libsvm_text_are_evaluated_by_the_same_indices(capsys):
    table, places, _ = rows()
    X = table[list("abcd")].to_numpy()
    dump_svmlight_file(X[:400], places[:400], "train.svm", zero_based=False)
    # without its last column, which a reader would not see
    dump_svmlight_file(X[400:, :3], places[400:], "eval.svm", zero_based=False)
    command = ["fit", "train.svm", "--model", "m.npz", "--eval", "eval.svm", "--json", "r.json"]
    assert main([*command, "--n-jobs", "1"]) == 0
    model = hogshare.load("m.npz")
    others = np.column_stack([X[400:, :3], np.zeros(200)])
    with open("r.json") as file:
        assert json.load(file)["eval"]["final"] == model.score(others, places[400:])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table.drop(columns="label"), "scored on labels, and there are none"),
        (lambda table: table.assign(label=[None, *table["label"][1:]]), "and some are missing"),
        (
            lambda table: table.assign(label="word"),
            "the labels are words, but those of the fit are numbers",
        ),
        (lambda table: table.drop(columns="a"), "no column is called 'a'"),
    ],
)
def test_rows_that_nothing_is_scored_on_are_refused_before_the_fit(capsys, change, words):
    table, places, _ = rows()
    table = table.assign(label=places)
    table.to_csv("train.csv", index=False)
    change(table).to_csv("eval.csv", index=False)
    command = ["fit", "train.csv", "--model", "m.npz", "--eval", "eval.csv"]
    assert main(command) == 1
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("estimator", ["topics", "factorisation"])
def test_estimators_without_a_score_of_rows_refuse_it(capsys, estimator):
    command = ["fit", "x.csv", "--model", "m.npz", "--eval", "y.csv", "--estimator", estimator]
    assert main(command) == 2
    assert f"--eval is not for --estimator {estimator}" in capsys.readouterr().err


def test_labels_of_two_kinds_in_a_long_file_are_refused(tmp_path, monkeypatch, capsys):
    """It is read in parts, of which one has numbers alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(evaluation.command_rows, "iterate", lambda *_: iter(PARTS))
    args = argparse.Namespace(eval="e.csv", verbose=False)
    loaded = evaluation.command_rows.Loaded(np.zeros((4, 1)), np.array(["1", "x"] * 2), None)
    with pytest.raises(ValueError, match=r"e\.csv: some labels are numbers"):
        evaluation.Evaluation(args, "classification", loaded, loaded.y)
    PARTS[1] = (np.zeros((2, 1)), np.array([1.0, np.nan]))
    with pytest.raises(ValueError, match="some are missing"):
        evaluation.Evaluation(args, "classification", loaded, loaded.y)


PARTS = [(np.zeros((2, 1)), np.array([1.0, 2.0])), (np.zeros((1, 1)), np.array(["x"]))]
