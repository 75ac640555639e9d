#!/usr/bin/env bash
# SciPy 1.17.1, X.sum() of a CSR matrix with repeated entries.
# One would guess: a sum reads the matrix and leaves its arrays unchanged.
# Seen: X.sum() merges the repeated entries in place: nnz falls, data and indices are new arrays or
# rewritten, and arrays that the matrix shares with the caller are overwritten. On read-only arrays
# the sum therefore raises a ValueError. X.sum(axis=0) and X.sum(axis=1) change nothing.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check \
    scipy==1.17.1 numpy==2.4.6

cat > finding.py <<'PYTHON'
import numpy as np
import scipy.sparse as sp


def arrays():
    # row 0 has two entries in column 1, 1 and 2
    return np.array([1.0, 2.0, 3.0]), np.array([1, 1, 0]), np.array([0, 2, 3])


for axis in (0, 1):
    X = sp.csr_matrix(arrays(), shape=(2, 2))
    X.sum(axis=axis)
    print(f"sum(axis={axis}): nnz {X.nnz}, data {X.data}")
    assert X.nnz == 3

data, indices, indptr = arrays()
X = sp.csr_matrix((data, indices, indptr), shape=(2, 2))
print("before sum(): nnz", X.nnz, "data", X.data, "indices", X.indices, "indptr", X.indptr)
total = X.sum()
print("after sum():  nnz", X.nnz, "data", X.data, "indices", X.indices, "indptr", X.indptr)
print("the caller's data:", data)
assert total == 6.0
assert X.nnz == 2 and X.data.tolist() == [3.0, 3.0]
assert data.tolist() != [1.0, 2.0, 3.0]

data, indices, indptr = arrays()
X = sp.csr_matrix((data, indices, indptr), shape=(2, 2))
for array in (X.data, X.indices, X.indptr):
    array.flags.writeable = False
try:
    X.sum()
except ValueError as error:
    print("read-only: ValueError:", error)
else:
    raise AssertionError("a sum over read-only arrays was expected to raise")
PYTHON
timeout 120 venv/bin/python finding.py
