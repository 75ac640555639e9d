"""The zero and the unit in which ratings are fitted, so that a fit is the same in every unit."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from hogshare.problems.factorisation import FactorisationProblem
from hogshare.problems.params import Params
from hogshare.report import Report

ROUNDING = 16 * np.finfo(np.float64).eps  # of ratings that are the same, in their own size


class Scale(NamedTuple):
    """What is taken off ratings, and what they are divided by, before float32 rounds them.

    In float64, so that ratings times a number, or plus one, are fitted as the same float32 numbers.
    A bias has the unit of a rating, a factor that of its root, a loss that of its square; of the
    penalties `alpha` has a rating's and `bias_alpha` none; a step of factors that of one over a
    rating.
    """

    mean: float = 0.0
    size: float = 1.0

    def shrunk(self, ratings: np.ndarray) -> np.ndarray:
        """Ratings as they are fitted."""
        if self == Scale():
            return ratings.astype(np.float32)
        return ((ratings - self.mean) / self.size).astype(np.float32)

    def grown(self, problem: FactorisationProblem, model: Params) -> Params:
        """The model of what is fitted as one of the ratings."""
        if self.size == 1.0:
            return model
        params = np.array(model.params)
        for part, unit in zip(
            problem.split(params), (self.size, math.sqrt(self.size)) * 2, strict=True
        ):
            # by a number of float64: rounded to float32 it would be wrong by the same for all
            np.multiply(part, np.float64(unit), out=part, casting="same_kind")
        return Params(params, model.t)

    def report(self, report: Report, model: Params) -> Report:
        """A fit's report, in the unit of ratings, with the model in it."""
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
    """The scale of ratings around a mean.

    Ratings that are all the same, up to rounding, have none: what is left of them is no unit.

    by_size : whether they are divided, too
    """
    spread = math.sqrt(float(np.mean(np.square(ratings - mean))))
    if not spread > ROUNDING * float(np.abs(ratings).max()):
        return Scale()
    return Scale(mean, spread if by_size else 1.0)
