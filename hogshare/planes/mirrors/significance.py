"""The significance filter of Gaia: its thresholds; `kernels.exchange.centre_edges` applies them."""

from __future__ import annotations

from typing import Any

import numpy as np

from hogshare.kernels.exchange import centre_edges
from hogshare.planes.protocol import PlaneError
from hogshare.system import ranges

KINDS = ("relative", "absolute")


def check(significance: Any, threshold: Any, decay: Any, soft: Any, flush: bool) -> None:
    """Refuse invalid filters, and a filter that passes nothing in a run that flushes at its end."""
    if not (callable(significance) or (isinstance(significance, str) and significance in KINDS)):
        raise ValueError(
            "significance must be 'relative', 'absolute' or a function (residual, value, t) -> "
            f"bool array; got {significance!r}."
        )
    values = np.asarray(threshold, float) if _are_numbers(threshold) else np.array(np.nan)
    if values.ndim > 1 or np.isnan(values).any() or (values < 0.0).any():
        raise ValueError(
            "threshold must be a number, at least 0, or an array with one for each parameter; got "
            f"{threshold!r}."
        )
    if not (callable(decay) or decay is None or (isinstance(decay, str) and decay == "sqrt")):
        raise ValueError(
            f"decay must be 'sqrt', None or a function of the clock, from 1; got {decay!r}."
        )
    if soft is not None:
        ranges.not_negative(soft=soft)
        if soft > values.min():
            raise ValueError(
                f"soft must be at most threshold ({values.min():g}), which it replaces while a "
                f"link is idle; got {soft!r}."
            )

    if soft is not None and np.isinf(values).any():
        raise ValueError(
            f"soft={soft!r} needs a finite threshold, because an edge moves between the two; got "
            f"threshold={threshold!r}."
        )
    if flush and not callable(significance) and np.isinf(values).any():
        raise ValueError(
            "threshold=inf sends nothing, and flush=True would add up at the end what each centre "
            "has learnt by itself: set a finite threshold, or flush=False for the mean of the "
            "centres' models."
        )


def _are_numbers(value: Any) -> bool:
    try:
        return np.asarray(value).dtype.kind in "iuf"
    except (TypeError, ValueError):
        return False


class Filter:
    """The significance filter of a run.

    significance, threshold, decay, soft : see `Mirrors`
    """

    def __init__(self, significance: Any, threshold: Any, decay: Any, soft: float | None) -> None:
        self._significance, self._decay, self._soft = significance, decay, soft
        self._hard = np.asarray(threshold, float)

    def check_size(self, n_params: int) -> None:
        """Refuse thresholds for another number of parameters, and an invalid decay."""
        self._factor(1)
        if self._hard.ndim and len(self._hard) != n_params:
            raise ValueError(
                f"threshold has {len(self._hard)} entries, but the model {n_params} parameters: "
                "give one for each, coefficients feature by feature, then intercepts."
            )

    def numbers(self) -> tuple[int, np.ndarray, float, bool]:
        """Return kind, hard, soft and falls of `kernels.exchange.centre_exchange.CentreTerms`.

        For a user's function, the kind is `centre_edges.GIVEN`. `mask` is called only for this
        kind.
        """
        soft = float("nan") if self._soft is None else float(self._soft)
        kind = centre_edges.ABSOLUTE if self._significance == "absolute" else centre_edges.RELATIVE
        if callable(self._significance) or callable(self._decay):
            kind = centre_edges.GIVEN
        return kind, np.atleast_1d(self._hard), soft, self._decay is not None

    def mask(self, residual: np.ndarray, value: np.ndarray, t: int, ease: float) -> np.ndarray:
        """Return a mask of the changes that are significant at clock t, counted from 1.

        residual : array of shape (n_params,), the unsent changes
        value : array of shape (n_params,), the mirror
        ease : from 0 (the threshold is `threshold`) to 1 (the threshold is `soft`)

        Returns bools of shape (n_params,). An unchanged parameter is never significant.

        Raises PlaneError if a user's function raises an error or returns another type.
        """
        changed = residual != 0.0
        if callable(self._significance):
            return changed & self._asked(residual, value, t)
        limit = self._at(t, ease)
        far: np.ndarray
        if self._significance == "absolute":
            far = np.abs(residual) > limit
        else:  # every change of a value of 0 is significant, unless the threshold is infinite
            far = np.abs(residual) > limit * np.abs(np.where(np.isinf(limit), 1.0, value))
        return changed & far

    def _at(self, t: int, ease: float) -> np.ndarray:
        hard = self._hard
        if self._soft is not None and ease > 0.0:
            hard = hard + ease * (self._soft - hard)
        return hard * self._factor(t)

    def _factor(self, t: int) -> float:
        """Return the threshold's factor at clock t.

        Raises PlaneError if a user's function raises an error, or does not return a finite number
        of at least 0.
        """
        if not callable(self._decay):
            return 1.0 if self._decay is None else float(t**-0.5)
        try:
            answer = self._decay(t)
        except Exception as error:
            raise PlaneError(
                f"The decay function raised {type(error).__name__}: {error}"
            ) from error
        if not ranges.is_number(answer) or not 0.0 <= answer < np.inf:
            raise PlaneError(
                "The decay function must return a finite number of at least 0, by which the "
                f"threshold is multiplied; at clock {t} it returned {answer!r}."
            )
        return float(answer)

    def _asked(self, residual: np.ndarray, value: np.ndarray, t: int) -> np.ndarray:
        assert callable(self._significance)
        try:
            answer = np.asarray(self._significance(residual.copy(), value.copy(), t))
        except Exception as error:
            raise PlaneError(
                f"The significance function raised {type(error).__name__}: {error}"
            ) from error
        if answer.shape != residual.shape or answer.dtype != bool:
            raise PlaneError(
                f"The significance function must return {len(residual)} bools, one for each "
                f"parameter; it returned {answer.dtype} of shape {answer.shape}."
            )
        return answer
