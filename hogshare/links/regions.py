"""Links between data centres: presets, a matrix, a file.

The paper on Gaia measured eleven regions of a cloud (Hsieh et al. 2017, section 2). On average, the
bandwidth between two regions is 15 times less than the bandwidth inside a region. For the worst
pair of regions it is 60 times less. These factors are from the paper. The circle of regions and the
latencies of 10 to 300 ms are ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hogshare.links.link import Link
from hogshare.system.messages import nearest

LAN = Link(latency=5e-4, bandwidth=125e6)  # 1 Gbit/s
MEAN, WORST = 15.0, 60.0  # factors by which the bandwidth is less than the LAN's
NEAREST = 6.84  # the factor for neighbours on the circle: with eleven regions the mean is 15
SHORTEST, LONGEST = 0.01, 0.3  # latencies in seconds
FAR = 0.05  # latency of "wan" and "slowest" in seconds
PRESETS = ("lan", "wan", "slowest", "regions")
SLOWER = re.compile(r"(?P<times>\d+(\.\d+)?)x:(?P<ms>\d+(\.\d+)?)ms")

Links = list[list[Link]]


def preset(name: str, n_centres: int) -> Links:
    """Return the links between centres for a preset's name.

    Parameters
    ----------
    name : {"lan", "wan", "slowest", "regions"} or str
        "lan": the link inside a centre. "wan": 15 times slower, with a latency of 50 ms.
        "slowest": 60 times slower, with a latency of 50 ms. "regions": 7 to 60 times slower,
        depending on the distance of the centres on a circle. Any other name must be a factor and a
        latency, such as "15x:100ms".
    n_centres : int
        Number of centres.

    Returns
    -------
    list of list of Link
        Entry [i][j] is the link from centre i to centre j.

    Raises
    ------
    ValueError
        If the name is unknown.

    Examples
    --------
    >>> from hogshare import links
    >>> farthest = links.preset("regions", 11)[0][5]
    >>> round(links.LAN.bandwidth / farthest.bandwidth), farthest.latency
    (60, 0.3)
    """
    if (alike := _alike(name)) is not None:
        return [[alike] * n_centres for _ in range(n_centres)]
    half = max(1, n_centres // 2)

    def between(i: int, j: int) -> Link:
        steps = min((i - j) % n_centres, (j - i) % n_centres)
        # 0 for neighbours, 1 for the farthest pairs; bandwidth falls geometrically in between
        far = 0.0 if half == 1 else max(0, steps - 1) / (half - 1)
        latency = SHORTEST + far * (LONGEST - SHORTEST)
        return Link(latency, LAN.bandwidth / (NEAREST * (WORST / NEAREST) ** far))

    return [[between(i, j) for j in range(n_centres)] for i in range(n_centres)]


def _alike(name: str) -> Link | None:
    """Return the link that all pairs of centres have, or None if `name` is "regions".

    Raises
    ------
    ValueError
        If the name is unknown.
    """
    if name == "lan":
        return LAN
    if (factor := {"wan": MEAN, "slowest": WORST}.get(name)) is not None:
        return Link(FAR, LAN.bandwidth / factor)
    if (matched := SLOWER.fullmatch(name)) is not None and float(matched["times"]) > 0.0:
        return Link(1e-3 * float(matched["ms"]), LAN.bandwidth / float(matched["times"]))
    if name == "regions":
        return None
    raise ValueError(
        f"links must be a preset ({', '.join(PRESETS)}); or a slowdown relative to the LAN with a "
        f"latency, such as 15x:100ms; or a file. Got {name!r}.{nearest(name, PRESETS)}"
    )


def is_preset(name: str) -> bool:
    """Whether a name is the name of a preset, not of a file."""
    return name in PRESETS or SLOWER.fullmatch(name) is not None


def matrix(latency: Any, bandwidth: Any) -> Links:
    """Return the links with the latencies and bandwidths of two matrices.

    Entry [i, j] is of the link from centre i to centre j. The diagonal is ignored.

    Parameters
    ----------
    latency : array of shape (n_centres, n_centres)
        Seconds.
    bandwidth : array of shape (n_centres, n_centres)
        Bytes per second.

    Raises
    ------
    ValueError
        If the matrices are not square and of the same shape, or if an entry is not valid for a
        link.
    """
    both = {}
    for name, given in (("latency", latency), ("bandwidth", bandwidth)):
        try:
            both[name] = np.asarray(given, float)
        except (TypeError, ValueError):
            raise ValueError(f"{name} must be a matrix of numbers; got {given!r}.") from None
    shape = both["latency"].shape
    if len(shape) != 2 or shape[0] != shape[1] or both["bandwidth"].shape != shape:
        raise ValueError(
            "latency and bandwidth must be two square matrices, with a row and a column for each "
            f"centre; got the shapes {shape} and {both['bandwidth'].shape}."
        )
    n = shape[0]
    return [
        [
            Link() if i == j else Link(float(both["latency"][i, j]), float(both["bandwidth"][i, j]))
            for j in range(n)
        ]
        for i in range(n)
    ]


def read(path: str | Path) -> Links:
    """Read links from a JSON file: ``{"latency": [[...]], "bandwidth": [[...]]}``, as in `matrix`.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If the file does not contain such matrices.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no JSON file of links: {error}.") from None
    if not isinstance(content, dict) or not {"latency", "bandwidth"} <= content.keys():
        raise ValueError(
            f"{path} must contain an object with two matrices, 'latency' in seconds and "
            "'bandwidth' in bytes per second."
        )
    return matrix(content["latency"], content["bandwidth"])


def between(links: str | Links, n_centres: int) -> Links:
    """Return the links between `n_centres` centres.

    links : a result of `settled`

    Raises
    ------
    ValueError
        If the links are for another number of centres.
    """
    found = preset(links, n_centres) if isinstance(links, str) else links
    if len(found) != n_centres:
        raise ValueError(
            f"links are for {len(found)} centres, but the run has {n_centres}: give one row and "
            "one column for each."
        )
    return found


def settled(links: Any) -> str | Links:
    """Return the name of a preset, or a matrix of links; read the matrix if a path is given.

    The number of centres need not be known yet.

    Raises
    ------
    OSError, ValueError, TypeError
    """
    if isinstance(links, str | Path):
        name = str(links)
        if not is_preset(name) and Path(name).exists():
            return read(name)
        _alike(name)  # raises for an unknown name
        return name
    rows = list(links) if isinstance(links, Sequence) else []
    ok = all(isinstance(row, Sequence) and len(row) == len(rows) for row in rows)
    if not rows or not ok or not all(isinstance(one, Link) for row in rows for one in row):
        raise TypeError(
            f"links are one of {', '.join(PRESETS)}, a file, or a list of a list of Link for each "
            f"centre; got {links!r}."
        )
    return [list(row) for row in rows]
