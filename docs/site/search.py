"""Ask the site's search what users ask: ``python docs/site/search.py build/site``.

A headless Chromium opens the page of results, so that the answer is what a reader sees. For each
question the rank of the page that answers it is printed, and the page that came first.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

# What users type, and the page that has the answer.
QUESTIONS = {
    "all cores": "docs/tutorial",
    "why two runs differ": "docs/guide/repeats",
    "reproducible": "docs/guide/repeats",
    "install": "docs/guide/install",
    "recommend": "docs/guide/recommendations",
    "mpi": "docs/guide/cluster",
    "save model": "docs/guide/saving",
    "predict_proba": "docs/guide/calibration",
    "warm": "docs/guide/first_run",
    "partial_fit": "docs/guide/streams",
    "dask": "docs/guide/dask",
}
# Further ones, to see that the answers are not those of the first list alone.
MORE = {
    "n_jobs": "docs/tutorial",
    "gpu": "docs/guide/gpu",
    "cuda": "docs/guide/gpu",
    "calibration": "docs/guide/calibration",
    "mlflow": "docs/guide/tracking",
    "tensorboard": "docs/guide/tracking",
    "model card": "docs/guide/model_card",
    "pipeline": "docs/guide/scikit_learn",
    "grid search": "docs/guide/scikit_learn",
    "class_weight": "docs/guide/weights_and_classes",
    "larger than memory": "docs/guide/streams",
    "onnx": "docs/guide/saving",
    "docker": "docs/guide/first_run",
    "csv": "docs/guide/command",
    "pytorch": "docs/guide/gradients",
    "neural network": "docs/guide/networks",
    "lda": "docs/guide/topics",
    "topics": "docs/guide/topics",
    "early stopping": "docs/guide/networks",
    "learning rate": "docs/auto",
    "report": "docs/guide/reports",
    "staleness": "docs/guide/reports",
    "slurm": "docs/guide/several_machines",
    "SGDClassifier": "docs/reference/api/hogshare.SGDClassifier",
    "logistic regression": "docs/logistic",
    "checkpoint": "docs/checkpoints",
    "version": "docs/support",
    "hogwild": "docs/guide/choices",
    "speed": "docs/guide/will_it_help",
    "random seed": "docs/guide/repeats",
    "convergence warning": "docs/guide/reports",
    "implicit feedback": "docs/guide/recommendations",
}


def pages_found(site: Path, question: str) -> list[str]:
    """Pages in the order in which the search lists them, each once."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000"]
    page = f"{(site / 'search.html').resolve().as_uri()}?q={question.replace(' ', '+')}"
    command = [str(CHROMIUM), *flags, "--dump-dom", page]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    links = re.findall(r'<li class="kind-\w+"><a href="([^"#]+)\.html', done.stdout)
    return list(dict.fromkeys(links))


def rank(pages: list[str], answer: str) -> int | None:
    """Which of the pages is the answer, counted from one; None if no page is."""
    return pages.index(answer) + 1 if answer in pages else None


def main() -> None:
    """Print a table of the questions."""
    if CHROMIUM is None:
        sys.exit("no chromium on the path: install it, for example by apt install chromium")
    site = Path(sys.argv[1] if len(sys.argv) > 1 else "build/site")
    ranks = []
    for question, answer in (QUESTIONS | MORE).items():
        pages = pages_found(site, question)
        ranks.append(rank(pages, answer))
        first = pages[0] if pages else "nothing"
        sys.stdout.write(f"{question:22} {ranks[-1] or '-':>4} of {len(pages):3}  {first}\n")
    n = len(QUESTIONS)
    first, others = ranks[:n].count(1), ranks[n:].count(1)
    sys.stdout.write(f"first: {first} of {n}, and {others} of {len(MORE)} others\n")


if __name__ == "__main__":
    main()
