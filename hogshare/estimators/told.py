"""What surrounds a fit: what it compiles is told of once, and NumPy's state outlives interrupts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from hogshare.kernels import telling
from hogshare.system.interrupts import leaves_numpy

Method = TypeVar("Method", bound=Callable[..., Any])


def told(method: Method) -> Method:
    """Let what a method compiles be told of as what its estimator needs."""

    @functools.wraps(method)
    @leaves_numpy
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        with telling.block(type(self).__name__):
            return method(self, *args, **kwargs)

    return call  # type: ignore[return-value]
