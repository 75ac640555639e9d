#!/usr/bin/env bash
# scikit-learn 1.9.1 with SciPy 1.13.0, which its requirements allow: sparsify of a regressor.
# One would guess: SGDRegressor.sparsify() serves with every SciPy that pip takes for it.
# Seen: sparsify() raises ValueError, since the coefficients of one target are one-dimensional and
# CSR arrays of SciPy before 1.15 have two dimensions; the same with SGDClassifier, whose
# coefficients have two, serves.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check \
    scikit-learn==1.9.1 scipy==1.13.0 numpy==1.26.4

cat > finding.py <<'PYTHON'
from importlib.metadata import requires

import numpy as np
from sklearn.linear_model import SGDClassifier, SGDRegressor

print("required:", [line for line in requires("scikit-learn") if line.startswith("scipy")][:1])
draws = np.random.default_rng(0)
X = draws.normal(size=(60, 3))
y = X @ [1.0, -2.0, 0.0]
classifier = SGDClassifier(random_state=0).fit(X, y > 0).sparsify()
print("SGDClassifier:", type(classifier.coef_).__name__, classifier.coef_.shape)
try:
    SGDRegressor(random_state=0).fit(X, y).sparsify()
    raise SystemExit("a regressor was made sparse")
except ValueError as error:
    print("SGDRegressor:", error)
PYTHON
timeout 120 venv/bin/python finding.py
