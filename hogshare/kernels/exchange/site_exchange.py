"""Folding what one site's vector has changed into those of all others: by messages.

A site's workers share one vector, as `copy_exchange` says. Sites do on the next level what workers
do on theirs, with a message in place of a lock: a site *offers* what its vector has changed, each
coordinate by a weight, to all others, who add that to theirs beside what their own workers change.

The weight is that of `copy_exchange`, by the same derivation. The workers of a site together
contract a coordinate of curvature h by about rho = 1 / (1 + z) between two offers, z = eta h R,
with R the rows that all of them have done: their own exchange has seen to it that so many rows are
worth what they are by one worker. M sites that start from the same point each offer -(1 - rho) e.
So the share is c(z) = 1/M + (1 - 1/M) / (1 + M z / 2) with M sites for P workers and the site's
rows for a worker's: the longer two offers are apart, the more coordinates are averaged.

A site's account, coordinate by coordinate of the *flat* vector (coefficients, intercepts, means of
the duals, SAGA's average):

- `base`: what the site's value is counted from. It is the sum of all offers that are here, and of
  the ghost, as far as that is there still.
- `ghost`: what the others are presumed to have done while this site did what it has last offered.
  What the weight holds back of a change, and the rule does not carry, stays in the value for as
  long as nothing is here in its place: an M-1st part of it goes when another's next offer comes,
  all of it when the sites meet.

The dual rule's coefficients are a sum, of which nothing may be lost, and late changes of hot
coordinates overshoot. There a site steps as if all M were doing alike (`dual_ascent`), so that its
vector moves by M times what its rows have done, and offers one M-th: every step is added whole, and
the others' parts are the ghost.

So value - base is what is to be offered, at any time, and an offer that comes moves both alike.
Where workers have done nothing meanwhile the value is `base` exactly. Sums (the means of the duals,
SAGA's average, and the coefficients of the dual rule) lose nothing: what rounding for the wire
leaves of them stays in value - base.

Who writes: the site's vector, under each segment's word, the thread of the site that talks to the
others, as one more worker; its account that thread alone. On the one vector without locks
(`hogwild_steps`) it adds, as the workers do. Who frees: nobody in a kernel.
"""

from typing import NamedTuple

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.exchange.copy_exchange import exchange_weight
from hogshare.kernels.jit.atomics import add_float, compare_exchange, store
from hogshare.kernels.jit.decorators import helper, inlined, kernel
from hogshare.kernels.schedule.epoch_criteria import find_criteria, settle_columns


class Account(NamedTuple):
    """What a site has in common with the others; of the flat vector's length, of one dtype.

    base, ghost : see the file's head
    offered : the last offer, as it is sent
    claims : int64, the coordinates that it claims to be zero; of no length where no rule clips
    """

    base: np.ndarray
    ghost: np.ndarray
    offered: np.ndarray
    claims: np.ndarray


class OfferTerms(NamedTuple):
    """What an offer depends on.

    share : of all rows, that this site has
    rows : of all workers of this one since the last offer
    decay : strength of l2, as far as it contracts a coordinate
    carry : 1.0 leaves what a weight holds back to be offered later; 0.0 drops it
    whole : 1 offers everything, whatever the weights: what is a sum
    stretch : what a change of the site's coefficients is divided by when it is offered
    stretch_of_means : the same, of SAGA's average
    zeros : 1 where exact zeros are claimed
    left : the part of the ghost that is still there
    haunts : 1 leaves a new ghost; 0 none, where the others' offers are here before anybody goes on
    locks : 1 where segments have words; 0 on the one vector
    atomic : 1 where adds to the one vector are atomic
    me : whoever holds the words
    """

    share: float
    rows: float
    decay: float
    carry: float
    whole: int
    stretch: float
    stretch_of_means: float
    zeros: int
    left: float
    haunts: int
    locks: int
    atomic: int
    me: int


@helper
def offer_place(account, terms, at, value, weight, carry, stretch):
    """Settle what is offered of one coordinate; return its value from here on."""
    change = value - account.base[at]
    account.offered[at] = weight * change / stretch
    offered = np.float64(account.offered[at])  # as it arrives
    carried = carry * (change - stretch * offered)
    ghost = change - offered - carried
    if terms.haunts != 0 and terms.left == 0.0:
        account.ghost[at] = ghost
        account.base[at] = value - carried
        return value
    before = terms.left * account.ghost[at]
    account.ghost[at] = ghost if terms.haunts != 0 else 0.0
    account.base[at] += offered - before + account.ghost[at]
    return account.base[at] + carried


