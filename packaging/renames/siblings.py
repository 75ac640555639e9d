"""Names of sibling files in backquotes, as docstrings and comments of a room have them.

Run in the checkout after renames.py and after.sh, before rewrap.py.
"""

import csv
import io
import re
import tokenize
from pathlib import Path

# where the word is a parameter or an array of that name
NOT = {
    ("recommendations", "ratings"),
    ("ridge", "fitted"),
    ("libsvm", "parts"),
    ("cells", "columns"),
    ("alternation_sweeps", "rows"),
    ("factors", "rows"),
    ("top_lists", "scores"),
    ("momentum", "parts"),
    ("network_training", "exchange"),
    ("saga_steps", "gradients"),
    ("dual_ascent", "dual"),
    ("quanta", "rows"),
    ("pace", "automatic"),
}
with open("packaging/renames/renames.csv", encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file))
mods = {r["old"]: r["new"] for r in rows if Path(r["new"].replace(".", "/") + ".py").exists()}
old_of = {new: old for old, new in mods.items()}
count = 0
for path in sorted(Path("hogshare").rglob("*.py")):
    name = ".".join(path.with_suffix("").parts)
    if path.name == "__init__.py":
        room = name.removesuffix(".__init__")
    else:
        room = old_of.get(name, name).rpartition(".")[0]
    stems = {
        old.rpartition(".")[2]: new.rpartition(".")[2]
        for old, new in mods.items()
        if old.rpartition(".")[0] == room
        and old.rpartition(".")[2] != new.rpartition(".")[2]
        and (path.stem, old.rpartition(".")[2]) not in NOT
    }
    if not stems:
        continue
    code = path.read_text(encoding="utf-8")
    starts, pieces, end = [0], [], 0
    for line in re.split(r"(?<=\n)", code):
        starts.append(starts[-1] + len(line))
    pattern = re.compile(rf"(?<!`)`({'|'.join(stems)})(?=(\.\w+)?`(?!`))")
    for t in tokenize.generate_tokens(io.StringIO(code).readline):
        if t.type not in (tokenize.STRING, tokenize.COMMENT):
            continue
        a, b = starts[t.start[0] - 1] + t.start[1], starts[t.end[0] - 1] + t.end[1]
        new, n = pattern.subn(lambda m, stems=stems: "`" + stems[m[1]], code[a:b])
        count += n
        pieces += [code[end:a], new]
        end = b
    new = "".join([*pieces, code[end:]])
    if new != code:
        path.write_text(new, encoding="utf-8")
print(count, "names of siblings")
