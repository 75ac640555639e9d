"""The site: it builds without a warning, has every public name, leads nowhere, and is searched."""

import importlib.util
import json
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


def part_of_the_site(name):
    """A module of the folder of the site, which is no package."""
    spec = importlib.util.spec_from_file_location(name, HOME / "docs" / "site" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


search = part_of_the_site("search")
ANSWERS = search.QUESTIONS | search.MORE
OUT_OF_SEARCH = ("CHANGELOG", "bench/results/README", "docs/reproduced", "docs/tried")
INHERITED = ("predict", "predict_proba", "predict_log_proba", "get_params", "set_params")


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


# A page that opens others, each as wide as a screen, and lists their tables that are wider.
PROBE = """<body><script>
const found = [];
async function wide(page) {
  const frame = document.createElement("iframe");
  frame.width = 1280;
  frame.height = 900;
  frame.src = page;
  const loaded = new Promise(resolve => { frame.onload = resolve; });
  document.body.append(frame);
  await loaded;
  for (const table of frame.contentDocument.querySelectorAll("main table"))
    if (table.scrollWidth > table.parentElement.clientWidth + 1) found.push(page);
  frame.remove();
}
(async () => {
  for (const page of PAGES) await wide(page);
  document.body.innerHTML = `<pre>${PAGES.length} pages: ${found.join(" ")}.</pre>`;
})();
</script></body>"""


def pages_with_wide_tables(site):
    """Pages of which a table is cut off on a screen of 1,280 pixels."""
    pages = [path for path in site.rglob("*.html") if "<table" in path.read_text("utf-8")]
    names = json.dumps([path.relative_to(site).as_posix() for path in pages])
    (site / "probe.html").write_text(PROBE.replace("PAGES", names), "utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
    flags += ["--virtual-time-budget=100000", "--dump-dom", (site / "probe.html").as_uri()]
    command = [search.CHROMIUM, *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    (site / "probe.html").unlink()
    count, found = re.search(r"<pre>(\d+) pages: (.*)\.</pre>", done.stdout).groups()
    assert int(count) == len(pages) > 30
    return found.split()


def check_reference(site):
    """Methods that an estimator has from scikit-learn are on its page."""
    api = site / "docs" / "reference" / "api"
    for name in ("SGDClassifier", "LogisticRegression", "MLPClassifier"):
        places = Links(api / f"hogshare.{name}.html").places
        assert places >= {f"hogshare.{name}.{method}" for method in INHERITED}


def check_search(site):
    """What users ask is answered first, and nothing of the past is found."""
    index = (site / "searchindex.js").read_text("utf-8")
    titles = json.loads(re.search(r'"alltitles":(\{.*?\]\]\})', index)[1])
    pages = json.loads(re.search(r'"docnames":(\[.*?\])', index)[1])
    past = {k for k, page in enumerate(pages) if page.startswith(OUT_OF_SEARCH)}
    assert past and not past & {k for found in titles.values() for k, _ in found}
    if search.CHROMIUM is not None:
        for question, answer in ANSWERS.items():
            found = search.pages_found(site, question)
            assert search.rank(found, answer) == 1, (question, found[:3])


@pytest.mark.skipif(not BUILDS, reason="Sphinx is not installed: pip install '.[docs]'")
@pytest.mark.timeout(900)  # kernels of the gallery may have to be compiled, on busy cores
def test_the_site(tmp_path):
    """One test, so that it is built once."""
    site = tmp_path / "site"
    build(tmp_path / "sources", site)
    assert not list(dead_links(site))
    fetched = re.compile(r"""<(?:script|img|link)[^>]+(?:src|href)=["']https?://""")
    assert not [page for page in site.rglob("*.html") if fetched.search(page.read_text("utf-8"))]
    assert "docs/index.html" in Links(site / "index.html").to
    home = Links(site / "docs" / "index.html").to
    assert home >= {
        f"guide/{page.stem}.html" for page in (HOME / "docs" / "guide").glob("[a-z]*.md")
    }
    assert len(list((site / "docs" / "gallery" / "users").glob("plot_*.html"))) >= 10
    check_reference(site)
    check_search(site)
    if search.CHROMIUM is not None:
        assert not pages_with_wide_tables(site)


def test_legends_of_the_gallery_are_beside_curves():
    scripts = [
        path.read_text("utf-8") for path in (HOME / "examples" / "gallery").rglob("plot_*.py")
    ]
    legends = re.findall(r"\.legend\(([^)]*)\)", "".join(scripts))
    assert legends and all('loc="outside ' in legend for legend in legends)
