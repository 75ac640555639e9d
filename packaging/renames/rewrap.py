"""Fold paragraphs of docstrings and comments that have a line beyond 100 characters anew.

Run in the checkout after renames.py: what it cannot fold (code) it names.
"""

import io
import json
import re
import subprocess
import sys
import textwrap
import tokenize
from pathlib import Path

found = subprocess.run(
    [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--select",
        "E501",
        "--output-format",
        "json",
        "hogshare",
        "tests",
        "bench",
    ],
    capture_output=True,
    text=True,
)
places = {}
for one in json.loads(found.stdout):
    places.setdefault(one["filename"], set()).add(one["location"]["row"])
STARTS = re.compile(r"(- |\* |>>> |\.\. |\d+\. |: |\|)")


def fold(path, row):
    lines = path.read_text(encoding="utf-8").split("\n")
    text = "\n".join(lines)
    strings, comments = set(), set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING and token.string.lstrip("rR").startswith('"""'):
            strings |= set(range(token.start[0], token.end[0] + 1))
        elif token.type == tokenize.COMMENT and token.line.lstrip().startswith("#"):
            comments.add(token.start[0])
    if row in comments:
        same, mark = comments, "# "
    elif row in strings:
        same, mark = strings, ""
    else:
        return False
    indent = re.match(r"\s*", lines[row - 1])[0]

    def joins(k):
        line = lines[k - 1]
        inner = line[len(indent) :]
        return (
            k in same
            and line.strip()
            and line.startswith(indent)
            and not inner.startswith(" ")
            and not (mark == "" and set(line.strip()) == {"-"})
        )

    def begins(k):
        inner = lines[k - 1][len(indent) :].removeprefix(mark)
        return bool(STARTS.match(inner)) or inner.startswith(('"""', 'r"""'))

    def is_field(k):  # "name : what it is", of numpydoc: a paragraph of its own
        return mark == "" and re.match(r"[\w, *]+ : ", lines[k - 1][len(indent) :])

    a = row
    while not begins(a) and not is_field(a) and joins(a - 1) and not is_field(a - 1):
        a -= 1
    b = row
    while (
        not is_field(row)
        and joins(b + 1)
        and not begins(b + 1)
        and not is_field(b + 1)
        and not lines[b].strip().startswith('"""')
    ):
        b += 1
    if is_field(row):  # what follows deeper is its continuation
        deeper = indent + "    "
        while (
            b + 1 in same
            and re.match(deeper + r"[^\s\"]", lines[b])
            and not STARTS.match(lines[b].strip())
        ):
            b += 1
    else:
        deeper = indent
    body = " ".join(line[len(indent) :].removeprefix(mark).strip() for line in lines[a - 1 : b])
    end = ""
    if mark == "" and body.endswith('"""') and len(body) > 3:
        body, end = body[:-3], '"""'
    new = textwrap.wrap(
        body,
        100,
        initial_indent=indent + mark,
        subsequent_indent=deeper + mark,
        break_long_words=False,
        break_on_hyphens=False,
    )
    if end and (not body.lstrip().startswith('"""') or (len(new) == 1 and len(new[0]) <= 97)):
        new[-1] += end
    elif end:
        new.append(indent + end)
    lines[a - 1 : b] = new
    path.write_text("\n".join(lines), encoding="utf-8")
    return True


for name, rows in places.items():
    for row in sorted(rows, reverse=True):
        if not fold(Path(name), row):
            print(f"by hand: {name}:{row}")
