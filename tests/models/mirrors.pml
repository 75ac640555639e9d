/* Mirrored centres: mirror clocks and the selective barrier, with one parameter.

hogshare/planes/mirrors/centre.py; beside each step stands the function that it models. CENTRES of a
worker each, every pair joined by an edge of QUEUE places, the last for words. In each clock a centre
changes the parameter; a change may be significant or not (with ALL: it is). A step is what a worker does under its
centre's lock; the lock and what becomes of a holder that dies are in tests/test_mirrors.py.

With STEP, messages are taken when each that is waited for has come (clock_difference=0). With JUMPS
a centre may skip a clock, as when its slowest worker dies. With ACKS, which are of machines that
share no memory, a sender hears later that a message was taken.

Checked: a centre passes a clock only if the others are near enough; a value that was named is there
when the parameter is read; what was changed is what came, is under way and is left over; nobody
waits for ever; and in step, if none is skipped, each clock is told by itself.

Broken twins, by -D, each has to be caught:
  RUNS_AHEAD         nobody waits for clocks
  READS_FIRST        nobody waits for values that were named
  FORGETS_NAMED      an update leaves out what was named, if it is no longer significant
  WAITS_FOR_OVER     a centre that has ended is waited for
  SILENT             who waits does not send what had no room before
  EARLY              a message of a later clock is not taken (with STEP JUMPS)
  WAITS_FOR_CLOCK    and is none that has come (with STEP JUMPS)
  TWO_AT_ONCE        who had no room in step goes on, and tells of two clocks (with STEP ACKS)
  NAMES_IN_STEP      values are named in step, too (with STEP)
*/

#ifndef CENTRES
#define CENTRES 3
#endif
#ifndef CLOCKS
#define CLOCKS 2
#endif
#ifndef QUEUE
#define QUEUE 2
#endif
#ifndef DIFFERENCE
#define DIFFERENCE 0
#endif
#define EDGE(i, j) ((i) * CENTRES + (j))
#define WORDS 0
#define VALUES 1

/* kind, clock, whether the parameter is in it, by how much it has changed */
chan edge[CENTRES * CENTRES] = [QUEUE] of { bit, byte, bit, byte };
byte clock[CENTRES], total[CENTRES];
byte residual[CENTRES * CENTRES], told[CENTRES * CENTRES]; /* of the sender */
bool named[CENTRES * CENTRES];
byte got[CENTRES * CENTRES], heard[CENTRES * CENTRES]; /* of the reader */
bool blocked[CENTRES * CENTRES];
byte promised[CENTRES * CENTRES]; /* ghost: what the reader has been told to wait for */
byte meant[CENTRES * CENTRES]; /* ghost: what the sender meant by the last words */
bool over[CENTRES];
byte ended;

#ifdef ACKS
byte under_way[CENTRES * CENTRES]; /* of the sender: messages that it has not heard to be taken */
byte unheard[CENTRES * CENTRES];   /* of them, those that were taken */
#define LEN(e) under_way[e]
#define COUNT(e) under_way[e]++
#define TELL(e) unheard[e]++
#else
#define LEN(e) len(edge[e])
#define COUNT(e) skip
#define TELL(e) skip
#endif

#if defined(STEP) && !defined(NAMES_IN_STEP)
#define MAY_NAME false
#else
#define MAY_NAME true
#endif

