"""Where tests reach inside of the package: each place is named here, once.

A test takes the fixture `seams` and sets what it needs, by what it means; what stood there before
is read by the same name, and comes back after the test:

    def test_that_a_matrix_without_memory_is_refused(seams):
        seams.memory.free = lambda **_: 1 << 20

Who moves or renames something inside mends its line here, and no test. Some have several places,
which change together.
"""

import contextlib
import pkgutil

import pytest

ROWS = "hogshare.problems.linear.row_arrays"
WORKER = "hogshare.engine.participants.Worker"

PLACES = {
    # what the system has left, and from which size on a fit asks
    "memory": {
        "free": "hogshare.system.memory.free",
        "fold": "hogshare.system.memory.FOLD",
        "plenty": "hogshare.system.memory.PLENTY",
    },
    # from which size on rows are read in another way, or in parts
    "sizes": {
        "cached": f"{ROWS}.CACHED_BYTES",
        "cached_twice": f"{ROWS}.CACHED_TWICE_BYTES",
        "narrowed": f"{ROWS}.NARROWED_BYTES",
        "window": f"{ROWS}.WINDOW_BYTES",
        "saga": f"{ROWS}.SAGA_ROWS",
        "few": "hogshare.estimators.few_rows.MOST_VALUES",
        "helped": f"{ROWS}.MANY",
        "surveyed": "hogshare.kernels.rows.survey.PART_VALUES",
        "snapshots": "hogshare.engine.arrays.MAX_SNAPSHOT_BYTES",
    },
    # bytes of a file that are read or written at once
    "pieces": {
        "read": ("hogshare.io.sources.PIECE", "hogshare.io.sources.BLOCK"),
        "written": "hogshare.system.files.PIECE",
        "arena": "hogshare.shm.arena.PIECE",
    },
    # how a new file is opened, and one that nobody else may read
    "files": {
        "plain": "hogshare.system.files._as_new",
        "private": "hogshare.system.files._owner_only",
    },
    # where compiled kernels are kept, and who was told what of it
    "kernels": {
        "folder": "hogshare.kernels.jit.decorators.CACHE_FOLDER",
        "no_folder": "hogshare.kernels.jit.decorators.NO_FOLDER",
        "processor": "hogshare.kernels.jit.decorators.processor",
        "told": "hogshare.kernels.jit.cache._WARNED",
        "root": "hogshare.kernels.jit.cache.cache_root",
        "loaded": "hogshare.runtimes.crew.preload.loaded",
    },
    # what the machine is, what was measured on it, and what else runs there
    "machine": {
        "busy_others": "hogshare.system.machine.busy_others",
        "running": "hogshare.system.machine._running",
        "cores": "hogshare.system.machine.cores",
        "key": "hogshare.system.machine.key",
        "root": "hogshare.system.machine.cache_root",
        "libc": "hogshare.runtimes.core_placement._libc",
        "strangers_awake": "hogshare.runtimes.idle_threads._strangers_awake",
    },
    # how many workers or cores somebody may use
    "usable": {
        "workers": "hogshare.runtimes.choice.usable_workers",
        "worthwhile": "hogshare.runtimes.choice.worthwhile_workers",
        "workers_to_probe": "hogshare.runtimes.machine_probe.usable_workers",
        "helpers": "hogshare.runtimes.helper_threads.usable_workers",
        "cores_of_helpers": "hogshare.runtimes.helper_threads.usable_cores",
        "cores_of_waiting": "hogshare.runtimes.driver.usable_cores",
    },
    # what time it is, and how long somebody waits
    "clock": {
        "of_checkpoints": "hogshare.engine.checkpoint_session.time.monotonic",
        "of_waiting": "hogshare.runtimes.driver.time",
        "of_placement": "hogshare.runtimes.core_placement.time",
        "of_races": "hogshare.lab.rivals.race.time.perf_counter",
        "patience": "hogshare.system.interrupts.PATIENCE_SECONDS",
        "patience_of_forks": "hogshare.system.forks.PATIENCE_SECONDS",
        "until_stuck_ns": "hogshare.engine.loop.STUCK_NS",
        "until_left_behind": "hogshare.runtimes.pool.STUCK_SECONDS",
        "between_polls_of_pool": "hogshare.runtimes.pool.POLL_SECONDS",
        "until_hung": "hogshare.runtimes.crew.HUNG",
        "rest": "hogshare.runtimes.threads.PAUSE_SECONDS",
        "between_lines": "hogshare.cli.console.SECONDS_BETWEEN_LINES",
        "silent": "hogshare.kernels.jit.announcements.SILENT_SECONDS",
    },
    # a worker's loop, what drives it, and what it writes
    "loop": {
        "quantum": f"{WORKER}.run_quantum",
        "of_thread": "hogshare.runtimes.threads.loop_of",
        "pool": "hogshare.runtimes.threads.pool",
        "placement": "hogshare.runtimes.threads.CorePlacement",
        "crew": "hogshare.runtimes.threads.ThreadCrew",
        "submit": "hogshare.runtimes.pool.ThreadPool.submit_to",
        "session": "hogshare.engine.session.Session.__init__",
        "save": "hogshare.engine.checkpoints.Saved.save",
    },
}


class Seam:
    """The places of one kind, as attributes that are set for the length of a test."""

    def __init__(self, patch, places):
        vars(self).update(_patch=patch, _places=places)

    def __setattr__(self, name, value):
        for place in self._named(name):
            # by modules: `problems.linear` is a room, and the function of that name stands over it
            owner, _, last = place.rpartition(".")
            self._patch.setattr(pkgutil.resolve_name(owner), last, value)

    def __getattr__(self, name):
        return pkgutil.resolve_name(self._named(name)[0])

    def _named(self, name):
        if name not in self._places:
            raise AttributeError(f"there is no seam {name!r}: name its place in tests/seams.py")
        places = self._places[name]
        return (places,) if isinstance(places, str) else places


class Seams:
    """All seams, by kind, of one patch of pytest's."""

    def __init__(self, patch):
        self._patch = patch
        for kind, places in PLACES.items():
            setattr(self, kind, Seam(patch, places))

    def undo(self):
        """Put back what stood there, before the test is over."""
        self._patch.undo()

    @staticmethod
    @contextlib.contextmanager
    def for_now():
        """Seams whose places are put back at the end of a ``with`` block."""
        with pytest.MonkeyPatch.context() as patch:
            yield Seams(patch)
