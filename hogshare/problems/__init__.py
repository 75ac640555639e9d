"""What is minimised: rows, loss, penalty, and how many parameters that makes."""

from hogshare.problems.linear import LinearProblem, linear
from hogshare.problems.model import Model

__all__ = ["LinearProblem", "Model", "linear"]
