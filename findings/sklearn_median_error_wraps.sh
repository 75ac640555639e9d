#!/usr/bin/env bash
# scikit-learn 1.9.1, median_absolute_error of unsigned integers.
# One would guess: the median of the absolute errors, as mean_absolute_error and max_error are of the
# same errors.
# Seen: differences wrap around in the labels' own type. Of uint8 labels 200 and 10, predicted as 10
# and 200, the errors are 190 and 190; mean and largest error say so, and the median is 128.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check \
    scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6

cat > finding.py <<'PYTHON'
import numpy as np
from sklearn.metrics import max_error, mean_absolute_error, median_absolute_error

labels, predicted = np.array([200, 10], np.uint8), np.array([10, 200], np.uint8)
for kind in (np.uint8, float):
    pair = labels.astype(kind), predicted.astype(kind)
    found = [float(error(*pair)) for error in (median_absolute_error, mean_absolute_error, max_error)]
    print(kind.__name__, "median, mean and largest error:", found)
    assert found == [128.0 if kind is np.uint8 else 190.0, 190.0, 190.0]
PYTHON
timeout 120 venv/bin/python finding.py
