"""`solve` and the papers' algorithms as compositions of the five choices."""

from hogshare.solvers.asysg import asysg_con, asysg_incon
from hogshare.solvers.replaying import replay
from hogshare.solvers.saga import asaga, prox_asaga
from hogshare.solvers.solving import solve

__all__ = ["asaga", "asysg_con", "asysg_incon", "prox_asaga", "replay", "solve"]