/* _send: to one centre */
inline send(c, j) {
    if
    :: told[EDGE(c, j)] >= clock[c] || over[j] -> skip
    :: else ->
        if
        :: (LEN(EDGE(c, j)) <= QUEUE - 2) -> /* _update */
#if defined(STEP) && !defined(JUMPS)
            assert(clock[c] == told[EDGE(c, j)] + 1);
#endif
            COUNT(EDGE(c, j));
            if
            :: residual[EDGE(c, j)] > 0 -> /* significant */
                edge[EDGE(c, j)] ! VALUES, clock[c], 1, residual[EDGE(c, j)];
                residual[EDGE(c, j)] = 0;
                named[EDGE(c, j)] = false
#ifdef ALL
            :: residual[EDGE(c, j)] == 0 ->
#else
#ifdef FORGETS_NAMED
            :: true ->
#else
            :: !named[EDGE(c, j)] ->
#endif
#endif
                edge[EDGE(c, j)] ! VALUES, clock[c], 0, 0
            fi;
            told[EDGE(c, j)] = clock[c]
        :: ((LEN(EDGE(c, j)) > QUEUE - 2) && (LEN(EDGE(c, j)) < QUEUE)
            && !named[EDGE(c, j)] && (residual[EDGE(c, j)] > 0) && MAY_NAME) -> /* _warn */
            edge[EDGE(c, j)] ! WORDS, clock[c], 0, 0;
            COUNT(EDGE(c, j));
            meant[EDGE(c, j)] = total[c];
            named[EDGE(c, j)] = true
        :: (LEN(EDGE(c, j)) > QUEUE - 2) -> skip /* not for long enough, or no room */
        fi
    fi
}

#define COME(i, c) (len(edge[EDGE(i, c)]) > 0)
#ifdef WAITS_FOR_OVER
#define GONE(i) false
#else
#define GONE(i) over[i]
#endif
#ifdef WAITS_FOR_CLOCK
#define IS_IT(i, c) edge[EDGE(i, c)] ? [VALUES, eval(clock[c]), _, _]
#else
#define IS_IT(i, c) COME(i, c)
#endif
/* _has_come */
#define HAS_COME(i, c) ((i) == (c) || heard[EDGE(i, c)] >= clock[c] || GONE(i) || IS_IT(i, c))
#ifdef STEP
#define MAY_TAKE(c) (HAS_COME(0, c) && HAS_COME(1, c) && HAS_COME(CENTRES - 1, c))
#else
#define MAY_TAKE(c) true
#endif
#define NAMES(i, c) (edge[EDGE(i, c)] ? [WORDS, _, _, _])
#ifdef EARLY
#define IS_TIME(i, c) (edge[EDGE(i, c)] ? [VALUES, eval(clock[c]), _, _])
#else
#ifdef STEP
#define IS_TIME(i, c) (COME(i, c) && heard[EDGE(i, c)] < clock[c])
#else
#define IS_TIME(i, c) COME(i, c)
#endif
#endif
/* _next and _may_take: whether an edge's next message may be taken */
#define TAKES(i, c) ((i) != (c) && COME(i, c) && (NAMES(i, c) || (MAY_TAKE(c) && IS_TIME(i, c))))

/* _take_in and _block */
inline take(i, c) {
    edge[EDGE(i, c)] ? kind, when, has, amount;
    TELL(EDGE(i, c));
    if
    :: kind == WORDS ->
        blocked[EDGE(i, c)] = true;
        promised[EDGE(i, c)] = meant[EDGE(i, c)]
    :: else ->
        got[EDGE(i, c)] = got[EDGE(i, c)] + amount;
        heard[EDGE(i, c)] = when;
        if
        :: has -> blocked[EDGE(i, c)] = false
        :: else
        fi
    fi
}

#define LATE(i, c) ((i) != (c) && !GONE(i) && clock[c] > heard[EDGE(i, c)] + DIFFERENCE)
#ifdef RUNS_AHEAD
#define FOR_CLOCK(c) false
#else
#define FOR_CLOCK(c) (LATE(0, c) || LATE(1, c) || LATE(CENTRES - 1, c))
#endif
#define NAMED(i, c) ((i) != (c) && !GONE(i) && blocked[EDGE(i, c)])
#ifdef READS_FIRST
#define FOR_VALUES(c) false
#else
#define FOR_VALUES(c) (NAMED(0, c) || NAMED(1, c) || NAMED(CENTRES - 1, c))
#endif
#define DUE(c, j) ((c) != (j) && told[EDGE(c, j)] < clock[c] && !over[j] \
    && (LEN(EDGE(c, j)) <= QUEUE - 2))
