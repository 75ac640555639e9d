#!/usr/bin/env bash
# Numba 0.68.1, numpy.histogram in a compiled function.
# One would guess: counts that add up to the number of values, as NumPy's, whose range is one half to
# both sides where all values are equal.
# Seen: where all values are equal all counts are zero, and the edges are all that value; and a NaN,
# for which NumPy raises, is passed over.
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

histogram = numba.njit(lambda a: np.histogram(a))
a = np.full(5, 3.0)
counts, edges = histogram(a)
print("NumPy:", np.histogram(a)[0].tolist(), "Numba:", counts.tolist(), edges.tolist())
assert np.histogram(a)[0].sum() == 5
assert counts.sum() == 0 and (edges == 3.0).all()
counts = histogram(np.array([3.0, np.nan, 1.0]))[0]
print("with a NaN, Numba:", counts.tolist())
assert counts.sum() == 2
PYTHON
timeout 120 venv/bin/python finding.py
