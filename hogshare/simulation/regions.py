"""Links between data centres: presets, a matrix, a file; and the network of a run they make.

The paper on Gaia measured eleven regions of a cloud: between them bandwidth is 15 times less than
inside one in the mean, and 60 times between the two that are worst off (Hsieh et al. 2017, section
2). That is the paper's; the circle on which we put regions, and the latencies of 10 to 300 ms, are
ours.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hogshare.simulation.links import Link, Network
from hogshare.words import nearest

LAN = Link(latency=5e-4, bandwidth=125e6)  # 1 Gbit/s
MEAN, WORST = 15.0, 60.0  # times less than the LAN
NEAREST = 6.84  # of neighbours on the circle, by which eleven are 15 in the mean
SHORTEST, LONGEST = 0.01, 0.3  # seconds
FAR = 0.05  # seconds of "wan" and "slowest"
PRESETS = ("lan", "wan", "slowest", "regions")

Links = list[list[Link]]


def preset(name: str, n_centres: int) -> Links:
    """Links between centres by name.

    Parameters
    ----------
    name : {"lan", "wan", "slowest", "regions"}
        All as inside of one; all 15 times slower; all 60 times; or as far apart as on a circle, 7
        to 60 times slower.
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
    >>> from hogshare.simulation import regions
    >>> links = regions.preset("regions", 11)
    >>> round(regions.LAN.bandwidth / links[0][5].bandwidth), links[0][5].latency
    (60, 0.3)
    """
    if name not in PRESETS:
        raise ValueError(
            f"links are one of {', '.join(PRESETS)}, or a file; got {name!r}."
            f"{nearest(name, PRESETS)}"
        )
    factor = {"lan": 1.0, "wan": MEAN, "slowest": WORST}.get(name)
    if factor is not None:
        latency = LAN.latency if name == "lan" else FAR
        link = Link(latency, LAN.bandwidth / factor)
        return [[link] * n_centres for _ in range(n_centres)]
    half = max(1, n_centres // 2)

    def between(i: int, j: int) -> Link:
        steps = min((i - j) % n_centres, (j - i) % n_centres)
        far = 0.0 if half == 1 else max(0, steps - 1) / (half - 1)
        latency = SHORTEST + far * (LONGEST - SHORTEST)
        return Link(latency, LAN.bandwidth / (NEAREST * (WORST / NEAREST) ** far))

    return [[between(i, j) for j in range(n_centres)] for i in range(n_centres)]


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


def network(links: Sequence[Sequence[Link]], groups: Sequence[int]) -> Network:
    """The network of a run whose workers are in centres.

    Parameters
    ----------
    links : list of list of Link
        Entry [i][j] from centre i to centre j.
    groups : sequence of int
        The centre of each worker. Between two centres it is their first workers whose link counts:
        along it go the messages of `Mirrors`.

    Raises
    ------
    ValueError
        If links are of another number of centres.
    """
    first = np.unique(groups, return_index=True)[1].tolist()
    n = len(first)
    if len(links) != n or any(len(row) != n for row in links):
        raise ValueError(
            f"links are of {len(links)} centres, and the run has {n}: one row and one column for "
            "each."
        )
    edges = {(first[i], first[j]): links[i][j] for i in range(n) for j in range(n) if i != j}
    return Network(edges=edges)
