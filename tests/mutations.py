"""Faults that are put into a copy of the package, one at a time: tests have to find each.

    python tests/mutations.py                        # all: half an hour with a warm cache
    python tests/mutations.py --only exchange        # those whose name has this in it
    python tests/mutations.py --store found.json --pytest "-m quick"
    python tests/mutations.py --first found.json     # who found each then is asked first: minutes

A fault is found where one of its tests fails with it and passes without it. Its tests are a
selection of pytest's, which `--pytest` narrows; with nothing it is what CI runs, so that a test
which leaves CI is missed where it alone has found a fault. Kernels run as plain Python, since each
fault would have all of them compiled. A fault whose text is no longer in its file is missing, which
counts as not found: mend its line below. To be run by hand, after a change of what CI runs.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HOME = Path(__file__).resolve().parent.parent
PARTS = ("hogshare", "tests", "bench", "examples", "docs", "README.md", "CONTRIBUTING.md")
PARTS += ("CHANGELOG.md", "CITATION.cff", "LICENSE", "pyproject.toml")
LIMIT = 900.0  # seconds of one fault's tests


class Fault(NamedTuple):
    """A fault: what it is, the text that it changes, once in its file, and who is to find it."""

    name: str
    file: str
    old: str
    new: str
    tests: str

    @property
    def is_plain(self):
        """Whether its tests run without compiling."""
        return self.file.startswith("kernels/") and not self.file.endswith("cache.py")


FAULTS = (
    # kernels
    Fault(
        "the perceptron's loss has a wrong sign",
        "kernels/rules/losses.py",
        "return max(0.0, -p * y)",
        "return max(0.0, p * y)",
        "tests/kernels/test_scalars.py",
    ),
    Fault(
        "the insensitive loss's slope below is off by twice its width",
        "kernels/rules/losses.py",
        "return clipped(2.0 * (residual + epsilon))",
        "return clipped(2.0 * (residual - epsilon))",
        "tests/kernels/test_scalars.py",
    ),
    Fault(
        "the optimal schedule begins one row late",
        "kernels/rules/step_schedules.py",
        "(optimal_init + t - 1.0)",
        "(optimal_init + t)",
        "tests/kernels/test_scalars.py tests/kernels/test_quanta.py",
    ),
    Fault(
        "l1 forgets what a positive coordinate has received",
        "kernels/rules/penalties.py",
        "max(0.0, due + owed) * inverse",
        "max(0.0, due) * inverse",
        "tests/kernels/test_quanta.py",
    ),
    Fault(
        "an exchange leaves out the last feature of each segment",
        "kernels/exchange/copy_exchange.py",
        "        last = min(n_features, first + size)\n        word =",
        "        last = min(n_features, first + size - 1)\n        word =",
        "tests/test_exchange.py tests/kernels/test_folding.py tests/kernels/test_quanta.py",
    ),
    Fault(
        "an exchange adds intercepts without their weight",
        "kernels/exchange/copy_exchange.py",
        "folded = exchange_weight(z, n_workers) * change",
        "folded = change",
        "tests/test_exchange.py tests/kernels/test_folding.py tests/kernels/test_quanta.py",
    ),
    Fault(
        "a full mailbox takes one message more",
        "kernels/mail/edge_slots.py",
        "load(counters, layout.M_TAKEN) < box.heads.shape[1]",
        "load(counters, layout.M_TAKEN) <= box.heads.shape[1]",
        "tests/test_mailbox.py",
    ),
    Fault(
        "who is as far ahead as the staleness waits",
        "kernels/schedule/barrier_codes.py",
        "return clock - least <= staleness",
        "return clock - least < staleness",
        "tests/kernels/test_barriers.py",
    ),
    Fault(
        "in a round, workers claim own blocks and blocks of a dead worker",
        "kernels/schedule/epoch_schedule.py",
        "return OWN if load(schedule.table[k], layout.T_SHARE) > mine else LEFT",
        "return ANY",
        "tests/kernels/test_rounds.py",
    ),
    Fault(
        "a wait in vain counts as a part of a usual round",
        "planes/replicas/reducer.py",
        "seconds = now - before - in_vain",
        "seconds = now - before",
        "tests/test_replicas.py",
    ),
    Fault(
        "the dual step adds the row's own part instead of taking it out",
        "kernels/rules/dual_ascent.py",
        "z = p - reach * before",
        "z = p + reach * before",
        "tests/kernels/test_dual.py",
    ),
    Fault(
        "SAGA's average counts a sparse row's change once for all rows",
        "kernels/rules/saga_steps.py",
        "average[j] += change[c] * x * share",
        "average[j] += change[c] * x",
        "tests/kernels/test_saga.py",
    ),
    Fault(
        "an item's penalty is not in the gradient",
        "kernels/ratings/factors.py",
        "out[q + f] += slope * a + of_i * b",
        "out[q + f] += slope * a",
        "tests/kernels/test_factors.py",
    ),
    Fault(
        "a row's norm adds up values, not squares",
        "kernels/rows/row_views.py",
        "total += x * x",
        "total += x",
        "tests/kernels/test_rows.py tests/kernels/test_dual.py",
    ),
    Fault(
        "an epoch's loss is not divided among the columns",
        "kernels/schedule/epoch_criteria.py",
        "total / (n_rows * parts)",
        "total / n_rows",
        "tests/kernels/test_quanta.py tests/kernels/test_rounds.py",
    ),
    Fault(
        "machine code gets its name before it is on the disk",
        "kernels/jit/cache.py",
        "            os.fsync(descriptor)  # before",
        "            pass  # before",
        "tests/kernels/test_cache.py",
    ),
    # planes
    Fault(
        "a feature in one row counts as in all",
        "planes/shared.py",
        "np.where(counts > 0, counts, visits)",
        "np.where(counts > 1, counts, visits)",
        "tests/test_asysg.py tests/test_saga.py tests/kernels/test_saga.py",
    ),
    Fault(
        "the master drops messages one version late",
        "planes/master.py",
        "-1 if self.cutoff is None else self.cutoff,",
        "-1 if self.cutoff is None else self.cutoff + 1,",
        "tests/test_master.py",
    ),
    Fault(
        "what is owed along an edge is taken off",
        "planes/replicas/reducer.py",
        "owed + whole(values, places, len(owed))",
        "owed - whole(values, places, len(owed))",
        "tests/test_notify_ack.py tests/test_replicas.py",
    ),
    Fault(
        "only changes upwards are significant",
        "kernels/exchange/centre_edges.py",
        "(left[i] != 0.0) & (abs(left[i]) > limit * abs(value[i]))",
        "(left[i] != 0.0) & (left[i] > limit * abs(value[i]))",
        "tests/test_mirrors.py",
    ),
    Fault(
        "a change counts for readers without its weight",
        "kernels/exchange/centre_edges.py",
        "sum_of[i] = residual[i] + change[i]",
        "sum_of[i] = residual[i] + after[i] - began[i]",
        "tests/kernels/test_edges.py",
    ),
    Fault(
        "what a dead holder had staged of a message is staged again",
        "kernels/exchange/centre_edges.py",
        "if step != 2 * chunk + 1:  # otherwise",
        "if step >= 0:  # otherwise",
        "tests/kernels/test_edges.py",
    ),
    Fault(
        "neighbours are spread over centres",
        "planes/mirrors/groups.py",
        "np.repeat(np.arange(centres), sizes)",
        "np.arange(n_workers) % centres",
        "tests/test_mirrors.py",
    ),
    Fault(
        "an interval of several blocks is a block short",
        "planes/intervals.py",
        "max(1, round(every / block_rows))\n    return",
        "max(1, round(every / block_rows) - 1)\n    return",
        "tests/test_replicas.py tests/test_mirrors.py tests/test_intervals.py",
    ),
    # readers and files
    Fault(
        "a text whose last index is the last column is taken to begin at 0",
        "io/libsvm.py",
        "if last == n_features:",
        "if last == -1:",
        "tests/test_datasets.py tests/test_odd_files.py",
    ),
    Fault(
        "the row before is blamed for the first value of a row",
        "io/libsvm.py",
        'np.searchsorted(self.X.indptr, value, side="right")',
        'np.searchsorted(self.X.indptr, value, side="left")',
        "tests/test_datasets.py tests/test_odd_files.py tests/test_hostile_files.py",
    ),
    Fault(
        "an index one beyond the columns is not left out",
        "io/libsvm.py",
        "inside = columns < n_features",
        "inside = columns <= n_features",
        "tests/test_datasets.py tests/test_odd_files.py tests/test_cli.py",
    ),
    Fault(
        "a record of several lines counts as one",
        "io/csv_records.py",
        'number += record.count(b"\\n")',
        "number += 1",
        "tests/test_odd_files.py tests/test_plain_input.py",
    ),
    Fault(
        "whether an array has objects is left to NumPy",
        "io/npz.py",
        "    if head.dtype.hasobject:  # refused",
        "    if False:  # refused",
        "tests/test_hostile_files.py tests/test_datasets.py tests/test_modelfile.py",
    ),
    Fault(
        "a file gets its name before it is on the disk",
        "system/files.py",
        "                os.fsync(file.fileno())",
        "                pass",
        "tests/test_files.py tests/test_modelfile.py tests/test_interrupts.py",
    ),
    Fault(
        "a model of a later format is read",
        "io/archives.py",
        'if header["format_version"] not in versions:',
        "if not versions:",
        "tests/test_modelfile.py tests/test_save_load.py tests/test_checkpoints.py",
    ),
    # estimators
    Fault(
        "the order of several classes is drawn one number too early",
        "estimators/classifier.py",
        "seeds[0])\n            generator.randint(1, MAX_INT)\n",
        "seeds[0])\n",
        "tests/test_sgd_estimators.py",
    ),
    Fault(
        "the mean of the targets forgets the weights",
        "estimators/least_squares.py",
        "np.average(self.y, axis=0, weights=weight)",
        "np.average(self.y, axis=0)",
        "tests/test_linear_estimators.py",
    ),
    Fault(
        "the next partial fit begins anew",
        "estimators/classifier.py",
        'init = None if getattr(self, "coef_", None) is not None else (None, None)',
        "init = (None, None)",
        "tests/test_partial_fit.py tests/test_sgd_estimators.py",
    ),
    Fault(
        "the shares of l1 and l2 are exchanged",
        "estimators/lasso.py",
        "penalty, float(self.alpha), float(self.l1_ratio))",
        "penalty, float(self.alpha), 1.0 - float(self.l1_ratio))",
        "tests/test_linear_estimators.py",
    ),
    Fault(
        "the worst of the penalties is chosen",
        "estimators/logistic_cv.py",
        "np.unravel_index(np.argmax(total), total.shape)",
        "np.unravel_index(np.argmin(total), total.shape)",
        "tests/test_logistic_cv.py",
    ),
    Fault(
        "what a user has rated is recommended",
        "estimators/recommendations.py",
        "if exclude_seen:\n            begins, seen",
        "if not exclude_seen:\n            begins, seen",
        "tests/test_matrix_factorization.py",
    ),
    Fault(
        "a run of topics forgets how many batches there were",
        "estimators/topics.py",
        "self.n_batch_iter_ = found.n_batches + 1",
        "self.n_batch_iter_ = found.n_batches",
        "tests/test_topics.py",
    ),
    # barriers, runtimes, tasks
    Fault(
        "a barrier lets workers get one block further ahead",
        "barriers.py",
        'numbers["staleness"] = int(staleness)',
        'numbers["staleness"] = int(staleness) + 1',
        "tests/test_barriers.py",
    ),
    Fault(
        "a gate defers who is as far ahead as the staleness",
        "tasks/admission.py",
        'clock[me] - clock[chosen] <= numbers["staleness"]',
        'clock[me] - clock[chosen] < numbers["staleness"]',
        "tests/test_tasks.py",
    ),
    Fault(
        "a version is released once for all rows that were last used with it",
        "tasks/broadcasts.py",
        "self.release(old, count)",
        "self.release(old)",
        "tests/test_tasks_history.py tests/test_tasks.py",
    ),
    Fault(
        "a slow worker of the virtual clock is as fast as others",
        "runtimes/virtual.py",
        "seconds *= sim.slowness[me]",
        "seconds *= 1.0",
        "tests/test_simulator.py",
    ),
    Fault(
        "a nested joblib worker takes all cores",
        "runtimes/choice.py",
        "count = min(count, max(1, int(limit)))",
        "count = max(count, int(limit))",
        "tests/test_machine.py tests/test_placement.py",
    ),
    # the laboratory
    Fault(
        "the bound of consistent reads is half of it",
        "lab/bounds/asysg_con.py",
        "return 4.0 * known.sigma * math.sqrt(",
        "return 2.0 * known.sigma * math.sqrt(",
        "tests/test_theory.py",
    ),
    Fault(
        "a window of steps is one too long",
        "lab/bounds/asysg_con.py",
        "sums[np.maximum(last - length, 0)]",
        "sums[np.maximum(last - length - 1, 0)]",
        "tests/test_theory.py",
    ),
    Fault(
        "a lead counts from one",
        "lab/psp/progress.py",
        "self.leads @ np.arange(len(self.leads))",
        "self.leads @ np.arange(1, 1 + len(self.leads))",
        "tests/test_psp.py tests/test_progress.py",
    ),
    Fault(
        "one worker more than the share is slow",
        "lab/psp/progress.py",
        ".permutation(n_workers)[: round(share * n_workers)]",
        ".permutation(n_workers)[: round(share * n_workers) + 1]",
        "tests/test_psp.py tests/test_progress.py tests/test_studies.py",
    ),
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", default="", help="faults whose name or file has this in it")
    parser.add_argument("--store", type=Path, help="a JSON file for what was found by which test")
    parser.add_argument("--first", type=Path, help="such a file: tests to be asked before others")
    parser.add_argument("--pytest", default="", help="more options for pytest, such as '-m quick'")
    args = parser.parse_args()
    chosen = [fault for fault in FAULTS if args.only in fault.name + fault.file]
    before = json.loads(args.first.read_text()) if args.first else []
    found_by = {one["name"]: one["by"] for one in before if one["answer"] == "found"}
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # some tests start processes of another user
        tree = copied(Path(folder) / "tree")
        for fault in chosen:
            by = found_by.get(fault.name, "")
            answers.append(tried(tree, fault, shlex.split(args.pytest), by if "::" in by else ""))
            report(answers[-1])
    if args.store:
        args.store.write_text(json.dumps(answers, indent=1) + "\n")
    found = sum(answer["answer"] == "found" for answer in answers)
    print(f"{found} of {len(answers)} faults found")
    return int(found < len(answers))


def copied(tree):
    """A copy of what tests need."""
    tree.mkdir()
    for part in PARTS:
        source = HOME / part
        if source.is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, tree / part, ignore=ignore)
        elif source.exists():
            shutil.copy(source, tree / part)
    return tree


def tried(tree, fault, options, first=""):
    """Run a fault's tests with it, that which found it before first; and what fails without it."""
    answer = {"name": fault.name, "file": fault.file, "answer": "missing", "by": "", "seconds": 0.0}
    path = tree / "hogshare" / fault.file
    sound = path.read_text("utf-8") if path.exists() else ""
    if sound.count(fault.old) != 1:
        return answer
    began = time.monotonic()
    replace(path, sound.replace(fault.old, fault.new))
    try:
        status, by = first_failure(tree, fault, [*options, first]) if first else ("passed", "")
        if status == "passed":
            status, by = first_failure(tree, fault, [*options, *shlex.split(fault.tests)])
    finally:
        replace(path, sound)
    answer["by"] = by
    if status == "failed" and first and by == first:
        status = "found"  # as before, when it has passed without the fault
    if status == "failed":
        again, _ = first_failure(tree, fault, [by] if "::" in by else shlex.split(fault.tests))
        status = "found" if again == "passed" else "its test fails without it"
    answer["answer"] = "not found" if status == "passed" else status
    answer["seconds"] = round(time.monotonic() - began, 1)
    return answer


