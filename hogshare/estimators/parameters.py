"""Reading and checking scikit-learn's parameters, with results cached between fits."""

from __future__ import annotations

import functools
import inspect
import itertools
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import (
    InvalidParameterError,
    StrOptions,
    validate_parameter_constraints,
)

from hogshare.runtimes.choice import RUNTIMES
from hogshare.runtimes.hooks import OnEpoch
from hogshare.solvers.choice_names import KNOWN
from hogshare.system import docstrings
from hogshare.system.messages import nearest
from hogshare.system.ranges import is_integer, is_number

MOST_EPOCHS = (1 << 31) - 1  # the largest number to which every solver of scikit-learn's can count
PLAIN = (bool, int, float, str, type(None))
MANY = 1 << 10  # most cached values (a search over parameters tries many); then all are removed

Setting = tuple[str, type, Any]  # name, type and value; with the type, 1 differs from True

# the estimators' names for the arguments of `hogshare.solve`, for messages
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
    # in a checkpoint, in messages of the command line
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
BATCH_WORDS: Mapping[str, str] = {
    "n_workers": "n_jobs",
    "epochs": "max_iter",
    "block": "batch_size",
}
MAX_INT = np.iinfo(np.int32).max  # the bound below which scikit-learn draws its seeds

_thread = threading.local()


class KnownParameters:
    """The names, checks and descriptions of an estimator's parameters.

    scikit-learn takes a third of a millisecond for the names, and as much again for the checks,
    which is long for a small fit. Both are therefore cached.

    Parameters
    ----------
    n_jobs : int or None, default=None
        Number of workers that fit the model together. None is one worker (or the number from a
        surrounding joblib context); -1 is all usable cores. With ``runtime="auto"`` the number is a
        maximum: a single worker fits if more workers would not be faster, or if the cores are busy.
        With a named runtime exactly this number starts.

    barrier : Barrier, callable or str, default=None
        When a worker may continue after a block of rows (a mini-batch, a batch of documents, a
        block of ratings): `ASP`, `BSP`, `SSP`, `PBSP`, `PSSP`, `Fraction`, `Throttled`, the name of
        one ("bsp", "ssp:4"), or a function ``(table, me) -> bool``; see `hogshare.barriers`. None
        is `ASP`, with which no worker waits. For networks None has another meaning: the workers
        compute each step together, and the steps are those of one worker. A single worker never
        waits.

    runtime : {"auto", "caller", "threads", "processes", "mpi"} or Runtime, default="auto"
        Where the workers run. "auto" uses threads, or processes if the rows come from
        `hogshare.share`. "mpi" uses ranks, each with rows of its own (`hogshare.MPI`).
    """

    _param_names: ClassVar[list[str]]
    _sound: ClassVar[set[Setting]]
    _words: ClassVar[Mapping[str, str]] = WORDS
    _on_epoch: OnEpoch | None = None  # called after epochs, where scikit-learn has no callbacks

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Declare, for type checkers, the attributes of scikit-learn's class, the next base."""

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        ours = [base for base in cls.__mro__ if base.__module__.startswith("hogshare.")]
        if ours[0] is cls and "__init__" in vars(cls):
            docstrings.complete(cls, [base.__doc__ for base in ours[1:]])

    def _store(self, given: Mapping[str, Any]) -> None:
        """Set each parameter as an attribute; scikit-learn's `__init__` sets its own parameters.

        given : `locals()` of this class's `__init__`
        """
        theirs: Any = super().__init__
        taken = _parameters_of(getattr(theirs, "__func__", object.__init__))
        own = {name: value for name, value in given.items() if name != "self"}
        theirs(**{name: own.pop(name) for name in taken & own.keys()})
        vars(self).update(own)

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Return scikit-learn's result, cached for the class because every fit needs it."""
        if "_param_names" not in cls.__dict__:
            cls._param_names = super()._get_param_names()  # type: ignore[misc]
        return list(cls._param_names)

    def _validate_params(self) -> None:
        """Run scikit-learn's check of each parameter, unless its value has passed before.

        Plain values that have passed are cached for the class, since the result of their check
        cannot change. Other values are checked in each fit.
        """
        cls, est = type(self), cast(BaseEstimator, self)
        if "_sound" not in cls.__dict__:
            cls._sound = set()
        given = est.get_params(deep=False).items()
        plain = {name for name, value in given if type(value) in PLAIN}
        if "_parameter_constraints" in vars(est):  # the estimator has constraints of its own
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
                raise InvalidParameterError(f"{name} must be within the range of a float.")
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


@functools.cache
def _parameters_of(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


def generator_of(random_state: Any) -> np.random.RandomState:
    """Return a generator with the draws of `sklearn.utils.check_random_state`.

    For an int it is this thread's own generator, seeded with the int; it is valid until this
    thread's next call. A new `RandomState` would take 0.1 ms, since the system seeds it before the
    int does.
    """
    if type(random_state) is not int:
        return check_random_state(random_state)
    if not hasattr(_thread, "generator"):
        _thread.generator = np.random.RandomState(0)
    _thread.generator.seed(random_state)
    return _thread.generator


def _meant(message: str, given: Mapping[str, Any], constraints: Mapping[str, Any]) -> str:
    """Return a suggestion for the message: the accepted name that is most like the refused one."""
    name = next((name for name in given if f"The {name!r} parameter" in message), None)
    if name is None or not isinstance(given[name], str):
        return ""
    words = [kind.options for kind in constraints[name] if isinstance(kind, StrOptions)]
    # only the runtimes that estimators accept; the simulator is not one of them
    known = RUNTIMES if name == "runtime" else KNOWN.get(name, itertools.chain(*words))
    return nearest(given[name].partition(":")[0], sorted(known))


def _setting(name: str, value: Any) -> Setting:
    return name, type(value), value


def _is_seed(name: str, value: Any) -> bool:
    """Whether this is a seed that every `random_state` accepts; seeds are never cached."""
    return name == "random_state" and type(value) is int and 0 <= value < 1 << 32
