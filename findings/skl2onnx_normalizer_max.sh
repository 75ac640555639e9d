#!/usr/bin/env bash
# skl2onnx 1.20.0, Normalizer(norm="max") on rows with negative values.
# One would guess: each row divided by its largest absolute value, as scikit-learn's does, and as the
# converted "l1" and "l2" agree with scikit-learn's.
# Seen: the converted one divides by the largest value, whatever the absolute ones are: a row
# [-4, 2] becomes [-2, 1] instead of [-1, 0.5], and [-4, -2] changes its sign.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check \
    skl2onnx==1.20.0 onnxruntime==1.32.0 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6

cat > finding.py <<'PYTHON'
import numpy as np
import onnxruntime
from skl2onnx import to_onnx
from sklearn.preprocessing import Normalizer

onnxruntime.set_default_logger_severity(3)
X = np.array([[1.0, 4.0], [-4.0, 2.0], [-4.0, -2.0]], np.float32)
for norm in ("l1", "l2", "max"):
    model = Normalizer(norm).fit(X)
    session = onnxruntime.InferenceSession(to_onnx(model, X[:1]).SerializeToString())
    expected, found = model.transform(X), session.run(None, {"X": X})[0]
    print(norm, "scikit-learn:", expected.tolist(), "converted:", found.tolist())
    assert np.allclose(expected, found) == (norm != "max")
assert found[1].tolist() == [-2.0, 1.0] and found[2].tolist() == [2.0, 1.0]
PYTHON
timeout 120 venv/bin/python finding.py
