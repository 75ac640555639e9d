"""How the site is built: ``python -m sphinx -W -c docs/site . build/site``.

The sources are the whole repository's, so that pages link to each other as they do in a checkout;
what is no page is a file to be downloaded. Nothing is fetched.
"""

import re
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.highlighting import lexers
from sphinx_gallery.sorting import ExplicitOrder

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

templates_path = [str(ROOT / "docs" / "site" / "templates")]
autosummary_generate = True
autodoc_typehints = "none"  # docstrings say them
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "examples/gallery",
    "gallery_dirs": "docs/gallery",
    "subsection_order": ExplicitOrder(["examples/gallery/users", "*"]),
    "within_subsection_order": "FileNameSortKey",
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
    "header_links_before_dropdown": 5,
}
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["site.css"]
html_search_scorer = str(ROOT / "docs" / "site" / "scorer.js")
html_additional_pages = {"index": "root.html"}  # leads to the landing page

# What is asked of the search, and the page that answers: entries of the index.
ASKED = {
    "docs/index": "documentation, getting started",
    "docs/guide/install": "install, pip, requirements, extras",
    "docs/tutorial": "all cores, n_jobs, multicore, parallel, quick start",
    "docs/guide/choices": "hogwild, which estimator, plane, runtime",
    "docs/guide/first_run": "warm, hogshare warm, compile, cache, docker, container",
    "docs/guide/repeats": "why two runs differ, reproducible, random_state, random seed",
    "docs/guide/recommendations": "recommend, recommender, ratings, implicit feedback, movielens",
    "docs/guide/cluster": "mpi, mpi4py, mpiexec, cluster",
    "docs/guide/several_machines": "slurm, several machines, multiple machines, batch system",
    "docs/guide/saving": "save model, save a model, load model, pickle, onnx, serving, to_sklearn",
    "docs/guide/calibration": "predict_proba, probabilities, probability, calibration",
    "docs/guide/streams": "partial_fit, out of core, larger than memory, memmap, online learning",
    "docs/guide/dask": "dask, dask array, dask dataframe",
    "docs/guide/scikit_learn": "pipeline, GridSearchCV, grid search, cross validation, joblib",
    "docs/guide/will_it_help": "speed, how fast, benchmark, which is faster",
    "docs/guide/weights_and_classes": "class_weight, sample_weight, imbalanced, multiclass",
    "docs/guide/gradients": "pytorch, torch, custom loss, own gradient",
    "docs/guide/networks": "neural network, mlp, early_stopping, early stopping",
    "docs/guide/topics": "topics, lda, topic model, latent dirichlet allocation",
    "docs/guide/reports": "report_, reading a report, staleness, convergence warning",
    "docs/guide/command": "command line, csv, libsvm, missing values, hogshare fit",
    "docs/guide/gpu": "gpu, cuda",
    "docs/guide/tracking": "mlflow, tensorboard, callbacks, experiment tracking",
    "docs/guide/model_card": "model card",
    "docs/auto": "learning rate, learning_rate, step size, eta0",
    "docs/logistic": "logistic regression, ridge, lasso, elastic net, linear regression",
    "docs/checkpoints": "checkpoint, resume, interrupted",
    "docs/support": "version, supported versions, deprecation",
    "docs/barriers": "barrier, stragglers",
    "docs/simulator": "simulator, virtual clock",
}
# What reports the past: it would come before the page that says how things are.
OUT_OF_SEARCH = ("CHANGELOG", "bench/results/README", "docs/reproduced", "docs/tried/")

# Pages that list others, and which those are. Their lists are plain Markdown, as they are read on a
# host of code; here each is a section of the site besides.
SECTIONS = {
    "docs/guide/README": ["*"],
    "docs/README": ["*", "tried/*/*"],
}
FIRST = {"docs/README": ["glossary", "index", "tutorial"]}  # that stand elsewhere


def listed(app, name, source):
    """Put the pages of a section into it, and before a page what it is asked for."""
    if name in ASKED:
        entries = (f"```{{index}} ! {entry}\n```\n" for entry in ASKED[name].split(", "))
        source[0] = "".join(entries) + source[0]
    if name not in SECTIONS:
        return
    folder = Path(app.srcdir, name).parent
    here = {path for pattern in SECTIONS[name] for path in folder.glob(f"{pattern}.md")}
    pages = sorted(str(path.relative_to(folder).with_suffix("")) for path in here)
    pages = [page for page in pages if page not in ("README", *FIRST.get(name, []))]
    source[0] += "\n".join(["\n```{toctree}", ":hidden:", "", *pages, "```", ""])


def out_of_search(app, env):
    """Leave pages out of the index of the search, as ``:nosearch:`` in each of them would."""
    for name in env.found_docs:
        if name.startswith(OUT_OF_SEARCH):
            env.metadata[name]["nosearch"] = True


def plain_references(app, what, name, thing, options, lines):
    """Make plain text of what an inherited docstring refers to, scikit-learn's pages, and of math.

    Formulas would be drawn by a script that is fetched over the network.
    """
    text = "\n".join(lines)
    text = re.sub(r":(?:ref|term):`([^`<]+?)\s*<[^`>]+>`", r"\1", text)
    text = re.sub(r":(?:ref|term):`([^`]+)`", r"\1", text)
    text = re.sub(r":math:(`[^`]+`)", r"`\1`", text)
    lines[:] = text.split("\n")


def setup(app):
    """Sphinx calls it."""
    app.connect("autodoc-process-docstring", plain_references)
    app.connect("source-read", listed)
    app.connect("env-updated", out_of_search)