@inlined
def offer_part(w, curvature, account, terms, eta, first, last):
    """As `offer_place`, of a part of one column of which no value moves and no zero is claimed.

    Nearly all that is ever offered is offered here: in the vector's own dtype, so that it costs
    what it reads and writes.
    """
    kind = account.base.dtype.type
    base, ghost, offered = account.base, account.ghost, account.offered
    even, rest, one = kind(terms.share), kind(1.0 - terms.share), kind(1.0)
    slope = kind(0.5 / terms.share * terms.rows * eta)
    offset, carry = one + slope * kind(terms.decay), kind(terms.carry)
    share, stretch = kind(1.0 / terms.stretch), kind(terms.stretch)
    if terms.whole != 0:
        for j in range(first, last):
            value = kind(w[j])  # once: without locks it may be another the next time
            change = value - base[j]
            part = share * change
            carried = carry * (change - stretch * part)
            offered[j] = part
            ghost[j] = change - part - carried
            base[j] = value - carried
        return
    for j in range(first, last):
        value = kind(w[j])
        change = value - base[j]
        part = (even + rest / (slope * kind(curvature[j]) + offset)) * share * change
        carried = carry * (change - stretch * part)
        offered[j] = part
        ghost[j] = change - part - carried
        base[j] = value - carried


@inlined
def take_place_in(account, coming, at, value, left):
    """A coordinate's value with what has come."""
    change = np.float64(coming[at]) - left * account.ghost[at]
    own = value - account.base[at]
    account.base[at] += change
    return account.base[at] + own


@helper
def take_segment(segments, word, terms):
    """Take a segment's word."""
    while terms.locks != 0 and compare_exchange(segments, word, 0, terms.me) != 0:
        pass


@helper
def release_segment(segments, word, terms):
    """Give it back."""
    if terms.locks != 0:
        store(segments, word, 0)


@helper
def put(array, j, value, now, terms, is_sum):
    """Set a coordinate that was `value`; on the one vector move it: others write meanwhile.

    is_sum : whether nothing of it may ever be lost, however workers add to the vector
    """
    kind = array.dtype.type
    if terms.locks != 0:
        array[j] = kind(now)
        return
    change = kind(now - value)
    if change == 0.0:
        return
    if terms.atomic != 0 or is_sum:
        add_float(array, j, change)
    else:
        array[j] += change


@helper
def offer_intercepts(vector, memory, account, terms, etas):
    """Offer intercepts and means of duals; the first segment's word is held."""
    m, n_columns = vector.w.shape[0], vector.intercept.shape[0]
    for c in range(n_columns):
        z = etas[c] * terms.rows * vector.intercept_curvature[0]
        weight = exchange_weight(z, 1.0 / terms.share)
        carried = terms.carry if memory.average.shape[0] > 0 else 0.0
        at, mean = m + c, m + n_columns + c
        value = vector.intercept[c]
        now = offer_place(account, terms, at, value, weight, carried, 1.0)
        put(vector.intercept, c, value, now, terms, False)
        stretch = terms.stretch_of_means
        value = memory.dual_mean[c]
        now = offer_place(account, terms, mean, value, 1.0, 1.0, stretch)
        put(memory.dual_mean, c, value, now, terms, True)


@kernel
def offer(vector, memory, account, terms, etas):
    """Write into ``account.offered`` what this site offers; how much of it is not 0, and claims.

    etas : float64[n_columns], last step sizes
    """
    w = vector.w
    n_columns = vector.intercept.shape[0]
    m, n_features = w.shape[0], vector.curvature.shape[0]
    n_segments = vector.segments.shape[0] // layout.WORD
    size = (n_features + n_segments - 1) // n_segments
    half, even = 0.5 / terms.share * terms.rows, terms.share
    is_still = terms.haunts != 0 and terms.left == 0.0  # no value moves
    n_claims = 0
    for segment in range(n_segments):
        first, last = segment * size, min(n_features, segment * size + size)
        take_segment(vector.segments, segment * layout.WORD, terms)
        is_plain = n_columns == 1 and is_still and terms.zeros == 0
        if is_plain:
            offer_part(w, vector.curvature, account, terms, etas[0], first, last)
        for f in range(last if is_plain else first, last):
            curved = half * (np.float64(vector.curvature[f]) + terms.decay)
            for c in range(n_columns):
                j = f * n_columns + c
                weight = 1.0
                if terms.whole == 0:
                    weight = even + (1.0 - even) / (1.0 + curved * etas[c])
                value = np.float64(w[j])
                if terms.zeros != 0 and value == 0.0 and account.base[j] != 0.0:
                    account.claims[n_claims] = j
                    n_claims += 1
                    account.offered[j] = 0.0  # `claimed` does the rest
                    account.base[j] -= terms.left * account.ghost[j]
                    account.ghost[j] = 0.0
                    continue
                now = offer_place(account, terms, j, value, weight, terms.carry, terms.stretch)
                if not is_still:
                    put(w, j, value, now, terms, False)
        if memory.average.shape[0] > 0:
            for j in range(first * n_columns, last * n_columns):
                at = m + 2 * n_columns + j
                stretch = terms.stretch_of_means
                value = np.float64(memory.average[j])
                now = offer_place(account, terms, at, value, 1.0, 1.0, stretch)
                if not is_still:
                    put(memory.average, j, value, now, terms, True)
        if segment == 0:
            offer_intercepts(vector, memory, account, terms, etas)
        release_segment(vector.segments, segment * layout.WORD, terms)
    n_values = 0
    for at in range(account.offered.shape[0]):
        if account.offered[at] != 0.0:
            n_values += 1
    return n_values, n_claims