def replace(path, text):
    """Write a source file, of another time than before: byte code goes by that and its size."""
    stamp = path.stat().st_mtime + 2.0
    path.write_text(text, "utf-8")
    os.utime(path, (stamp, stamp))


def first_failure(tree, fault, selection):
    """How a selection ends, and the test that failed first."""
    plain = {"NUMBA_DISABLE_JIT": "1"} if fault.is_plain else {}
    paths = [str(tree), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, **plain, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p"]
    command += ["no:randomly", "--no-header", *selection]
    with tempfile.TemporaryFile("w+") as output:  # no pipe: a process that is left could hold one
        process = subprocess.Popen(
            command, cwd=tree, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            return "failed", "it takes longer than its tests may"
        finally:
            process.kill()
            process.wait()
        output.seek(0)
        said = output.read()
    failed = re.search(r"^(?:FAILED|ERROR) (\S+::[^\n]*?)(?: - |$)", said, re.MULTILINE)
    if process.returncode == 0:
        return "passed", ""
    if process.returncode in (4, 5):  # there is none of that name, or it is left out
        return "passed", "no test was selected"
    return "failed", failed[1] if failed else said.strip().splitlines()[-1]


def report(answer):
    print(f"{answer['answer']:12} {answer['file']}: {answer['name']}", flush=True)
    if answer["by"]:
        print(f"{'':12} by {answer['by']}, {answer['seconds']:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
