/* Sites of one vector: offers to each other, words behind them, epoch_barriers at the end of an epoch.

Code: hogshare/runtimes/mpi/site.py, vectors.py, level.py, channel.py, and hogshare/kernels/
quanta.py (pass_barrier) and exchange.py (pull); beside each step stands the function that it
models. SITES sites have a worker and a talking thread each. A worker is behind SSP(LAG) (LAG 0 is
BSP) and does ROUNDS blocks in each of EPOCHS epochs; `vec` counts whose blocks are in a site's
vector, `copy` those that its worker has read.

Checked: who passes a barrier on account of a clock has read what that clock counts (the read
guarantee of docs/barriers.md); when all meet every vector has every block once, and nobody's of
the next epoch; all come to their end, and nothing is under way then.

Broken twins, by -D, each has to be caught:
  WORDS_LATE    words are read after what they count has been taken for the offer
  NOTED_EARLY   words are noted before the offer is in the vector
  NO_PULL       a worker that has pushed last itself passes without pulling
  SPACING         words go by a way of their own, on which they may overtake offers
  AT_ONCE       an offer of who has gone on is taken in while this site is in the meeting
  DROPPED       such an offer is put off, and never taken in
  NO_LAST       what is not offered yet when a worker rests is left out of the meeting
*/

#ifndef SITES
#define SITES 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef EPOCHS
#define EPOCHS 2
#endif
#ifndef LAG
#define LAG 0
#endif
#define CREDITS 2
#define RESTS 100 /* a word: nobody waits for this worker */

mtype = { OFFER, GATHER, TAKEN };
typedef Line {
    chan q = [8] of { mtype, byte, byte, byte };
#ifdef SPACING
    chan apart = [8] of { byte }
#endif
};
typedef To { Line to[SITES] };
typedef Row { byte by[SITES] };

To from[SITES];
Row vec[SITES], table[SITES], copy[SITES], untaken[SITES], later[SITES], later_word[SITES];
byte brought[SITES], limit[SITES], gathered[SITES];
bool is_later[SITES * SITES];

proctype worker(byte s) {
    byte k, done, seen;
    Row passed;
    bool may;
    do
    :: done == EPOCHS * ROUNDS -> break
    :: done < limit[s] * ROUNDS ->
        atomic { /* may_pass */
            may = true;
            for (k : 0 .. SITES - 1) {
                passed.by[k] = table[s].by[k];
                if
                :: k != s && passed.by[k] < RESTS && passed.by[k] + LAG < done -> may = false
                :: else
                fi
            }
        }
        if
        :: !may -> skip
        :: may ->
            atomic { /* pull */
                if
#ifndef NO_PULL
                :: brought[s] != seen || done == 0 ->
#else
                :: done == 0 -> /* pushes of its own alone are no news */
#endif
                    seen = brought[s];
                    for (k : 0 .. SITES - 1) { copy[s].by[k] = vec[s].by[k] }
                :: else
                fi;
                for (k : 0 .. SITES - 1) { /* the read guarantee */
                    assert(k == s || copy[s].by[k] >= passed.by[k] % RESTS);
                    passed.by[k] = 0
                }
            }
            vec[s].by[s]++; /* push_private, before its clock */
            done++;
            if
            :: done == limit[s] * ROUNDS -> table[s].by[s] = RESTS + done /* leaves till all have met */
            :: else -> table[s].by[s] = done /* tick */
            fi
        fi
    od
}

inline offer(s) { /* Site.offer */
    d_step {
#ifdef WORDS_LATE
        amount = vec[s].by[s] - offered
    };
    d_step {
        word = table[s].by[s];
#else
        word = table[s].by[s]
    };
    d_step {
        amount = vec[s].by[s] - offered;
#endif
        offered = offered + amount;
        told = word;
        for (t : 0 .. SITES - 1) {
            if
            :: t != s ->
                from[s].to[t].q ! OFFER, phase, amount, word;
#ifdef SPACING
                from[s].to[t].apart ! word;
#endif
                untaken[s].by[t]++
            :: else
            fi
        }
    }
}

inline note(s, k, w) { table[s].by[k] = w } /* Clocks.take_in */

