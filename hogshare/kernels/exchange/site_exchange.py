"""Exchange of the changes of each site's vector with all other sites, by messages.

A site's workers share one vector, as `copy_exchange` says. Sites exchange with each other as
workers do, but by messages in place of locks. A site *offers* the change of its vector, each
coordinate times a weight, to all other sites. The other sites add the offer to their own workers'
changes.

The weight is the weight of `copy_exchange`, by the same derivation. Between two offers the workers
of a site together contract a coordinate of curvature h by about rho = 1 / (1 + z). In this formula
z = eta h R, eta is the step size, and R is the number of rows that all workers of the site have
done. Because the workers exchange, R rows have the same effect as R rows of one worker. M sites
that start from the same distance e each offer -(1 - rho) e. So the weight is

    c(z) = 1/M + (1 - 1/M) / (1 + M z / 2).

M sites replace P workers, and the site's rows replace a worker's rows. The longer the time between
two offers, the more coordinates are averaged.

A site's account, coordinate by coordinate of the *flat* vector (coefficients, intercepts, means of
the duals, SAGA's average):

- `base`: the point from which the site's change is counted. It is the sum of all offers that have
  come, plus the remaining part of the ghost.
- `ghost`: the presumed change by the other sites while this site made its last offer. If the weight
  withholds a part of a change and the rule does not carry this part, the part stays in the value as
  the ghost until offers replace it. When another site's next offer comes, 1 / (M - 1) of the ghost
  is removed; when the sites synchronise, the whole ghost is removed.

The dual rule's coefficients are a sum, so no part of the sum may be lost, and late changes of hot
coordinates overshoot. With this rule a site steps as if all M sites took the same steps
(`dual_ascent`). The site's vector moves by M times its rows' steps, and the site offers 1 / M of
the change. So every step is added whole, and the ghost is the remaining part.

At any time, the change to be offered is value - base. An incoming offer changes value and base by
the same amount. If the workers have done nothing meanwhile, the value equals `base` exactly. Sums
(the means of the duals, SAGA's average, and the coefficients of the dual rule) lose nothing: the
rounding error of an offer stays in value - base.

Writers: a site has one thread that exchanges messages. It writes the site's vector like one more
worker: it takes each segment's word before it writes the segment. On the one vector without locks
(`hogwild_steps`) it adds, as the workers do. Only this thread writes the account. Nothing is freed
in a kernel.
"""

from typing import NamedTuple

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.exchange.copy_exchange import exchange_weight
from hogshare.kernels.jit.atomics import add_float, compare_exchange, store
from hogshare.kernels.jit.decorators import helper, inlined, kernel
from hogshare.kernels.schedule.epoch_criteria import find_criteria, settle_columns


class Account(NamedTuple):
    """A site's account with the other sites: arrays of the flat vector's length and the same dtype.

    base, ghost : see the file's head
    offered : the last offer, as it is sent
    claims : int64, the coordinates that the site claims to be zero; empty if the rule clips no
        coordinates to zero
    """

    base: np.ndarray
    ghost: np.ndarray
    offered: np.ndarray
    claims: np.ndarray


class OfferTerms(NamedTuple):
    """The terms that an offer depends on.

    share : this site's share of all rows
    rows : number of rows that this site's workers have done since the last offer
    decay : strength of the l2 part of the penalty, which contracts a coordinate
    carry : if 1.0, the withheld part of a change is offered later; if 0.0, it is dropped
    whole : if 1, the whole change is offered without a weight, because the coefficients are a sum
    stretch : divisor of a change of the site's coefficients in its offer
    stretch_of_means : divisor of a change of SAGA's average in its offer
    zeros : 1 if exact zeros are claimed
    left : in an offer, the fraction of the ghost that remains; in `take_in`, the fraction that the
        offers of the other sites replace
    haunts : if 1, an offer leaves a new ghost; if 0, it leaves none, because the other sites'
        offers come before any worker goes on
    locks : 1 if segments have words; 0 on the one vector
    atomic : 1 if adds to the one vector are atomic
    me : the value that marks a segment's word as taken by this thread
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
    """Write the offer of one coordinate into the account; return the coordinate's new value."""
    change = value - account.base[at]
    account.offered[at] = weight * change / stretch
    offered = np.float64(account.offered[at])  # rounded to the array's dtype, as it arrives
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
    """Write the offer of a part of one column in which no value changes and no zero is claimed.

    This is the computation of `offer_place` in the vector's own dtype, so it costs no more than its
    reads and writes. This function makes nearly every offer.
    """
    kind = account.base.dtype.type
    base, ghost, offered = account.base, account.ghost, account.offered
    even, uneven, one = kind(terms.share), kind(1.0 - terms.share), kind(1.0)
    slope = kind(0.5 / terms.share * terms.rows * eta)
    offset, carry = one + slope * kind(terms.decay), kind(terms.carry)
    share, stretch = kind(1.0 / terms.stretch), kind(terms.stretch)
    if terms.whole != 0:
        for j in range(first, last):
            value = kind(w[j])  # loaded once: without locks a second load may differ
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
        part = (even + uneven / (slope * kind(curvature[j]) + offset)) * share * change
        carried = carry * (change - stretch * part)
        offered[j] = part
        ghost[j] = change - part - carried
        base[j] = value - carried


