"""Rename modules, and names of modules, wherever they are used: by what they mean.

A table of renames (``old,new`` in each line, dotted: ``hogshare.io.rows`` for a module,
``hogshare.io.rows.Table`` for a class or function of it) is applied to all Python files of the
checkout: definitions, imports, uses, dotted names and paths in text, and names in backquotes.
Whatever would then stand for two things in one scope is said, and nothing is written. It needs
LibCST, which is not among the project's requirements. Usage::

    pip install libcst
    packaging/renames/apply.sh
"""

from __future__ import annotations

import argparse
import ast
import csv
import functools
import io
import multiprocessing
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import libcst as cst
from libcst.helpers import get_full_name_for_node
from libcst.metadata import (
    MetadataWrapper,
    QualifiedNameProvider,
    QualifiedNameSource,
    ScopeProvider,
)

HOME = Path.cwd()
CODE = ("hogshare", "tests", "bench", "examples", "docs")
TEXTS = (
    "*.md",
    "docs/**/*.md",
    "*.toml",
    "bench/**/*.md",
    "tests/**/*.md",
    "docs/**/*.json",
    ".ci/run",
)


def module_of(path: Path) -> str:
    """The dotted name of a file of the package; its stem elsewhere."""
    parts = path.relative_to(HOME).with_suffix("").parts
    if parts[0] != "hogshare":
        return parts[-1]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def last(name: str) -> str:
    return name.rpartition(".")[2]


