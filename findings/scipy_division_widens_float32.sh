#!/usr/bin/env bash
# SciPy 1.17.1, a sparse array of float32 divided by a number.
# One would guess: float32, as for a dense array, and as for the product by the reciprocal.
# Seen: X / 2, X / 2.0 and X / numpy.float32(2) are float64, twice the memory, for CSR, CSC, COO and
# the sparse matrices of each; X * 0.5, and X divided by a dense float32 array, stay float32.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check \
    scipy==1.17.1 numpy==2.4.6

cat > finding.py <<'PYTHON'
import numpy as np
from scipy import sparse

dense = np.eye(3, dtype=np.float32)
assert (dense / 2).dtype == np.float32
for form in ("csr", "csc", "coo"):
    for kind in (sparse.eye_array, sparse.eye):
        X = kind(3, format=form, dtype=np.float32)
        divided = {repr(by): (X / by).dtype.name for by in (2, 2.0, np.float32(2))}
        product = (X * 0.5).dtype.name
        by_dense = (X / np.ones((3, 3), np.float32)).dtype.name
        print(type(X).__name__, divided, "times 0.5:", product, "by a dense array:", by_dense)
        assert set(divided.values()) == {"float64"}
        assert product == by_dense == "float32"
PYTHON
timeout 120 venv/bin/python finding.py
