"""Checkpoints: how far a run has come, in a file, and which run it is.

The file is an archive (`hogshare.io.archives`): a process that is killed while it writes leaves the
old checkpoint or the new one. Nothing in it is unpickled.

    header               JSON: format, version, finished epochs, the run's facts, the first step's
                         time, the checks so far, names of fields and of the rule's arrays
    coef, intercept, average_coef, average_intercept
                         the model, for people and for `Checkpoint.model`
    state_*              what the engine needs to go on; see `hogshare.engine.checkpoint_session`

A run on several sites writes a manifest and a part for each site:

    run.npz                    the manifest: a checkpoint without the arrays of one site
    run.npz.TOKEN.0of2         site 0's part, run.npz.TOKEN.1of2 site 1's

A part has the memory of the site's rows, with their numbers among all rows; the orders of its rows;
and the arrays of the rule for its workers. Of a plane's arrays the manifest has all rows
(`Plane.checkpointed_owners`). Each checkpoint has a token, and so its own names of parts. The parts
reach the disk first, then the manifest replaces the one before, then the parts of that one are
removed: a run killed in between leaves a file and parts of one checkpoint.

With as many sites and the same rows each site continues from its part. With another number, or on
one machine, the parts are put together by the numbers of rows.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from hogshare._version import __version__
from hogshare.engine.homes import HOMES
from hogshare.engine.homes import PREFIX as PLANES
from hogshare.engine.stops import CRITERIA, Stop
from hogshare.engine.worker_states import PREFIX, without_prefix
from hogshare.io import archives
from hogshare.problems.fingerprints import DIGITS, digits
from hogshare.problems.kernel_arrays import FLOATS
from hogshare.problems.model import Model
from hogshare.problems.params import Params, params_of
from hogshare.problems.protocol import Problem, has_rows
from hogshare.rules.protocol import Rule
from hogshare.rules.row_memory import CHECKPOINTED, derivatives_in
from hogshare.rules.steps import StepSize
from hogshare.system import files, ranges
from hogshare.system.messages import own

STATE_PREFIX = "state_"  # of what the engine needs, among a checkpoint's arrays
PART_FORMAT = "hogshare part of a checkpoint"
PART_NAME = "a part of a hogshare checkpoint"
PART_VERSION = 1
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
    header = {"format": PART_FORMAT, "format_version": PART_VERSION, **parts, "site": site}
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
            raise ValueError(f"{file}: not {PART_NAME} (it names no arrays)")
        return [NUMBERS, *found]

    header, arrays = archives.read(file, PART_NAME, PART_FORMAT, [PART_VERSION], names)
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


FORMAT = "hogshare checkpoint"
FORMAT_VERSION = 1
PARTED = 2  # the version of manifests, beside which parts are
WHAT = "a hogshare checkpoint"
MODEL = ("coef", "intercept", "average_coef", "average_intercept")
STATE = (
    *("w", *CHECKPOINTED, "columns", "history", "order", "permutation"),
    *("average_coef", "average_intercept", "local", "lag", "received", "intercept", "dual_mean"),
)
# of what the rule has with each worker, and of what the plane keeps
OWN_PREFIXES = (f"{STATE_PREFIX}{PREFIX}", f"{STATE_PREFIX}{PLANES}")
ARRAYS = (*MODEL, *(f"{STATE_PREFIX}{name}" for name in (*STATE, HOMES)))
MAX_EPOCHS = 1 << 40
MAX_SITES = 1 << 20
MAX_CHECK_EPOCH = 1 << 60  # epoch of a look that is still to come
MAX_SEED = (1 << 63) - 1
SHOWN = 4  # differences that an error names
HEADER = {  # of `Saved`, as a file's header has them
    "epochs": int,
    "facts": dict,
    "first_t": float,
    "form": str,
    "ready": int,
    "looks": dict,
    "fields": dict,
}


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a run is saved on its way, so that `solve` can go on with it.

    Parameters
    ----------
    path : str or Path
        The file, which is replaced as a whole by every checkpoint.
    epochs : int, default=1
        Epochs from one checkpoint to the next. The run's last epoch is saved in any case.
    seconds : float, default=0
        Seconds from one checkpoint to the next, at least about. Several workers rest while the
        run's state is copied, at an epoch that is chosen by their pace so far.

    Notes
    -----
    A checkpoint that cannot be written is a warning, and the run goes on: the file is then the one
    before. A folder that does not exist, or a file that is no checkpoint, is an error before the
    run begins.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import Checkpoint, Stop, problems, solve
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> problem = problems.linear(scale(X), y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     saved = Checkpoint(Path(folder) / "run.npz", epochs=2)
    ...     _ = solve(problem, stop=Stop(epochs=4), seed=0, checkpoint=saved)
    ...     resumed = solve(problem, stop=Stop(epochs=10), resume=saved.path)
    >>> whole = solve(problem, stop=Stop(epochs=10), seed=0)
    >>> resumed.n_epochs, bool((resumed.model.coef == whole.model.coef).all())
    (10, True)
    """

    path: str | Path
    epochs: int = 1
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | os.PathLike):
            raise TypeError(f"path must be a str or a Path; got {self.path!r}.")
        ranges.store_whole(1, self, "epochs")
        ranges.not_negative(seconds=self.seconds)

    def model(self) -> Model | Params:
        """Read the model from the file, for predictions or as the `start` of another run.

        Returns
        -------
        Model, or Params
            With what the rule remembered of the rows; of a problem by a gradient, its vector.

        Raises
        ------
        ValueError
            If the file is no checkpoint, is cut off, or was written by a later version.
        OSError
            If it cannot be opened.
        """
        saved = load(self.path)
        try:
            return saved.whole().view()
        except (OSError, ValueError):  # of the memory of rows, which is elsewhere
            return saved.view()

    def check(self) -> None:
        """Refuse a place that cannot be written, or must not be.

        Raises
        ------
        OSError
            If there is no such folder, or it cannot be written.
        ValueError
            If the file that is there is no checkpoint of this version.
        """
        path = Path(self.path)
        files.check(path)
        if path.exists() and not path.is_file():
            raise OSError(f"{path}: a checkpoint is read again, and this is no file.")
        if path.exists():
            try:
                load(path)
            except ValueError as error:
                raise ValueError(
                    f"{error}. It would be overwritten by a checkpoint: name another file, or "
                    "remove this one."
                ) from error
        files.sweep(path)