class Renamer(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (QualifiedNameProvider, ScopeProvider)

    def __init__(
        self, module: str, modules: dict[str, str], names: dict[str, str], lazy: str | None = None
    ) -> None:
        # lazy : the package whose table of lazy names a file has
        self.module, self.modules, self.names, self.lazy = module, modules, names, lazy
        self.every = {**modules, **names}
        self.used: set[str] = set()
        self.clashes: list[str] = []

    def full_names(self, node: cst.CSTNode) -> set[str]:
        found = self.get_metadata(QualifiedNameProvider, node, set())
        full = set()
        for one in found:
            if one.source is QualifiedNameSource.IMPORT:
                full.add(one.name)
            elif one.source is QualifiedNameSource.LOCAL and "<locals>" not in one.name:
                full.add(f"{self.module}.{one.name}")
        return full

    def renamed(self, node: cst.CSTNode, value: str) -> str | None:
        """The new last part of what a node means, if it is called by the old one."""
        for full in self.full_names(node):
            if full in self.every and last(full) == value:
                self.used.add(full)
                new = last(self.every[full])
                scope = self.get_metadata(ScopeProvider, node, None)
                if (
                    new != value
                    and isinstance(node, cst.Name)
                    and scope is not None
                    and new in scope
                ):
                    origin = {f for a in scope[new] for f in [getattr(a, "name", "")]}
                    self.clashes.append(
                        f"{self.module}: {full} -> {new}, which stands there ({origin})"
                    )
                return new
        return None

    def leave_Name(self, node: cst.Name, new: cst.Name) -> cst.BaseExpression:
        found = self.renamed(node, node.value)
        return new.with_changes(value=found) if found else new

    def leave_Attribute(self, node: cst.Attribute, new: cst.Attribute) -> cst.BaseExpression:
        if not is_plain(node):  # a call's answer is no module, whatever the function's name
            return new
        spelt = get_full_name_for_node(node) or ""
        if spelt in self.modules and spelt in self.full_names(node):
            self.used.add(spelt)
            return expression(self.modules[spelt])
        for full in self.full_names(node) & set(self.modules):
            if self.modules[full].rpartition(".")[0] != full.rpartition(".")[0]:
                self.clashes.append(f"{self.module}: {spelt} is of a package that changes ({full})")
        found = self.renamed(node, node.attr.value)
        return new.with_changes(attr=cst.Name(found)) if found else new

    def leave_NameItem(self, node: cst.NameItem, new: cst.NameItem) -> cst.NameItem:
        """Names in a ``global``."""
        full = f"{self.module}.{node.name.value}"
        if full in self.names:
            return new.with_changes(name=cst.Name(last(self.names[full])))
        return new

    def leave_Call(self, node: cst.Call, new: cst.Call) -> cst.BaseExpression:
        """Names in quotes: ``setattr(module, "Name", ...)`` and the like."""
        called = get_full_name_for_node(node.func) or ""
        if last(called) not in ("setattr", "getattr", "hasattr", "delattr", "object", "partial_of"):
            return new
        if len(node.args) < 2 or not isinstance(node.args[1].value, cst.SimpleString):
            return new
        name = str(node.args[1].value.evaluated_value)
        for full in self.full_names(node.args[0].value):
            if (old := f"{full}.{name}") in self.names:
                self.used.add(old)
                value = cst.SimpleString(f'"{last(self.names[old])}"')
                args = list(new.args)
                args[1] = args[1].with_changes(value=value)
                return new.with_changes(args=args)
        return new

    def leave_Dict(self, node: cst.Dict, new: cst.Dict) -> cst.BaseExpression:
        """Tables of `lazy.names`: the modules of public names, by their places in a package."""
        if self.lazy is None:
            return new
        elements = []
        for element in new.elements:
            key = getattr(element, "key", None)
            if isinstance(key, cst.SimpleString):
                full = f"{self.lazy}.{key.evaluated_value}"
                if full in self.modules:
                    short = self.modules[full].removeprefix(self.lazy + ".")
                    element = element.with_changes(key=cst.SimpleString(f'"{short}"'))
            elements.append(element)
        return new.with_changes(elements=elements)

    def leave_Assign(self, node: cst.Assign, new: cst.Assign) -> cst.BaseSmallStatement:
        """``__all__`` of a package, whose names are renamed there."""
        target = node.targets[0].target
        if not (isinstance(target, cst.Name) and target.value == "__all__"):
            return new
        if not isinstance(new.value, cst.List):
            return new
        elements = []
        for element in new.value.elements:
            if isinstance(element.value, cst.SimpleString):
                full = f"{self.module}.{element.value.evaluated_value}"
                if full in self.names:
                    value = cst.SimpleString(f'"{last(self.names[full])}"')
                    element = element.with_changes(value=value)
                    self.used.add(full)
            elements.append(element)
        return new.with_changes(value=new.value.with_changes(elements=elements))

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def dotted(self, name: str) -> str:
        for old, new in self.modules.items():
            if name == old or name.startswith(old + "."):
                return new + name[len(old) :]
        return name

    def leave_Import(self, node: cst.Import, new: cst.Import) -> cst.Import:
        aliases = []
        for alias in new.names:
            name = get_full_name_for_node(alias.name) or ""
            aliases.append(alias.with_changes(name=expression(self.dotted(name))))
        return new.with_changes(names=aliases)

    def leave_ImportFrom(self, node, new):  # type: ignore[no-untyped-def]
        if new.module is None or isinstance(new.names, cst.ImportStar):
            return new
        source = get_full_name_for_node(new.module) or ""
        groups: dict[str, list[cst.ImportAlias]] = {}
        for alias in new.names:
            name = str(alias.name.value)
            full = f"{source}.{name}"
            to, value = self.dotted(source), name
            if full in self.modules:
                to, _, value = self.modules[full].rpartition(".")
                self.used.add(full)
            elif full in self.names:
                value = last(self.names[full])
                self.used.add(full)
            groups.setdefault(to, []).append(alias.with_changes(name=cst.Name(value)))
        made = []
        for to, aliases in groups.items():
            if len(groups) > 1:
                aliases = [a.with_changes(comma=cst.MaybeSentinel.DEFAULT) for a in aliases]
            made.append(new.with_changes(module=expression(to), names=aliases))
        if len(made) == 1:
            return made[0]
        return cst.FlattenSentinel(made)


def is_plain(node: cst.BaseExpression) -> bool:
    """Whether it is names with dots between."""
    while isinstance(node, cst.Attribute):
        node = node.value
    return isinstance(node, cst.Name)


def expression(dotted: str) -> cst.Name | cst.Attribute:
    first, *others = dotted.split(".")
    made: cst.Name | cst.Attribute = cst.Name(first)
    for part in others:
        made = cst.Attribute(made, cst.Name(part))
    return made


class Splitter(cst.CSTTransformer):
    """A line of statements that an import was split into becomes several lines."""

    def leave_SimpleStatementLine(self, node, new):  # type: ignore[no-untyped-def]
        imports = [s for s in new.body if isinstance(s, cst.ImportFrom)]
        if len(new.body) < 2 or len(imports) != len(new.body):
            return new
        lines = []
        for k, one in enumerate(new.body):
            lines.append(
                cst.SimpleStatementLine(
                    [one.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)],
                    leading_lines=new.leading_lines if k == 0 else [],
                    trailing_whitespace=new.trailing_whitespace
                    if k == 0
                    else cst.TrailingWhitespace(),
                )
            )
        return cst.FlattenSentinel(lines)