inline take(s, k, a, w) { /* Site.take_in */
#ifdef NOTED_EARLY
    note(s, k, w);
    d_step { vec[s].by[k] = vec[s].by[k] + a; brought[s]++ };
#else
    d_step { vec[s].by[k] = vec[s].by[k] + a; brought[s]++ };
#ifndef SPACING
    note(s, k, w);
#endif
#endif
    from[s].to[k].q ! TAKEN, 0, 0, 0
}

inline receive(s) { /* Channel.poll */
    k = 0;
    do
    :: k == SITES -> break
    :: k < SITES && k == s -> k++
    :: k < SITES && k != s ->
        if
#ifdef SPACING
        :: from[k].to[s].apart ? w2 -> note(s, k, w2)
#endif
        :: from[k].to[s].q ? [OFFER, _, _, _] ->
            from[k].to[s].q ? OFFER, p, a, w;
            if
#ifndef AT_ONCE
            :: p > phase -> /* put off */
                later[s].by[k] = later[s].by[k] + a; later_word[s].by[k] = w;
                is_later[s * SITES + k] = true
#endif
            :: p <= phase || phase < 0 -> take(s, k, a, w)
#ifdef AT_ONCE
            :: p > phase -> take(s, k, a, w)
#endif
            fi
        :: from[k].to[s].q ? [GATHER, _, _, _] ->
            from[k].to[s].q ? GATHER, _, _, _; gathered[s]++
        :: from[k].to[s].q ? [TAKEN, _, _, _] ->
            from[k].to[s].q ? TAKEN, _, _, _; untaken[s].by[k]--
        :: empty(from[k].to[s].q) -> skip
        fi;
        if /* more of the same site's, in one poll */
        :: k++
        :: nempty(from[k].to[s].q)
        fi
    od
}

proctype talker(byte s) {
    byte k, t, p, a, w, w2, amount, word, offered, told, phase, n;
    bool credit;
    do
    :: phase == EPOCHS -> break
    :: phase < EPOCHS ->
        receive(s);
        credit = true;
        for (t : 0 .. SITES - 1) { credit = credit && untaken[s].by[t] < CREDITS }
        if
        :: table[s].by[s] >= RESTS && table[s].by[s] == RESTS + (phase + 1) * ROUNDS -> /* Level._meet */
#ifndef NO_LAST
            offer(s);
#endif
            d_step { for (t : 0 .. SITES - 1) { if :: t != s -> from[s].to[t].q ! GATHER, 0, 0, 0 :: else fi } }
            do
            :: gathered[s] >= SITES - 1 -> break
            :: gathered[s] < SITES - 1 -> receive(s)
            od;
            gathered[s] = gathered[s] - (SITES - 1);
            for (t : 0 .. SITES - 1) { assert(vec[s].by[t] == (phase + 1) * ROUNDS) }
            phase++; /* Site.go_on */
            d_step {
                for (t : 0 .. SITES - 1) {
                    if
                    :: phase < EPOCHS && (t == s || table[s].by[t] >= RESTS) -> table[s].by[t] = phase * ROUNDS
                    :: else
                    fi
                };
                told = table[s].by[s]
            };
#ifndef DROPPED
            k = 0;
            do
            :: k == SITES -> break
            :: k < SITES ->
                if
                :: is_later[s * SITES + k] ->
                    is_later[s * SITES + k] = false;
                    a = later[s].by[k]; w = later_word[s].by[k]; later[s].by[k] = 0;
                    take(s, k, a, w)
                :: else
                fi;
                k++
            od;
#endif
            if :: phase < EPOCHS -> limit[s]++ :: else fi
        :: else ->
            if
            :: credit && table[s].by[s] != told && table[s].by[s] < RESTS -> offer(s)
            :: else
            fi
        fi
    od;
    /* Channel.part: a meeting, then what is under way is received */
    skip;
    d_step { for (t : 0 .. SITES - 1) { if :: t != s -> from[s].to[t].q ! GATHER, 0, 0, 0 :: else fi } }
    do
    :: gathered[s] >= SITES - 1 -> break
    :: gathered[s] < SITES - 1 -> receive(s)
    od;
    do
    :: receive(s); n = 0;
        for (t : 0 .. SITES - 1) { n = n + len(from[t].to[s].q) + untaken[s].by[t] }
        if :: n == 0 -> break :: else fi
    od
}

init {
    byte s;
    atomic {
        for (s : 0 .. SITES - 1) { limit[s] = 1; run worker(s); run talker(s) }
    }
}
