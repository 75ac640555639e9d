"""Checkpoints: files with the state of a run, and the facts that identify the run.

The file is an archive (`hogshare.io.archives`). If a process is killed while it writes the archive,
the file is the old checkpoint or the new one. Reading an archive unpickles nothing.

    header               JSON: format, version, finished epochs, the run's facts, the first step's
                         time, the checks so far, names of fields and of the rule's arrays
    coef, intercept, average_coef, average_intercept
                         the model, for people and for `Checkpoint.model`
    state_*              the engine's state; see `hogshare.engine.checkpoint_session`

A run on several sites writes a manifest and a part for each site:

    run.npz                    the manifest: a checkpoint without the arrays of one site
    run.npz.TOKEN.0of2         site 0's part, run.npz.TOKEN.1of2 site 1's

A part contains (1) the memory of the site's rows, with the numbers of these rows among all rows,
(2) the orders of the site's rows, and (3) the rule's arrays for the site's workers. The manifest
contains all rows of a plane's arrays (`Plane.checkpointed_owners`). The parts of a checkpoint have
the same token in their names. First, the parts are written to the disk. Then the manifest replaces
the previous manifest. Last, the previous parts are removed. Whenever the run is killed, the files
contain a manifest and the parts of the same checkpoint.

If a run is resumed with the same number of sites and the same rows, each site continues from its
own part. If it is resumed with another number of sites, or on one machine, the parts are joined
according to the numbers of their rows.
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
from hogshare.engine.home_vectors import HOMES
from hogshare.engine.home_vectors import PREFIX as PLANES
from hogshare.engine.rule_states import PREFIX, without_prefix
from hogshare.engine.stops import CRITERIA, Stop
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

STATE_PREFIX = "state_"  # prefix of the names of the engine's arrays in a checkpoint
PART_FORMAT = "hogshare part of a checkpoint"
PART_NAME = "a part of a hogshare checkpoint"
PART_VERSION = 1
NUMBERS = "numbers"  # name of the array with the numbers of a part's rows among all rows
OF_ROWS = tuple(f"{STATE_PREFIX}{name}" for name in ("dual", "gradients"))
ORDERS = tuple(f"{STATE_PREFIX}{name}" for name in ("order", "permutation"))
OF_WORKERS = f"{STATE_PREFIX}{PREFIX}"
TOKEN = re.compile(r"[0-9a-f]{12}")


def part_path(path: str | Path, parts: Mapping[str, Any], site: int) -> Path:
    """Return the path of a site's part."""
    return Path(f"{os.fspath(path)}.{parts['token']}.{site}of{parts['sites']}")


