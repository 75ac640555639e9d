#!/usr/bin/env bash
# scikit-learn 1.9.1, dump_svmlight_file of float64 values and labels.
# One would guess: load_svmlight_file gives back the same float64, as repr, numpy.savetxt and
# scipy.io.mmwrite by default do.
# Seen: numbers are written with 16 significant digits, of which a float64 needs 17 now and then:
# 0.1 + 0.2 comes back as 0.3, and about a quarter of a thousand uniform numbers differ in the last bits.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check \
    scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6

cat > finding.py <<'PYTHON'
import io

import numpy as np
import scipy.io
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

X, y = np.array([[0.1 + 0.2]]), np.array([0.1 + 0.2])
file = io.BytesIO()
dump_svmlight_file(X, y, file)
text = file.getvalue().decode().splitlines()[-1]
print(repr(float(X[0, 0])), "is written as", text)
assert text == "0.3 0:0.3"

X = np.random.default_rng(0).random((1000, 1))
file = io.BytesIO()
dump_svmlight_file(X, X[:, 0], file)
file.seek(0)
read, labels = load_svmlight_file(file)
others = int((read.toarray() != X).sum())
print(f"of 1,000 values {others} differ, and {int((labels != X[:, 0]).sum())} labels")
assert 150 < others < 300 and np.allclose(read.toarray(), X, rtol=1e-15)

file = io.BytesIO()
scipy.io.mmwrite(file, sp.csr_array(X))
file.seek(0)
file2 = io.BytesIO()
np.savetxt(file2, X)
file2.seek(0)
same = (scipy.io.mmread(file).toarray() == X).all(), (np.loadtxt(file2) == X[:, 0]).all()
print("mmwrite and savetxt give back the same:", same)
assert all(same)
PYTHON
timeout 120 venv/bin/python finding.py
