"""Files of other libraries, read by hogshare: right, or refused by name.

An environment in a temporary folder gets pinned releases of scikit-learn, SciPy, pandas, XGBoost,
LightGBM, Vowpal Wabbit, gensim, implicit, cornac, Surprise, LIBMF and liac-arff. Each writes files
and reads them back (`peer_writers.py`); then `hogshare.datasets.load` or `read_ratings` reads the
same file, and all values are compared. A file may be refused, by ``hogshare fit`` too, with an
error that names its kind, or at least the line that is not a row. Anything else is WRONG. It needs
the network, and some minutes. Usage::

    python bench/peer_files.py --json bench/results/peer_files.json
    python bench/peer_files.py --peers VENV/bin/python    # an environment that has the peers
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import script

from hogshare import __version__, datasets
from hogshare.cli.main import main
from hogshare.io.tables import text_table

PINS = (
    *("scikit-learn==1.9.1", "scipy==1.17.1", "numpy==2.4.6", "joblib==1.6.0", "pandas==3.1.1"),
    *("pyarrow==26.0.1", "xgboost==3.2.0", "lightgbm==4.7.0", "vowpalwabbit==9.11.9"),
    *("gensim==4.4.0", "implicit==0.7.3", "cornac==3.0.1", "liac-arff==2.5.0"),
)
BUILT = ("scikit-surprise==1.1.5", "libmf==0.9.2")  # of sources, which may fail
RIGHT, REFUSED, BY_LINE = "read right", "refused by name", "refused by line"
WRONG, NOT_WRITTEN = "WRONG", "not written"


def environment(folder: Path) -> Path:
    """The Python of a new environment that has the peers."""
    python = folder / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *PINS], check=True)
    for pin in BUILT:
        subprocess.run([*pip, pin, "numpy==2.4.6", "scipy==1.17.1"], check=False)
    return python


def values_of(path: Path, entry: dict[str, Any]) -> dict[str, np.ndarray]:
    """What hogshare reads, as the writers store what the peer reads."""
    if entry.get("ratings"):
        users, items, ratings = datasets.read_ratings(path)
        found = {"users": users, "items": items}
        return found if ratings is None else {**found, "ratings": ratings}
    X, y = datasets.load(path, **entry.get("options", {}))
    X = X.toarray() if hasattr(X, "toarray") else X
    return {"X": X} if y is None else {"X": X, "y": y}


def difference(found: dict[str, np.ndarray], read: dict[str, np.ndarray]) -> str:
    """How two readings differ, in words; empty if they do not."""
    if "users" in read:
        if found.keys() != read.keys():
            return "ratings where the peer has none, or none where it has some"
        both = [sorted(zip(*one.values(), strict=True)) for one in (found, read)]
        return "" if both[0] == both[1] else "other ratings"
    for name, values in read.items():
        if name not in found:
            return f"no {name}"
        if found[name].shape != values.shape:
            return f"{name} of shape {found[name].shape}, and the peer's {values.shape}"
        if not np.array_equal(found[name], values):
            return f"other values of {name}"
    return ""


def outcome(path: Path, entry: dict[str, Any]) -> dict[str, str]:
    """What hogshare makes of a file."""
    read = Path(f"{path}.read.npz")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = values_of(path, entry)
        except Exception as error:  # any but a ValueError with a sentence is WRONG
            return refused(path, entry, error)
    said = "; ".join(str(warning.message) for warning in caught)
    if not read.exists():
        return {"outcome": WRONG, "said": f"read, and to be refused. {said}"}
    with np.load(read) as reading:
        differs = difference(found, dict(reading))
    sentences = "; ".join(filter(None, [differs, said]))
    return {"outcome": WRONG if differs else RIGHT, "said": sentences}


def refused(path: Path, entry: dict[str, Any], error: Exception) -> dict[str, str]:
    """Whether the sentence of a refusal says what the file is, and the command's does."""
    word, said = entry.get("named"), str(error).replace(str(path), "")
    arguments = ["fit", str(path), "--model", str(path) + ".model.npz"]
    if entry.get("ratings"):
        arguments += ["--estimator", "factorisation"]
    if label := entry.get("options", {}).get("label_column"):
        arguments += ["--label-column", label]
    printed = io.StringIO()
    with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(io.StringIO()):
        code = main(arguments)
    by_command = printed.getvalue().replace(str(path), "")
    if not isinstance(error, ValueError) or code not in (1, 2):
        return {"outcome": WRONG, "said": f"{error!r}; the command ended with {code}: {by_command}"}
    if word is not None:
        named = all(word.lower() in one.lower() for one in (said, by_command))
    else:
        named = ", line " in said and ", line " in by_command
    if not named:
        return {"outcome": WRONG, "said": f"{said}; by the command: {by_command}"}
    return {"outcome": REFUSED if word else BY_LINE, "said": said.lstrip(":, ")}


def measure(options: Any) -> dict[str, Any]:
    """All files, written and read in a temporary folder."""
    with tempfile.TemporaryDirectory() as name:
        folder, files = Path(name), Path(name, "files")
        files.mkdir()
        python = options.peers or environment(folder / "peers")
        writers = Path(__file__).with_name("peer_writers.py")
        quiet = ["-W", "ignore", str(writers), str(files)]
        subprocess.run([str(python), *quiet], check=True, stdout=subprocess.DEVNULL)
        entries = json.loads((files / "files.json").read_text(encoding="utf-8"))
        found = {}
        for file, entry in entries.items():
            about = {"peer": entry["peer"], "version": entry.get("version", "-")}
            about["what"] = entry["what"]
            if "note" in entry:
                result = {"outcome": NOT_WRITTEN, "said": entry["note"]}
            else:
                result = outcome(files / file, entry)
            result["said"] = result["said"].replace(f"{files}/", "").strip()
            found[file] = {**about, **result}
    header = ["file", "peer", "what", "outcome", "said"]
    table = [[file, *(str(one[key])[:90] for key in header[1:])] for file, one in found.items()]
    print(text_table(header, table))
    names = (RIGHT, REFUSED, BY_LINE, WRONG, NOT_WRITTEN)
    counts = {name: sum(one["outcome"] == name for one in found.values()) for name in names}
    print(counts)
    return {"hogshare": __version__, "counts": counts, "files": found}


if __name__ == "__main__":
    script.run(__doc__, measure, peers="")
