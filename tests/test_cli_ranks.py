"""The command on ranks of MPI: each reads its part of a file, rank 0 writes and prints."""

import json
import subprocess
import sys

import numpy as np
import pytest
import ranks
from ranks import needs_mpi
from sklearn.datasets import dump_svmlight_file, load_breast_cancer
from sklearn.preprocessing import scale

import hogshare

pytestmark = needs_mpi


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    X, y = load_breast_cancer(return_X_y=True)
    dump_svmlight_file(scale(X), np.where(y, 1, -1), str(folder / "rows.svm"), zero_based=False)
    np.savez(folder / "rows.npz", X=scale(X), y=y)
    lines = (f"u{k % 17},i{k % 13},{k % 5}\n" for k in range(300))
    (folder / "ratings.csv").write_text("user,item,rating\n" + "".join(lines))
    return folder


def job(n, *words):
    """The command on so many ranks."""
    command = [ranks.mpiexec(), "-n", str(n), sys.executable, "-m", "hogshare", *map(str, words)]
    return subprocess.run(
        command,
        env=ranks.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=ranks.SECONDS,
        check=False,
    )


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("name", ["rows.svm", "rows.npz"])
@pytest.mark.sample(1)
def test_fit(folder, name, n):
    settings = [
        "--loss",
        "log_loss",
        "--barrier",
        "bsp",
        "--seed",
        1,
        "--epochs",
        20,
        "--tol",
        "none",
    ]
    model, told = folder / f"{name}-{n}.npz", folder / f"{name}-{n}.json"
    ran = ["--n-jobs", 1, *settings, "--model", model, "--json", told, "--runtime", "mpi"]
    done = job(n, "fit", folder / name, *ran)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("training accuracy") == 1 and done.stderr.count("569 rows") == 1
    report = json.loads(told.read_text())
    assert len(report["workers"]) == n
    fitted = hogshare.load(model)
    assert fitted.runtime == "mpi" and fitted.n_jobs == 1
    X, y = hogshare.datasets.read_file(folder / name)
    if name.endswith("svm"):
        y = y.astype(int)
    same = {"loss": "log_loss", "barrier": "bsp", "random_state": 1, "max_iter": 20, "tol": None}
    runtime = "threads" if n > 1 else "caller"
    other = hogshare.SGDClassifier(**same, runtime=runtime, n_jobs=n).fit(X, y)
    np.testing.assert_array_equal(fitted.coef_, other.coef_)


def test_ratings(folder):
    model = folder / "taste.npz"
    settings = ["--estimator", "factorisation", "--runtime", "mpi", "--n-jobs", 1]
    done = job(2, "fit", folder / "ratings.csv", "--model", model, *settings)
    assert done.returncode == 0, done.stderr
    assert len(hogshare.load(model).users_) == 17


def test_what_is_wrong_is_said_once(folder):
    lines = (folder / "rows.svm").read_text().splitlines(keepends=True)
    lines[400] = "1 x:1\n"
    (folder / "odd.svm").write_text("".join(lines))
    for name, words in (("odd.svm", "line 401"), ("none.svm", "No such file")):
        done = job(3, "fit", folder / name, "--model", folder / "no.npz", "--runtime", "mpi")
        assert done.returncode == 1 and done.stderr.count(words) == 1, done.stderr
    done = job(2, "fit", "-", "--model", folder / "no.npz", "--runtime", "mpi")
    assert done.returncode != 0 and "name a file" in done.stderr
    assert not (folder / "no.npz").exists()


def test_bench_speedup(folder):
    told = folder / "speedup.json"
    settings = ["--workers", "1,2,3", "--repeats", 1, "--epochs", 3, "--json", told]
    done = job(3, "bench", "speedup", "--data", folder / "rows.svm", *settings, "--runtime", "mpi")
    assert done.returncode == 0, done.stderr
    result = json.loads(told.read_text())
    assert [run["workers"] for run in result["runs"]] == [1, 2, 3]
    assert result["settings"]["runtime"] == "mpi" and done.stdout.count("iteration speedup") == 1
