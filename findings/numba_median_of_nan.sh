#!/usr/bin/env bash
# Numba 0.68.1, numpy.median in a compiled function.
# One would guess: NaN where a value is NaN, as NumPy's median, and as Numba's own max, min and mean.
# Seen: a number, and which one depends on where the NaN stands: 2.0 for [NaN, 1, 2] and for
# [1, 2, NaN], of which 1.5 would be the median without the NaN; NaN for [3, NaN, 1].
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check \
    numba==0.68.1 numpy==2.4.6

cat > finding.py <<'PYTHON'
import numba
import numpy as np

median, greatest = numba.njit(lambda a: np.median(a)), numba.njit(lambda a: np.max(a))
for values in ([np.nan, 1.0, 2.0], [1.0, 2.0, np.nan]):
    a = np.array(values)
    print(values, "NumPy:", np.median(a), "Numba:", median(a), "its max:", greatest(a))
    assert np.isnan(np.median(a)) and np.isnan(greatest(a))
    assert median(a) == 2.0
a = np.array([3.0, np.nan, 1.0])
print(a.tolist(), "Numba:", median(a))
assert np.isnan(median(a))
PYTHON
timeout 120 venv/bin/python finding.py
