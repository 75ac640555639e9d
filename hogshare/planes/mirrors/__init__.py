"""The plane of centres that mirror each other, and its report."""

from hogshare.planes.mirrors.exchanges import Exchanges
from hogshare.planes.mirrors.plane import Mirrors

__all__ = ["Exchanges", "Mirrors"]
