/* The mail of the master's plane: slots, the sum of M messages, the journal, a master that dies.

Kernel: hogshare/kernels/master.py; beside each step stands the function that it models. The mailbox
by itself is the business of mailbox.pml; here a message is there once its number is. WORKERS
workers post MESSAGES messages each, which change both words of the model. The master may be killed
DEATHS times at any step, inside of take_over too, and its successor takes over. Readers are the
business of snapshot.pml.

The words hold a digit to the base of four for each message: how often the message is in the sum.

Whoever has SERVING is the master here: the master itself, or a worker that has posted (help_master).
The word is a lock, taken by a compare-exchange and given back by a releasing store, so that there
is one at a time, and the next sees what the last has written. Who dies with it keeps it until
take_over is done; so the master's death stands for a worker's at that work, too.

Memory order. A step is atomic and all see it at once. A message's words are one step, as nobody
looks at them before the number in the head has been stored, releasing; HEAD_EARLY and TAKEN_EARLY
are what could be seen if that store, or the store of M_TAKEN, did not release. The order of the
model's own words is the business of snapshot.pml too.

With BARRIER workers are behind SSP(LAG) (turns.py, barriers.py): a worker's clock counts messages
that the master has taken, it passes by the others' clocks, and then it reads.

Checked: a slot is not written before its message was taken; the model is whole (both words agree)
whenever no journal is open, and at the end; every message is in the model once, or it is lost with
the unfinished sum of a dead master, at most M - 1 for each death; workers and master come to their
end, and all mail has been taken; who has passed a barrier reads what it has waited for, but for the
unfinished sum.

Broken twins, by -D, each has to be caught:
  HEAD_EARLY         the number in the head is stored before the message
  TAKEN_EARLY        M_TAKEN is stored before the message has been added to the sum
  TAKEN_APART        M_TAKEN is not in the journal: the successor takes a message again that is in
  JOURNAL_EARLY      the journal is marked before it is complete
  SUM_AGAIN          take-over adds the sum instead of copying the journal
  NO_JOURNAL         the model is changed in place
  MARKS_KEPT         take-over leaves the marks of the sum that it throws away
  SUM_KEPT           the successor goes on with the unfinished sum, as it finds it
  NO_ROOM            workers do not ask for room
  NO_REST            what is left of a sum at the end is not applied
  CLOCK_EARLY        a worker's clock moves when it has posted (with BARRIER)
  LOOK_LATE          whether workers may still write is asked after looking for their mail
*/

#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef MESSAGES
#define MESSAGES 3
#endif
#ifndef M
#define M 2
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef LAG
#define LAG 0
#endif
#define SLOTS 2
#define ACTIVE 1
#define DONE 3
#define SLOT(worker, number) ((worker) * SLOTS + ((number) - 1) % SLOTS) /* slot_of */
#define DIGIT(worker, number) (1 << (2 * ((worker) * MESSAGES + (number) - 1)))

short head[WORKERS * SLOTS]; /* H_NUMBER */
short mail[2 * WORKERS * SLOTS]; /* a message: what to add to each word */
byte mailed[WORKERS], taken[WORKERS], clock[WORKERS];
byte state[WORKERS] = ACTIVE;
short w[2]; /* the model */
short total[2]; /* the sum */
bool marks[2]; /* gathered_marks == VERSION + 1: the word is in the sum */
byte GATHERED, PLACES;
short journal[2];
bool JOURNAL;
byte TAKER, NUMBER; /* with the journal: whose message filled the sum (plus 1), and its number */
bool killed;
bool unread[WORKERS * SLOTS]; /* ghost: posted and not taken */
byte deaths; /* ghost */

/* gather: once per word, "if marks[j] != mark" */
inline gather_word(k) {
    if
    :: !marks[k] -> marks[k] = true; total[k] = 0; known++
    :: else
    fi;
    total[k] = total[k] + mail[2 * slot + k]
}

inline gather() {
    known = PLACES;
    gather_word(0);
    gather_word(1);
    PLACES = known; /* store(control, layout.PLACES, known) */
    GATHERED++ /* store(control, layout.GATHERED, ...) */
}

