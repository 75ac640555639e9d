"""Links between data centres: presets, a matrix, a file.

The paper on Gaia measured eleven regions of a cloud: between them bandwidth is 15 times less than
inside one in the mean, and 60 times between the two that are worst off (Hsieh et al. 2017, section
2). That is the paper's; the circle on which we put regions, and the latencies of 10 to 300 ms, are
ours.
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
MEAN, WORST = 15.0, 60.0  # times less than the LAN
NEAREST = 6.84  # of neighbours on the circle, by which eleven are 15 in the mean
SHORTEST, LONGEST = 0.01, 0.3  # seconds
FAR = 0.05  # seconds of "wan" and "slowest"
PRESETS = ("lan", "wan", "slowest", "regions")
SLOWER = re.compile(r"(?P<times>\d+(\.\d+)?)x:(?P<ms>\d+(\.\d+)?)ms")

Links = list[list[Link]]


def preset(name: str, n_centres: int) -> Links:
    """Links between centres by name.

    Parameters
    ----------
    name : {"lan", "wan", "slowest", "regions"} or str
        All as inside of one; all 15 times slower, with 50 ms; all 60 times; or as far apart as on a
        circle, 7 to 60 times slower. Or so many times slower with so much latency: "15x:100ms".
    n_centres : int

    Returns
    -------
    list of list of Link
        Entry [i][j] from i to j.

    Raises
    ------
    ValueError
        If there is none of that name.

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
        far = 0.0 if half == 1 else max(0, steps - 1) / (half - 1)
        latency = SHORTEST + far * (LONGEST - SHORTEST)
        return Link(latency, LAN.bandwidth / (NEAREST * (WORST / NEAREST) ** far))

    return [[between(i, j) for j in range(n_centres)] for i in range(n_centres)]


def _alike(name: str) -> Link | None:
    """The link of a name that stands for one between all centres; None: "regions".

    Raises
    ------
    ValueError
        If it stands for none.
    """
    if name == "lan":
        return LAN
    if (factor := {"wan": MEAN, "slowest": WORST}.get(name)) is not None:
        return Link(FAR, LAN.bandwidth / factor)
    if (said := SLOWER.fullmatch(name)) is not None and float(said["times"]) > 0.0:
        return Link(1e-3 * float(said["ms"]), LAN.bandwidth / float(said["times"]))
    if name == "regions":
        return None
    raise ValueError(
        f"links are one of {', '.join(PRESETS)}, so many times slower than the LAN with so much "
        f"latency, as in 15x:100ms, or a file; got {name!r}.{nearest(name, PRESETS)}"
    )


def is_preset(name: str) -> bool:
    """Whether links have that name, and are no file."""
    return name in PRESETS or SLOWER.fullmatch(name) is not None


def matrix(latency: Any, bandwidth: Any) -> Links:
    """Links of two matrices: entry [i, j] from centre i to centre j; the diagonal says nothing.

    Parameters
    ----------
    latency : array of shape (n_centres, n_centres)
        Seconds.
    bandwidth : array of shape (n_centres, n_centres)
        Bytes per second.

    Raises
    ------
    ValueError
        If they are not square and alike, or an entry is no link.
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
    """Links of a JSON file: ``{"latency": [[...]], "bandwidth": [[...]]}``, as of `matrix`.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If it is anything else.
    """
    try:
        told = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}.") from None
    if not isinstance(told, dict) or not {"latency", "bandwidth"} <= told.keys():
        raise ValueError(
            f"{path} must hold an object with two matrices, 'latency' in seconds and 'bandwidth' "
            "in bytes per second."
        )
    return matrix(told["latency"], told["bandwidth"])


def between(links: str | Links, n_centres: int) -> Links:
    """Links between so many centres, of what is settled.

    Raises
    ------
    ValueError
        If they are of another number of centres.
    """
    found = preset(links, n_centres) if isinstance(links, str) else links
    if len(found) != n_centres:
        raise ValueError(
            f"links are of {len(found)} centres, and the run has {n_centres}: one row and one "
            "column for each."
        )
    return found


def settled(links: Any) -> str | Links:
    """A preset's name, or a matrix, which a file is read for; before centres are counted.

    Raises
    ------
    OSError, ValueError, TypeError
    """
    if isinstance(links, str | Path):
        name = str(links)
        if not is_preset(name) and Path(name).exists():
            return read(name)
        _alike(name)  # raises where it stands for nothing
        return name
    rows = list(links) if isinstance(links, Sequence) else []
    ok = all(isinstance(row, Sequence) and len(row) == len(rows) for row in rows)
    if not rows or not ok or not all(isinstance(one, Link) for row in rows for one in row):
        raise TypeError(
            f"links are one of {', '.join(PRESETS)}, a file, or a list of a list of Link for each "
            f"centre; got {links!r}."
        )
    return [list(row) for row in rows]
