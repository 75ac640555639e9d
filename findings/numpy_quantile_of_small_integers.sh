#!/usr/bin/env bash
# NumPy 2.4.6, quantile and percentile of int8 and int16.
# One would guess: what median gives for the middle, and never anything beyond the values.
# Seen: the difference of two neighbours wraps around in the integers' own type before it is
# interpolated: of [-128, 127] as int8 the quantile 0.5 is 127.5, which is beyond both. A single
# quantile of one axis comes with a RuntimeWarning of an overflow, several, or those of columns,
# without. The median of the same array is -0.5, as are both of float64.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check \
    numpy==2.4.6

cat > finding.py <<'PYTHON'
import warnings

import numpy as np

for kind, least, most in ((np.int8, -128, 127), (np.int16, -(2**15), 2**15 - 1)):
    a = np.array([least, most], kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = float(np.quantile(a, [0.5])[0])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.quantile(a, 0.5)
        raise SystemExit("a single quantile came without a warning")
    except RuntimeWarning as warning:
        print("a single quantile warns:", warning)
    print(kind.__name__, a.tolist(), "quantile:", found, "median:", float(np.median(a)))
    assert found == most + 0.5 and np.percentile(a, [50])[0] == found
    assert np.median(a) == np.quantile(a.astype(float), 0.5) == -0.5
PYTHON
timeout 120 venv/bin/python finding.py
