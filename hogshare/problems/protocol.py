"""The two kinds of problems, and the type of any problem.

Kernels step through the rows of a linear problem (`has_rows`). For any other problem
(`by_gradient`) the engine calls the problem for the gradient of a block. A user's problem derives
from `hogshare.problems.GradientProblem`. Code may use the attributes that both kinds have on any
problem.
"""

from __future__ import annotations

from typing import TypeAlias, TypeGuard

from hogshare.problems.gradient import GradientProblem
from hogshare.problems.linear.problem import LinearProblem

#: Any problem: a linear problem, or a problem that is given by its gradient.
Problem: TypeAlias = LinearProblem | GradientProblem
#: A problem whose rows kernels step through: losses of predictions, and a penalty.
RowProblem: TypeAlias = LinearProblem


def has_rows(problem: Problem) -> TypeGuard[RowProblem]:
    """Return whether kernels step through a problem's rows, as for a linear problem."""
    return problem.has_rows


def by_gradient(problem: Problem) -> TypeGuard[GradientProblem]:
    """Return whether a problem is given by its gradient."""
    return not problem.has_rows
