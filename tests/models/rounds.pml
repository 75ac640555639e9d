/* Rounds: workers fold and claim in their order, though some rest, start late, or die.

Kernel: hogshare/kernels/rounds.py (`next_step` and what it calls), with claims and epochs from
epochs.py and endings.py, the monitor from runtimes/monitor.py and the caller's look at a run that
rests from engine/session.py (`rests`). WORKERS workers start whenever they come, and do MAX_EPOCHS
epochs of BLOCKS blocks; they rest at LIMIT, which begins at FIRST_LIMIT, until the caller raises it
by one. With SPLIT the WORKERS blocks of a round are the parts of one mini-batch, BLOCKS is a multiple of
WORKERS, and the round's first fold takes the step of all (`BlockWorker.gather`). Worker 0 may be killed at any step if DEATHS is 1; the monitor buries it and puts its block
back. Any section that ends an epoch may stop the run, and with LOWERS lower LIMIT, for a look.

Memory order. A step is atomic and all see it at once: SECTION, T_READY and T_STATE are stored
releasing and loaded acquiring, and whatever a section writes is behind its store of SECTION.

Checked: one section at a time, each of them once and in order; nobody computes while a section
folds, claims or ends an epoch; a section is passed over only if its worker is gone; a block that is
folded was not folded before; with SPLIT a step is by all parts of one mini-batch, unless somebody
died, and each part is in one; the run comes to its end (no deadlock), with every block folded unless
it was stopped.

Broken twins, by -D, each has to be caught:
  NO_READY           a section does not wait until the others have computed
  AT_ONCE            a block is computed before the other sections of its round are over
  NO_PASSING         nobody passes over the dead
  PASSES_RESTING     a resting worker is passed over though the limit has been raised
  PASSES_STARTING    a worker that starts is passed over
  BLIND_PASSING      SECTION is moved on by a store instead of a compare-exchange
  STARTING_RESTS     the caller takes a run for resting though a worker is about to join
  DEAD_KEEPS         the monitor does not put the dead worker's block back
  UNEVEN             with SPLIT, after a rest the sections go on with whoever's it is
  EACH_STEPS         with SPLIT, who takes the step clears its own part alone
  LOWERS_TOO_FAR     LIMIT is lowered to an epoch that has been claimed from
*/

#ifndef WORKERS
#define WORKERS 3
#endif
#ifndef BLOCKS
#define BLOCKS 2
#endif
#ifndef MAX_EPOCHS
#define MAX_EPOCHS 2
#endif
#ifndef FIRST_LIMIT
#define FIRST_LIMIT MAX_EPOCHS
#endif
#ifdef LOWERS_TOO_FAR
#define LOWERS
#define FIRST_FREE 1 /* epochs after the one that ends */
#else
#define FIRST_FREE 2
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#define ALL_BLOCKS (BLOCKS * MAX_EPOCHS)

#define STARTING 0
#define ACTIVE 1
#define DONE 3
#define DEAD 4
#define RESTING 5

#define NO_BLOCK 255 /* -1 in the kernel */
#define FINISH_EPOCH 254 /* -2 */

#ifndef VICTIM
#define VICTIM 0
#endif
#define GO_ON 0
#define REST 1
#define LEAVE 2

byte SECTION, EPOCHS, TICKET;
byte LIMIT = FIRST_LIMIT;
bool STOP;
byte returned = NO_BLOCK; /* what the monitor has put back */
byte state[WORKERS] = STARTING; /* T_STATE */
byte ready[WORKERS]; /* T_READY */
byte block[WORKERS] = NO_BLOCK; /* T_BLOCK */
byte folded[MAX_EPOCHS + 1]; /* blocks of the epoch that are done: n_blocks - remaining */
bool done[ALL_BLOCKS];
bool killed;
byte part[WORKERS]; /* T_PART, as 1 + the block that it is a part of; 0: none waits */

byte computing, inside; /* ghosts: workers that compute, workers in their section */
byte next_section; /* ghost: sections before this one have been, or were passed over */
bool computes[WORKERS], in_section[WORKERS]; /* ghosts */
bool criterion; /* ghost: the run was stopped before its end */

#ifdef PASSES_RESTING
#define RESTS_ON(k) (state[k] == RESTING)
#else
#define RESTS_ON(k) (state[k] == RESTING && EPOCHS >= LIMIT)
#endif
#ifdef PASSES_STARTING
#define IS_PASSED_EARLY(k) (state[k] == STARTING)
#else
#define IS_PASSED_EARLY(k) false
#endif
#ifdef NO_PASSING
#define IS_GONE(k) (RESTS_ON(k) || IS_PASSED_EARLY(k) || state[k] == DONE)
#else
#define IS_GONE(k) (RESTS_ON(k) || IS_PASSED_EARLY(k) || !IS_LIVE(k))
#endif
#define CLAIMS_IN_VAIN \
    (TICKET / BLOCKS > EPOCHS + 1 || (TICKET / BLOCKS >= LIMIT && EPOCHS < LIMIT))
