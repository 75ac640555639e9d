#!/usr/bin/env bash
# scikit-learn 1.9.1, SGDClassifier and SGDRegressor with coef_init.
# One would guess: coef_init is where a fit starts, an input, which is the same array afterwards.
# Seen: an array of the rows' dtype and of the right shape is what the fit works in. It holds the
# fitted coefficients afterwards and shares memory with coef_, so that a second fit from "the same"
# start begins at the first one's end and gives another model. A float32 start is copied, and
# stays.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check \
    scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6

cat > finding.py <<'PYTHON'
import numpy as np
from sklearn.linear_model import SGDClassifier, SGDRegressor

draws = np.random.default_rng(0)
X = draws.normal(size=(60, 3))
target = X @ [1.0, -2.0, 0.5]
settings = {"max_iter": 3, "tol": None, "random_state": 0}
for cls, y, shape in ((SGDClassifier, target > 0, (1, 3)), (SGDRegressor, target, (3,))):
    start = np.zeros(shape)
    first = cls(**settings).fit(X, y, coef_init=start)
    print(cls.__name__, "start after a fit from zeros:", start.round(3).tolist())
    assert start.any() and np.shares_memory(start, first.coef_)
    found = first.coef_.copy()
    again = cls(**settings).fit(X, y, coef_init=start)
    print(cls.__name__, "a second fit from it is the same:", np.array_equal(found, again.coef_))
    assert not np.array_equal(found, again.coef_)
    other = np.zeros(shape, np.float32)
    cls(**settings).fit(X, y, coef_init=other)
    print(cls.__name__, "a float32 start stays:", not other.any())
    assert not other.any()
PYTHON
timeout 120 venv/bin/python finding.py