#ifdef SILENT
#define MAY_SEND(c) false
#else
#define MAY_SEND(c) (DUE(c, 0) || DUE(c, 1) || DUE(c, CENTRES - 1))
#endif

/* _is_behind_in_step */
#define UNTOLD(c, j) ((c) != (j) && told[EDGE(c, j)] < clock[c] && !over[j])
#if defined(STEP) && !defined(TWO_AT_ONCE)
#define BEHIND(c) (UNTOLD(c, 0) || UNTOLD(c, 1) || UNTOLD(c, CENTRES - 1))
#else
#define BEHIND(c) false
#endif

proctype centre(byte c) {
    byte j, when, amount;
    bit kind, has;
    do
    :: clock[c] >= CLOCKS -> break
    :: else ->
        atomic { /* after_block: _fold, _tick, _send */
            total[c]++;
            for (j : 0 .. CENTRES - 1) {
                if
                :: j != c -> residual[EDGE(c, j)]++
                :: else
                fi
            }
            clock[c]++;
#ifdef JUMPS
            if
            :: clock[c] < CLOCKS -> clock[c]++
            :: true
            fi;
#endif
            for (j : 0 .. CENTRES - 1) {
                if
                :: j != c -> send(c, j)
                :: else
                fi
            }
        }
        do /* _turn, and _wait until _has_news */
        :: atomic { !BEHIND(c) && TAKES(0, c) -> take(0, c) }
        :: atomic { !BEHIND(c) && TAKES(1, c) -> take(1, c) }
#if CENTRES > 2
        :: atomic { !BEHIND(c) && TAKES(2, c) -> take(2, c) }
#endif
        :: atomic { MAY_SEND(c) ->
            for (j : 0 .. CENTRES - 1) {
                if
                :: j != c -> send(c, j)
                :: else
                fi
            } }
        :: atomic { !BEHIND(c) && !FOR_CLOCK(c) && !FOR_VALUES(c) ->
            for (j : 0 .. CENTRES - 1) {
                if
                :: j != c && !over[j] ->
                    assert(clock[c] <= heard[EDGE(j, c)] + DIFFERENCE);
                    assert(!blocked[EDGE(j, c)] || got[EDGE(j, c)] >= promised[EDGE(j, c)])
                :: else
                fi
            } }
            break
        od
    od;
    atomic {
        over[c] = true;
        ended++
    }
}

#ifdef ACKS
#define HEARS(e) unheard[e] > 0 -> unheard[e]--; under_way[e]--
active proctype words() { /* of messages that were taken, on their way back */
end:
    do
    :: atomic { HEARS(EDGE(0, 1)) }
    :: atomic { HEARS(EDGE(1, 0)) }
#if CENTRES > 2
    :: atomic { HEARS(EDGE(0, 2)) }
    :: atomic { HEARS(EDGE(2, 0)) }
    :: atomic { HEARS(EDGE(1, 2)) }
    :: atomic { HEARS(EDGE(2, 1)) }
#endif
    od
}
#endif

active proctype caller() {
    byte c, j, when, amount;
    bit kind, has;
    atomic {
        for (c : 0 .. CENTRES - 1) {
            run centre(c)
        }
    }
    ended == CENTRES;
    atomic { /* finish: the residuals, and what is under way */
        for (c : 0 .. CENTRES - 1) {
            for (j : 0 .. CENTRES - 1) {
                do
                :: edge[EDGE(c, j)] ? kind, when, has, amount ->
                    got[EDGE(c, j)] = got[EDGE(c, j)] + amount
                :: empty(edge[EDGE(c, j)]) -> break
                od;
                assert(c == j || total[c] == got[EDGE(c, j)] + residual[EDGE(c, j)])
            }
        }
    }
}
