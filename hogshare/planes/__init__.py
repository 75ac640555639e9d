"""Where the model lives and how it is read and written."""

from hogshare.planes.shared import Shared

__all__ = ["Shared"]
