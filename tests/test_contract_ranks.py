"""Every choice on ranks of MPI, which share memory or do not, and estimators on a cluster of Dask.

What is refused stands in `REFUSED`, by the sentence that says so: these rows are strict expected
failures. Who lifts a refusal deletes its row. `python tests/rank_contract.py` prints the same as
grids.
"""

import functools
import itertools

import pytest
from contract import BARRIERS, WITH_ROWS
from contract import REFUSED as NEVER
from executors import NEEDS_DASK, client  # noqa: F401
from rank_cases import AND_ON, CASES, DONE_BY, ESTIMATORS, ON, STATED, World
from rank_contract import RUNTIMES, local_outcome, outcomes
from ranks import needs_mpi

SECONDS = 600  # of a job in which kernels may have to be compiled
MPI_RUNTIMES = [name for name in RUNTIMES if name != "threads"]
EVERY = " ".join(BARRIERS)
NOT_IN_STEP = EVERY.replace("bsp ", "", 1).replace("pbsp ", "", 1)


class Refused(Exception):
    """A combination is refused, in a sentence."""


def pairs(planes, barriers):
    """Cases of planes with barriers, both in words."""
    return [f"{p} x {b}" for p in planes for b in barriers.split()]


def by_gradient(*planes):
    """Cases of rules with problems by a gradient."""
    problems = [name for name in STATED if name not in WITH_ROWS]
    cases = [f"{r} of {p} on {plane}" for r in DONE_BY for p in problems for plane in planes]
    return [case for case in cases if case in CASES]


def on(names, planes=(*ON, "mirrors")):
    """Cases of capabilities, on planes."""
    return [f"{name} on {plane}" for name in names.split() for plane in planes]


BETWEEN_MACHINES = {
    "record=True needs": on("record replay", ["lock-free", "master"]),
    "a trace of more than one snapshot an epoch on": on("trace=4", ("replicas", *AND_ON)),
}
REFUSED = {
    "memory": {},
    # whose workers go by BSP are in step, and refuse nothing
    "apart": {
        **BETWEEN_MACHINES,
        "a problem by a gradient on Shared needs": [
            f"sgd of {problem} on shared" for problem in ("class", "factorisation", "topics")
        ],
        "Averaged with is_by_mail=False needs": pairs(["homes"], NOT_IN_STEP),
        "Ring with is_by_mail=False needs": pairs(["ring"], NOT_IN_STEP),
    },
    "shards": {
        **BETWEEN_MACHINES,
        "Averaged with is_by_mail=False needs": pairs(["homes"], EVERY),
        "Ring with is_by_mail=False needs": pairs(["ring"], EVERY),
        "a problem by a gradient on Shared needs": by_gradient("shared"),
    },
    "dask": {},
}
# what no runtime has: by case, a word of the sentence
NOWHERE = {" x ".join(names): word for names, word in NEVER["plane", "barrier"].items()}
SENTENCES = {
    (runtime, case): sentence
    for runtime, rows in REFUSED.items()
    for sentence, cases in rows.items()
    for case in cases
}


def combinations(runtimes, cases):
    """Parameters of a test: runtimes and cases, those that are refused expected to fail."""
    found = []
    for runtime, case in itertools.product(runtimes, cases):
        marks = []
        if sentence := SENTENCES.get((runtime, case)):
            marks = pytest.mark.xfail(strict=True, raises=Refused, reason=sentence)
        found.append(pytest.param(runtime, case, marks=marks, id=f"{runtime}: {case}"))
    return found


def judge(runtime, case, outcome):
    """Fail a test if its case is not as it has to be."""
    refused, _, sentence = outcome.partition("refused: ")
    if not refused and case in NOWHERE:
        assert NOWHERE[case] in sentence
    elif not refused and sentence and SENTENCES.get((runtime, case), sentence) in sentence:
        raise Refused(sentence)
    else:
        assert outcome == "ok"


@functools.cache
def found_by(runtime, n_workers):
    """What each case has come to in one job: started once for all."""
    return outcomes(runtime, n_workers, seconds=SECONDS)


def test_every_row_is_of_a_case_and_no_case_has_two():
    assert [row for row in SENTENCES if row[1] not in CASES] == []
    assert len(SENTENCES) == sum(len(cases) for r in REFUSED.values() for cases in r.values())


@needs_mpi
@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.parametrize("n_workers", [1, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize(("runtime", "case"), combinations(MPI_RUNTIMES, CASES))
def test_on_ranks(runtime, case, n_workers):
    found, _ = found_by(runtime, n_workers)
    judge(runtime, case, found[case])


@needs_mpi
@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.parametrize("n_workers", [1, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("runtime", MPI_RUNTIMES)
def test_the_job_of_all_cases_ends_as_it_should(runtime, n_workers):
    _, job = found_by(runtime, n_workers)
    assert job.returncode == 0, job.stderr[-2000:]


# -- Dask


class Cluster(World):
    """A cluster: estimators are given Dask collections, and have no runtime."""

    def __init__(self, n_workers):
        super().__init__(None, n_workers)

    def estimator(self, kind, **settings):
        return kind(random_state=0, **settings)

    def part(self, array):
        import dask.array as da

        return da.from_array(array, chunks=(60, *array.shape[1:]))


# others bring collections into the memory of this process
IN_MEMORY = ("Lasso", "MLPClassifier", "MatrixFactorization", "topics")
PARTITIONED = [name for name in ESTIMATORS if name not in IN_MEMORY]


@NEEDS_DASK
@pytest.mark.parametrize(("runtime", "case"), combinations(["dask"], PARTITIONED))
def test_on_dask(runtime, case, client):  # noqa: F811
    outcome, _, _ = local_outcome(case, Cluster(2))
    judge(runtime, case, outcome)
