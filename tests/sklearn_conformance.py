"""Runs scikit-learn's own tests of its estimators with hogshare's classes instead.

    python tests/sklearn_conformance.py                              # one worker, test_sgd
    python tests/sklearn_conformance.py --module test_logistic
    python tests/sklearn_conformance.py --n-jobs 2 --runtime threads # two forced workers

The tests are those installed with scikit-learn (`sklearn/linear_model/tests` and the like). They
run in a pytest of their own; this file is its plugin too, which puts hogshare's classes into
scikit-learn before the tests are collected, changes their defaults of `n_jobs` and `runtime`, and
takes note of the tests that make an instance of them (the others concern what hogshare does not
have). The exit code is 1 if a test fails that is not in the list of known failures. With several
workers a known one may pass or fail, as they meet.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

MODULES = {
    "test_sgd": ("SGDClassifier", "SGDRegressor"),
    "test_logistic": ("LogisticRegression", "LogisticRegressionCV"),
    "test_sag": ("LogisticRegression", "Ridge"),
    "test_ridge": ("Ridge", "RidgeClassifier"),
    "test_coordinate_descent": ("Lasso", "ElasticNet"),
    "test_online_lda": ("LatentDirichletAllocation",),
    "test_mlp": ("MLPClassifier", "MLPRegressor"),
}
# of scikit-learn's; of the others linear_model
PACKAGES = {"test_online_lda": "decomposition", "test_mlp": "neural_network"}
ROOT = Path(__file__).resolve().parent.parent

PRIVATE = (
    "replaces a private class of scikit-learn's (_ValidationScoreCallback) and expects its use"
)
SCALE = (
    "scikit-learn scores held-out rows without the scale factor of its l2 penalty, so its score "
    "settles early; ours is the model's own score, and settles when the model does"
)
TWICE = "compares two runs to many digits; runs of several workers differ"
ORDER = "compares with the model of one particular order of steps"
MARGIN = "decides on a point 0.002 away from the boundary of the sequential model"
ZEROS = "an exchange mixes a zero with another worker's small value: zeros come out as nearly zero"

# test, or the beginning of its id -> why it may fail
KNOWN_ONE_WORKER = {
    "test_validation_mask_correctly_subsets": PRIVATE,
    "test_multi_thread_multi_class_and_early_stopping": SCALE,
}
KNOWN_MORE_WORKERS = {
    **KNOWN_ONE_WORKER,
    "test_warm_start": TWICE,
    "test_clone": TWICE,
    "test_late_onset_averaging_not_reached": TWICE,
    "test_late_onset_averaging_reached": ORDER,
    "test_validation_set_not_used_for_training": TWICE,
    "test_n_iter_no_change": TWICE,
    "test_sgd_l1_ratio_not_used": TWICE,
    "test_sgd_l1[": ZEROS,
    "test_average_binary_computed_correctly": ORDER,
    "test_sgd_multiclass_average": ORDER,
    "test_class_weights": MARGIN,
    "test_sample_weights": MARGIN,
    "test_equal_class_weight": TWICE,
    "test_weights_multiplied": TWICE,
    "test_balanced_weight": TWICE,
    "test_partial_fit_equal_fit": TWICE,
    "test_sgd_averaged": ORDER,
    "test_average_sparse": ORDER,
    "test_l1_ratio": TWICE,
    "test_SGDClassifier_fit_for_all_backends": TWICE,
    "test_sgd_random_state": TWICE,
    "test_sgd_numerical_consistency": TWICE,
}


DIGITS = "compares with more digits than `tol` asks for; theirs happens to go further"
STEPS = "compares with the model of one particular solver after so many iterations"
WORDS = "expects the warning or error of one particular solver; ours says what our workers found"
WIDER = "expects a refusal of what is fitted here (64-bit indices, float32, sparse intercepts)"
PRIVATE_CALL = "hands all of the class's parameters to a private function, which knows no `plane`"
RULE = "expects `solver_` to be what was asked for; ours says which rule solved"
HOOKS = "counts the tasks of scikit-learn's lbfgs; ours are epochs of the workers"

KNOWN_ELSEWHERE: dict[str, dict[str, str]] = {
    "test_logistic": {
        "test_elastic_net_vs_l1_l2": DIGITS,
        "test_logisticregression_liblinear_sample_weight": DIGITS,
        "test_scores_attribute_layout_elasticnet": DIGITS,
        "test_logistic_cv_multinomial_score": PRIVATE_CALL,
        "test_max_iter": WORDS,
        "test_newton_cholesky_fallback_to_lbfgs": WORDS,
        "test_logisticregression_warns_with_n_jobs": WORDS,
        "test_logistic_regression_callback_support_warning": WORDS,
        "test_logistic_regression_callback_support[": HOOKS,
        "test_warm_start_newton_solver": STEPS,
        "test_dtype_match": WIDER,
        "test_large_sparse_matrix": WIDER,
        "test_liblinear_with_large_values": WIDER,
    },
    "test_sag": {
        "test_sag_classifier_computed_correctly": STEPS,
        "test_sag_multiclass_computed_correctly": STEPS,
        "test_binary_classifier_class_weight": STEPS,
        "test_step_size_alpha_error": WORDS,
        "test_sag_classifier_raises_error": WORDS,
    },
    "test_ridge": {
        "test_ridge_regression[": RULE,
        "test_ridge_fit_intercept_sparse_error": WIDER,
        "test_ridge_fit_intercept_sparse_sag": WORDS,
        "test_ridge_sample_weight_consistency": DIGITS,
    },
}


# -- the plugin ----------------------------------------------------------------------------------


def package_of(module: str) -> str:
    """Where scikit-learn has the classes of one of its modules of tests."""
    return PACKAGES.get(module, "linear_model")


class Plugin:
    """Replaces the classes, and keeps what became of each test."""

    def __init__(self, config) -> None:
        import hogshare
        from hogshare.estimators import few_rows

        few_rows.MOST_VALUES = 0  # else these tests are of scikit-learn's solvers
        self.path = config.getoption("--hogshare-results")
        self.results: dict[str, dict] = {}
        self.ours: set[str] = set()
        self.now = ""
        module = config.getoption("--hogshare-module")
        package = importlib.import_module(f"sklearn.{package_of(module)}")
        for name in MODULES[module]:
            klass = getattr(hogshare, name)
            klass.__init__.__kwdefaults__["n_jobs"] = config.getoption("--hogshare-n-jobs")
            klass.__init__.__kwdefaults__["runtime"] = config.getoption("--hogshare-runtime")
            klass.__new__ = self.noting()
            setattr(package, name, klass)

    def noting(self):
        def new(cls, *args, **kwargs):
            self.ours.add(self.now)
            return object.__new__(cls)

        return new

    def pytest_runtest_setup(self, item) -> None:
        self.now = item.nodeid

    def pytest_runtest_logreport(self, report) -> None:
        if report.when == "call" or report.outcome != "passed":
            reason = ""
            if report.failed:
                crash = getattr(report.longrepr, "reprcrash", None)
                reason = crash.message if crash else str(report.longrepr)
            self.results[report.nodeid] = {"outcome": report.outcome, "reason": reason}

    def pytest_sessionfinish(self) -> None:
        rows = [
            {"test": name.split("::")[-1], "ours": name in self.ours, **result}
            for name, result in self.results.items()
        ]
        Path(self.path).write_text(json.dumps(rows))


def pytest_addoption(parser) -> None:
    parser.addoption("--hogshare-module", default="test_sgd")
    parser.addoption("--hogshare-n-jobs", type=int, default=None)
    parser.addoption("--hogshare-runtime", default="auto")
    parser.addoption("--hogshare-results")


def pytest_configure(config) -> None:
    if config.getoption("--hogshare-results"):
        config.pluginmanager.register(Plugin(config))


# -- the script ----------------------------------------------------------------------------------


def run(
    n_jobs: int | None,
    runtime: str,
    select: str = "",
    timeout: float = 900.0,
    module: str = "test_sgd",
) -> list[dict]:
    """Run the tests in a process of their own; returns one dict per test."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.json"
        config = Path(folder) / "pytest.ini"
        config.write_text("[pytest]\n")
        command = [sys.executable, "-m", "pytest", "-q", "-p"]
        command += ["sklearn_conformance", "-p", "no:cacheprovider", "-c", str(config)]
        command += ["--rootdir", folder, "--hogshare-results", str(results)]
        command += ["--hogshare-runtime", runtime, "--hogshare-module", module]
        command += ["--pyargs", f"sklearn.{package_of(module)}.tests.{module}"]
        command += ["--hogshare-n-jobs", str(n_jobs)] if n_jobs is not None else []
        command += ["-k", select] if select else []
        paths = [str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout
        )
        if not results.exists():
            raise RuntimeError(f"pytest did not run:\n{done.stdout}\n{done.stderr}")
        return json.loads(results.read_text())


