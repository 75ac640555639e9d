"""scikit-learn's parameters, read and looked at without doing so anew for every fit."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar, TypeVar, cast

from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import (
    InvalidParameterError,
    StrOptions,
    validate_parameter_constraints,
)

from hogshare.runtimes.choice import RUNTIMES
from hogshare.solvers.choices import KNOWN
from hogshare.system.ranges import is_integer, is_number
from hogshare.system.words import nearest, speaking

MOST_EPOCHS = (1 << 31) - 1  # that every solver of scikit-learn's can count
PLAIN = (bool, int, float, str, type(None))
MANY = 1 << 10  # values that have passed, as a search over parameters may try; then it starts anew

Method = TypeVar("Method", bound=Callable[..., Any])
Setting = tuple[str, type, Any]  # a 1 is not a True

# what estimators call the arguments of `hogshare.solve` that their parameters become
WORDS: Mapping[str, str] = {
    "n_workers": "n_jobs",
    "epochs": "max_iter",
    **dict.fromkeys(("gradient", "gap", "relative_gap"), "tol"),
    "The start model": "The last solution (coef_, intercept_), with which warm_start=True goes on,",
    "SAGA(step=...)": "a larger alpha",
}
SGD_WORDS: Mapping[str, str] = {
    "n_workers": "n_jobs",
    "epochs": "max_iter",
    "patience": "n_iter_no_change",
    "StepSize": "learning_rate",
    "kind": "learning_rate",
    "SAGA(step=...)": "another learning_rate",
    "SGD(average=...)": "average",
    "Stop.validation": "early_stopping",
    "The start model": "What the fit goes on from (coef_init and intercept_init, or coef_ and "
    "intercept_)",
    "t of the start model": "t_",
    "rule='auto'": "learning_rate='auto'",
    "rule='sgd'": "another learning_rate",
    # in a checkpoint, of which the command speaks
    "begin a new run": "begin a new run with another file",
    "rule name": "the rule of learning_rate",
    "rule average": "average",
    "step kind": "learning_rate",
    "step eta0": "eta0",
    "step power_t": "power_t",
    "stop tol": "tol",
    "stop patience": "n_iter_no_change",
    "stop validation": "the rows of early_stopping",
    "seed": "the seed drawn from random_state",
}
LOGISTIC_WORDS: Mapping[str, str] = {
    **WORDS,
    "a larger alpha": "a smaller C",
    "SAGA(step=...)": "a smaller C",
}


class KnownParameters:
    """For an estimator of scikit-learn's: its names of parameters, and its checks of them.

    Both take a third of a millisecond, which is much for a small fit.
    """

    _param_names: ClassVar[list[str]]
    _sound: ClassVar[set[Setting]]
    _words: ClassVar[Mapping[str, str]] = WORDS

    def _in_own_words(self) -> AbstractContextManager[None]:
        """A block whose errors name the parameters of this estimator, not those of `solve`."""
        return speaking(self._words)

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """scikit-learn's, which reads the signature anew for each fit; it is the class's own."""
        if "_param_names" not in cls.__dict__:
            cls._param_names = super()._get_param_names()  # type: ignore[misc]
        return list(cls._param_names)

    def _validate_params(self) -> None:
        """scikit-learn's look at each parameter, unless its value has passed before.

        What has passed is kept for the class, as far as it is a plain value, for which nothing else
        matters. What has not is looked at again, and refused, in each fit.
        """
        cls, est = type(self), cast(BaseEstimator, self)
        if "_sound" not in cls.__dict__:
            cls._sound = set()
        given = est.get_params(deep=False).items()
        plain = {name for name, value in given if type(value) in PLAIN}
        if "_parameter_constraints" in vars(est):  # of its own, which are not the class's
            plain = set()
        new = {
            name: value
            for name, value in given
            if not (
                name in plain and (_is_seed(name, value) or _setting(name, value) in cls._sound)
            )
        }
        if not new:
            return
        for name, value in new.items():
            if is_integer(value) and not is_number(value):
                raise InvalidParameterError(f"{name} must be a number that a float can hold.")
            if name == "max_iter" and is_integer(value) and value > MOST_EPOCHS:
                raise InvalidParameterError(f"{name} must be at most {MOST_EPOCHS}; got {value!r}.")
        try:
            validate_parameter_constraints(est._parameter_constraints, new, cls.__name__)
        except InvalidParameterError as error:
            meant = _meant(str(error), new, est._parameter_constraints)
            raise InvalidParameterError(f"{error}{meant}") from None
        if len(cls._sound) > MANY:
            cls._sound = set()
        cls._sound |= {_setting(name, new[name]) for name in plain & new.keys()}


def always_checked(method: Method) -> Method:
    """Look at the parameters in every call of `partial_fit`: scikit-learn does before the first.

    What has been set since is refused as it is there, before anything is done. It comes first of a
    method's decorators, since scikit-learn's has checks left out within.
    """

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not get_config()["skip_parameter_validation"]:
            self._validate_params()
        return method(self, *args, **kwargs)

    return call  # type: ignore[return-value]


def _meant(told: str, given: Mapping[str, Any], constraints: Mapping[str, Any]) -> str:
    """What may have been meant by a word that is refused."""
    name = next((name for name in given if f"The {name!r} parameter" in told), None)
    if name is None or not isinstance(given[name], str):
        return ""
    words = [kind.options for kind in constraints[name] if isinstance(kind, StrOptions)]
    # no Simulator
    known = RUNTIMES if name == "runtime" else KNOWN.get(name, itertools.chain(*words))
    return nearest(given[name].partition(":")[0], sorted(known))


def _setting(name: str, value: Any) -> Setting:
    return name, type(value), value


def _is_seed(name: str, value: Any) -> bool:
    """Whether it is a seed as every `random_state` of scikit-learn's may be: often a new one."""
    return name == "random_state" and type(value) is int and 0 <= value < 1 << 32