@dataclass(kw_only=True)
class Saved:
    """What a checkpoint file holds.

    epochs : finished epochs
    facts : what run it is; see `facts_of`
    first_t : step counter of the run's first row
    form : how the state is written; see `hogshare.engine.checkpoint_session`
    ready : epochs whose row order is prepared
    looks : ``seen``, what the looks so far found, and ``next``, the epoch of the next one
    fields : names of the rows of the state's tables, in order
    arrays : the state, and the model
    path : where it was read from
    parts : of the manifest of a run on several sites: how many (``sites``), and the ``token`` in
        the names of their parts; empty: this is all
    """

    epochs: int
    facts: dict[str, Any]
    first_t: float
    form: str
    ready: int
    looks: dict[str, Any]
    fields: dict[str, list[str]]
    arrays: dict[str, np.ndarray]
    path: str = field(default="", repr=False)
    parts: dict[str, Any] = field(default_factory=dict)

    @property
    def state(self) -> dict[str, np.ndarray]:
        """What the engine needs to go on, by name."""
        return without_prefix(self.arrays, STATE_PREFIX)

    @property
    def seed(self) -> int:
        """Seed of the row order."""
        return int(self.facts["seed"])

    @property
    def next_check(self) -> int:
        """Epoch of the next look at the model, where there are any."""
        return int(self.looks["next"])

    @property
    def checks_seen(self) -> list[dict[str, Any]]:
        """What the looks so far found."""
        return [dict(look) for look in self.looks["seen"]]

    @property
    def criteria(self) -> tuple[str, ...]:
        """What the run looks at the model for; none where there are no looks."""
        stop = self.facts["stop"]
        return tuple(name for name in CRITERIA if stop.get(name) is not None)

    def has_all_of_a_check(self, look: dict[str, Any]) -> bool:
        """Whether a look has found something of each criterion, all of it numbers."""
        numbers = [float(number) for number in look.values()]  # of any size that is a float's
        names = {"epoch", "objective", *self.criteria}
        return bool(self.criteria) and len(numbers) == len(names) and look.keys() == names

    def save(self, path: str | Path) -> None:
        """Write the file, or leave what was there; see `hogshare.io.archives.write`."""
        header = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "version": __version__,
            **{name: getattr(self, name) for name in HEADER},
            "own_state": [name for name in self.arrays if name.startswith(OWN_PREFIXES)],
        }
        if self.parts:
            header |= {"format_version": PARTED, "parts": self.parts}
        archives.write(path, header, self.arrays)

    def whole(self) -> Saved:
        """With the parts of all sites put together; itself, if this is all.

        Raises ValueError if parts do not fit together, OSError if one cannot be read.
        """
        if not self.parts:
            return self
        arrays = joined(self.path, self.parts, self.arrays)
        return replace(self, arrays=arrays, parts={})

    def require(self, facts: dict[str, Any]) -> None:
        """Refuse to go on with another run than this is of.

        Raises ValueError if facts differ, or cannot be compared. The message says which, and what
        to do.
        """
        at_its_model = f"begin a new run at its model with start=Checkpoint({self.path!r}).model()"
        anew = own("begin a new run", at_its_model)
        data = self.facts["problem"].get("data", f"{DIGITS}:")
        if not str(data).startswith(f"{DIGITS}:"):
            raise ValueError(
                f"{self.path}: this checkpoint is of an earlier hogshare, which told rows apart by "
                "other digits, so that nothing says whether these are the same: resume with the "
                f"hogshare that wrote it, or {anew}."
            )
        found = list(differences(self.facts, facts))
        if not found:
            return
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise ValueError(
            f"{self.path}: this checkpoint is of another run: {'; '.join(found[:SHOWN])}{more}. "
            "Resume with the problem and the settings that it was written with (epochs, workers "
            f"and plane may differ), or {anew}."
        )

    def view(self) -> Model | Params:
        """The model, as the kind of problem has it."""
        return self.model() if "params" not in self.facts["problem"] else params_of(self.model())

    def check_model(self) -> None:
        """Refuse what is no model of such a problem."""
        coef, intercept, *averages = (self.arrays.get(name) for name in MODEL)
        if coef is None or coef.dtype not in FLOATS or coef.ndim != 2 or not coef.size:
            raise ValueError("its model is missing")
        n_params = self.facts["problem"].get("params")
        if n_params is not None and coef.shape != (1, n_params):
            raise ValueError("its model is not that of the problem")
        likes = coef[:, 0], coef, coef[:, 0]
        for part, like in zip((intercept, *averages), likes, strict=True):
            if part is not None and (part.shape != like.shape or part.dtype not in FLOATS):
                raise ValueError("the parts of its model do not fit together")
        if intercept is None or (averages[0] is None) != (averages[1] is None):
            raise ValueError("its model is not whole")
        self.model()

    def model(self) -> Model:
        """The model, with what the rule remembered of the rows."""
        a = self.arrays
        n_columns = len(a["coef"])
        memory = derivatives_in(self.state, n_columns)
        t = self.first_t + self.epochs * float(self.facts["problem"]["training rows"])
        averages = a.get("average_coef"), a.get("average_intercept")
        return Model(a["coef"], a["intercept"], t, *averages, memory)


