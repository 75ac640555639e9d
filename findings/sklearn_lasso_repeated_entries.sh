#!/usr/bin/env bash
# scikit-learn 1.9.1, Lasso and ElasticNet (coordinate descent) on a CSC matrix with repeated
# entries. One would guess: SciPy adds up entries of one row and column, so such a matrix gives the
# coefficients of its canonical form, as it does with Ridge.
# Seen: a feature's squared norm is the sum of its single entries' squares, not of the squares of
# their sums, so every step has the wrong length: coefficients near 0 where 3 is right, after all
# iterations. The ConvergenceWarning names iterations, scale and regularisation, not the entries.
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
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet, Lasso, Ridge

# each value x is stored as x / 2 and x / 2
halves = np.repeat([1.0, 2.0, 3.0, 4.5], 2)
repeated = sp.csc_matrix((halves, np.repeat([0, 1, 2, 3], 2), [0, 8]), shape=(4, 1))
canonical = repeated.copy()
canonical.sum_duplicates()
assert (repeated.toarray() == canonical.toarray()).all()
y = 3 * canonical.toarray()[:, 0]

for estimator in (Ridge(alpha=0.1), Lasso(alpha=0.1), ElasticNet(alpha=0.1)):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got = float(estimator.fit(repeated.copy(), y).coef_[0])
    expected = float(estimator.fit(canonical, y).coef_[0])
    names = [w.category.__name__ for w in caught]
    print(f"{type(estimator).__name__}: repeated {got:.4f}, canonical {expected:.4f}, {names}")
    if isinstance(estimator, Ridge):
        assert np.isclose(got, expected)
    else:
        assert abs(got) < 0.1 and 2.5 < expected < 3.0
        assert [w.category for w in caught] == [ConvergenceWarning]
PYTHON
timeout 120 venv/bin/python finding.py
