"""The scale in which ratings are fitted; it makes a fit independent of the ratings' unit."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from hogshare.problems.factorisation import FactorisationProblem
from hogshare.problems.params import Params
from hogshare.report import Report

ROUNDING = 16 * np.finfo(np.float64).eps  # relative spread of ratings that are equal


class Scale(NamedTuple):
    """A mean to subtract from ratings, and a size by which to divide the differences.

    Both are applied in float64, before the ratings are rounded to float32. Ratings that have been
    multiplied by a number, or shifted by one, therefore become the same float32 values. If u is the
    unit of a rating, a bias and the penalty `alpha` have the unit u, a factor has ``u**0.5``, a
    loss has ``u**2``, the step size of factors has ``1 / u``, and `bias_alpha` has no unit.
    """

    mean: float = 0.0
    size: float = 1.0

    def shrunk(self, ratings: np.ndarray) -> np.ndarray:
        """Return a float32 copy of the ratings in the fit's unit."""
        if self == Scale():
            return ratings.astype(np.float32)
        return ((ratings - self.mean) / self.size).astype(np.float32)

    def grown(self, problem: FactorisationProblem, model: Params) -> Params:
        """Return the model in the unit of the ratings, as a copy unless the size is 1."""
        if self.size == 1.0:
            return model
        params = np.array(model.params)
        for part, unit in zip(
            problem.split(params), (self.size, math.sqrt(self.size)) * 2, strict=True
        ):
            # in float64: if rounded to float32, the unit would give all entries the same error
            np.multiply(part, np.float64(unit), out=part, casting="same_kind")
        return Params(params, model.t)

    def report(self, report: Report, model: Params) -> Report:
        """Return a fit's report in the unit of the ratings, with `model`, which has this unit."""
        if self.size == 1.0:
            return report
        of_problem, of_step = (dict(report.settings[name]) for name in ("problem", "step"))
        of_problem["alpha"] *= self.size
        of_step["eta0"] /= self.size
        return dataclasses.replace(
            report,
            model=model,
            settings={**report.settings, "problem": of_problem, "step": of_step},
            epoch_losses=report.epoch_losses * self.size**2,
        )


def scale_of(ratings: np.ndarray, mean: float, by_size: bool) -> Scale:
    """Return the scale of ratings around a mean.

    If all ratings equal the mean up to rounding, their deviations are rounding errors, and the
    scale changes nothing.

    by_size : whether the scale also divides by the ratings' spread
    """
    spread = math.sqrt(float(np.mean(np.square(ratings - mean))))
    if not spread > ROUNDING * float(np.abs(ratings).max()):
        return Scale()
    return Scale(mean, spread if by_size else 1.0)
