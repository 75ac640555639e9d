/* Stochastic reduce with NOTIFY-ACK: post, wait, average, acknowledge, on a graph of mailboxes.

Code: hogshare/planes/replicas/reducing.py (`Reducer.reduce`, `_post`, `_collect`), over mailboxes
(mailbox.pml), which here are slots with a number that is stored last. WORKERS workers do ROUNDS
rounds on GRAPH: RING (k to k + 1), ROOT (and to k + 2), ALL. A message is one word between two
that say its round, as the worker's model is its round. With LATE a worker may lose patience with
one that does not wait itself: it leaves out a message for which there is no room, or that has not
come; one of a round that is over it drops, while it waits for room too. Who finds that others are rounds ahead goes on with their round, and sends its message again
as one of that, when there is room, as it does with one that it has left out.

Memory order. A step is atomic and all see it at once; what would be seen if the store of the number
did not release is FOOTER_FIRST, if the acknowledgement did not, ACK_FIRST.

Checked: what is averaged is whole, and of this round; no slot is written while it is averaged;
nobody waits for ever; without LATE nobody is more than QUEUE rounds ahead of who hears it, every
reduce uses every input, and nothing is left.

Broken twins, by -D, each has to be caught:
  ACK_FIRST          a message is acknowledged before it is averaged
  FOOTER_FIRST       a message has come before its word is written
  NO_ROOM            a message is sent without waiting for the acknowledgement
  WAIT_FIRST         a worker waits before it sends, on a circle
  NO_ROUND           the reader does not look at a message's round (with LATE)
  SILENT             who goes on with another round does not say so (with LATE)
  FORGETS            a message that was left out is not sent when there is room (with LATE)
*/

#ifndef WORKERS
#define WORKERS 3
#endif
#ifndef QUEUE
#define QUEUE 1
#endif
#ifndef ROUNDS
#define ROUNDS 3
#endif
#if !defined(RING) && !defined(ALL)
#define ROOT
#endif
#ifdef RING
#define DEGREE 1
#endif
#ifdef ROOT
#define DEGREE 2 /* to k + 1 and k + 2; of three workers that is all */
#endif
#ifdef ALL
#define DEGREE (WORKERS - 1)
#endif
#define EDGES (WORKERS * DEGREE)
#define OUT(k, d) ((k) * DEGREE + (d)) /* edge to k + 1 + d */
#define IN(k, d) ((((k) + WORKERS - 1 - (d)) % WORKERS) * DEGREE + (d)) /* edge from k - 1 - d */
#define SLOT(edge, number) ((edge) * QUEUE + ((number) - 1) % QUEUE)
#define READER(edge) (((edge) / DEGREE + 1 + (edge) % DEGREE) % WORKERS)

byte round[EDGES * QUEUE]; /* H_ROUND: before the word */
byte word[EDGES * QUEUE];
byte footer[EDGES * QUEUE]; /* H_FOOTER: after it */
byte POSTED[EDGES], TAKEN[EDGES];
bool reading[EDGES * QUEUE]; /* ghost: being averaged */
byte at[WORKERS]; /* ghost: rounds that are over */
#ifdef LATE
bool held[WORKERS]; /* T_PLANE_WAIT: it waits itself */
bool gone[WORKERS];
#define LEFT 2 /* of owes: it waits for room */
#define OWED 1
#define SENDER(d) (IN(me, d) / DEGREE)
#ifdef FORGETS
#define SENDS(d) (owes[d] == LEFT)
#else
#define SENDS(d) owes[d]
#endif
#define HAS_ROOM(d) (SENDS(d) && POSTED[OUT(me, d)] - TAKEN[OUT(me, d)] < QUEUE)
#define LEAVES_OUT(d) (owes[d] == LEFT && (gone[READER(OUT(me, d))] || !held[READER(OUT(me, d))]))
#define IS_LATE(d) (POSTED[IN(me, d)] > TAKEN[IN(me, d)] && round[SLOT(IN(me, d), TAKEN[IN(me, d)] + 1)] < now)
#define WAKES(d) (HAS_ROOM(d) || !has[d] && (POSTED[IN(me, d)] > TAKEN[IN(me, d)] || gone[SENDER(d)] && !given_up[d]))
#define LOSES_PATIENCE(d) (!has[d] && !given_up[d] && !held[SENDER(d)])
#endif

inline write(edge, number, what) {
    s = SLOT(edge, number);
    assert(!reading[s]);
    round[s] = what; word[s] = what; footer[s] = what
}

#ifdef LATE
inline drop_late() {
    d = 0;
    do
    :: d < DEGREE && IS_LATE(d) -> TAKEN[IN(me, d)]++ /* _find */
    :: d < DEGREE && !(IS_LATE(d)) -> d++
    :: else -> break
    od;
    d = 0
}

inline send_owed() {
    d = 0;
    do
    :: d < DEGREE && HAS_ROOM(d) ->
        e = OUT(me, d);
        write(e, POSTED[e] + 1, now); POSTED[e]++; owes[d] = 0; d++
    :: d < DEGREE && !HAS_ROOM(d) -> d++
    :: else -> break
    od;
    d = 0; e = 0; s = 0
}
#endif

