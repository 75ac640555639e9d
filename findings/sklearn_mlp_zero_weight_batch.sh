#!/usr/bin/env bash
# scikit-learn 1.9.1, MLPRegressor and MLPClassifier with a mini-batch whose sample weights are all
# zero.
# One would guess: rows of weight zero do not count, so such a batch adds nothing and the fit goes
# on, as it does for rows of weight zero among others.
# Seen: a fit whose weights are valid (not negative, half of them positive) ends in a
# ZeroDivisionError of numpy.average; with the same rows in one batch it ends well.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check \
    scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6

cat > finding.py <<'PYTHON'
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier, MLPRegressor

warnings.simplefilter("ignore", ConvergenceWarning)
X = np.arange(8.0).reshape(4, 2)
weights = np.array([1.0, 1.0, 0.0, 0.0])
settings = {"hidden_layer_sizes": (3,), "shuffle": False, "max_iter": 2, "random_state": 0}
for cls, y in ((MLPRegressor, np.arange(4.0)), (MLPClassifier, np.array([0, 1, 0, 1]))):
    cls(batch_size=4, **settings).fit(X, y, sample_weight=weights)
    print(cls.__name__, "one batch of 4: fitted")
    try:
        cls(batch_size=2, **settings).fit(X, y, sample_weight=weights)
    except ZeroDivisionError as error:
        print(cls.__name__, "batches of 2: ZeroDivisionError:", error)
    else:
        raise AssertionError("a batch of zero weights was expected to raise")
PYTHON
timeout 120 venv/bin/python finding.py
