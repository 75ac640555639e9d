"""scikit-learn's parameters, read and looked at without doing so anew for every fit."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any, ClassVar, cast

from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import InvalidParameterError, validate_parameter_constraints


class KnownParameters:
    """For an estimator of scikit-learn's: its names of parameters, and its checks of them.

    Both take a third of a millisecond, which is much for a small fit.
    """

    _param_names: ClassVar[list[str]]
    _sound_defaults: ClassVar[dict[str, Any]]

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """scikit-learn's, which reads the signature anew for each fit; it is the class's own."""
        if "_param_names" not in cls.__dict__:
            cls._param_names = super()._get_param_names()  # type: ignore[misc]
        return list(cls._param_names)

    def _validate_params(self) -> None:
        """scikit-learn's look at each parameter, where it is not the default.

        A class's defaults are looked at once. One that does not pass, as a subclass may have it, is
        looked at again, and refused, in each fit.
        """
        cls, est = type(self), cast(BaseEstimator, self)
        if "_sound_defaults" not in cls.__dict__:
            cls._sound_defaults = _sound_defaults_of(cls)
        sound = cls._sound_defaults
        told = {
            name: value
            for name, value in est.get_params(deep=False).items()
            if name not in sound or value is not sound[name]
        }
        validate_parameter_constraints(est._parameter_constraints, told, cls.__name__)


def _sound_defaults_of(cls: Any) -> dict[str, Any]:
    """The defaults in a class's signature that pass its own checks."""
    sound: dict[str, Any] = {}
    for name, parameter in inspect.signature(cls.__init__).parameters.items():
        if parameter.default is parameter.empty:
            continue
        with contextlib.suppress(InvalidParameterError):
            default = {name: parameter.default}
            validate_parameter_constraints(cls._parameter_constraints, default, cls.__name__)
            sound |= default
    return sound
