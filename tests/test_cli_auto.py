"""What `hogshare fit` fits when no estimator is named."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hogshare
from hogshare.cli import main
from hogshare.estimators.column_scales import unlike

N_ROWS = 600


def people():
    """Income in thousands of units, age, and who bought something, by both."""
    draws = np.random.default_rng(0)
    rows = np.column_stack([draws.normal(50_000, 15_000, N_ROWS), draws.integers(18, 80, N_ROWS)])
    odds = (rows[:, 0] - 50_000) / 7_000 + (rows[:, 1] - 45) / 8
    return rows, draws.random(N_ROWS) < 1 / (1 + np.exp(-odds)), odds


def named(rows):
    return pd.DataFrame(rows, columns=["income", "age"])


@pytest.fixture
def fit(tmp_path, capsys):
    """Fit a file of rows and labels; the model, what was printed, and the exit code."""

    def run(rows, labels, *options):
        path, model = tmp_path / "people.csv", tmp_path / "model.npz"
        lines = [
            "income,age,label",
            *(f"{a},{b},{c}" for (a, b), c in zip(rows, labels, strict=True)),
        ]
        path.write_text("\n".join(lines) + "\n")
        code = main.main(["fit", str(path), "--model", str(model), *options])
        return (hogshare.load(model) if code == 0 else None), capsys.readouterr().err, code

    return run


def test_unscaled_columns_of_classes_are_as_right_as_a_careful_pipeline(fit):
    rows, bought, _ = people()
    model, said, _ = fit(rows, np.where(bought, "yes", "no"))
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, bought)
    assert type(model).__name__ == "LogisticRegression"
    ours = np.mean((model.predict(named(rows)) == "yes") == bought)
    assert abs(ours - pipeline.score(rows, bought)) <= 0.01
    assert "the labels are classes: fitting LogisticRegression" in said


def test_numbers_are_fitted_by_least_squares(fit):
    rows, _, odds = people()
    model, said, _ = fit(rows, odds)
    assert type(model).__name__ == "Ridge" and model.score(named(rows), odds) > 0.999
    assert "the labels are numbers: fitting Ridge" in said


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (["--C", "10"], "LogisticRegression"),
        (["--class-weight", "balanced"], "LogisticRegression"),
        (["--epochs", "30", "--tol", "0.01"], "LogisticRegression"),
        (["--loss", "log_loss"], "SGDClassifier"),
        (["--alpha", "0.01"], "SGDClassifier"),
        (["--tol", "none", "--epochs", "3"], "SGDClassifier"),
        (["--estimator", "ridge"], "RidgeClassifier"),
    ],
)
def test_options_say_which_estimator_is_meant(fit, options, kind):
    rows, bought, _ = people()
    scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    assert type(fit(scaled, np.where(bought, "yes", "no"), *options)[0]).__name__ == kind


@pytest.mark.parametrize("option", ["--C", "--l1-ratio"])
def test_an_option_for_classes_is_refused_for_numbers(fit, option):
    rows, _, odds = people()
    _, said, code = fit(rows, odds, option, "0.5")
    assert code == 2 and f"{option} is for classes, and this is a regression" in said


def test_schedules_on_unlike_columns_are_warned_of(fit):
    rows, bought, _ = people()
    labels = np.where(bought, "yes", "no")
    words = "columns 'income' and 'age' differ"
    assert words in fit(rows, labels, "--estimator", "sgd")[1]
    assert words not in fit(rows, labels, "--learning-rate", "auto")[1]
    assert words not in fit(rows / [15_000, 20], labels, "--estimator", "sgd")[1]


def test_rare_columns_are_no_smaller_than_others():
    draws = np.random.default_rng(0)
    words = sp.random_array((3_000, 400), density=0.01, random_state=draws, format="csr")
    words.data[:] = draws.integers(1, 9, words.nnz)
    assert unlike(words) is None
    words = sp.hstack([words, sp.csr_array(np.full((3_000, 1), 2_000.0))]).tocsr()
    ratio, largest, least = unlike(words)
    assert largest == 400 and least < 400 and 400 < ratio < 2_000
    assert unlike(np.zeros((5, 3))) is None


def test_quiet_leaves_out_all_but_warnings_and_verbose_says_all(fit, capsys):
    rows, bought, _ = people()
    labels = np.where(bought, "yes", "no")
    model, said, _ = fit(rows, labels, "--quiet")
    assert model is not None and said == ""
    assert "differ" in fit(rows, labels, "-q", "--estimator", "sgd")[1]
    _, said, _ = fit(rows, labels, "-v")
    assert "the labels are classes" in said and "relative_gap at the end" in said
    assert fit(rows, labels, "-q", "-v")[2] == 2
    model, said, _ = fit(rows, labels)
    assert "rows, 2 columns" in said, "the next one in a process is not quiet"
