#!/bin/bash
# What the tool cannot see. Run in the checkout, after renames.py.
set -e
before=$(mktemp)
trap 'rm -f "$before"' EXIT
put() { # put FILE 'perl expression': says so where nothing changes
    cp "$1" "$before"; perl -0pi -e "$2" "$1"
    cmp -s "$1" "$before" && echo "after.sh: nothing changed in $1: $2" >&2; :
}
room() { test -e "$1/__init__.py" || printf '"""%s"""\n' "$2" > "$1/__init__.py"; git add -N "$1/__init__.py"; }
room hogshare/kernels/jit 'How kernels are compiled and kept, and what they ask of the processor and the system.'
room hogshare/kernels/rows 'Rows of data, and passes over all of them: facts, sums, scores, gradients.'
room hogshare/kernels/rules 'Steps: losses, penalties, step sizes, and the rules on one vector.'
room hogshare/kernels/schedule 'Who does which block when: claims, orders, barriers, quanta, the ends of epochs.'
room hogshare/kernels/exchange 'From one copy of the model to another: exchanges, centres, reduces, the master.'
room hogshare/kernels/mail 'Messages in shared memory: slots of edges, registers, locks.'
room hogshare/kernels/networks 'Networks of layers: gradients, and many mini-batches in a call.'
room hogshare/kernels/ratings 'Matrix factorisation: ratings, pairs, alternating least squares, lists of the best.'
room hogshare/kernels/topics 'Topics of documents.'

# the cache folder is keyed by all files of kernels/, of which this one is now a room deeper
put hogshare/kernels/jit/decorators.py 's/here = Path\(__file__\)\.parent\n/here = Path(__file__).parents[1]\n/'
put hogshare/system/interrupts.py 's/_deferring: Holding/_deferring: DeferredSignals/'
# executors are imported by the user's word
put hogshare/tasks/executors.py 's/PLACES = \{"processes": "Processes", "threads": "Threads"\}/PLACES = {\n    "processes": ("process_executor", "ProcessExecutor"),\n    "threads": ("thread_executor", "ThreadExecutor"),\n}/; s/    module = importlib\.import_module\(f"hogshare\.tasks\.\{workers\}"\)\n    executor: Executor = getattr\(module, PLACES\[workers\]\)/    place, name = PLACES[workers]\n    module = importlib.import_module(f"hogshare.tasks.{place}")\n    executor: Executor = getattr(module, name)/'
put pyproject.toml 's/\{threads,processes,cluster,ranks,virtual,partitions\}/{thread_executor,process_executor,cluster_executor,rank_executor,virtual_executor,partitions}/'
# names in tests' strings
put tests/test_imports.py 's/\{"Holding", "errstate"\}/{"DeferredSignals", "errstate"}/; s/\("jit", "cache"\)\)/("decorators", "cache"))/; s/from \.\.kernels import losses/from ..kernels.rules import losses/'
put tests/test_messages.py 's/name == "keep_whole"/name == "store_whole"/'
# pages: names without a module
put docs/write_a_runtime.md 's/`Rest\(attempts/`Pause(attempts/; s/`Hold\(attempts/`PlaneWait(attempts/'
put docs/architecture.md 's/`Hold` where/`PlaneWait` where/; s/block of `Holding`/block of `DeferredSignals`/; s/`quanta\.turn_of`/`quanta.quantum_of`/; s/`Plan\.free`/`EpochPlan.free`/; s/arrays, `Rows`/arrays, `RowArrays`/'
put docs/barriers.md 's/`kernels\/quanta\.look_again`/`kernels\/schedule\/quanta.poll_again`/'
put docs/guide/first_run.md 's/`KernelsNotKept:/`KernelsNotCached:/'
put docs/ranks.md 's/`Along`/`ReplicatedFit`/; s/`far_master\.py`/`master_level.py`/; s/`in_step\.py`/`lockstep.py`/'
put hogshare/cli/fit.py 's/\(`hogshare\.cli\.command_rows\.section`\)/(`cli.command_rows.section`)/'
put tests/test_seams.py 's/"from hogshare\.system import memory\\nfrom hogshare\.problems\.linear import (\w+) as views\\n"/"from hogshare.system import memory\\n"\n        "from hogshare.problems.linear import $1 as views\\n"/'
put tests/test_other_libraries.py 's/text = ("from hogshare\.kernels\.jit import decorators\\n\\n\\n)(\@decorators\.kernel\\n[^"]*")/text = (\n        $1"\n        "$2\n    )/'
put hogshare/engine/homes.py 's/`Boards`/`RegisterTransport`/'
put hogshare/partitioned/lane_quanta.py 's/`HeldPart\.counts`/`HeldOutPart.counts`/'
put hogshare/engine/choices.py 's/`Plan`/`EpochPlan`/'
put hogshare/engine/linear_description.py 's/`Plan`/`EpochPlan`/'
put hogshare/engine/gradient_steps.py 's/`Plan\.step_rows`/`EpochPlan.step_rows`/'
put hogshare/kernels/schedule/shares.py 's/`Plan\.free`/`EpochPlan.free`/'
put hogshare/kernels/schedule/ordered_rounds.py 's/`Plan\.split`/`EpochPlan.split`/'
put hogshare/runtimes/mpi/mail.py 's/`Progress`/`SiteNews`/'
put hogshare/kernels/ratings/pair_draws.py 's/`Ratings`/`RatingArrays`/'
put hogshare/kernels/schedule/quanta.py 's/`sgd\.Rule\.method`/`sgd_steps.RuleNumbers.method`/'
put hogshare/kernels/rows/survey.py 's/`rows\.Rows`/`row_views.RowArrays`/'
put hogshare/io/rows.py 's/`csvrecords\.BLANKS`/`csv_records.BLANKS`/'
put hogshare/solvers/task_runs.py 's/`tasksgd\.py`, `tasksaga\.py`/`task_sgd.py`, `task_saga.py`/'
put hogshare/partitioned/partition_blocks.py 's/`optimum\.condensed\./`optimum.compression./g'
# stale before this: files of these names there are none
put hogshare/optimum/__init__.py 's/What is added up is in `part_sums` and `condensed`; who adds is a `Parts`: one memory, ranks, or a\ncluster\. Methods on the sums \(`lbfgs`, `least_squares`, `conjugate`, `finishing`\) know no rows\./What is added up is in `compression` and in `LinearProblem.total`; who adds is a `PartSums`: one\nmemory, ranks, or a cluster. Methods on the sums (`conjugate_gradients`, `full_batch`, `alternation`)\nknow no rows./'
put docs/ranks.md 's/`apart\.py`/`site_call.py`/; s/`along\.py`/`replicated_fit.py`/; s/`condensed\.py`/`compression.py`/; s/`pool\.Pool\.added`/`rank_pool.RankPool.added`/'
put hogshare/kernels/layout.py 's/# of a run in step over sites, where the worker computes, see `rounds`; ONE_SITE otherwise/# where the worker computes, in a run in step over sites, see `rounds`; or ONE_SITE/'