proctype worker(byte me) {
    byte now = 1, d, e, s, latest, missing;
    bool has[DEGREE];
#ifdef LATE
    byte owes[DEGREE];
    bool given_up[DEGREE];
#endif
    do
    :: now <= ROUNDS ->
#ifdef WAIT_FIRST
        d = 0;
        do
        :: d < DEGREE -> POSTED[IN(me, d)] > TAKEN[IN(me, d)]; d++
        :: else -> break
        od;
#endif
        /* _post: to each out-neighbour, when it has acknowledged */
#ifdef LATE
        atomic {
            d = 0;
            do
            :: d < DEGREE -> owes[d] = LEFT; d++
            :: else -> break
            od;
            send_owed();
            drop_late()
        };
        do
        :: owes[0] == LEFT || owes[DEGREE - 1] == LEFT ->
            held[me] = true;
            if
            :: HAS_ROOM(0) || IS_LATE(0)
            :: LEAVES_OUT(0) -> owes[0] = OWED /* _leave_out, _owe */
#if (DEGREE > 1)
            :: HAS_ROOM(1) || IS_LATE(1)
            :: LEAVES_OUT(1) -> owes[1] = OWED
#endif
            fi;
            atomic { held[me] = false; drop_late(); send_owed() }
        :: else -> break
        od;
#else
        d = 0;
        do
        :: d < DEGREE ->
            e = OUT(me, d);
            if
#ifdef NO_ROOM
            :: true ->
#else
            :: POSTED[e] - TAKEN[e] < QUEUE ->
#endif
                s = SLOT(e, POSTED[e] + 1);
                assert(!reading[s]);
                round[s] = now;
#ifdef FOOTER_FIRST
                atomic { footer[s] = now; POSTED[e]++ };
                word[s] = now;
#else
                word[s] = now;
                atomic { footer[s] = now; POSTED[e]++ }; /* post: store(M_POSTED) */
#endif
                assert(at[READER(e)] + QUEUE >= at[me])
            fi;
            d++
        :: else -> break
        od;
#endif
        /* _collect: this round's message of each in-neighbour */
        do
        :: true ->
            atomic {
#ifdef LATE
                send_owed(); /* what is owed goes out when there is room */
#endif
                latest = now; missing = 0; d = 0;
                do
                :: d < DEGREE ->
                    e = IN(me, d);
                    has[d] = false;
#ifndef NO_ROUND
                    do /* _find: those before are dropped */
                    :: POSTED[e] > TAKEN[e] && round[SLOT(e, TAKEN[e] + 1)] < now -> TAKEN[e]++
                    :: else -> break
                    od;
#endif
                    if
                    :: POSTED[e] > TAKEN[e] ->
                        has[d] = true;
#ifndef NO_ROUND
                        latest = (round[SLOT(e, TAKEN[e] + 1)] > latest -> round[SLOT(e, TAKEN[e] + 1)] : latest)
#endif
#ifdef LATE
                    :: POSTED[e] == TAKEN[e] && (given_up[d] || gone[e / DEGREE]) -> skip
#endif
                    :: else -> missing++
                    fi;
                    d++
                :: else -> break
                od
            };
            if
            :: latest > now -> atomic {
                now = latest; /* others have gone on without this worker */
#if defined(LATE) && !defined(SILENT)
                d = 0;
                do
                :: d < DEGREE -> owes[d] = OWED; d++
                :: else -> break
                od
#endif
                }
            :: latest == now && missing == 0 -> break
            :: latest == now && missing > 0 ->
#ifdef LATE
                /* sleeps until something comes, or its patience is over */
                held[me] = true;
                if
                :: WAKES(0)
                :: LOSES_PATIENCE(0) -> given_up[0] = true
#if (DEGREE > 1)
                :: WAKES(1)
                :: LOSES_PATIENCE(1) -> given_up[1] = true
#endif
                fi;
                held[me] = false
#else
                if /* sleeps until something comes that was not there */
                :: !has[0] && POSTED[IN(me, 0)] > TAKEN[IN(me, 0)]
#if (DEGREE > 1)
                :: !has[1] && POSTED[IN(me, 1)] > TAKEN[IN(me, 1)]
#endif
#if (DEGREE > 2)
                :: !has[2] && POSTED[IN(me, 2)] > TAKEN[IN(me, 2)]
#endif
                fi
#endif
            fi
        od;
#ifndef LATE
        assert(missing == 0);
#endif
#ifdef LATE
        atomic { /* one step: what may happen within is looked at without LATE */
            d = 0;
            do
            :: d < DEGREE ->
                e = IN(me, d);
                if
                :: has[d] -> assert(round[SLOT(e, TAKEN[e] + 1)] == now); TAKEN[e]++
                :: else -> skip
                fi;
                has[d] = false; given_up[d] = false; d++
            :: else -> break
            od;
            d = 0; e = 0; s = 0; latest = 0; missing = 0
        };
#else
        /* _average, then acknowledge each */
        d = 0;
        do
        :: d < DEGREE ->
            if
            :: has[d] ->
                e = IN(me, d);
                s = SLOT(e, TAKEN[e] + 1);
#ifdef ACK_FIRST
                TAKEN[e]++;
#endif
                reading[s] = true;
                assert(round[s] == footer[s] && word[s] == round[s]);
                assert(round[s] == now);
                assert(word[s] == now); /* again: nobody has written since */
                reading[s] = false
            :: else -> skip
            fi;
            d++
        :: else -> break
        od;
#ifndef ACK_FIRST
        d = 0;
        do
        :: d < DEGREE ->
            if
            :: has[d] -> TAKEN[IN(me, d)]++ /* take: store(M_TAKEN) */
            :: else -> skip
            fi;
            d++
        :: else -> break
        od;
#endif
#endif
        atomic { at[me] = now; now++ }
    :: else -> break
    od
#ifdef LATE
    ; gone[me] = true
#endif
}

init {
    byte k = 0;
    atomic {
        do
        :: k < WORKERS -> run worker(k); k++
        :: else -> break
        od
    };
#ifndef LATE
    _nr_pr == 1;
    k = 0;
    do
    :: k < EDGES -> assert(POSTED[k] == ROUNDS && TAKEN[k] == ROUNDS); k++
    :: else -> break
    od
#endif
}