def divided(
    arrays: Mapping[str, np.ndarray],
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Divide a checkpoint's arrays into two dicts: common to all sites, and of a single site."""
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
    """Write a site's part; raises OSError if it cannot be written."""
    header = {"format": PART_FORMAT, "format_version": PART_VERSION, **parts, "site": site}
    header["names"] = sorted(own)
    archives.write(part_path(path, parts, site), header, {**own, NUMBERS: numbers})


def read_part(path: str | Path, parts: Mapping[str, Any], site: int) -> dict[str, np.ndarray]:
    """Read a site's part.

    Raises ValueError if the part belongs to another checkpoint, OSError if it cannot be read.
    """
    file = part_path(path, parts, site)

    def names(header: dict[str, Any]) -> list[str]:
        found = header.get("names")
        if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
            raise ValueError(f"{file}: not {PART_NAME} (it names no arrays)")
        return [NUMBERS, *found]

    header, arrays = archives.read(file, PART_NAME, PART_FORMAT, [PART_VERSION], names)
    named = {name: header.get(name) for name in ("token", "sites", "site")}
    if named != {**parts, "site": site} or NUMBERS not in arrays:
        raise ValueError(f"{file}: this is no part of the checkpoint {os.fspath(path)}")
    return arrays


def remove_others(path: str | Path, parts: Mapping[str, Any] | None) -> None:
    """Remove the parts of other checkpoints of this path; ignore files that cannot be removed."""
    file = Path(path)
    pattern = re.compile(rf"{re.escape(file.name)}\.({TOKEN.pattern})\.\d+of\d+")
    current = None if parts is None else parts["token"]
    with contextlib.suppress(OSError):
        for name in os.listdir(file.parent):
            found = pattern.fullmatch(name)
            if found and found[1] != current:
                with contextlib.suppress(OSError):
                    os.unlink(file.parent / name)


def joined(
    path: str | Path, parts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Join a manifest's arrays with the parts of all sites.

    Raises
    ------
    ValueError
        If the parts do not fit together.
    OSError
        If a part cannot be read.
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
    """Select the arrays of one site's rows and workers from a checkpoint of all rows.

    Raises ValueError if the checkpoint has another number of rows.
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
PARTED = 2  # the version of a manifest, whose arrays are completed by parts
WHAT = "a hogshare checkpoint"
MODEL = ("coef", "intercept", "average_coef", "average_intercept")
STATE = (
    *("w", *CHECKPOINTED, "columns", "history", "order", "permutation"),
    *("average_coef", "average_intercept", "local", "lag", "received", "intercept", "dual_mean"),
)
# prefixes of the names of the rule's arrays for each worker, and of the plane's arrays
OWN_PREFIXES = (f"{STATE_PREFIX}{PREFIX}", f"{STATE_PREFIX}{PLANES}")
ARRAYS = (*MODEL, *(f"{STATE_PREFIX}{name}" for name in (*STATE, HOMES)))
MAX_EPOCHS = 1 << 40
MAX_SITES = 1 << 20
MAX_CHECK_EPOCH = 1 << 60  # largest epoch of the next check
MAX_SEED = (1 << 63) - 1
SHOWN = 4  # most differences that an error names
CHECKS = "looks"  # the stored name of the field `checks`
HEADER = {  # fields of `Saved` in a file's header, under their stored names
    "epochs": int,
    "facts": dict,
    "first_t": float,
    "form": str,
    "ready": int,
    CHECKS: dict,
    "fields": dict,
}
FIELDS = {CHECKS: "checks"}  # fields of `Saved` whose stored name differs


@dataclass(frozen=True)
class Checkpoint:
    """Specify where and how often `solve` saves a run, which can be resumed later.

    Parameters
    ----------
    path : str or Path
        The file. Every checkpoint replaces the whole file.
    epochs : int, default=1
        Number of epochs from one checkpoint to the next. The run's last epoch is always saved.
    seconds : float, default=0
        Approximate minimum time from one checkpoint to the next. If there are several workers, they
        pause while the run's state is copied. The mean time of the epochs so far decides at which
        epoch they pause.

    Notes
    -----
    If a checkpoint cannot be written, a warning is issued, the previous file stays, and the run
    goes on. If the folder does not exist, or the path is a file that is not a checkpoint, an error
    is raised before the run begins.

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
            The model, with the rule's memory of rows. For a problem defined by a gradient, `Params`
            with the vector of parameters.

        Raises
        ------
        ValueError
            If the file is not a checkpoint, is cut off, or was written by a later version.
        OSError
            If the file cannot be opened.
        """
        saved = load(self.path)
        try:
            return saved.whole().view()
        except (OSError, ValueError):  # the parts, with the memory of rows, may be on other sites
            return saved.view()

    def check(self) -> None:
        """Refuse a path that cannot be written, or must not be overwritten.

        Raises
        ------
        OSError
            If the folder does not exist, or cannot be written.
        ValueError
            If the path is a file that is not a checkpoint of this version.
        """
        path = Path(self.path)
        files.check(path)
        if path.exists() and not path.is_file():
            raise OSError(f"{path}: a checkpoint is read again, and this is not a file.")
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
    """The content of a checkpoint file.

    epochs : number of finished epochs
    facts : the facts that identify the run; see `facts_of`
    first_t : step counter of the run's first row
    form : form of the state; see `hogshare.engine.checkpoint_session`
    ready : number of epochs whose row order is prepared
    checks : the convergence checks: ``seen`` has the results so far, ``next`` the epoch of the next
        check
    fields : names of the rows in the state's tables, in the order of the rows
    arrays : the arrays of the state and of the model
    path : the file that the checkpoint was read from
    parts : in the manifest of a run on several sites, the number of ``sites`` and the ``token`` in
        the names of their parts; if `parts` is empty, the file is complete
    """

    epochs: int
    facts: dict[str, Any]
    first_t: float
    form: str
    ready: int
    checks: dict[str, Any]
    fields: dict[str, list[str]]
    arrays: dict[str, np.ndarray]
    path: str = field(default="", repr=False)
    parts: dict[str, Any] = field(default_factory=dict)

    @property
    def state(self) -> dict[str, np.ndarray]:
        """The arrays of the engine's state by name, without their prefix."""
        return without_prefix(self.arrays, STATE_PREFIX)

    @property
    def seed(self) -> int:
        """Seed of the row order."""
        return int(self.facts["seed"])

    @property
    def next_check(self) -> int:
        """Epoch of the next convergence check, in a run with checks."""
        return int(self.checks["next"])

    @property
    def checks_seen(self) -> list[dict[str, Any]]:
        """Results of the convergence checks so far."""
        return [dict(check) for check in self.checks["seen"]]

    @property
    def criteria(self) -> tuple[str, ...]:
        """Names of the criteria of the run's convergence checks; empty without checks."""
        stop = self.facts["stop"]
        return tuple(name for name in CRITERIA if stop.get(name) is not None)

    def has_all_of_a_check(self, check: dict[str, Any]) -> bool:
        """Whether a check's result has a number for each criterion."""
        numbers = [float(number) for number in check.values()]  # raises if one is too large
        names = {"epoch", "objective", *self.criteria}
        return bool(self.criteria) and len(numbers) == len(names) and check.keys() == names

    def save(self, path: str | Path) -> None:
        """Write the file, or leave the previous one; see `hogshare.io.archives.write`."""
        header = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "version": __version__,
            **{name: getattr(self, FIELDS.get(name, name)) for name in HEADER},
            "own_state": [name for name in self.arrays if name.startswith(OWN_PREFIXES)],
        }
        if self.parts:
            header |= {"format_version": PARTED, "parts": self.parts}
        archives.write(path, header, self.arrays)

    def whole(self) -> Saved:
        """Return the checkpoint joined with the parts of all sites, or `self` if it has no parts.

        Raises ValueError if parts do not fit together, OSError if a part cannot be read.
        """
        if not self.parts:
            return self
        arrays = joined(self.path, self.parts, self.arrays)
        return replace(self, arrays=arrays, parts={})

    def require(self, facts: dict[str, Any]) -> None:
        """Refuse to resume a run whose facts differ from this checkpoint's facts.

        Raises ValueError if facts differ, or cannot be compared. The message names these facts, and
        says what to do.
        """
        at_its_model = f"begin a new run at its model with start=Checkpoint({self.path!r}).model()"
        anew = own("begin a new run", at_its_model)
        data = self.facts["problem"].get("data", f"{DIGITS}:")
        if not str(data).startswith(f"{DIGITS}:"):
            raise ValueError(
                f"{self.path}: this checkpoint is of an earlier hogshare, which identified rows by "
                "other digits, so these rows cannot be compared with them: resume with the "
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
        """Return the model: a `Model`, or `Params` for a problem defined by a gradient."""
        return self.model() if "params" not in self.facts["problem"] else params_of(self.model())

    def check_model(self) -> None:
        """Refuse arrays that are not a model of the problem."""
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
        """The model, with the rule's memory of rows."""
        a = self.arrays
        n_columns = len(a["coef"])
        memory = derivatives_in(self.state, n_columns)
        t = self.first_t + self.epochs * float(self.facts["problem"]["training rows"])
        averages = a.get("average_coef"), a.get("average_intercept")
        return Model(a["coef"], a["intercept"], t, *averages, memory)


def load(path: str | Path) -> Saved:
    """Read a checkpoint file.

    Raises ValueError if the file is not a checkpoint, is cut off, or was written by a later
    version. Raises OSError if the file cannot be opened.
    """
    header, arrays = archives.read(path, WHAT, FORMAT, [FORMAT_VERSION, PARTED], _wanted)
    try:
        found: dict[str, Any] = {
            FIELDS.get(name, name): kind(header[name]) for name, kind in HEADER.items()
        }
        if header["format_version"] == PARTED:
            found["parts"] = _parts(header["parts"])
        saved = Saved(**found, arrays=arrays, path=str(path))
        rows = int(saved.facts["problem"]["training rows"])
        saved.check_model()
        checked = [int(check["epoch"]) for check in saved.checks_seen]
        in_range = 0 <= saved.epochs <= MAX_EPOCHS and rows >= 1
        in_range = (
            in_range and 0 <= saved.next_check <= MAX_CHECK_EPOCH and 0 <= saved.seed <= MAX_SEED
        )
        if not in_range or any(epoch > saved.epochs for epoch in checked):
            raise ValueError("its numbers are out of range")
        are_whole = all(map(saved.has_all_of_a_check, saved.checks_seen))
        if sorted({*checked}) != checked or not are_whole:
            raise ValueError("its convergence checks are not those of a run")
    except (ValueError, KeyError, TypeError, OverflowError, AttributeError) as error:
        raise ValueError(f"{path}: not {WHAT} ({error!r})") from error
    return saved


class OneFile:
    """Read and write the checkpoints of a run in one process; each checkpoint is one file."""

    def load(self, path: str | Path) -> Saved:
        """Read a checkpoint, and join it with its parts if it is of several sites.

        Raises
        ------
        ValueError
            If the file is not a checkpoint, or its parts do not belong to it.
        OSError
            If the file, or one of its parts, cannot be read.
        """
        return load(path).whole()

    def check(self, place: Checkpoint) -> None:
        """Refuse an unsuitable path before a run; raises OSError or ValueError."""
        place.check()

    def save(self, saved: Saved, path: str | Path) -> None:
        """Write a checkpoint, or leave the previous one; raises OSError if it cannot be written."""
        saved.save(path)
        # after the save: a run killed in between leaves a file whose parts are complete
        remove_others(path, None)

    def agreed(self, number: float) -> float:
        """Return the number on which all processes agree; with one process it is `number`."""
        return number


class AnothersFile(OneFile):
    """Replace `OneFile` in a process if another process of its run writes the files."""

    def check(self, place: Checkpoint) -> None:
        """Do nothing: the writing process checks the path."""

    def save(self, saved: Saved, path: str | Path) -> None:
        """Do nothing: the writing process saves."""


def _parts(header: Any) -> dict[str, Any]:
    """Read a manifest's entry about its parts; raises an error if the entry names no parts."""
    token, sites = str(header["token"]), int(header["sites"])
    if not TOKEN.fullmatch(token) or not 1 < sites <= MAX_SITES:
        raise ValueError("it names no parts")
    return {"token": token, "sites": sites}


def _wanted(header: dict[str, Any]) -> list[str]:
    """List the arrays to read: those of any file, of the rule and of the plane."""
    own = header.get("own_state", [])
    names = [name for name in own if isinstance(name, str)] if isinstance(own, list) else []
    return [*ARRAYS, *(name for name in names if name.startswith(OWN_PREFIXES))]


def facts_of(
    problem: Problem, rule: Rule, step: StepSize, stop: Stop, shuffle: bool, seed: int
) -> dict[str, Any]:
    """Collect the facts that decide which steps a run takes, as plain data.

    Runs with the same facts take the same steps. The number of epochs, the number of workers, the
    runtime and the plane are not among the facts, because a resumed run may have others.

    seed : the settled seed of the row order
    """
    mask, rows, held_out = stop.validation, problem.n_rows, None
    if has_rows(problem):
        rows = problem.n_all
        if mask is not None:
            mask = problem.mask_of_all(mask)
            rows, held_out = rows - int(np.count_nonzero(mask)), digits(mask)
    facts = {
        "problem": {**problem.identity(), "training rows": rows},
        "rule": {"name": type(rule).__name__, **vars(rule)},
        "step": rule.schedule(step),
        "stop": {
            "tol": stop.tol,
            "patience": stop.patience,
            "confirm": stop.confirm,
            "give_up": stop.give_up,
            "validation": held_out,
            **{name: getattr(stop, name) for name in CRITERIA},
        },
        "shuffle": shuffle,
        "seed": int(seed),
    }
    # convert NumPy's numbers to Python's, the form in which a file's facts are read
    plain: dict[str, Any] = json.loads(json.dumps(facts, default=lambda value: value.item()))
    return plain


def differences(before: Any, now: Any, name: str = "") -> Iterator[str]:
    """Yield a phrase for each difference between the facts of two runs."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in [*before, *(key for key in now if key not in before)]:
            part = f"{name} {key}".strip() if name in ("rule", "step", "stop") else key
            yield from differences(before.get(key), now.get(key), part)
    elif before != now and name == "data":
        yield "the rows, labels or weights have other numbers"
    elif before != now:
        yield f"{own(name)} was {before!r} and is {now!r}"
