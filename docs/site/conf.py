"""How the site is built: ``python -m sphinx -W -c docs/site . build/site``.

The sources are the whole repository's, so that pages link to each other as they do in a checkout;
what is no page is a file to be downloaded. Nothing is fetched.
"""

from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.highlighting import lexers

from hogshare._version import __version__

ROOT = Path(__file__).parents[2]

project = "hogshare"
author = "The hogshare developers"
copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
root_doc = "docs/index"
include_patterns = ["docs/**.md", "docs/gallery/**", "docs/reference/**", "*.md"]
include_patterns += ["bench/results/README.md", "examples/README.md"]
exclude_patterns = ["build", ".venv"]
suppress_warnings = ["config.cache"]

myst_heading_anchors = 4
lexers["mermaid"] = TextLexer()  # a drawing as text: to draw it would take a script from elsewhere

templates_path = ["docs/site/templates"]
autosummary_generate = True
autodoc_typehints = "none"  # docstrings say them
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples" / "gallery"),
    "gallery_dirs": str(ROOT / "docs" / "gallery"),
    "filename_pattern": r"\.py$",
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "min_reported_time": 60,
}

html_theme = "pydata_sphinx_theme"
html_title = "hogshare"
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "show_prev_next": False,
    "show_toc_level": 2,
}
html_show_sourcelink = False
html_copy_source = False

# Pages that list others, and which those are. Their lists are plain Markdown, as they are read on a
# host of code; here each is a section of the site besides.
SECTIONS = {
    "docs/guide/README": ["*"],
    "docs/README": ["*", "tried/*/*"],
}
FIRST = {"docs/README": ["index", "tutorial"]}  # that stand elsewhere


def listed(app, name, source):
    """Put the pages of a section into it."""
    if name not in SECTIONS:
        return
    folder = Path(app.srcdir, name).parent
    here = {path for pattern in SECTIONS[name] for path in folder.glob(f"{pattern}.md")}
    pages = sorted(str(path.relative_to(folder).with_suffix("")) for path in here)
    pages = [page for page in pages if page not in ("README", *FIRST.get(name, []))]
    source[0] += "\n".join(["\n```{toctree}", ":hidden:", "", *pages, "```", ""])


def theirs(app, what, name, thing, skip, options):
    """Leave out what is scikit-learn's own: its words refer to pages of its site."""
    module = getattr(getattr(thing, "fget", thing), "__module__", None) or ""
    return True if module.startswith("sklearn.") else None


def setup(app):
    """Sphinx calls it."""
    app.connect("autodoc-skip-member", theirs)
    app.connect("source-read", listed)