#define IS_LIVE(k) (state[k] != DONE && state[k] != DEAD)
#define HAS_BLOCK(k) (IS_LIVE(k) && block[k] != NO_BLOCK)
#if WORKERS == 2
#define SOMEBODY_HAS_BLOCK (HAS_BLOCK(0) || HAS_BLOCK(1))
#else
#define SOMEBODY_HAS_BLOCK (HAS_BLOCK(0) || HAS_BLOCK(1) || HAS_BLOCK(2))
#endif

#define HAS_IT(k) (IS_LIVE(k) && block[k] == block[VICTIM])
#if WORKERS == 2
#define SOMEBODY_HAS_IT (HAS_IT(0) || HAS_IT(1))
#else
#define SOMEBODY_HAS_IT (HAS_IT(0) || HAS_IT(1) || HAS_IT(2))
#endif
#ifdef STARTING_RESTS
#define MAY_REST(k) true
#else
#define MAY_REST(k) (state[k] != STARTING)
#endif

/* has_come: until all sections before this one are over. In the kernel a turn ends where this
   waits, and the next turn asks again. The load of SECTION and the look at the worker are one step:
   if SECTION moves between them, the compare-exchange does nothing. */
inline has_come(section) {
    do
    :: SECTION >= section -> break
    :: atomic { SECTION < section && IS_GONE(SECTION % WORKERS) -> now = SECTION };
        atomic { /* compare_exchange(control, layout.SECTION, now, now + 1) */
            if
#ifdef BLIND_PASSING
            :: true -> SECTION = now + 1
#else
            :: SECTION == now -> SECTION = now + 1
            :: else
#endif
            fi;
            now = 0
        }
    od
}

/* all_are_ready */
inline all_are_ready() {
    k = 0;
    do
    :: atomic { k < WORKERS && (ready[k] >= round || IS_GONE(k)) -> k++ }
    :: atomic { k == WORKERS -> k = 0; break }
    od
}

/* end_epochs; the criterion may stop the run */
inline end_epochs() {
    do
    :: EPOCHS < MAX_EPOCHS && folded[EPOCHS] == BLOCKS && !STOP ->
        assert(computing == 0);
        if
        :: atomic { STOP = true; criterion = true }
        :: true
        fi;
#ifdef LOWERS
        if
        :: LIMIT > EPOCHS + FIRST_FREE -> LIMIT = EPOCHS + FIRST_FREE
        :: true
        fi;
#endif
        EPOCHS++
    :: else -> break
    od
}

/* claim: what the monitor has put back, or the next ticket; at most two epochs are open */
inline claim() {
    ticket = NO_BLOCK;
    /* Rounds in which nobody has a block are left out: nothing changes until the monitor acts. */
    !(CLAIMS_IN_VAIN && !SOMEBODY_HAS_BLOCK) || returned != NO_BLOCK;
    if
    :: returned != NO_BLOCK -> /* take_returned */
        if
        :: returned != FINISH_EPOCH -> block[me] = returned
        :: else
        fi;
        atomic { ticket = returned; returned = NO_BLOCK }
    :: returned == NO_BLOCK && TICKET / BLOCKS < LIMIT && TICKET / BLOCKS <= EPOCHS + 1 ->
        block[me] = TICKET; /* the intent, before the ticket is taken */
        atomic { ticket = TICKET; TICKET++ }
    :: else
    fi
}

/* claim_block */
inline claim_block() {
    if
    :: STOP -> wish = LEAVE
    :: else ->
        claim();
        if
        :: ticket == FINISH_EPOCH -> end_epochs()
        :: else
        fi;
        if
        :: ticket >= FINISH_EPOCH ->
            block[me] = NO_BLOCK;
            if
            :: EPOCHS >= MAX_EPOCHS -> STOP = true; wish = LEAVE
            :: EPOCHS < MAX_EPOCHS && EPOCHS >= LIMIT -> wish = REST
            :: else
            fi
        :: else
        fi;
        ticket = 0
    fi
}

inline enter_section() {
    atomic {
        assert(inside == 0); /* one at a time */
        assert(computing == 0);
        assert(round * WORKERS + me >= next_section); /* once, and in order */
        next_section = round * WORKERS + me + 1;
        inside++;
        in_section[me] = true
    }
}

/* end_section */
inline end_section() {
    round++;
    if
    :: block[me] == NO_BLOCK -> ready[me] = round
    :: else
    fi;
    atomic {
        inside--;
        in_section[me] = false;
        SECTION = (round - 1) * WORKERS + me + 1
    }
}

