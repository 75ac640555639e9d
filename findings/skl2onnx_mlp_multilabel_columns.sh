#!/usr/bin/env bash
# skl2onnx 1.20.0 (scikit-learn 1.9.1, onnx 1.23.2, onnxruntime 1.32.0), MLPClassifier with two
# labels a row (multilabel y of two columns).
# One would guess: the probabilities have two columns, one per label, as predict_proba has.
# Seen: with exactly two labels they have four, the complements 1 - p first and then p (two outputs
# are taken for one binary output); with three labels they have three columns, as they should.
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
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

warnings.simplefilter("ignore", ConvergenceWarning)
onnxruntime.set_default_logger_severity(3)
X = np.array([[-2], [-1], [1], [2]], dtype=np.float32)
labels = np.array([[0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1]])
for count, columns in ((3, 3), (2, 4)):
    model = MLPClassifier(hidden_layer_sizes=(3,), max_iter=5, random_state=0)
    model.fit(X, labels[:, :count])
    converted = to_onnx(model, X, options={"zipmap": False})
    session = onnxruntime.InferenceSession(converted.SerializeToString())
    theirs = session.run(None, {session.get_inputs()[0].name: X})[1]
    ours = model.predict_proba(X)
    print(f"{count} labels: predict_proba {ours.shape}, ONNX {theirs.shape}")
    print("  first row of predict_proba:", ours[0].round(3))
    print("  first row of ONNX:         ", theirs[0].round(3))
    assert ours.shape == (4, count) and theirs.shape == (4, columns)
    if count == 2:
        assert np.allclose(theirs, np.hstack([1 - ours, ours]), atol=1e-5)
    else:
        assert np.allclose(theirs, ours, atol=1e-5)
PYTHON
timeout 120 venv/bin/python finding.py
