"""Planes: where the model is stored, and how it is read and written."""

from hogshare.planes.grid import Grid
from hogshare.planes.master import Master
from hogshare.planes.mirrors import Mirrors
from hogshare.planes.protocol import Home, Plane, PlaneError
from hogshare.planes.replicas import Replicas
from hogshare.planes.shared import Shared
from hogshare.planes.wait_condition import Until

__all__ = [
    "Grid",
    "Home",
    "Master",
    "Mirrors",
    "Plane",
    "PlaneError",
    "Replicas",
    "Shared",
    "Until",
]
