"""The zero and the unit in which ratings are fitted; they make a fit independent of the unit."""

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
    """A mean to subtract from ratings, and a size to divide them by, before float32 rounds them.

    The computation in float64 gives scaled or shifted ratings the same float32 numbers. Units, with
    u for the unit of a rating: (1) a bias and the penalty `alpha`: u; (2) a factor: ``u**0.5``; (3)
    a loss: ``u**2``; (4) a step of factors: ``1 / u``; (5) the penalty `bias_alpha`: no unit.
    """

    mean: float = 0.0
    size: float = 1.0

    def shrunk(self, ratings: np.ndarray) -> np.ndarray:
        """Convert ratings to the fit's unit."""
        if self == Scale():
            return ratings.astype(np.float32)
        return ((ratings - self.mean) / self.size).astype(np.float32)

    def grown(self, problem: FactorisationProblem, model: Params) -> Params:
        """Convert the model to the unit of the ratings."""
        if self.size == 1.0:
            return model
        params = np.array(model.params)
        for part, unit in zip(
            problem.split(params), (self.size, math.sqrt(self.size)) * 2, strict=True
        ):
            # a float64 factor: rounded to float32, it would give all numbers the same error
            np.multiply(part, np.float64(unit), out=part, casting="same_kind")
        return Params(params, model.t)

    def report(self, report: Report, model: Params) -> Report:
        """Convert a fit's report to the unit of ratings, with the converted model."""
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

    Ratings that are all equal up to rounding are not divided: their deviations are rounding errors.

    by_size : whether to divide the ratings by their spread too
    """
    spread = math.sqrt(float(np.mean(np.square(ratings - mean))))
    if not spread > ROUNDING * float(np.abs(ratings).max()):
        return Scale()
    return Scale(mean, spread if by_size else 1.0)
