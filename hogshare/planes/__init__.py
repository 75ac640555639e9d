"""Where the model lives and how it is read and written."""

from hogshare.planes.master import Master
from hogshare.planes.shared import Shared

Plane = Shared | Master

__all__ = ["Master", "Plane", "Shared"]