def known_name(test: str, known: dict[str, str]) -> str | None:
    return next((name for name in known if test.startswith(name)), None)


def why_known(test: str, known: dict[str, str]) -> str | None:
    return known.get(known_name(test, known) or "")


def judge(rows: list[dict], known: dict[str, str]) -> dict[str, list[dict]]:
    """Sort the tests that concern our classes into passed, skipped, known and unexpected."""
    kinds = ("passed", "skipped", "known", "unexpected")
    sorted_rows: dict[str, list[dict]] = {kind: [] for kind in kinds}
    for row in rows:
        if not row["ours"] and row["outcome"] != "failed":
            continue
        if row["outcome"] == "failed":
            row["known"] = why_known(row["test"], known)
            sorted_rows["known" if row["known"] else "unexpected"].append(row)
        else:
            sorted_rows[row["outcome"]].append(row)
    return sorted_rows


def known_failures(n_jobs: int | None, module: str = "test_sgd") -> dict[str, str]:
    if module != "test_sgd":
        return KNOWN_ELSEWHERE.get(module, {})
    return KNOWN_ONE_WORKER if n_jobs in (None, 1) else KNOWN_MORE_WORKERS


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-jobs", type=int, default=None)
    parser.add_argument("--runtime", default="auto")
    parser.add_argument("--module", choices=MODULES, default="test_sgd")
    parser.add_argument("--select", default="", help="pytest's -k")
    parser.add_argument("--verbose", action="store_true", help="list the tests that passed, too")
    options = parser.parse_args(arguments)
    rows = run(options.n_jobs, options.runtime, options.select, module=options.module)
    found = judge(rows, known_failures(options.n_jobs, options.module))
    if options.verbose:
        counts = Counter(row["test"].split("[")[0] for row in found["passed"])
        for name, count in counts.items():
            print(f"passed      {count:3d}  {name}")
    for kind in ("skipped", "known", "unexpected"):
        for row in found[kind]:
            first = row["reason"].strip().splitlines()[0] if row["reason"].strip() else ""
            print(f"{kind:11s} {row['test']}\n              {row.get('known') or first}")
    tally = Counter(row["known"] for row in found["known"])
    for reason, count in tally.most_common():
        print(f"{count:3d} known: {reason}")
    others = sum(not row["ours"] for row in rows)
    counts = ", ".join(f"{len(found[kind])} {kind}" for kind in found)
    print(f"{len(rows) - others} tests concern our classes: {counts}; {others} do not.")
    return 1 if found["unexpected"] else 0


if __name__ == "__main__":
    sys.exit(main())
