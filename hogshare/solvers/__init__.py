"""`solve` and the papers' algorithms as compositions of the five choices."""

from hogshare.solvers.asysg import asysg_incon
from hogshare.solvers.solving import solve

__all__ = ["asysg_incon", "solve"]
