"""The protocols in shared memory, as Spin models: every interleaving of a small run is looked at.

The models are in ``tests/models``; each says at its head what it checks and which broken twins it
has. A twin has to be caught, and by the sentence that stands here.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

MODELS = Path(__file__).parent / "models"
COMPILER = next(filter(shutil.which, ("cc", "gcc", "clang")), None)
DEPTH = 10_000  # steps of the longest run; reaching it is an error
SECONDS = 100

pytestmark = [
    pytest.mark.skipif(shutil.which("spin") is None, reason="needs spin (apt install spin)"),
    pytest.mark.skipif(COMPILER is None, reason="needs a C compiler (apt install gcc)"),
]

RUNS = [
    ("snapshot", "NOBODY_ASKS"),  # two readers
    ("snapshot", "READERS_N=1 VERSIONS=3 DEATHS=2"),
    ("mail", "M=1"),
    ("mail", "M=2"),
    ("mail", "M=3"),
    ("mail", "M=2 MESSAGES=2 DEATHS=2"),
    ("mail", "BARRIER M=1"),
    ("mail", "BARRIER LAG=1 M=2 MESSAGES=2"),
    ("mail", "BARRIER WORKERS=3 M=1 MESSAGES=2 DEATHS=0"),
    ("mailbox", "QUEUE=1"),
    ("mailbox", "QUEUE=3 MESSAGES=5"),
    ("mailbox", "WIRE QUEUE=1"),
    ("mailbox", "WIRE QUEUE=2"),
    ("mailbox", "WIRE QUEUE=3 MESSAGES=5"),
    ("mirrors", "CENTRES=2 CLOCKS=4"),
    ("mirrors", "CENTRES=2 QUEUE=3 CLOCKS=4 DIFFERENCE=1"),
    ("mirrors", "ALL STEP"),
    ("mirrors", "ALL STEP JUMPS CLOCKS=3"),
    ("mirrors", "STEP ACKS CENTRES=2 QUEUE=3 CLOCKS=5"),
    ("mirrors", "ALL STEP ACKS"),
    ("offers", "ROUNDS=1"),
    ("offers", "EPOCHS=1"),
    ("offers", "LAG=1 ROUNDS=1"),
    ("reduce", "RING WORKERS=4"),
    ("reduce", "ALL"),
    ("reduce", "WORKERS=4 ROUNDS=2"),
    ("reduce", "RING WORKERS=4 QUEUE=2"),
    ("reduce", "QUEUE=2"),
    ("reduce", "LATE RING"),
    ("reduce", "LATE RING QUEUE=2"),
    ("rounds", "FIRST_LIMIT=0"),
    ("rounds", "WORKERS=2 BLOCKS=3 FIRST_LIMIT=1 DEATHS=1"),
    ("rounds", "DEATHS=1"),
    ("rounds", "DEATHS=1 VICTIM=1"),
    ("rounds", "SPLIT WORKERS=2 FIRST_LIMIT=1"),
    ("rounds", "SPLIT BLOCKS=3 FIRST_LIMIT=1"),
    ("rounds", "SPLIT WORKERS=2 BLOCKS=2 FIRST_LIMIT=1 DEATHS=1"),
    ("rounds", "LOWERS WORKERS=2 MAX_EPOCHS=4"),
    ("rounds", "LOWERS WORKERS=2 MAX_EPOCHS=3 DEATHS=1"),
]

TORN = "(copy[0]==copy[1])"
HALF = "(w[0]==w[1])"
TWICE = "(in_round<=1)"
ORDER = ">=next_section)"
STUCK = "invalid end state"
AHEAD = "(TICKET<=(EPOCHS*2))"
READ = "(copy[s].by[k]>=(passed.by[k]%100))"
ONCE = "(vec[s].by[t]=="

BROKEN = [
    ("snapshot", "NO_SECOND_LOOK", TORN),
    ("snapshot", "ODD_ACCEPTED", TORN),
    ("snapshot", "NEVER_ODD", TORN),
    ("snapshot", "NO_WRITER_FENCE", TORN),
    ("snapshot", "NO_READER_FENCE", TORN),
    ("snapshot", "RELAXED_END", TORN),
    ("snapshot", "VERSION_LATE", "(copy[0]==version)"),
    ("snapshot", "NO_JOURNAL", HALF),
    ("snapshot", "JOURNAL_EARLY", "(w[0]==(JOURNAL-1))"),
    ("snapshot", "SUM_AGAIN", HALF),
    ("snapshot", "WRITES_AGAIN", "((WRITES%2)==0)"),
    ("snapshot", "PATIENT", STUCK),
    ("mail", "HEAD_EARLY", HALF),
    ("mail", "TAKEN_EARLY", TWICE),
    ("mail", "TAKEN_APART", TWICE),
    ("mail", "JOURNAL_EARLY", HALF),
    ("mail", "SUM_AGAIN", HALF),
    ("mail", "NO_JOURNAL", HALF),
    ("mail", "MARKS_KEPT", HALF),
    ("mail", "SUM_KEPT", HALF),
    ("mail", "NO_ROOM", "!(unread[slot])"),
    ("mail", "NO_REST", "(GATHERED==0)"),
    ("mail", "LOOK_LATE", "(taken[worker]==3)"),
    ("mail", "CLOCK_EARLY BARRIER M=1", "(missing<="),
    ("mailbox", "EARLY", "(here[(2*slot)]==next)"),
    ("mailbox", "NUMBER_FIRST WIRE", "(there[(2*slot)]==next)"),
    ("mailbox", "TAKEN_FIRST", "(here[((2*slot)+1)]==next)"),
    ("mailbox", "NO_ROOM", "!(reading[slot])"),
    ("mailbox", "ROOM_OF_SENT", "!(reading[slot])"),
    ("mailbox", "LAST_TAKEN", "(next==(TAKEN+1))"),
    ("mirrors", "RUNS_AHEAD CENTRES=2", "(clock[c]<=(heard["),
    ("mirrors", "READS_FIRST CENTRES=2 DIFFERENCE=2 CLOCKS=4", ">=promised["),
    ("mirrors", "FORGETS_NAMED CENTRES=2 DIFFERENCE=2 CLOCKS=4", STUCK),
    ("mirrors", "WAITS_FOR_OVER CENTRES=2 JUMPS", STUCK),
    ("mirrors", "SILENT CENTRES=2 DIFFERENCE=1 CLOCKS=3", STUCK),
    ("mirrors", "EARLY ALL STEP JUMPS CLOCKS=3", STUCK),
    ("mirrors", "WAITS_FOR_CLOCK ALL STEP JUMPS CLOCKS=3", STUCK),
    ("mirrors", "NAMES_IN_STEP STEP", STUCK),
    ("mirrors", "TWO_AT_ONCE STEP ACKS CENTRES=2 CLOCKS=4", "(clock[c]==(told["),
    ("offers", "WORDS_LATE EPOCHS=1", READ),
    ("offers", "NOTED_EARLY EPOCHS=1", READ),
    ("offers", "NO_PULL EPOCHS=1", READ),
    ("offers", "SPACING EPOCHS=1", READ),
    ("offers", "AT_ONCE ROUNDS=1", ONCE),
    ("offers", "DROPPED ROUNDS=1", ONCE),
    ("offers", "NO_LAST ROUNDS=1", ONCE),
    ("reduce", "ACK_FIRST", "(round[s]==now)"),
    ("reduce", "FOOTER_FIRST", "(word[s]==round[s])"),
    ("reduce", "NO_ROOM", STUCK),
    ("reduce", "WAIT_FIRST RING", STUCK),
    ("reduce", "NO_ROUND LATE RING", "==now)"),
    ("reduce", "SILENT LATE", STUCK),
    ("reduce", "FORGETS LATE RING", STUCK),
    ("rounds", "NO_READY", "(computing==0)"),
    ("rounds", "AT_ONCE", "(inside==0)"),
    ("rounds", "NO_PASSING DEATHS=1", STUCK),
    ("rounds", "PASSES_RESTING FIRST_LIMIT=1", ORDER),
    ("rounds", "PASSES_STARTING", ORDER),
    ("rounds", "BLIND_PASSING DEATHS=1", STUCK),
    ("rounds", "STARTING_RESTS FIRST_LIMIT=0", ORDER),
    ("rounds", "DEAD_KEEPS DEATHS=1", STUCK),
    ("rounds", "UNEVEN SPLIT WORKERS=2 FIRST_LIMIT=1", "(killed||(now==2))"),
    ("rounds", "EACH_STEPS SPLIT WORKERS=2", "(killed||(now==2))"),
    ("rounds", "LOWERS_TOO_FAR WORKERS=2 MAX_EPOCHS=3", AHEAD),
]


def call(*command, cwd):
    """Run a program to its end; what it printed."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=SECONDS)
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    return printed


