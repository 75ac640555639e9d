/* The model of the master's plane: a seqlock over two words, and a journal for the master's death.

Kernel: hogshare/kernels/master.py. Beside each step stands the function and the line that it models.
A version v is the model (v, v): any other pair is torn. The master makes VERSIONS versions; it may
be killed DEATHS times at any step, inside of take_over too, and its successor takes over.

Memory order. A step is atomic and all see it at once. What plain stores and loads allow beyond that
is put in by hand: the words of the model and of the journal are stored, and copied, in any order,
and where a fence or a releasing store is left out (NO_WRITER_FENCE, NO_READER_FENCE,
RELAXED_END), the words' stores or loads may pass the word that was to hold them back.

Checked: no torn copy is accepted; a copy is of the version that was read with it; what is published
is whole, and one more than the last, whoever published it; no deadlock; the run ends with the last
version.

Broken twins, by -D, each has to be caught:
  NO_SECOND_LOOK     a reader does not look again
  ODD_ACCEPTED       a reader does not ask whether WRITES is odd at its first look
  NEVER_ODD          the master does not make WRITES odd
  NO_WRITER_FENCE    the words may be stored before WRITES is odd
  NO_READER_FENCE    the second look may come before the copies
  RELAXED_END        the words may be stored after WRITES is even
  VERSION_LATE       VERSION is stored when WRITES is even again
  NO_JOURNAL         the model is changed in place
  JOURNAL_EARLY      the journal is marked before it is complete
  SUM_AGAIN          take-over adds the sum instead of copying the journal
  WRITES_AGAIN       take-over makes WRITES "odd" where it is odd already
  PATIENT            the master waits for readers without an end, and a reader dies
*/

#ifndef VERSIONS
#define VERSIONS 2
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef READERS_N
#define READERS_N 2
#endif

byte w[2]; /* the model */
byte WRITES, VERSION, JOURNAL, READERS, PLACES;
byte journal[2];
bool killed; /* somebody has killed the master, which has not noticed yet */
byte published; /* ghost: the last version that readers were given */

/* Is the model whole? Asked just before WRITES becomes even. */
inline publish() {
    atomic {
        assert(w[0] == w[1]);
        assert(w[0] == JOURNAL - 1); /* the version that it is said to be */
        assert(w[0] == published || w[0] == published + 1);
        published = w[0]
    }
}

/* update: "for _ in range(COURTESY)": looks, and gives up at some time */
inline courtesy() {
    if
    :: READERS == 0
#ifndef PATIENT
    :: READERS != 0 -> skip
#endif
    fi
}

/* write_journal: the values of the next version, in any order, then that they are there */
inline write_journal() {
    PLACES = 2; /* gather: the sum adds 1 to both words */
#ifdef JOURNAL_EARLY
    JOURNAL = VERSION + 2;
#endif
    if
    :: journal[0] = w[0] + 1; journal[1] = w[1] + 1
    :: journal[1] = w[1] + 1; journal[0] = w[0] + 1
    fi;
    JOURNAL = VERSION + 2 /* store(control, layout.JOURNAL, ...) */
}

#ifdef SUM_AGAIN
#define VALUE(k) (w[k] + 1)
#else
#ifdef NO_JOURNAL
#define VALUE(k) (w[k] + 1)
#else
#define VALUE(k) journal[k]
#endif
#endif

inline write_one(k) {
    if
    :: PLACES == 0
    :: PLACES != 0 -> w[k] = VALUE(k)
    fi
}

/* write_model: "for k in range(PLACES)", plain stores */
inline write_words() {
    if
    :: PLACES == 0
    :: PLACES != 0 -> w[0] = VALUE(0); w[1] = VALUE(1)
    :: PLACES != 0 -> w[1] = VALUE(1); w[0] = VALUE(0)
    fi
}

