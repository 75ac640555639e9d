"""The site: it builds without a warning, has every public name, leads nowhere, and is searched."""

import importlib.util
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import hogshare
from hogshare import datasets, links, metrics, problems, simulation, theory, topology

HOME = Path(__file__).parent.parent
REFERENCE = HOME / "docs" / "reference"
NOT_LISTED = {
    "__version__",
    "datasets",
    "links",
    "metrics",
    "problems",
    "simulation",
    "theory",
    "topology",
}
HERE_AND_THERE = {"Link", "Model", "MODEL", "Simulator"}  # that modules have besides
BUILDS = all(map(importlib.util.find_spec, ("sphinx", "sphinx_gallery", "myst_parser")))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


# what who knows scikit-learn asks first, in words for the search, and the page that has the answer
ANSWERS = {
    "n_jobs+cores": "docs/tutorial.html",
    "why+fits+differ": "docs/guide/repeats.html",
    "cluster+ranks": "docs/guide/cluster.html",
    "reading+report": "docs/guide/reports.html",
    "supported+versions": "docs/support.html",
    "papers+disagree": "docs/disagreements.html",
}


def listed(page):
    """Names that a page of the reference lists."""
    return re.findall(r"^   (\w+)$", (REFERENCE / f"{page}.md").read_text("utf-8"), re.MULTILINE)


def test_every_public_name_is_in_the_reference_once():
    names = listed("index")
    assert len(names) == len(set(names))
    assert set(names) == set(hogshare.__all__) - NOT_LISTED


@pytest.mark.parametrize(
    "module", [datasets, links, metrics, problems, simulation, theory, topology]
)
def test_every_name_of_a_public_module_is_in_the_reference(module):
    names = listed(module.__name__.removeprefix("hogshare."))
    assert set(names) == set(module.__all__) - (HERE_AND_THERE - set(names))


class Links(HTMLParser):
    """Where a page leads, and the places in it."""

    def __init__(self, page):
        super().__init__()
        self.to, self.places = set(), set()
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.places |= {given["id"]} if given.get("id") else set()
        self.to |= {given[name] for name in ("href", "src") if given.get(name)}


def build(sources, built):
    """Build the site of a copy: pages of the reference and the gallery are made among sources."""
    made = ("__pycache__", ".*", "build", "gallery", "api", "*.npz")
    shutil.copytree(HOME, sources, ignore=shutil.ignore_patterns(*made))
    shutil.copytree(HOME / "examples" / "gallery", sources / "examples" / "gallery")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-c", "docs/site", ".", str(built)]
    done = subprocess.run(command, cwd=sources, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]


def dead_links(site):
    """What pages refer to, and is not there."""
    files = (path for path in site.rglob("*.html") if "_static" not in path.parts)
    pages = {path: Links(path) for path in files}
    assert len(pages) > 150
    for page, leads in pages.items():
        for link in leads.to:
            parts = urlsplit(link)
            if parts.scheme or not (parts.path or parts.fragment):
                continue
            there = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            found = there.exists()
            if found and parts.fragment and there in pages:
                found = unquote(parts.fragment) in pages[there].places
            if not found:
                yield f"{page.relative_to(site)}: {link}"


def found_by_search(site, words):
    """The page of results, as a browser shows it."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000"]
    page = f"file://{site}/search.html?q={words}"
    command = [CHROMIUM, *flags, "--dump-dom", page]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout


@pytest.mark.skipif(not BUILDS, reason="Sphinx is not installed: pip install '.[docs]'")
@pytest.mark.timeout(900)  # kernels of the gallery may have to be compiled, on busy cores
def test_the_site(tmp_path):
    """One test, so that it is built once."""
    site = tmp_path / "site"
    build(tmp_path / "sources", site)
    assert not list(dead_links(site))
    fetched = re.compile(r"""<(?:script|img|link)[^>]+(?:src|href)=["']https?://""")
    assert not [page for page in site.rglob("*.html") if fetched.search(page.read_text("utf-8"))]
    home = Links(site / "docs" / "index.html").to
    assert home >= {Path(page).relative_to("docs").as_posix() for page in ANSWERS.values()}
    if CHROMIUM is not None:
        for words, page in ANSWERS.items():
            assert page in found_by_search(site, words), words
        assert "docs/master.html" in found_by_search(site, "seqlock")
        assert "docs/tutorial.html" in found_by_search(site, "SGDClassifier")
