/* A mailbox: one edge, its queue of slots, its three counters, and a transport of its own.

Kernel: hogshare/kernels/mailbox.py; beside each step stands the function that it models. One writer
sends MESSAGES messages of two words, one reader takes them. With WIRE the reader has slots of its
own, into which the transport copies a sent slot word by word, and the writer's TAKEN is a copy of
the reader's that comes later; otherwise both have the one slot, and the transport only lets a
message arrive, at any time after it was sent. In one memory `post` is the same with no time between.

Memory order. A step is atomic and all see it at once. Values, places and head are plain stores: what
could be seen if the store that says they are there did not release is EARLY and NUMBER_FIRST, if the
acknowledgement did not, TAKEN_FIRST.

Checked: what the reader finds is whole, and the message that comes next; it stays so until it is
taken; no slot is written before its message was taken; TAKEN <= ARRIVED <= POSTED <= TAKEN + QUEUE;
all messages are taken at the end, and nobody waits for ever.

Broken twins, by -D, each has to be caught:
  EARLY              POSTED is stored before the message
  NUMBER_FIRST       the transport has a message arrive before it has copied it (with WIRE)
  TAKEN_FIRST        a message is acknowledged before it has been consumed
  NO_ROOM            the writer does not ask for room
  ROOM_OF_SENT       the writer asks how many have arrived, and not how many were taken
  LAST_TAKEN         the reader waits for the newest message, and skips what came before
*/

#ifndef MESSAGES
#define MESSAGES 4
#endif
#ifndef QUEUE
#define QUEUE 2
#endif
#define SLOT(number) (((number) - 1) % QUEUE) /* slot_of */

byte here[2 * QUEUE]; /* the writer's slots: both words of a message are its number */
byte POSTED, TAKEN; /* as the writer sees them */
bool reading[QUEUE]; /* ghost: sent and not taken */
#ifdef WIRE
byte there[2 * QUEUE]; /* the reader's slots */
byte taken; /* the reader's own TAKEN */
#else
#define there here
#define taken TAKEN
#endif
byte number[QUEUE]; /* H_NUMBER, as the reader sees it */
byte ARRIVED;

active proctype writer() {
    byte next, slot;
    do
    :: POSTED < MESSAGES ->
        atomic {
#ifndef NO_ROOM
#ifdef ROOM_OF_SENT
            POSTED - ARRIVED < QUEUE;
#else
            POSTED - TAKEN < QUEUE; /* has_capacity: it asks again */
#endif
#endif
            next = POSTED + 1;
            slot = SLOT(next)
        };
#ifdef EARLY
        POSTED = next;
#endif
        atomic { assert(!reading[slot]); here[2 * slot] = next };
        atomic { here[2 * slot + 1] = next; reading[slot] = true };
        POSTED = next; /* send: store(M_POSTED) */
        assert(ARRIVED <= POSTED && TAKEN <= taken && taken <= ARRIVED && POSTED <= TAKEN + QUEUE)
    :: else -> break
    od
}

active proctype transport() {
    byte next;
    do
    :: ARRIVED < POSTED ->
        next = ARRIVED + 1;
#ifdef NUMBER_FIRST
        atomic { number[SLOT(next)] = next; ARRIVED = next };
#endif
#ifdef WIRE
        there[2 * SLOT(next)] = here[2 * SLOT(next)];
        there[2 * SLOT(next) + 1] = here[2 * SLOT(next) + 1];
#endif
        number[SLOT(next)] = next; /* deliver: store(H_NUMBER) */
        ARRIVED = next /* store(M_ARRIVED) */
#ifdef WIRE
    :: atomic { TAKEN < taken -> TAKEN++ }
#endif
    :: TAKEN == MESSAGES -> break
    od
}

active proctype reader() {
    byte next, slot;
    do
    :: taken < MESSAGES ->
        next = taken + 1;
#ifdef LAST_TAKEN
        ARRIVED >= next;
        next = ARRIVED;
#endif
        slot = SLOT(next);
        ARRIVED >= next; /* has_mail: load(M_ARRIVED) */
        number[slot] == next; /* load(H_NUMBER) */
        assert(next == taken + 1);
#ifdef TAKEN_FIRST
        atomic { reading[slot] = false; taken = next };
#endif
        assert(there[2 * slot] == next); /* it consumes the message */
        assert(there[2 * slot + 1] == next);
        atomic { reading[slot] = false; taken = next } /* take: store(M_TAKEN) */
    :: else -> break
    od
}
