"""One pass of an estimator: validate the rows, draw split and row order, learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.multiclass import _check_partial_fit_first_call

from hogshare.estimators import plain
from hogshare.estimators.common import MAX_INT, SGDMixin
from hogshare.estimators.draws import generator_of
from hogshare.problems.linear.labels import distinct, own_type
from hogshare.problems.weights import class_weights, row_weights
from hogshare.system.clusters import is_collection
from hogshare.system.interrupts import errstate


class ClassifierPass(SGDMixin):
    """A pass with labels."""

    classes_: np.ndarray
    class_weight: Any
    early_stopping: bool
    random_state: Any

    def _pass(
        self,
        X: Any,
        y: Any,
        classes: Any,
        sample_weight: Any,
        max_iter: int | None,
        init: tuple[Any, Any] | None,
    ) -> None:
        """Validate and learn; `init` None goes on from the present model.

        `classes` are for `partial_fit`, whose `max_iter` is None.
        """
        if is_collection(X):
            self._pass_collections(X, y, sample_weight, max_iter, init, classifies=True)
            return
        anew = max_iter is not None
        X, y, seen = self._check_rows(X, own_type(y), reset=anew or not hasattr(self, "classes_"))
        if anew:
            classes = distinct(y)
            if hasattr(self, "classes_"):
                del self.classes_  # only now: input that is refused leaves the model as it is
        own = anew and plain.are_plain_classes(classes)  # all that `y` holds
        if own:
            self.classes_ = classes
        elif not plain.are_the_same(getattr(self, "classes_", None), classes):
            _check_partial_fit_first_call(self, classes)
        n_classes = len(self.classes_)
        if self.class_weight is None and (own or plain.are_among(y, self.classes_)):
            class_weight = np.ones(n_classes)
        else:
            class_weight = class_weights(
                compute_class_weight(self.class_weight, classes=self.classes_, y=y)
            )
        weight = None
        if sample_weight is not None:
            # with early stopping a better message comes from the split
            zeros = self.early_stopping
            weight = row_weights(sample_weight, X, X.dtype, allow_all_zero_weights=zeros)
        shape = (1 if n_classes <= 2 else n_classes, X.shape[1])
        start = self._start(shape, X, y, weight, init, anew)
        if n_classes < 2:
            raise ValueError(
                "The number of classes has to be greater than one; "
                f"got {n_classes} class{'' if n_classes == 1 else 'es'}."
            )
        validation, seed = self._draw(y, weight)
        self._learn(
            self._problem(X, y, seen, weight, class_weight, self.classes_),
            X,
            y,
            start=start,
            validation=validation,
            seed=seed,
            max_iter=max_iter,
            metadata=None if sample_weight is None else {"sample_weight": sample_weight},
        )

    def _draw(self, y: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray | None, int]:
        """Split and seed of the row order, drawn in scikit-learn's order.

        With several classes the order is the one that scikit-learn has for the first of them.
        """
        if len(self.classes_) > 2:
            validation = self._held_out(y, weight)
            seeds = check_random_state(self.random_state).randint(MAX_INT, size=len(self.classes_))
            generator = np.random.RandomState(seeds[0])
            generator.randint(1, MAX_INT)
        else:
            generator = generator_of(self.random_state)
            generator.randint(1, MAX_INT)
            validation = self._held_out(y, weight)
        return validation, int(generator.randint(MAX_INT))


class RegressorPass(SGDMixin):
    """A pass with numbers."""

    random_state: Any

    def _pass(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        max_iter: int | None,
        reset: bool,
        init: tuple[Any, Any] | None,
    ) -> None:
        """Validate and learn; `init` None goes on from the present model."""
        if is_collection(X):
            self._pass_collections(X, y, sample_weight, max_iter, init, classifies=False)
            return
        X, y, seen = self._check_rows(X, y, reset=reset)
        with errstate(over="ignore"):  # what is too large for these rows is refused below
            y = y.astype(X.dtype, copy=False)
        weight = None
        if sample_weight is not None:
            weight = row_weights(sample_weight, X, X.dtype)
        shape = (1, X.shape[1])
        start = self._start(shape, X, y, weight, init, max_iter is not None)
        validation = self._held_out(y, weight)
        # drawn in scikit-learn's order: of its two numbers the first is the row order's seed
        generator = generator_of(self.random_state)
        seed = int(generator.randint(MAX_INT))
        generator.randint(1, MAX_INT)
        self._learn(
            self._problem(X, y, seen, weight),
            X,
            y,
            start=start,
            validation=validation,
            seed=seed,
            max_iter=max_iter,
            metadata=None if sample_weight is None else {"sample_weight": sample_weight},
        )

    def _shaped(self, coef: np.ndarray) -> np.ndarray:
        return coef.ravel()
