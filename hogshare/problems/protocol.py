"""What the engine asks of every problem, whatever is minimised.

There are two kinds. Of a linear problem kernels step through the rows (`has_rows`); of any other
the engine asks for the gradient of a block (`hogshare.problems.gradient`, from which a problem of
one's own derives). Where one kind is meant, `has_rows` and `by_gradient` tell which it is; what
both kinds have may be asked of any problem.
"""

from __future__ import annotations

from typing import TypeAlias, TypeGuard

from hogshare.problems.gradient import GradientProblem
from hogshare.problems.linear.problem import LinearProblem

#: Any problem: a linear one, or one that is known by its gradient.
Problem: TypeAlias = LinearProblem | GradientProblem
#: A problem whose rows kernels step through: losses of predictions, and a penalty.
RowProblem: TypeAlias = LinearProblem


def has_rows(problem: Problem) -> TypeGuard[RowProblem]:
    """Whether kernels step through a problem's rows, as those of a linear problem."""
    return problem.has_rows


def by_gradient(problem: Problem) -> TypeGuard[GradientProblem]:
    """Whether a problem is known by its gradient."""
    return not problem.has_rows