@kernel
def claimed(account, claims, values):
    """Write out what the claims of the last offer were before, and have them be 0."""
    for k in range(claims.shape[0]):
        j = claims[k]
        values[k] = account.base[j]
        account.base[j] = 0.0


@kernel
def places_of(offered, places, values):
    """Write out where an offer is not 0, and what it is there."""
    k = 0
    for at in range(offered.shape[0]):
        if offered[at] != 0.0:
            places[k] = at
            values[k] = offered[at]
            k += 1


@kernel
def add_places(coming, places, values):
    """Add an offer of some coordinates to what has come of all."""
    for k in range(places.shape[0]):
        coming[places[k]] += values[k]


@kernel
def add_claims(account, coming, claims, values, share, left):
    """Add another's claims to what has come.

    A coordinate that a site's l1 has clipped to exactly zero is zero here, too, if it is no larger
    here: what has clipped the one clips anything smaller. Otherwise it counts as one of so many.

    values : float64, what the claimed coordinates were there
    left : the part of the ghost that is still here, which is no offer of anybody's
    """
    for k in range(claims.shape[0]):
        j = claims[k]
        now = account.base[j] - left * account.ghost[j] + coming[j]
        if abs(now) <= abs(values[k]):
            coming[j] = -account.base[j]  # so that it is zero exactly
            account.ghost[j] = 0.0
        else:
            coming[j] -= share * values[k]


@inlined
def take_part_in(w, account, coming, left, first, last):
    """As `take_place_in`, of a part of coordinates under their segment's word."""
    kind = account.base.dtype.type
    base, ghost, part = account.base, account.ghost, kind(left)
    for j in range(first, last):
        own = kind(w[j]) - base[j]
        now = base[j] + (coming[j] - part * ghost[j])
        base[j] = now
        w[j] = w.dtype.type(now + own)


@kernel
def take_in(vector, memory, account, coming, terms):
    """Take what has come into the site's vector, in place of ``terms.left`` of the ghost."""
    w = vector.w
    n_columns = vector.intercept.shape[0]
    m, n_features = w.shape[0], vector.curvature.shape[0]
    n_segments = vector.segments.shape[0] // layout.WORD
    size = (n_features + n_segments - 1) // n_segments
    left = terms.left
    for segment in range(n_segments):
        first = segment * size * n_columns
        last = min(n_features, segment * size + size) * n_columns
        take_segment(vector.segments, segment * layout.WORD, terms)
        if terms.locks != 0:
            take_part_in(w, account, coming, left, first, last)
        else:
            for j in range(first, last):
                value = np.float64(w[j])
                now = take_place_in(account, coming, j, value, left)
                put(w, j, value, now, terms, False)
        if memory.average.shape[0] > 0:
            for j in range(first, last):
                at = m + 2 * n_columns + j
                value = np.float64(memory.average[j])
                now = take_place_in(account, coming, at, value, left)
                put(memory.average, j, value, now, terms, True)
        if segment == 0:
            for c in range(n_columns):
                at, mean = m + c, m + n_columns + c
                value = vector.intercept[c]
                now = take_place_in(account, coming, at, value, left)
                put(vector.intercept, c, value, now, terms, False)
                value = memory.dual_mean[c]
                now = take_place_in(account, coming, mean, value, left)
                put(memory.dual_mean, c, value, now, terms, True)
        release_segment(vector.segments, segment * layout.WORD, terms)


@kernel
def decide(rule, plan, columns, sums, w, divisors, scratch, n_rows, epoch):
    """What an epoch of all machines makes of step sizes; True if no column learns any more.

    sums : float64[3 * n_columns], of all machines
    scratch : float64[2, n_columns], the second row with the scores on held-out rows, if there are
    """
    criterion, score = scratch[0], scratch[1]
    find_criteria(rule, sums, w, divisors, n_rows, criterion)
    return settle_columns(rule, plan, columns, sums, criterion, score, epoch)