class Texts:
    """Renames what is not code: strings, comments, pages."""

    def __init__(self, modules: dict[str, str], names: dict[str, str]) -> None:
        self.modules, self.names = modules, names
        every = {**names, **modules}
        table = dict(every)
        for old, new in modules.items():
            a, b = (name.replace(".", "/") + ".py" for name in (old, new))
            table[a] = b
            short_a, short_b = a.removeprefix("hogshare/"), b.removeprefix("hogshare/")
            if "/" in short_a:
                table[short_a] = short_b
        self.table = table
        self.words = {last(old) for old in every}
        kinds = (
            (r"(?<![\w.])", lambda name: "/" not in name),
            (r"(?<!\w)", lambda name: name.startswith("hogshare/")),
            (r"(?<![\w/])", lambda name: "/" in name and not name.startswith("hogshare/")),
        )
        parts = []
        for before, belongs in kinds:
            some = sorted(filter(belongs, table), key=len, reverse=True)
            parts.append(rf"{before}(?:{'|'.join(map(re.escape, some))})")
        self.pattern = re.compile(rf"({'|'.join(parts)})(?!\w)")
        # "engine.recording" in quotes: places within the package
        short = {
            old.removeprefix("hogshare."): new.removeprefix("hogshare.")
            for old, new in every.items()
        }
        self.short = {old: new for old, new in short.items() if "." in old}
        some = sorted(self.short, key=len, reverse=True)
        self.quoted = re.compile(rf"(?<=[\"'`])({'|'.join(map(re.escape, some))})(?=[\"'`])")
        self.imports = re.compile(
            r"(?:\b|(?<=\\n))from (hogshare[\w.]*) import ([\w]+(?:, [\w]+)*)"
        )

    def imported(self, match: re.Match[str]) -> str:
        """An import in a text; several names have to stay in one module."""
        source, names = match[1], match[2].split(", ")
        made = []
        for name in names:
            old = name
            full = f"{source}.{name}"
            to = self.modules.get(source, source)
            if full in self.modules:
                to, _, name = self.modules[full].rpartition(".")
            elif full in self.names:
                name = last(self.names[full])
            made.append((to, name))
            if name != old and not match.string.startswith(" as ", match.end()):
                self.local[old] = name + "." if full in self.modules else name
        places = dict.fromkeys(to for to, _ in made)
        return "; ".join(
            f"from {place} import {', '.join(name for to, name in made if to == place)}"
            for place in places
        )

    def __call__(self, text: str, used: set[str]) -> str:
        """The text with new names; `used`: those of its file, which are meant in backquotes."""
        self.local: dict[str, str] = {}
        text = self.imports.sub(self.imported, text)
        for old, new in self.local.items():
            dot = r"\." if new.endswith(".") else r"\b"
            text = re.sub(rf"(?<![\w.`/]){old}{dot}(?! import)", new, text)
        spared = {m.span() for m in re.finditer(r"from hogshare[\w.]* import", text)}
        text = self.pattern.sub(
            lambda m: (
                m[0]
                if any(a <= m.start() < b for a, b in spared)
                else m[0].replace(m[1], self.table[m[1]])
            ),
            text,
        )
        text = self.quoted.sub(lambda m: self.short[m[1]], text)
        for full in used:
            if full in self.names and last(full) != last(self.names[full]):
                new = last(self.names[full])
                text = re.sub(
                    rf"`(?!hogshare\.)([\w.]*?)\b{last(full)}\b(?=[`.(\[])", rf"`\g<1>{new}", text
                )
        return text

    def in_code(self, code: str, used: set[str]) -> str:
        """Strings and comments of a Python file."""
        lines = re.split(r"(?<=\n)", code)
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line))
        pieces, end = [], 0
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if tokenize.tok_name[token.type] not in ("STRING", "COMMENT", "FSTRING_MIDDLE"):
                continue
            if not self.words.intersection(re.findall(r"\w+", token.string)):
                continue
            a = starts[token.start[0] - 1] + token.start[1]
            b = starts[token.end[0] - 1] + token.end[1]
            if tokenize.tok_name[token.type] == "FSTRING_MIDDLE" and (
                "{" in token.string or "}" in token.string
            ):
                continue  # doubled braces: positions are not those of the text
            pieces += [code[end:a], self(code[a:b], used)]
            end = b
        return "".join([*pieces, code[end:]])


