"""The plane of centres that mirror each other, and what a run on it tells."""

from hogshare.planes.mirrors.exchanges import Exchanges
from hogshare.planes.mirrors.plane import Mirrors

__all__ = ["Exchanges", "Mirrors"]
