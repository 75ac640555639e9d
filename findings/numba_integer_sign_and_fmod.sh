#!/usr/bin/env bash
# Numba 0.68.1, numpy.sign and numpy.fmod of integers in a compiled function.
# One would guess: what NumPy gives: the sign of an unsigned number is 0 or 1, and fmod is what a
# division leaves.
# Seen: values from 128 (uint8) or 2**63 (uint64) on have the sign 255 or 2**64 - 1, that is -1 in
# the same bits, while smaller ones have 1; and fmod of integers by a negative one is the dividend
# itself, 3 and 5 for 3 and 5 by -2, while floats, and integers by 2, are right.
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

sign, fmod = numba.njit(lambda a: np.sign(a)), numba.njit(lambda a, b: np.fmod(a, b))
for kind, largest in ((np.uint8, 255), (np.uint64, 2**64 - 1)):
    a = np.array([0, 1, largest // 2, largest // 2 + 1], kind)
    print(kind.__name__, a.tolist(), "NumPy:", np.sign(a).tolist(), "Numba:", sign(a).tolist())
    assert np.sign(a).tolist() == [0, 1, 1, 1]
    assert sign(a).tolist() == [0, 1, 1, largest]
a = np.array([3, 5])
print("fmod by -2, NumPy:", np.fmod(a, -2).tolist(), "Numba:", fmod(a, -2).tolist())
assert np.fmod(a, -2).tolist() == [1, 1] and fmod(a, -2).tolist() == [3, 5]
assert fmod(a, 2).tolist() == [1, 1] and fmod(a * 1.0, -2.0).tolist() == [1.0, 1.0]
PYTHON
timeout 120 venv/bin/python finding.py
