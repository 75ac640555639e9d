"""Checkpoints of a run on several sites: a manifest, and beside it a part of each site.

    run.npz                    the manifest: a checkpoint without what is a site's own
    run.npz.TOKEN.0of2         site 0's part, run.npz.TOKEN.1of2 site 1's

A site's own is what the rule remembers of its rows, with their numbers among all rows; the orders
of its rows; and what the rule keeps with its workers. Of a plane's arrays the manifest has all
rows (`Plane.checkpointed_owners`). Each checkpoint has a token of
its own, and so other names for its parts. The parts are brought to the disk first, then the
manifest takes the place of the one before, then the parts of that one are removed: whatever is
killed in between, the file and the parts that it names are those of one checkpoint.

On as many sites with the same rows each goes on from its part. On another number, or on one
machine, the parts are put together by the numbers of rows.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hogshare.engine.worker_states import PREFIX
from hogshare.io import archives

STATE_PREFIX = "state_"  # of what the engine needs, among a checkpoint's arrays
FORMAT = "hogshare part of a checkpoint"
WHAT = "a part of a hogshare checkpoint"
FORMAT_VERSION = 1
NUMBERS = "numbers"  # of a part's rows among all
OF_ROWS = tuple(f"{STATE_PREFIX}{name}" for name in ("dual", "gradients"))
ORDERS = tuple(f"{STATE_PREFIX}{name}" for name in ("order", "permutation"))
OF_WORKERS = f"{STATE_PREFIX}{PREFIX}"
TOKEN = re.compile(r"[0-9a-f]{12}")


def part_path(path: str | Path, parts: Mapping[str, Any], site: int) -> Path:
    """Where a site's part is."""
    return Path(f"{os.fspath(path)}.{parts['token']}.{site}of{parts['sites']}")


def divided(
    arrays: Mapping[str, np.ndarray],
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Of a checkpoint's arrays those that all sites have alike, and those that are a site's own."""
    own = {
        name: array
        for name, array in arrays.items()
        if name in (*OF_ROWS, *ORDERS) or name.startswith(OF_WORKERS)
    }
    return {name: array for name, array in arrays.items() if name not in own}, own


def write_part(
    path: str | Path,
    parts: Mapping[str, Any],
    site: int,
    own: Mapping[str, np.ndarray],
    numbers: np.ndarray,
) -> None:
    """Write a site's part; raises OSError if that cannot be done."""
    header = {"format": FORMAT, "format_version": FORMAT_VERSION, **parts, "site": site}
    header["names"] = sorted(own)
    archives.write(part_path(path, parts, site), header, {**own, NUMBERS: numbers})


def read_part(path: str | Path, parts: Mapping[str, Any], site: int) -> dict[str, np.ndarray]:
    """Read a site's part.

    Raises ValueError if it is that of another checkpoint, OSError if it cannot be read.
    """
    file = part_path(path, parts, site)

    def names(header: dict[str, Any]) -> list[str]:
        found = header.get("names")
        if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
            raise ValueError(f"{file}: not {WHAT} (it names no arrays)")
        return [NUMBERS, *found]

    header, arrays = archives.read(file, WHAT, FORMAT, [FORMAT_VERSION], names)
    told = {name: header.get(name) for name in ("token", "sites", "site")}
    if told != {**parts, "site": site} or NUMBERS not in arrays:
        raise ValueError(f"{file}: this is no part of the checkpoint {os.fspath(path)}")
    return arrays


def remove_others(path: str | Path, parts: Mapping[str, Any] | None) -> None:
    """Remove the parts of checkpoints that this file is not; what cannot be removed stays."""
    file = Path(path)
    pattern = re.compile(rf"{re.escape(file.name)}\.({TOKEN.pattern})\.\d+of\d+")
    kept = None if parts is None else parts["token"]
    with contextlib.suppress(OSError):
        for name in os.listdir(file.parent):
            found = pattern.fullmatch(name)
            if found and found[1] != kept:
                with contextlib.suppress(OSError):
                    os.unlink(file.parent / name)


def joined(
    path: str | Path, parts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """A manifest's arrays with the parts of all sites put together.

    Raises
    ------
    ValueError
        If the parts do not fit together.
    OSError
        If one of them cannot be read.
    """
    found = [read_part(path, parts, site) for site in range(int(parts["sites"]))]
    whole = dict(arrays)
    try:
        order = np.argsort(np.concatenate([part[NUMBERS] for part in found]), kind="stable")
        for name in OF_ROWS:
            if name in found[0]:
                rows = [part[name].reshape(len(part[NUMBERS]), -1) for part in found]
                whole[name] = np.concatenate(rows)[order].reshape(-1)
        for name in found[0]:
            if name.startswith(OF_WORKERS):
                whole[name] = np.concatenate([part[name] for part in found])
    except (ValueError, KeyError, IndexError) as error:
        raise ValueError(f"{path}: its parts do not fit together ({error!r})") from error
    return whole


def with_rows(
    arrays: Mapping[str, np.ndarray], numbers: np.ndarray, n_rows: int, workers: range
) -> dict[str, np.ndarray]:
    """A checkpoint of all rows, as a site with some of them, and some workers, goes on with it.

    Raises ValueError if it is of another number of rows.
    """
    arrays = {name: array for name, array in arrays.items() if name not in ORDERS}
    for name in OF_ROWS:
        if name in arrays:
            if not n_rows or len(arrays[name]) % n_rows:
                raise ValueError(f"the checkpoint is not of {n_rows} rows")
            arrays[name] = arrays[name].reshape(n_rows, -1)[numbers].reshape(-1)
    for name, array in arrays.items():
        if name.startswith(OF_WORKERS) and len(array):
            arrays[name] = array[np.array(workers) % len(array)]
    return arrays
