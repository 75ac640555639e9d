#!/usr/bin/env bash
# implicit 0.7.3, AlternatingLeastSquares on a CSR matrix that stores zeros.
# One would guess: a stored zero is no interaction, the same as what is not stored, so that
# eliminate_zeros() changes nothing of the model.
# Seen: what is not stored is fitted as a zero of weight 1, and a stored zero has the weight 0: it is
# left out of the fit. Predictions at these places are several times as high as without the zeros.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check \
    implicit==0.7.3 scipy==1.17.1 numpy==2.4.6

cat > finding.py <<'PYTHON'
import numpy as np
import scipy.sparse as sp
from implicit.als import AlternatingLeastSquares

rng = np.random.default_rng(0)
met = rng.random((30, 20)) < 0.3
zeros = np.argwhere(~met)[:150]
X = sp.csr_matrix(met.astype(np.float32))
rows, columns = met.nonzero()
stored = sp.csr_matrix(
    (
        np.append(np.ones(len(rows), np.float32), np.zeros(len(zeros), np.float32)),
        (np.append(rows, zeros[:, 0]), np.append(columns, zeros[:, 1])),
    ),
    shape=X.shape,
)
assert stored.nnz == X.nnz + 150 and (stored != X).nnz == 0


def mean_prediction(matrix, use_cg):
    model = AlternatingLeastSquares(
        factors=5, iterations=15, random_state=0, num_threads=1, use_cg=use_cg
    )
    model.fit(matrix, show_progress=False)
    return float((model.user_factors @ model.item_factors.T)[zeros[:, 0], zeros[:, 1]].mean())


for use_cg in (True, False):
    without, with_zeros = mean_prediction(X, use_cg), mean_prediction(stored, use_cg)
    print(f"use_cg={use_cg}: mean prediction at the zeros {without:.3f}, stored {with_zeros:.3f}")
    assert without < 0.2 and with_zeros > 0.5
    eliminated = stored.copy()
    eliminated.eliminate_zeros()
    assert np.isclose(mean_prediction(eliminated, use_cg), without, atol=1e-3)
PYTHON
OPENBLAS_NUM_THREADS=1 timeout 120 venv/bin/python finding.py