/* write_model: may be begun anew at any point */
inline write_model() {
    writes = WRITES;
#ifndef NEVER_ODD
    if
#ifdef WRITES_AGAIN
    :: true -> writes++; WRITES = writes
#else
    :: writes % 2 == 0 -> writes++;
#ifdef NO_WRITER_FENCE
        if
        :: WRITES = writes
        :: PLACES != 0 -> w[0] = VALUE(0); WRITES = writes /* a store has gone ahead */
        :: PLACES != 0 -> w[1] = VALUE(1); WRITES = writes
        fi
#else
        WRITES = writes /* store, then fence() */
#endif
    :: else
#endif
    fi;
#endif
#ifdef RELAXED_END
    /* the last store of a word stays behind that of WRITES */
    write_one(0);
    VERSION = JOURNAL - 1;
    WRITES = writes + 1;
    write_one(1);
    publish();
#else
    write_words();
#ifndef VERSION_LATE
    VERSION = JOURNAL - 1; /* store(control, layout.VERSION, ...) */
#endif
    publish();
#ifdef NEVER_ODD
    WRITES = writes + 2;
#else
    WRITES = writes + 1; /* store(control, layout.WRITES, ...) */
#endif
#ifdef VERSION_LATE
    VERSION = JOURNAL - 1;
#endif
#endif
    PLACES = 0; /* forget_sum */
    atomic {
        JOURNAL = 0; /* store(control, layout.JOURNAL, 0) */
        writes = 0;
        journal[0] = 0; /* nobody reads them any more: fewer states */
        journal[1] = 0
    }
}

/* take_over: nobody else is the master now */
inline take_over() {
    if
    :: JOURNAL != 0 -> write_model()
    :: else -> PLACES = 0 /* forget_sum: those messages are lost */
    fi
}

active proctype master() {
    byte writes;
    bool succeeds;
    do
    :: {
        if
        :: succeeds -> take_over()
        :: else
        fi;
        do
        :: VERSION == VERSIONS -> break
        :: VERSION < VERSIONS -> /* update */
            courtesy();
#ifdef NO_JOURNAL
            PLACES = 2;
            JOURNAL = VERSION + 2;
#else
            write_journal();
#endif
            write_model()
        od;
        break
    } unless {
        atomic { killed -> killed = false; succeeds = true; writes = 0 }
    }
    od;
    killed = false;
    assert(published == VERSIONS && w[0] == VERSIONS && w[1] == VERSIONS);
    assert(WRITES % 2 == 0 && JOURNAL == 0)
}

/* Kills the master, at any step, or not. */
active proctype fate() {
    byte deaths;
    do
    :: atomic { deaths < DEATHS && !killed -> killed = true; deaths++ }
    :: break
    od
}

inline forget_copy() {
    before = 0;
    version = 0;
    copy[0] = 0;
    copy[1] = 0
}

active [READERS_N] proctype reader() {
    byte before, version, copy[2];
    bool asked;
again: /* read_once */
    atomic {
        before = WRITES;
#ifndef ODD_ACCEPTED
        if
        :: before % 2 != 0 -> goto failed
        :: else
        fi
#endif
    };
    version = VERSION;
    if /* copy_support, in any order */
    :: copy[0] = w[0]; copy[1] = w[1]
    :: copy[1] = w[1]; copy[0] = w[0]
#ifdef NO_READER_FENCE
    :: copy[0] = w[0]; if :: WRITES != before -> goto failed :: else fi; copy[1] = w[1]; goto accepted
#endif
    fi;
#ifndef NO_SECOND_LOOK
    if /* fence(), and the second look */
    :: WRITES != before -> goto failed
    :: else
    fi;
#endif
#ifdef NO_READER_FENCE
accepted:
#endif
    atomic {
        assert(copy[0] == copy[1]);
        assert(copy[0] == version);
        forget_copy();
        goto done
    };
failed: /* read_snapshot: ATTEMPTS and MOST_ATTEMPTS are any number here */
    atomic {
        forget_copy();
        if
        :: goto again
        :: goto done /* the answer is False: the block stays in hand */
#ifndef NOBODY_ASKS
        :: !asked -> asked = true; READERS++; goto again /* fetch_add(READERS, 1) */
        :: asked -> goto dead /* killed while the master is asked to wait */
#endif
        fi
    };
done:
    if
    :: asked -> READERS-- /* fetch_add(READERS, -1) */
    :: else
    fi;
dead:
    skip
}
