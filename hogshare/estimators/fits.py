"""What surrounds a method that fits: the ranks, scikit-learn's checks, names in messages."""

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

# what the docstrings of all of them say, where they do not say otherwise
SAID = """
Parameters
----------
X : {array-like, sparse matrix} of shape (n_samples, n_features)
    Rows. float32 and float64, dense in C order or CSR, are used without a copy.
sample_weight : array-like of shape (n_samples,), default=None
    Weights of the rows, none of them negative.

Returns
-------
self : estimator

Raises
------
ValueError
    If the input or a parameter is not valid, or if the run diverges.
"""


def fits(method: Method) -> Method:
    """Make an estimator's method one that fits it.

    Errors within name the estimator's parameters, not those of `solve`, and what is compiled is
    announced once, as what the estimator needs. The ranks come first, so that whatever others find
    wrong is raised in all of them.
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
    """Check the parameters in every call of `partial_fit`: scikit-learn does before the first.

    What has been set since is refused as it is there, before anything is done. It surrounds
    scikit-learn's own, which has checks left out within.
    """

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not get_config()["skip_parameter_validation"]:
            self._validate_params()
        return method(self, *args, **kwargs)

    return call  # type: ignore[return-value]
