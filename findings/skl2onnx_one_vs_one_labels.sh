#!/usr/bin/env bash
# skl2onnx 1.20.0, OneVsOneClassifier with labels that are not 0, 1, 2.
# One would guess: the converted model answers the labels, as predict does, and as a converted
# OneVsRestClassifier does.
# Seen: it answers their places, 0, 1 and 2 instead of -1, 1 and 5, in a column instead of a vector,
# and nothing says so. With labels of text onnxruntime refuses the converted model.
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
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier

onnxruntime.set_default_logger_severity(4)
draws = np.random.default_rng(0)
place = draws.integers(0, 3, 300)
X = (draws.normal(size=(300, 4)) + 3 * np.eye(3, 4)[place]).astype(np.float32)


def answers(cls, labels):
    model = cls(LogisticRegression()).fit(X, labels[place])
    session = onnxruntime.InferenceSession(to_onnx(model, X[:1]).SerializeToString())
    return model.predict(X), session.run(None, {"X": X})[0]


numbers = np.array([-1, 1, 5])
for cls in (OneVsRestClassifier, OneVsOneClassifier):
    expected, found = answers(cls, numbers)
    print(cls.__name__, "predict:", expected[:4], "converted:", found[:4].tolist())
    if cls is OneVsRestClassifier:
        assert np.array_equal(found, expected)
    else:
        assert found.shape == (300, 1) and np.array_equal(numbers[found.ravel()], expected)
try:
    answers(OneVsOneClassifier, np.array(["red", "green", "blue"]))
    raise SystemExit("labels of text were taken")
except onnxruntime.capi.onnxruntime_pybind11_state.Fail as error:
    print("labels of text:", str(error)[:60])
PYTHON
timeout 120 venv/bin/python finding.py
