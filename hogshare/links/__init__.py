"""Links: the latency and bandwidth between machines or centres, on a virtual clock or emulated.

Examples
--------
>>> from hogshare import links
>>> links.preset("wan", 3)[0][1].latency
0.05
"""

from __future__ import annotations

from hogshare.links.link import Line, Link
from hogshare.links.regions import LAN, PRESETS, matrix, preset, read

__all__ = ["LAN", "PRESETS", "Line", "Link", "matrix", "preset", "read"]
