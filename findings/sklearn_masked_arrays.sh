#!/usr/bin/env bash
# scikit-learn 1.9.1, rows and targets that are masked arrays of NumPy.
# One would guess: masked values are missing, so that they are refused as NaN is, or left out.
# Seen: the mask is dropped without a warning, and the numbers below it are learnt: the model is that
# of the array without its mask, whatever stands below.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check \
    scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1

cat > finding.py <<'PYTHON'
import warnings

import numpy as np
from sklearn.linear_model import LinearRegression

warnings.simplefilter("error")
X = np.arange(8.0).reshape(-1, 1)
y = 2.0 * X[:, 0]
X[3], y[5] = -999.0, -999.0  # what stands for a missing value
rows = np.ma.masked_equal(X, -999.0)
targets = np.ma.masked_equal(y, -999.0)
model = LinearRegression().fit(rows, targets)
plain = LinearRegression().fit(X, y)
both = ~(rows.mask[:, 0] | targets.mask)
known = LinearRegression().fit(X[both], y[both])
print("masked rows and targets:", model.coef_)
print("without their masks:    ", plain.coef_)
print("what is not masked:     ", known.coef_)
assert (model.coef_ == plain.coef_).all()
assert abs(known.coef_[0] - 2.0) < 1e-9
assert abs(model.coef_[0] - 2.0) > 1.0
PYTHON
timeout 120 venv/bin/python finding.py
