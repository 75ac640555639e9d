"""scikit-learn's parameters, read and looked at without doing so anew for every fit."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import validate_parameter_constraints

PLAIN = (bool, int, float, str, type(None))
MANY = 1 << 10  # values that have passed, as a search over parameters may try; then it starts anew

Setting = tuple[str, type, Any]  # a 1 is not a True


class KnownParameters:
    """For an estimator of scikit-learn's: its names of parameters, and its checks of them.

    Both take a third of a millisecond, which is much for a small fit.
    """

    _param_names: ClassVar[list[str]]
    _sound: ClassVar[set[Setting]]

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
        validate_parameter_constraints(est._parameter_constraints, new, cls.__name__)
        if len(cls._sound) > MANY:
            cls._sound = set()
        cls._sound |= {_setting(name, new[name]) for name in plain & new.keys()}


def _setting(name: str, value: Any) -> Setting:
    return name, type(value), value


def _is_seed(name: str, value: Any) -> bool:
    """Whether it is a seed as every `random_state` of scikit-learn's may be: often a new one."""
    return name == "random_state" and type(value) is int and 0 <= value < 1 << 32
