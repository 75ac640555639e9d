"""What has changed since it last passed on this machine, for `.ci/run`.

    python tests/changes.py                     # product, lab, or any, for `--change`
    python tests/changes.py kernels             # whether they have changed: 0 if not, else 1
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
import sys
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
STORED = CACHE / "hogshare-ci" / "passed.json"
MOST = 200  # trees that are remembered
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
    """Of each part; kernels' also of what compiles them."""
    found = {name: hashlib.sha256() for name in ("product", "lab", "kernels")}
    for path in sorted(files()):
        for part in parts_of(path):
            found[part].update(path.relative_to(HOME).as_posix().encode() + b"\0")
            found[part].update(hashlib.sha256(path.read_bytes()).digest())
    found["kernels"].update(f"{sys.version_info[:2]} {numba()}".encode())
    return {name: one.hexdigest() for name, one in found.items()}


def numba():
    """Its version, if this Python has it."""
    try:
        return importlib.metadata.version("numba")
    except importlib.metadata.PackageNotFoundError:
        return None


def stored():
    """Digests that have passed, by part; of a file that is no such list, none."""
    try:
        found = json.loads(STORED.read_text("utf-8"))
        return {name: [str(one) for one in found[name]] for name in ("product", "lab", "kernels")}
    except (OSError, ValueError, KeyError, TypeError):
        return {"product": [], "lab": [], "kernels": []}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("what", nargs="*", help="kernels, or passed and parts")
    what = parser.parse_args().what
    now, passed = digests(), stored()
    if what == ["kernels"]:
        return int(now["kernels"] not in passed["kernels"])
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