def load(path: str | Path) -> Saved:
    """Read a checkpoint file.

    Raises ValueError if the file is no checkpoint, is cut off, or was written by a later version;
    OSError if it cannot be opened.
    """
    header, arrays = archives.read(path, WHAT, FORMAT, [FORMAT_VERSION, PARTED], _wanted)
    try:
        found: dict[str, Any] = {name: kind(header[name]) for name, kind in HEADER.items()}
        if header["format_version"] == PARTED:
            found["parts"] = _parts(header["parts"])
        saved = Saved(**found, arrays=arrays, path=str(path))
        rows = int(saved.facts["problem"]["training rows"])
        saved.check_model()
        looks = [int(look["epoch"]) for look in saved.checks_seen]
        in_range = 0 <= saved.epochs <= MAX_EPOCHS and rows >= 1
        in_range = (
            in_range and 0 <= saved.next_check <= MAX_CHECK_EPOCH and 0 <= saved.seed <= MAX_SEED
        )
        if not in_range or any(epoch > saved.epochs for epoch in looks):
            raise ValueError("its numbers are out of range")
        if sorted({*looks}) != looks or not all(map(saved.has_all_of_a_check, saved.checks_seen)):
            raise ValueError("its looks at the model are not those of a run")
    except (ValueError, KeyError, TypeError, OverflowError, AttributeError) as error:
        raise ValueError(f"{path}: not {WHAT} ({error!r})") from error
    return saved