def verify(model, definitions, folder, optimised="-O1"):
    """All runs of a model, as far as its first error; what the verifier printed."""
    source = MODELS / f"{model}.pml"
    flags = [f"-D{definition}" for definition in definitions.split()]
    call("spin", *flags, "-a", source, cwd=folder)
    call(COMPILER, optimised, "-w", "-DSAFETY", "-o", "pan", "pan.c", cwd=folder)
    printed = call("./pan", f"-m{DEPTH}", cwd=folder)
    assert "max search depth too small" not in printed
    # no hashing away of states: the search is complete, or it says why it is not
    assert "Full statespace search" in printed
    assert "invalid end states\t+" in printed
    return printed


def errors(printed):
    return int(re.search(r"errors: (\d+)", printed)[1])


@pytest.mark.parametrize(("model", "definitions"), RUNS)
def test_every_interleaving_keeps_the_promises(model, definitions, tmp_path):
    printed = verify(model, definitions, tmp_path)
    assert errors(printed) == 0, printed
    assert "Search not completed" not in printed


@pytest.mark.parametrize(("model", "definitions", "sentence"), BROKEN)
def test_a_broken_twin_is_caught(model, definitions, sentence, tmp_path):
    printed = verify(model, definitions, tmp_path, "-O0")  # compiling takes longer than searching
    assert errors(printed) == 1
    assert sentence in next(line for line in printed.splitlines() if line.startswith("pan:1:"))


@pytest.mark.parametrize("model", sorted({model for model, *_ in RUNS}))
def test_every_twin_that_a_model_names_is_tried(model):
    """And every run's switches are switches of its model."""
    text = (MODELS / f"{model}.pml").read_text()
    named = set(re.findall(r"^  ([A-Z_]+)  +\S", text, flags=re.MULTILINE))
    tried = {definitions.split()[0] for name, definitions, _ in BROKEN if name == model}
    assert named == tried
    for name, definitions, *_ in RUNS + BROKEN:
        for definition in definitions.split() if name == model else ():
            switch = definition.split("=")[0]
            assert re.search(rf"#if.*\b{switch}\b", text), switch


def test_all_models_are_run():
    assert {path.stem for path in MODELS.glob("*.pml")} == {model for model, *_ in RUNS}