def imported_names(modules: dict[str, str], names: dict[str, str]) -> dict[str, str]:
    """What modules have of others under names that change."""
    found = {}
    for path in sorted((HOME / "hogshare").rglob("*.py")):
        here = module_of(path)
        to = modules.get(here, here)
        body = list(ast.parse(path.read_text(encoding="utf-8")).body)
        for node in body:
            if isinstance(node, ast.If):
                body += node.body
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(
                "hogshare"
            ):
                continue
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                new = last({**modules, **names}.get(full, full))
                if alias.asname is None and new != alias.name and here != full.rpartition(".")[0]:
                    found.setdefault(f"{here}.{alias.name}", f"{to}.{new}")
    return {old: new for old, new in found.items() if old not in names}


def of_file(
    path: Path, modules: dict[str, str], names: dict[str, str]
) -> tuple[Path, str | None, list[str], set[str]]:
    """A file's new text, if there is one, what clashes in it, and what it uses."""
    texts = Texts(modules, names)
    text = path.read_text(encoding="utf-8")
    result, used, clashes = text, set(), []
    if texts.words.intersection(re.findall(r"\w+", text)):
        lazy = None
        if "lazy" in text and path.name == "__init__.py":
            within = re.search(r'within="([\w.]+)"', text)
            lazy = within[1] if within else module_of(path)
        renamer = Renamer(module_of(path), modules, names, lazy)
        tree = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=False).visit(renamer)
        result = tree.visit(Splitter()).code
        clashes, used = renamer.clashes, renamer.used
    result = texts.in_code(result, used)
    return path, None if result == text else result, clashes, used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("--check", action="store_true", help="say what would clash; write nothing")
    options = parser.parse_args()
    with options.table.open(encoding="utf-8", newline="") as file:
        pairs = [
            (row["old"], row["new"]) for row in csv.DictReader(file) if row["old"] != row["new"]
        ]
    modules = {old: new for old, new in pairs if (HOME / (old.replace(".", "/") + ".py")).exists()}
    names = {}
    for old, new in pairs:
        if old in modules:
            continue
        home = old.rpartition(".")[0]
        place = home.replace(".", "/")
        if not any((HOME / (place + end)).exists() for end in (".py", "/__init__.py")):
            print(f"not there: {old}", file=sys.stderr)
            continue
        names[old] = new
    given = set(names)
    names |= imported_names(modules, names)
    written, clashes, seen = {}, [], set()
    paths = [path for room in CODE for path in sorted((HOME / room).rglob("*.py"))]
    paths.sort(key=lambda path: -path.stat().st_size)
    with multiprocessing.Pool(3) as pool:
        for path, result, found, used in pool.imap_unordered(
            functools.partial(of_file, modules=modules, names=names), paths
        ):
            clashes += found
            seen |= used
            if result is not None:
                written[path] = result
    texts = Texts(modules, names)
    for pattern in TEXTS:
        for path in HOME.glob(pattern):
            text = path.read_text(encoding="utf-8")
            if (result := texts(text, set())) != text:
                written[path] = result
    for clash in sorted(set(clashes)):
        print("clash:", clash)
    for old in given:
        if old not in seen:
            print("never met:", old)
    if clashes or options.check:
        sys.exit(bool(clashes))
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")
    for old, new in modules.items():
        a, b = (Path(name.replace(".", "/") + ".py") for name in (old, new))
        b.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "mv", str(a), str(b)], check=True)
    print(f"{len(modules)} modules, {len(given)} names, {len(written)} files")


if __name__ == "__main__":
    main()
