/* Stochastic reduce with NOTIFY-ACK: post, wait, average, acknowledge, on a graph of mailboxes.

Code: hogshare/planes/replicas/reducing.py (`Reducer.reduce`, `_post`, `_collect`), over mailboxes
(mailbox.pml), which here are slots with a number that is stored last. WORKERS workers do ROUNDS
rounds on GRAPH: RING (k to k + 1), ROOT (and to k + 2), ALL. A message is one word between two
that say its round, as the worker's model is its round. With LATE a worker may lose patience: it
leaves out a message for which there is no room, and one that has not come; who finds that others
are rounds ahead goes on with theirs.

Memory order. A step is atomic and all see it at once; what would be seen if the store of the number
did not release is FOOTER_FIRST, if the acknowledgement did not, ACK_FIRST.

Checked: what is averaged is whole, and of this round; no slot is written while it is averaged;
nobody is more than QUEUE rounds ahead of who hears it; without LATE every reduce uses every input,
nothing is left, and nobody waits for ever.

Broken twins, by -D, each has to be caught:
  ACK_FIRST          a message is acknowledged before it is averaged
  FOOTER_FIRST       a message has come before its word is written
  NO_ROOM            a message is sent without waiting for the acknowledgement
  WAIT_FIRST         a worker waits before it sends, on a circle
  NO_ROUND           the reader does not look at a message's round (with LATE)
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

proctype worker(byte me) {
    byte now = 1, d, e, s, latest, missing;
    bool has[DEGREE];
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
#ifndef LATE
                assert(at[READER(e)] + QUEUE >= at[me])
#else
                skip
            :: POSTED[e] - TAKEN[e] >= QUEUE -> skip /* _owe: it is left out */
#endif
            fi;
            d++
        :: else -> break
        od;
        /* _collect: this round's message of each in-neighbour */
        do
        :: true ->
            atomic {
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
                    :: else -> missing++
                    fi;
                    d++
                :: else -> break
                od
            };
            if
            :: latest > now -> now = latest /* others have gone on without this worker */
            :: latest == now && missing == 0 -> break
            :: latest == now && missing > 0 ->
                if /* sleeps until something comes that was not there */
#ifdef LATE
                :: break /* or patience is over */
#endif
                :: !has[0] && POSTED[IN(me, 0)] > TAKEN[IN(me, 0)]
#if (DEGREE > 1)
                :: !has[1] && POSTED[IN(me, 1)] > TAKEN[IN(me, 1)]
#endif
#if (DEGREE > 2)
                :: !has[2] && POSTED[IN(me, 2)] > TAKEN[IN(me, 2)]
#endif
                fi
            fi
        od;
#ifndef LATE
        assert(missing == 0);
#endif
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
        atomic { at[me] = now; now++ }
    :: else -> break
    od
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
