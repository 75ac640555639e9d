#!/usr/bin/env bash
# SciPy 1.17.1, scipy.io.mmwrite of a sparse matrix of bool, and of one that stores zeros.
# One would guess: a matrix of bool is written as a pattern, MatrixMarket's form without values, and
# field="pattern" leaves out what is stored as zero, which reads as 1 otherwise.
# Seen: a matrix of bool has the header "integer", and mmread gives int64 back. With field="pattern"
# a stored zero (or False) is an entry like the others, and mmread makes 1 of it.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check \
    scipy==1.17.1 numpy==2.4.6

cat > finding.py <<'PYTHON'
import io

import numpy as np
import scipy.io
import scipy.sparse as sp


def there_and_back(matrix, **settings):
    file = io.BytesIO()
    scipy.io.mmwrite(file, matrix, **settings)
    header = file.getvalue().decode().splitlines()[0]
    file.seek(0)
    return header, scipy.io.mmread(file)


met = sp.coo_array(([True, False, True], ([0, 0, 1], [0, 1, 2])), shape=(2, 3))
header, read = there_and_back(met)
print("bool:", header, read.dtype, read.toarray().tolist())
assert header == "%%MatrixMarket matrix coordinate integer general"
assert read.dtype == np.int64 and read.toarray().tolist() == [[1, 0, 0], [0, 0, 1]]

for matrix in (met, met.astype(float)):
    header, read = there_and_back(matrix, field="pattern")
    print(f"pattern of {matrix.dtype}:", header, matrix.toarray().astype(int).tolist(), "reads as",
          read.toarray().astype(int).tolist())
    assert header == "%%MatrixMarket matrix coordinate pattern general"
    assert matrix.toarray().tolist() == [[1, 0, 0], [0, 0, 1]]
    assert read.toarray().tolist() == [[1, 1, 0], [0, 0, 1]]
PYTHON
timeout 120 venv/bin/python finding.py
