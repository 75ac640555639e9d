#!/usr/bin/env bash
# scikit-learn 1.9.1, MLPRegressor(warm_start=True) after set_params(hidden_layer_sizes=...).
# One would guess: the next fit begins a network of the new sizes, or refuses them by a ValueError.
# Seen: with as many layers as before, the fit goes on with the network of the old sizes and says
# nothing of it; get_params answers the new sizes, coefs_ has the old ones. With another number of
# layers, the fit ends in a TypeError from within (an operation on None).
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
from sklearn.neural_network import MLPRegressor

X = np.random.default_rng(0).normal(size=(40, 3))
y = X[:, 0]
model = MLPRegressor(hidden_layer_sizes=(4,), warm_start=True, max_iter=5, random_state=0)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model.fit(X, y)
    model.set_params(hidden_layer_sizes=(7,)).fit(X, y)
shapes = [coef.shape for coef in model.coefs_]
print("hidden_layer_sizes", model.get_params()["hidden_layer_sizes"], "shapes of coefs_", shapes)
print("warnings:", sorted({str(w.message) for w in caught}))
assert shapes == [(3, 4), (4, 1)]
# max_iter is small on purpose, and nothing else is warned of
assert {w.category for w in caught} == {ConvergenceWarning}

try:
    model.set_params(hidden_layer_sizes=(7, 5)).fit(X, y)
except TypeError as error:
    print("two hidden layers: TypeError:", error)
else:
    raise AssertionError("a fit with another number of layers was expected to end in a TypeError")
PYTHON
timeout 120 venv/bin/python finding.py
