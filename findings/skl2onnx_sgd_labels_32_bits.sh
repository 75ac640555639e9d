#!/usr/bin/env bash
# skl2onnx 1.20.0 (scikit-learn 1.9.1, onnx 1.23.2, onnxruntime 1.32.0), SGDClassifier with
# int64 labels beyond 32 bits.
# One would guess: the converted model answers the labels of the model, and its output is int64.
# Seen: labels are cast to 32 bits: 2**32 + 5 becomes 5, and 2**31 becomes -2**31, without a warning
# of the conversion.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check \
    scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6 skl2onnx==1.20.0 onnx==1.23.2 onnxruntime==1.32.0

cat > finding.py <<'PYTHON'
import warnings

import numpy as np
import onnxruntime
from skl2onnx import to_onnx
from sklearn.linear_model import SGDClassifier

X = np.array([[-2], [-1], [1], [2]], dtype=np.float32)
for low, high, expected in ((5, 7, 7), (1, 2**32 + 5, 5), (1, 2**31, -(2**31))):
    model = SGDClassifier(loss="log_loss", random_state=0).fit(X, np.array([low, low, high, high]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        converted = to_onnx(model, X, options={"zipmap": False})
    ours = model.predict(X)
    session = onnxruntime.InferenceSession(converted.SerializeToString())
    theirs = session.run(None, {session.get_inputs()[0].name: X})[0]
    print("scikit-learn", ours.tolist(), "ONNX", theirs.tolist(), theirs.dtype)
    assert ours.tolist() == [low, low, high, high]
    assert theirs.dtype == np.int64 and theirs.tolist() == [low, low, expected, expected]
    assert not caught, [str(w.message) for w in caught]
PYTHON
timeout 120 venv/bin/python finding.py
