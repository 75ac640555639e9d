"""The plane of a model for every worker, averaged over a graph, and its report."""

from hogshare.planes.replicas.plane import Replicas
from hogshare.planes.replicas.reduces import Reduces

__all__ = ["Reduces", "Replicas"]
