"""Scores of predictions, accumulated part by part: accuracy for classes, R2 for numbers."""

from __future__ import annotations

from typing import Any

from hogshare.cli import label_tasks


class Score:
    """The score of a fitted estimator on rows that arrive in parts."""

    def __init__(self, estimator: Any) -> None:
        self.classes = getattr(estimator, "classes_", None)
        self.known = True  # True until labels are absent, missing or of another kind
        self.why = ""  # why labels cannot be compared
        self.n = self.right = 0
        self.mean = self.squares = self.errors = 0.0  # squares: of deviations from the mean

    def add(self, y: Any, predicted: Any) -> None:
        """Add a part of the rows; there is a score only if all rows have comparable labels."""
        if not self.known or y is None:
            self.known = False
            return
        if predicted.ndim > 1:
            self.why = f"the model predicts {predicted.shape[1]} columns, and a file has one"
            self.known = False
            return
        numbers = y.dtype.kind in "iufb"
        wanted = self.classes is None or self.classes.dtype.kind in "iufb"
        if label_tasks.missing(y).size:
            self.why = "some are missing"
        elif numbers != wanted:
            kinds = ("words", "numbers")
            self.why = f"they are {kinds[numbers]}, and the model predicts {kinds[wanted]}"
        if self.why:
            self.known = False
            return
        self.n += len(y)
        if self.classes is not None:
            self.right += int((label_tasks.class_labels(y) == predicted).sum())
            return
        mean, before = float(y.mean()), self.n - len(y)
        self.squares += float(((y - mean) ** 2).sum())
        self.squares += (mean - self.mean) ** 2 * before * len(y) / self.n
        self.errors += float(((y - predicted) ** 2).sum())
        self.mean += (mean - self.mean) * len(y) / self.n

    def in_words(self) -> str | None:
        """Return a sentence about the score, or None if there are no labels."""
        if self.why:
            return f"the file's labels are not compared: {self.why}"
        if not self.known or not self.n:
            return None
        if self.classes is not None:
            return f"accuracy against the file's labels: {self.right / self.n:.4f}"
        if not self.squares:  # for constant labels R2 is 1 or 0, as in scikit-learn
            value = 1.0 if not self.errors else 0.0
        else:
            value = 1.0 - self.errors / self.squares
        return f"R2 against the file's labels: {value:.4f}"