/* gather: the step of the mini-batch, by all parts that wait */
inline gather() {
    atomic {
        k = 0;
        now = 0;
        do
        :: k < WORKERS && part[k] != 0 && state[k] != DEAD ->
            assert(killed || (part[k] - 1) / WORKERS == block[me] / WORKERS);
            now++;
            k++
        :: k < WORKERS && (part[k] == 0 || state[k] == DEAD) -> k++
        :: k == WORKERS -> break
        od;
        assert(killed || now == WORKERS);
        k = 0;
        now = 0
    };
#ifdef EACH_STEPS
    part[me] = 0
#else
    do
    :: k < WORKERS -> part[k] = 0; k++
    :: k == WORKERS -> k = 0; break
    od
#endif
}

/* fold_block: push_in_order, complete */
inline fold_block() {
    if
    :: part[me] != 0 -> gather()
    :: else
    fi;
    atomic {
        assert(computing == 0);
        assert(!done[block[me]]);
        done[block[me]] = true;
        k = block[me] / BLOCKS;
        folded[k] = folded[k] + 1;
        k = 0
    };
    computed = false;
    block[me] = NO_BLOCK;
    end_epochs()
}

active [WORKERS] proctype worker() {
    byte me = _pid;
    byte round, now, k, ticket, wish;
    bool computed;
    {
        assert(state[me] == STARTING);
join:
        state[me] = ACTIVE; /* join: compare_exchange(T_STATE) */
        /* take_place */
        round = (SECTION + WORKERS - 1 - me) / WORKERS;
        ready[me] = round;
        do
        :: true ->
            if
            :: block[me] != NO_BLOCK && !computed ->
#ifndef AT_ONCE
                has_come(round * WORKERS);
#endif
                if
                :: !STOP ->
                    atomic { computing++; computes[me] = true; assert(inside == 0) };
                    atomic {
                        computing--;
                        computes[me] = false;
                        computed = true;
#ifdef SPLIT
                        part[me] = 1 + block[me]
#endif
                    };
                    ready[me] = round /* store(T_READY), releasing */
                :: else ->
                    block[me] = NO_BLOCK;
                    wish = LEAVE;
                    ready[me] = round
                fi
            :: else
            fi;
            has_come(round * WORKERS + me);
#ifndef NO_READY
            all_are_ready();
#endif
            enter_section();
            if
            :: computed -> fold_block()
            :: else
            fi;
            if
            :: wish == GO_ON -> claim_block(); end_section()
            :: else ->
                end_section();
                if
                :: wish == LEAVE -> goto leave
                :: else -> break
                fi
            fi
        od;
        wish = GO_ON;
        state[me] = RESTING; /* leave(..., RESTING) */
        LIMIT > EPOCHS || STOP; /* must_pause */
        if
        :: !STOP -> goto join
        :: else
        fi;
leave:
        state[me] = DONE
    } unless {
        atomic { me == VICTIM && killed -> round = 0; now = 0; k = 0; ticket = 0; wish = 0 }
    }
}

/* Kills worker VICTIM, at any step, or not; then it is the monitor. */
active proctype fate() {
    if
    :: atomic { DEATHS > 0 && state[VICTIM] != DONE -> killed = true };
        atomic { /* bury */
            state[VICTIM] = DEAD;
            computing = computing - computes[VICTIM];
            inside = inside - in_section[VICTIM]
        };
#ifndef DEAD_KEEPS
        do
        :: atomic { /* _settle and put_back: unless it was not claimed, or is in other hands */
            returned == NO_BLOCK && block[VICTIM] < TICKET && !done[block[VICTIM]] && !SOMEBODY_HAS_IT ->
            returned = block[VICTIM];
            block[VICTIM] = NO_BLOCK
        }
        :: atomic { /* _unstall */
            EPOCHS < MAX_EPOCHS && folded[EPOCHS] == BLOCKS && returned == NO_BLOCK && !STOP ->
            returned = FINISH_EPOCH
        }
        :: STOP -> break
        od
#endif
    :: true
    fi
}

/* The caller: looks at the model where all rest, and raises the limit. */
active proctype caller() {
    byte k;
    do
    :: EPOCHS < MAX_EPOCHS && LIMIT <= EPOCHS && !STOP -> /* rests */
        do
        :: atomic { k < WORKERS && state[k] != ACTIVE && MAY_REST(k) -> k++ }
        :: atomic { k == WORKERS -> k = 0; break }
        :: STOP -> goto over
        od;
        assert(TICKET <= EPOCHS * BLOCKS); /* nobody has begun what the look has not seen */
#ifdef SPLIT
#ifndef UNEVEN
        SECTION = (SECTION + WORKERS - 1) / WORKERS * WORKERS;
#endif
#endif
        LIMIT++ /* raise_limit */
    :: STOP -> break
    od;
over:
    k = 0;
    do /* wait for all */
    :: atomic { k < WORKERS && !IS_LIVE(k) -> k++ }
    :: k == WORKERS -> break
    od;
    assert(inside == 0 && computing == 0);
    assert(criterion || EPOCHS == MAX_EPOCHS);
    assert(criterion || TICKET == ALL_BLOCKS)
}
