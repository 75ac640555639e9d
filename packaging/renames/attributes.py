"""Rename attributes, constants and methods: names that stand for one thing in the whole checkout.

`renames.py` renames modules, classes and functions by what they mean; attributes have no qualified
name, so these are replaced as whole words, in code and in text. A new name that stands in a file of
the old one is reported, and nothing is written. Usage, in a clean checkout::

    python packaging/renames/attributes.py packaging/renames/attributes.csv
"""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path

ENDINGS = (".py", ".md", ".toml", ".pml", ".json")
RECORDS = ("packaging/renames", "bench/results", "findings", "docs/tried", "CHANGELOG")


def main() -> int:
    with open(sys.argv[1], encoding="utf-8", newline="") as file:
        names = [(row["old"], row["new"]) for row in csv.DictReader(file)]
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout
    paths = [Path(p) for p in listed.split() if p.endswith(ENDINGS) and not p.startswith(RECORDS)]
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    clashes = [
        f"{path}: {old} -> {new}, which stands there"
        for old, new in names
        for path, text in texts.items()
        if re.search(rf"\b{old}\b", text) and re.search(rf"\b{new}\b", text)
    ]
    if clashes:
        print("\n".join(clashes))
        return 1
    for path, before in texts.items():
        text = before
        for old, new in names:
            text = re.sub(rf"\b{old}\b", new, text)
        if text != before:
            path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