@inlined
def take_place_in(account, coming, at, value, left):
    """Add to a coordinate's base the offers that have come; return the coordinate's new value.

    coming : the sum of the offers that have come, coordinate by coordinate
    left : the fraction of the ghost that the offers replace
    """
    change = np.float64(coming[at]) - left * account.ghost[at]
    own = value - account.base[at]
    account.base[at] += change
    return account.base[at] + own


@helper
def take_segment(segments, word, terms):
    """Wait for a segment's word and take it (acquiring), if segments have words."""
    while terms.locks != 0 and compare_exchange(segments, word, 0, terms.me) != 0:
        pass


@helper
def release_segment(segments, word, terms):
    """Give a segment's word back (releasing), if segments have words."""
    if terms.locks != 0:
        store(segments, word, 0)


@helper
def put(array, j, value, now, terms, is_sum):
    """Change a coordinate from `value` to `now`.

    On the one vector the change is added, because other workers write the coordinate meanwhile.

    is_sum : whether no part may be lost, even if workers add to the vector without atomics
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
    """Offer intercepts and means of duals; the caller has taken the first segment's word."""
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
    """Write this site's offer into ``account.offered``, and its claims into ``account.claims``.

    Return the number of the offer's nonzero values and the number of its claims. The base and the
    ghost are updated, and values of the vector may change.

    etas : float64[n_columns], last step sizes
    """
    w = vector.w
    n_columns = vector.intercept.shape[0]
    m, n_features = w.shape[0], vector.curvature.shape[0]
    n_segments = vector.segments.shape[0] // layout.WORD
    size = (n_features + n_segments - 1) // n_segments
    half, even = 0.5 / terms.share * terms.rows, terms.share
    is_still = terms.haunts != 0 and terms.left == 0.0  # no value changes
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
                    account.offered[j] = 0.0  # `claimed` sets the base to 0
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
    """Write the bases of the coordinates in `claims` into `values`, and set these bases to 0."""
    for k in range(claims.shape[0]):
        j = claims[k]
        values[k] = account.base[j]
        account.base[j] = 0.0


@kernel
def places_of(offered, places, values):
    """Write the places and the values of an offer's nonzero coordinates into the two arrays."""
    k = 0
    for at in range(offered.shape[0]):
        if offered[at] != 0.0:
            places[k] = at
            values[k] = offered[at]
            k += 1


@kernel
def add_places(coming, places, values):
    """Add an offer of some coordinates to the sum of the offers that have come."""
    for k in range(places.shape[0]):
        coming[places[k]] += values[k]


@kernel
def add_claims(account, coming, claims, values, share, left):
    """Add another site's claims to the sum of the offers that have come.

    A claim says that l1 has clipped a coordinate to exactly zero at the other site. If the
    coordinate at this site is at most as large in absolute value as it was at the other site, it
    becomes zero at this site: the penalty clips any smaller value. A larger coordinate changes by
    the claim times the other site's share. Call this after the same message's values have been
    added to `coming`, and before `take_in`. It writes `coming`, the exchanging thread's own array
    or message buffer, and `account.ghost`.

    values : float64, the claimed coordinates' former values at the other site
    share : the other site's share of all rows
    left : the remaining fraction of the ghost; the ghost is not an offer of any site
    """
    for k in range(claims.shape[0]):
        j = claims[k]
        now = account.base[j] - left * account.ghost[j] + coming[j]
        if abs(now) <= abs(values[k]):
            coming[j] = -account.base[j]  # the sum is then exactly zero
            account.ghost[j] = 0.0
        else:
            coming[j] -= share * values[k]


@inlined
def take_part_in(w, account, coming, left, first, last):
    """Do the work of `take_place_in` for a range of coordinates, and write the new values into `w`.

    The caller must have taken the segment's word. The loop computes in the vector's own dtype.
    """
    kind = account.base.dtype.type
    base, ghost, part = account.base, account.ghost, kind(left)
    for j in range(first, last):
        own = kind(w[j]) - base[j]
        now = base[j] + (coming[j] - part * ghost[j])
        base[j] = now
        w[j] = w.dtype.type(now + own)


@kernel
def take_in(vector, memory, account, coming, terms):
    """Add the offers that have come to the vector; remove ``terms.left`` of the ghost."""
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
    """Set the step sizes after an epoch of all machines; return True if no column learns any more.

    sums : float64[3 * n_columns], sums of all machines
    scratch : float64[2, n_columns]; the first row is overwritten with the criterion, the second row
        contains the scores on held-out rows, if any
    """
    criterion, score = scratch[0], scratch[1]
    find_criteria(rule, sums, w, divisors, n_rows, criterion)
    return settle_columns(rule, plan, columns, sums, criterion, score, epoch)