class OneFile:
    """Checkpoints of a run that one process has: a file each."""

    def load(self, path: str | Path) -> Saved:
        """Read one; also that of a run on several sites, put together.

        Raises
        ------
        ValueError
            If it is no checkpoint, or its parts are not.
        OSError
            If it, or one of its parts, cannot be read.
        """
        return load(path).whole()

    def check(self, place: Checkpoint) -> None:
        """Refuse a place that will not do, before a run; raises OSError or ValueError."""
        place.check()

    def save(self, saved: Saved, path: str | Path) -> None:
        """Write one, or leave the one before; raises OSError if it cannot be written."""
        saved.save(path)
        remove_others(path, None)

    def agreed(self, number: float) -> float:
        """The number by which all go who save together."""
        return number


class AnothersFile(OneFile):
    """Checkpoints of a run that several processes have, of whom another one writes."""

    def check(self, place: Checkpoint) -> None:
        """Nothing: the place is the other's."""

    def save(self, saved: Saved, path: str | Path) -> None:
        """Nothing: the other does."""


def _parts(told: Any) -> dict[str, Any]:
    """What a manifest says of its parts; raises if that is nothing."""
    token, sites = str(told["token"]), int(told["sites"])
    if not TOKEN.fullmatch(token) or not 1 < sites <= MAX_SITES:
        raise ValueError("it names no parts")
    return {"token": token, "sites": sites}


def _wanted(header: dict[str, Any]) -> list[str]:
    """Names of the arrays that are read: all there may be, and the rule's and the plane's own."""
    own = header.get("own_state", [])
    names = [name for name in own if isinstance(name, str)] if isinstance(own, list) else []
    return [*ARRAYS, *(name for name in names if name.startswith(OWN_PREFIXES))]


def facts_of(
    problem: Problem, rule: Rule, step: StepSize, stop: Stop, shuffle: bool, seed: int
) -> dict[str, Any]:
    """What decides which steps a run takes, as plain data: two runs with the same are one run.

    Not its epochs, nor who computes it (workers, runtime, plane): those may change on the way.

    seed : of the row order itself
    """
    mask, rows, told = stop.validation, problem.n_rows, None
    if has_rows(problem):
        rows = problem.n_all
        if mask is not None:
            mask = problem.mask_of_all(mask)
            rows, told = rows - int(np.count_nonzero(mask)), digits(mask)
    facts = {
        "problem": {**problem.identity(), "training rows": rows},
        "rule": {"name": type(rule).__name__, **vars(rule)},
        "step": rule.schedule(step),
        "stop": {
            "tol": stop.tol,
            "patience": stop.patience,
            "confirm": stop.confirm,
            "give_up": stop.give_up,
            "validation": told,
            **{name: getattr(stop, name) for name in CRITERIA},
        },
        "shuffle": shuffle,
        "seed": int(seed),
    }
    # as it will be read again, numbers of NumPy's as Python's own
    plain: dict[str, Any] = json.loads(json.dumps(facts, default=lambda value: value.item()))
    return plain


def differences(before: Any, now: Any, name: str = "") -> Iterator[str]:
    """Name what differs between two runs' facts, one by one, as a phrase each."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in [*before, *(key for key in now if key not in before)]:
            part = f"{name} {key}".strip() if name in ("rule", "step", "stop") else key
            yield from differences(before.get(key), now.get(key), part)
    elif before != now and name == "data":
        yield "the rows, labels or weights hold other numbers"
    elif before != now:
        yield f"{own(name)} was {before!r} and is {now!r}"
