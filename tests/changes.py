"""What has changed since it last passed on this machine, for `.ci/run`.

    python tests/changes.py                     # product, lab, or any, for `--change`
    python tests/changes.py kernels             # whether they have changed: 0 if not, else 1
    python tests/changes.py models              # the same of the protocols' models
    python tests/changes.py passed product lab  # remember that these have passed

Of each part a digest of its files is stored in the user's cache folder. On a clean machine, and
where both or neither have changed, it is "any". Documentation belongs to no part: what reads it
runs in any case.
"""

import argparse
import hashlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
STORED = CACHE / "hogshare-ci" / "passed.json"
MOST = 200  # trees that are remembered
PARTS = ("product", "lab", "kernels", "models")
VERIFIERS = (("spin", "-V"), ("cc", "--version"))  # what verifies a model, and prints its version
LABORATORY = re.compile(r"^(from|import) hogshare(\.| import )(lab|theory)\b", re.MULTILINE)
ROOM = re.compile(r"^ *(from|import) hogshare\.(?!lab\b|theory\b|cli\b)", re.MULTILINE)


def files():
    """All files that a test may depend on, but documentation."""
    for folder in ("hogshare", "tests", "examples", "bench"):
        yield from (path for path in (HOME / folder).rglob("*") if path.is_file())
    yield from (HOME / "pyproject.toml", HOME / ".ci" / "run")


def parts_of(path):
    """The parts that a file belongs to."""
    place = path.relative_to(HOME).as_posix()
    if "__pycache__" in place:
        return
    if "/kernels/" in place or is_helper(path):  # the laboratory has some of its own
        yield "kernels"
    if place.startswith("tests/models/") or place == "tests/test_models.py":
        yield "models"
    is_test = place.startswith("tests/test_")
    if place.startswith("hogshare/lab/") or place == "hogshare/theory.py":
        yield "lab"
    elif is_test and LABORATORY.search(text := path.read_text("utf-8")):
        yield "lab"
        if ROOM.search(text):  # it may have tests of both
            yield "product"
    else:
        yield "product"


def is_helper(path):
    """Whether a file serves tests."""
    return path.parent == HOME / "tests" and not path.name.startswith("test_")


def digests():
    """Of each part; of kernels also what compiles them, of models what verifies them."""
    found = {name: hashlib.sha256() for name in PARTS}
    for path in sorted(files()):
        for part in parts_of(path):
            found[part].update(path.relative_to(HOME).as_posix().encode() + b"\0")
            found[part].update(hashlib.sha256(path.read_bytes()).digest())
    found["kernels"].update(f"{sys.version_info[:2]} {numba()}".encode())
    for command in VERIFIERS:
        found["models"].update(printed(*command))
    return {name: one.hexdigest() for name, one in found.items()}


def numba():
    """Its version, if this Python has it."""
    try:
        return importlib.metadata.version("numba")
    except importlib.metadata.PackageNotFoundError:
        return None


def printed(*command):
    """What a program prints; of one that this machine lacks, nothing."""
    try:
        return subprocess.run(command, capture_output=True, check=False).stdout
    except OSError:
        return b""


def stored():
    """Digests that have passed, by part; of a file that is no such list, none."""
    try:
        found = json.loads(STORED.read_text("utf-8"))
        return {name: [str(one) for one in found.get(name, [])] for name in PARTS}
    except (OSError, ValueError, AttributeError, TypeError):
        return {name: [] for name in PARTS}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("what", nargs="*", help="kernels, models, or passed and parts")
    what = parser.parse_args().what
    now, passed = digests(), stored()
    if what in (["kernels"], ["models"]):
        part = what[0]
        return int(now[part] not in passed[part])
    if what[:1] == ["passed"]:
        for part in what[1:]:
            others = [one for one in passed[part] if one != now[part]]
            passed[part] = [*others, now[part]][-MOST:]
        STORED.parent.mkdir(parents=True, exist_ok=True)
        STORED.write_text(json.dumps(passed), "utf-8")
        return 0
    changed = [part for part in ("product", "lab") if now[part] not in passed[part]]
    print(changed[0] if len(changed) == 1 else "any")
    return 0


if __name__ == "__main__":
    sys.exit(main())
