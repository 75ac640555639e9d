"""The command for topics: fit and predict of documents whose words are counted, without labels."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from hogshare import LatentDirichletAllocation
from hogshare.cli.main import main
from hogshare.io.models import model_file

pytestmark = pytest.mark.usefixtures("plain_environment")


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def negative(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 1:1 2:-0.5 3:2\n-1 1:2 2:1 3:1\n")
    return path


@pytest.fixture
def counted():
    """Documents of two topics, of two words each."""
    draws = np.random.default_rng(0)
    both = draws.poisson([4, 4, 0, 0], (40, 4)), draws.poisson([0, 0, 4, 4], (40, 4))
    return np.vstack(both).astype(float)


def stored(counts, path):
    """The documents as one kind of file; LIBSVM text has labels."""
    if path.suffix == ".svm":
        dump_svmlight_file(counts, np.arange(len(counts)) % 2, str(path), zero_based=False)
    elif path.suffix == ".npz":
        sp.save_npz(path, sp.csr_array(counts))
    else:
        np.savetxt(path, counts, delimiter=",", header="ball,bat,disk,byte", comments="", fmt="%d")
    return path


@pytest.mark.parametrize("kind", ["svm", "npz", "csv"])
def test_fit_and_predict_topics(capsys, tmp_path, counted, kind):
    data, model = stored(counted, tmp_path / f"words.{kind}"), tmp_path / "m.npz"
    report = tmp_path / "r.json"
    code, out, err = run(
        *(capsys, "fit", data, "--model", model, "--estimator", "topics", "--n-topics", 2),
        *("--batch-size", 8, "--epochs", 4, "--n-jobs", 1, "--seed", 0, "--json", report),
    )
    assert code == 0, err
    assert ("labels are ignored" in err) == (kind == "svm")
    expected = LatentDirichletAllocation(
        2, learning_method="online", batch_size=8, max_iter=4, random_state=0
    ).fit(counted)
    assert f"{expected.bound_:.4g}"[:4] in out and "training perplexity" in out
    assert json.loads(report.read_text())["n_epochs"] == 4
    code, out, err = run(capsys, "predict", model, data)
    assert code == 0 and ("labels are ignored" in err) == (kind == "svm"), err
    shares = np.array([line.split("\t") for line in out.splitlines()], dtype=float)
    np.testing.assert_allclose(shares, expected.transform(counted), rtol=1e-6)
    assert (shares[:40].argmax(axis=1) == shares[0].argmax()).all()
    code, _, err = run(capsys, "predict", model, data, "--proba")
    assert code == 1 and "has no probabilities" in err


def test_topics_of_what_counts_nothing_are_refused(capsys, tmp_path, negative, counted):
    model, data = tmp_path / "m.npz", stored(counted[:, :3], tmp_path / "words.svm")
    asked = "--model", model, "--estimator", "topics", "--n-topics", 2, "--epochs", 1
    code, _, err = run(capsys, "fit", negative, *asked)
    assert code == 1 and f"{negative} has negative values, and topics need counts" in err
    assert not model.exists()
    assert run(capsys, "fit", data, *asked)[0] == 0
    code, _, err = run(capsys, "predict", model, negative)
    assert code == 1 and f"{negative} has negative values, and topics need counts" in err


def test_topics_of_a_file_with_a_column_of_labels(capsys, tmp_path, counted):
    data, model = stored(counted, tmp_path / "words.csv"), tmp_path / "m.npz"
    asked = "--model", model, "--estimator", "topics", "--n-topics", 2, "--epochs", 1
    code, _, err = run(capsys, "fit", data, *asked, "--label-column", "byte")
    assert code == 0 and "labels are ignored" in err
    assert model_file.load(model).n_features == 3
    assert run(capsys, "predict", model, data)[0] == 0


def test_topics_that_do_not_fit_into_memory_are_told(capsys, tmp_path):
    data = tmp_path / "words.svm"
    data.write_text("0 1:1 2:1\n")
    code, _, err = run(
        *(capsys, "fit", data, "--model", tmp_path / "m.npz"),
        *("--estimator", "topics", "--n-topics", 10**13),
    )
    assert code == 1 and "a model of 2 columns and 10,000,000,000,000 topics" in err
