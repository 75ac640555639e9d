"""A first fit, in a fresh process with an empty folder of kernels, against scikit-learn's.

Seconds from the process's start to the end of the fit, imports included: of scikit-learn's class of
that name, of hogshare's the first time, and of hogshare's in a second process. Each round runs all
of them, one after another. Usage::

    python bench/first_minute.py --rounds 3 --json bench/results/first_minute.json
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

import script

ROWS = {
    "breast cancer, 569 x 30": "from sklearn.datasets import load_breast_cancer as load\n"
    "X, y = load(return_X_y=True)",
    "iris, 150 x 4": "from sklearn.datasets import load_iris as load\nX, y = load(return_X_y=True)",
    "20,000 x 20 dense": "from sklearn.datasets import make_classification as make\n"
    "X, y = make(20_000, 20, random_state=0)",
    "2,000 texts of 60 words": "import numpy as np, scipy.sparse as sp\n"
    "draws = np.random.default_rng(0)\n"
    "words = draws.zipf(1.4, (2_000, 60)) % 20_000\n"
    "X = sp.csr_matrix((np.ones(words.size), words.ravel(), range(0, words.size + 1, 60)))\n"
    "X.sum_duplicates()\n"
    "y = (X @ draws.normal(size=X.shape[1]) > 0).astype(int)",
}
FIT = """
import warnings
warnings.simplefilter("ignore")
{rows}
from {home} import {name}
{name}().fit(X, y)
"""
CLASSES = ("LogisticRegression", "SGDClassifier")


def run(code: str, folder: str) -> None:
    """Run `code` in a fresh interpreter, whose kernels are in `folder`."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"HOGSHARE_CACHE_DIR": folder, "HOGSHARE_QUIET": "1"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def measure(options: Any) -> Any:
    """Measure and print."""
    results = []
    for rows, name in ((rows, name) for rows in ROWS for name in CLASSES):
        codes = [
            FIT.format(rows=ROWS[rows], home=home, name=name)
            for home in ("sklearn.linear_model", "hogshare", "hogshare")
        ]
        rounds = []
        for _ in range(options.rounds):
            with tempfile.TemporaryDirectory() as folder:  # what the second has is the first's
                rounds.append([script.seconds(lambda c=c: run(c, folder)) for c in codes])
        theirs, first, second = (statistics.median(column) for column in zip(*rounds, strict=True))
        more = statistics.median(one[1] - one[0] for one in rounds)
        print(f"{rows}, {name}: {theirs:.2f} s, {first:.2f} s ({more:+.2f}), then {second:.2f} s")
        seconds = {"scikit-learn": theirs, "first": first, "second": second}
        results.append({"case": rows, "class": name, "seconds": seconds, "more": more})
    return {"results": results}


if __name__ == "__main__":
    script.run(__doc__, measure, rounds=3)