/* forget_sum; what is marked belongs to an older version once there is a new one */
inline forget_sum() {
    GATHERED = 0;
    PLACES = 0
}

/* write_journal */
inline write_journal(whose, which) {
#ifdef JOURNAL_EARLY
    JOURNAL = true;
#endif
    if
    :: PLACES > 0 -> journal[0] = w[0] + total[0]; journal[1] = w[1] + total[1]
    :: PLACES == 0
    fi;
    TAKER = whose;
    NUMBER = which;
    JOURNAL = true /* store(control, layout.JOURNAL, ...) */
}

#ifdef SUM_AGAIN
#define VALUE(k) (w[k] + total[k])
#else
#ifdef NO_JOURNAL
#define VALUE(k) (w[k] + total[k])
#else
#define VALUE(k) journal[k]
#endif
#endif

/* write_model: may be begun anew at any point */
inline write_model() {
    if
    :: PLACES > 0 -> w[0] = VALUE(0); w[1] = VALUE(1)
    :: PLACES == 0
    fi;
    atomic { /* store(control, layout.VERSION, ...): the marks are of the version before */
        assert(w[0] == w[1]);
        marks[0] = false;
        marks[1] = false
    };
#ifndef TAKEN_APART
    /* take: store(M_TAKEN) of the message that filled the sum; its worker sees the update */
    if
    :: TAKER > 0 -> take(TAKER - 1, NUMBER)
    :: else
    fi;
#endif
    forget_sum();
    atomic {
        JOURNAL = false; /* store(control, layout.JOURNAL, 0) */
        journal[0] = 0; /* nobody reads these any more: fewer states */
        journal[1] = 0;
        TAKER = 0;
        NUMBER = 0
    }
}

inline take(whose, which) {
    atomic {
        unread[SLOT(whose, which)] = false;
        taken[whose] = which /* store(counters, layout.M_TAKEN, number) */
    }
}

inline update(whose, which) {
#ifdef NO_JOURNAL
    TAKER = whose;
    NUMBER = which;
    JOURNAL = true;
#else
    write_journal(whose, which);
#endif
    write_model()
}

/* take_message, of `worker` */
inline take_message() {
    atomic {
        number = taken[worker] + 1;
        slot = SLOT(worker, number)
    };
    if
    :: head[slot] != number /* has_mail */
    :: head[slot] == number ->
#ifdef TAKEN_EARLY
        take(worker, number);
#endif
        gather();
        if
        :: GATHERED >= M ->
#ifdef TAKEN_APART
            update(0, 0);
            take(worker, number)
#else
            update(worker + 1, number)
#endif
        :: else ->
            take(worker, number)
        fi;
        in_round++
    fi
}

/* somebody_may_write */
inline ask_who_may_write() {
    atomic { expected = false; worker = 0 };
    do
    :: atomic { worker < WORKERS && state[worker] == ACTIVE -> expected = true; break }
    :: atomic { worker < WORKERS && state[worker] != ACTIVE -> worker++ }
    :: worker == WORKERS -> break
    od
}

inline take_over() {
    if
    :: JOURNAL -> write_model()
    :: else ->
#ifndef SUM_KEPT
        forget_sum();
#endif
#if !defined(SUM_KEPT) && !defined(MARKS_KEPT)
        marks[0] = false;
        marks[1] = false
#endif
    fi
}

/* serve, until it answers OVER */
inline serve() {
    do
    :: true ->
#ifndef LOOK_LATE
        ask_who_may_write();
#endif
        atomic { in_round = 0; worker = 0 };
        do
        :: worker < WORKERS -> take_message(); worker++
        :: else -> break
        od;
#ifdef LOOK_LATE
        ask_who_may_write();
#endif
        if
        :: in_round > 0 || expected
        :: else ->
#ifndef NO_REST
            if /* apply_rest */
            :: GATHERED > 0 -> update(0, 0)
            :: else
            fi;
#endif
            break
        fi
    od
}

