#!/usr/bin/env bash
# scikit-learn 1.9.1 with pandas 3.1.1, labels in an Int64 column (nullable integers), none missing.
# One would guess: 2**53 and 2**53 + 1 are two labels, as they are in an int64 array.
# Seen: the column is read as floats, so the two become one: LogisticRegression finds two classes of
# three, and accuracy_score answers 1.0 where every prediction is wrong. No warning is given.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check \
    scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6 pandas==3.1.1

cat > finding.py <<'PYTHON'
import warnings

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score

warnings.simplefilter("error")
big = 2**53
X = np.tile(np.eye(3), (4, 1))
labels = pd.Series([1, big, big + 1] * 4, dtype="Int64")
nullable = LogisticRegression().fit(X, labels).classes_
plain = LogisticRegression().fit(X, labels.to_numpy(dtype="int64")).classes_
print("classes_ of Int64:", nullable.tolist(), "of int64:", plain.tolist())
assert nullable.tolist() == [1.0, float(big)]
assert plain.tolist() == [1, big, big + 1]

truth = pd.Series([big, big + 1], dtype="Int64")
wrong = pd.Series([big + 1, big], dtype="Int64")
nullable = accuracy_score(truth, wrong)
plain = accuracy_score(truth.to_numpy(dtype="int64"), wrong.to_numpy(dtype="int64"))
print("accuracy_score of Int64:", nullable, "of int64:", plain)
assert nullable == 1.0 and plain == 0.0
PYTHON
timeout 120 venv/bin/python finding.py
