"""Wrappers of fitting methods, for fits by ranks, for scikit-learn's checks, and for messages."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from sklearn import get_config
from sklearn.base import _fit_context

from hogshare.estimators.rank_fit import with_all_ranks
from hogshare.kernels.jit import announcements
from hogshare.system import docstrings
from hogshare.system.interrupts import leaves_numpy
from hogshare.system.messages import speaking

Method = TypeVar("Method", bound=Callable[..., Any])

# sections added to the docstrings of all fitting methods that do not have them
SAID = """
Parameters
----------
X : {array-like, sparse matrix} of shape (n_samples, n_features)
    Rows. float32 and float64, dense in C order or CSR, are used without a copy.
sample_weight : array-like of shape (n_samples,), default=None
    Weights of the rows; they must not be negative.

Returns
-------
self : estimator

Raises
------
ValueError
    If the input or a parameter is not valid, or if the run diverges.
"""


def fits(method: Method) -> Method:
    """Wrap an estimator's method that fits it.

    Messages name the estimator's parameters, not the parameters of `solve`. Compilation is
    announced once, under the estimator's name. The wrapper for ranks is outermost: errors that are
    raised in the other wrappers then reach all ranks.
    """
    docstrings.complete(method, [SAID])

    @functools.wraps(method)
    @leaves_numpy
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        with announcements.block(type(self).__name__), speaking(self._words):
            return method(self, *args, **kwargs)

    checked = _fit_context(prefer_skip_nested_validation=True)(call)
    if method.__name__ == "partial_fit":
        checked = _always_checked(checked)
    made: Method = with_all_ranks(checked)
    return made


def _always_checked(method: Method) -> Method:
    """Wrap `partial_fit` to check the parameters in every call; scikit-learn checks in the first.

    Invalid parameters that were set after the first call are refused before anything else is done.
    The result must wrap scikit-learn's wrapper, within which checks are skipped.
    """

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not get_config()["skip_parameter_validation"]:
            self._validate_params()
        return method(self, *args, **kwargs)

    return call  # type: ignore[return-value]