active proctype master() {
    byte worker, number, slot, known, in_round;
    bool expected, succeeds;
    byte lost;
    do
    :: {
        if
        :: succeeds -> take_over()
        :: else
        fi;
        serve();
        break
    } unless {
        atomic {
            killed -> killed = false;
            succeeds = true;
            worker = 0; number = 0; slot = 0; known = 0; in_round = 0; expected = false
        }
    }
    od;
    atomic { /* the books */
    assert(w[0] == w[1] && !JOURNAL && GATHERED == 0);
    worker = 0;
    do
    :: worker < WORKERS ->
        assert(state[worker] == DONE && taken[worker] == MESSAGES && mailed[worker] == MESSAGES);
        number = 1;
        do
        :: number <= MESSAGES ->
            in_round = (w[0] / DIGIT(worker, number)) % 4;
            assert(in_round <= 1); /* never counted twice */
            lost = lost + 1 - in_round;
            number++
        :: else -> break
        od;
        worker++
    :: else -> break
    od;
    assert(lost <= deaths * (M - 1))
    }
}

/* Kills the master, at any step, or not. */
active proctype fate() {
    do
    :: atomic { deaths < DEATHS && !killed -> killed = true; deaths++ }
    :: break
    od
}

inline post() {
    mailed[me] = number; /* send: store(M_POSTED) */
    unread[slot] = true;
    head[slot] = number /* deliver: store(H_NUMBER), store(M_ARRIVED) */
}

#define HOLDS(k) (state[k] == ACTIVE && clock[me] > clock[k] + LAG)
#if WORKERS == 2
#define IS_HELD HOLDS(1 - me)
#else
#define IS_HELD (HOLDS(0) || HOLDS(1) || HOLDS(2))
#endif
#define IS_IN(k, number) \
    ((w[0] / DIGIT(k, number)) % 4 > 0 && (w[1] / DIGIT(k, number)) % 4 > 0)

/* may_pass, and read_snapshot at once or later: the model only gains; of each clock that let it pass
   all messages have to be there */
inline pass_and_read() {
    atomic {
        !IS_HELD -> k = 0;
        do
        :: k < WORKERS -> seen[k] = clock[k]; k++
        :: else -> break
        od
    };
    mailed[me] == taken[me]; /* is_answered: its own are taken, whenever its clock has moved */
    atomic {
        k = 0;
        missing = 0;
        do
        :: k < WORKERS ->
            number = 1;
            do
            :: number <= seen[k] ->
                if
                :: IS_IN(k, number)
                :: else -> missing++
                fi;
                number++
            :: else -> break
            od;
            seen[k] = 0;
            k++
        :: else -> break
        od;
        assert(missing <= (M - 1) * (1 + deaths));
        missing = 0;
        k = 0
    }
}

active [WORKERS] proctype worker_() {
    byte me = _pid - 2; /* after the master and fate */
    byte number, slot;
#ifdef BARRIER
    byte k, missing, seen[WORKERS];
#endif
    do
    :: mailed[me] < MESSAGES ->
#ifdef BARRIER
        pass_and_read();
#endif
        atomic {
#ifndef NO_ROOM
            mailed[me] - taken[me] < SLOTS; /* has_capacity: its turn ends, and it asks again */
#endif
            number = mailed[me] + 1;
            slot = SLOT(me, number);
            assert(!unread[slot]);
#ifdef HEAD_EARLY
            post()
        };
        mail[2 * slot] = DIGIT(me, number);
        mail[2 * slot + 1] = DIGIT(me, number)
#else
            mail[2 * slot] = DIGIT(me, number); /* write_message */
            mail[2 * slot + 1] = DIGIT(me, number)
        };
        atomic { post() }
#endif
#ifdef BARRIER
#ifndef CLOCK_EARLY
        mailed[me] == taken[me]; /* is_answered */
#endif
        clock[me]++ /* count_posted: store(T_CLOCK) */
#endif
    :: else -> break
    od;
    state[me] = DONE /* leave: store(T_STATE) */
}
