"""The command for networks: fit and predict of classes and of numbers, and what is refused."""

import json

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

from hogshare import MLPClassifier, MLPRegressor, load
from hogshare.cli.main import main

X = np.random.default_rng(0).standard_normal((200, 3)).round(3)
NUMBERS = X[:, 0] - 2.0 * np.abs(X[:, 1])
CLASSES = (np.median(NUMBERS) < NUMBERS).astype(int)
FIT = ("--estimator", "mlp", "--hidden", "8,4", "--epochs", 30, "--n-jobs", 1, "--seed", 0)


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def stored(y, path):
    dump_svmlight_file(X, y, str(path), zero_based=False)
    return path


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("kind", "y"), [(MLPClassifier, CLASSES), (MLPRegressor, NUMBERS)])
def test_fit_and_predict(capsys, tmp_path, kind, y):
    data, file, report = (tmp_path / name for name in ("rows.svm", "m.npz", "r.json"))
    stored(y, data)
    told = ("--activation", "tanh", "--batch-size", 20, "--model", file, "--json", report)
    code, out, err = run(capsys, "fit", data, *FIT, *told)
    assert code == 0, err
    assert kind.__name__ in out and json.loads(report.read_text())["n_epochs"] == 30
    model = load(file)
    assert type(model) is kind and model.hidden_layer_sizes == (8, 4)
    settings = {"activation": "tanh", "batch_size": 20, "max_iter": 30, "random_state": 0}
    settings["hidden_layer_sizes"] = (8, 4)
    wanted = kind(**settings).fit(X.astype(model.coefs_[0].dtype), y)
    np.testing.assert_allclose(model.coefs_[0], wanted.coefs_[0], rtol=1e-4)
    code, out, err = run(capsys, "predict", file, data)
    assert code == 0, err
    np.testing.assert_allclose(
        np.array(out.split(), float), model.predict(X.astype(model.coefs_[0].dtype)), rtol=1e-4
    )
    if kind is MLPClassifier:
        code, out, err = run(capsys, "predict", file, data, "--proba")
        assert code == 0 and len(out.splitlines()) == 201, err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--hidden", "8,x"), "--hidden"),
        (("--hidden", "0"), "--hidden"),
        (("--loss", "hinge"), "log_loss for classes"),
        (("--learning-rate", "auto"), "Adam's"),
        (("--n-topics", "3"), "topics"),
        (("--checkpoint", "c.npz"), "--checkpoint"),
    ],
)
def test_what_makes_no_sense_is_refused(capsys, tmp_path, arguments, told):
    data = stored(CLASSES, tmp_path / "rows.svm")
    code, _, err = run(
        *(capsys, "fit", data, "--model", tmp_path / "m.npz", "--estimator", "mlp"), *arguments
    )
    assert code == 2 and told in err
    assert not (tmp_path / "m.npz").exists()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_more_workers_of_the_command_take_the_steps_of_one(capsys, tmp_path):
    data = stored(CLASSES, tmp_path / "rows.svm")
    coefs = []
    for n_jobs in (1, 3):
        file, report = tmp_path / "m.npz", tmp_path / "r.json"
        run_by = ("--n-jobs", n_jobs, "--runtime", "threads", "--model", file, "--json", report)
        code, _, err = run(capsys, "fit", data, *FIT, *run_by)
        assert code == 0 and "steps late" not in err
        assert json.loads(report.read_text())["settings"]["n_workers"] == n_jobs
        coefs.append(load(file).coefs_[0])
    np.testing.assert_allclose(coefs[1], coefs[0], rtol=1e-3, atol=1e-5)
