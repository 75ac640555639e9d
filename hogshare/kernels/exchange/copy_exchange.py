"""Exchange of a worker's private copy with the shared vector: each is folded into the other.

Writers: each worker writes its own private arrays; the worker that has taken a segment's word
writes that segment of the shared vector. Readers: the same workers. Order: the word is taken with
an acquiring compare-exchange and given back with a releasing store, so no worker reads a
half-written segment. A worker need not wait: it may leave a taken segment for the next exchange.
Nothing is lost then, because the segment's change stays in the private copy (copy minus base), and
the number of its rows stays in `pending`. The monitor frees the words of a dead worker; only the
changes that the dead worker had not folded are lost.

The weight. Near the optimum a coordinate of curvature h contracts by about ``rho = 1 / (1 + z)``
between two exchanges. In this formula ``z = eta h B``, eta is the step size, and B is the number of
rows between two exchanges. P workers that start from the same distance e each propose the change
``-(1 - rho) e``. One worker with P B rows would make the change ``-(1 - rho^P) e``. So the sum of
the proposals has to be multiplied by

    c(z) = (1 - rho^P) / (P (1 - rho)),

For cold coordinates (z near 0) c is 1: workers' changes are added. For hot coordinates (z large) c
is 1 / P: changes are averaged. For P = 2, c is exactly (1 + rho) / 2. For more workers the code
uses ``1/P + (1 - 1/P) / (1 + P z / 2)``. This form has the same limits and the same slope at z = 0,
and needs no powers. `docs/tried/2026-11/exchange.md` describes other forms that were tried.

The stretch. A weight below one corrects a change after it was computed, because the other workers
have taken similar steps. The rules that remember rows can do better. A worker writes each of its
steps P times as long into its copy, so the copy moves as if the others took the same steps. The
worker then folds 1 / P of the change. Every step is added whole, none twice, and nothing waits (the
local problem of CoCoA+, Ma et al. 2015, with gamma = 1 and sigma' = P). This is sound as long as
the longer step does not carry a row's prediction beyond the row's own optimum. So the stretch has a
limit (`rules.pace.stretch_limit`), and the weight above is applied with P / stretch in place of P.

The carried part. The dual rule's vector must remain the sum of the rows' dual variables. So with
this rule the part that the weight withholds stays in the copy, on top of the shared vector, and is
offered again at the next exchange (`carry`). The shared vector plus all copies' changes is always
the whole sum, and a worker's last flush folds all of its change.

SAGA's average must remain the mean of its table, so its changes are added whole. SAGA's vector has
no such constraint. If carrying is stable (`rules.pace.carries`), the withheld part is carried as
with the dual rule; if not, it is dropped. If all features are hot, dropping would lose useful
progress, because the weights come from an upper bound of the curvature. SAGA drops the carried part
in the last flush: otherwise all workers would fold at once the parts that were meant for successive
exchanges.

If SAGA's vector is carried, the intercept is carried, because its steps are short and every epoch
needs all of them. The dual rule's intercept is not carried: with carrying, the intercept diverged
on rows of one direction with 8 workers.
"""

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.jit.atomics import compare_exchange, fetch_add, load, prefetch_to_write, store
from hogshare.kernels.jit.decorators import helper, inlined
from hogshare.kernels.rules.sgd_steps import fold_scale

# How an exchange treats taken segments. NumPy integers, because Numba compiles a large helper anew
# for each Python constant.
TRY = np.int64(0)
WAIT = np.int64(1)
ALL = np.int64(2)
PART = np.uint64(256)  # number of coordinates that are folded while the next PART is fetched


@inlined
def exchange_weight(z, n_workers):
    """Return the share of a coordinate's change that is folded; see the file's head."""
    even = 1.0 / n_workers
    return even + (1.0 - even) / (1.0 + 0.5 * n_workers * z)


@inlined
def fetch_next(shared, begin, end):
    """Prefetch the cache lines after the part that begins at `begin`; return the end of that part.

    Another core wrote these lines last. A line that is read and then written costs two requests to
    that core. If the line is requested for writing, one request is enough, and the line arrives
    before its coordinates are folded. Each loop over coordinates is within its own loop over parts:
    a single loop over parts around the whole fold prevented vectorisation.
    """
    stop = min(begin + PART, end)
    following = stop
    while following < min(stop + PART, end):
        prefetch_to_write(shared, following)
        following += np.uint64(64 // shared.itemsize)
    return stop


@inlined
def fold_segment(
    shared, private, curvature, first, last, n_workers, rows, decay, carry, stretch, after_stretch
):
    """Exchange features ``first:last`` of every column; the caller has taken the segment's word.

    `shared`, and `w` and `base` of `private`, are written.

    n_workers : number of proposals from the same point, including this push, divided by the stretch
    rows : number of rows since the segment's last fold, times the stretch
    carry : if 1.0, the unfolded part stays in the copy and is folded later; if 0.0, it is dropped
    stretch : stretch of the copy's change
    after_stretch : stretch of the carried part
    """
    local = private.local
    w = private.w
    base = private.base
    n_columns = np.uint64(local.shape[1])
    kind = w.dtype.type
    even = kind(1.0 / n_workers)
    uneven = kind(1.0 - 1.0 / n_workers)
    one = kind(1.0)
    zero = kind(0.0)
    shrink = kind(decay)
    half = kind(0.5 * n_workers * rows)
    carried = kind(carry * after_stretch / stretch)
    share = kind(1.0 / stretch)
    if n_workers == 1.0 and (carry > 0.0 or stretch > 1.0):
        # the whole change is folded; the rules that remember rows have no scale, and no exact zeros
        begin, end = np.uint64(first) * n_columns, np.uint64(last) * n_columns
        while begin < end:
            stop = fetch_next(shared, begin, end)
            for j in range(begin, stop):
                after = shared[j] + share * (w[j] - base[j])
                shared[j] = after
                w[j] = after
                base[j] = after
            begin = stop
        return
    if n_columns == 1:
        # the loop below, up to rounding, with the column's factors in registers: it is vectorised
        scale = kind(local[layout.L_SCALE, 0])
        slope = half * kind(local[layout.L_ETA, 0])
        offset = one + slope * shrink
        begin, end = np.uint64(first), np.uint64(last)
        while begin < end:
            stop = fetch_next(shared, begin, end)
            for j in range(begin, stop):
                before = shared[j]
                mine = scale * w[j]
                change = mine - base[j]
                folded = (even + uneven / (slope * kind(curvature[j]) + offset)) * change
                after = before + share * folded
                if mine == zero and carried == zero and abs(before) <= abs(base[j]):
                    after = zero
                shared[j] = after
                w[j] = after + carried * (change - folded)
                base[j] = after
            begin = stop
        return
    for f in range(np.uint64(first), np.uint64(last)):
        curved = half * (kind(curvature[f]) + shrink)
        for c in range(n_columns):
            j = f * n_columns + c
            # curved * eta is z * n_workers / 2
            weight = even + uneven / (one + curved * kind(local[layout.L_ETA, c]))
            before = shared[j]
            mine = kind(local[layout.L_SCALE, c]) * w[j]
            change = mine - base[j]
            after = before + share * (weight * change)
            if mine == zero and carried == zero and abs(before) <= abs(base[j]):
                # zeros of l1 stay exact: the penalty that clipped the base clips anything smaller
                after = zero
            shared[j] = after
            w[j] = after + carried * (change - weight * change)
            base[j] = after


@helper
def fold_intercept(shared_intercept, dual_mean, private, curvature, n_workers, rows, carry):
    """Exchange intercepts and means of duals; the caller has taken the first segment's word.

    The shared values, the copy's values and the copy's bases are written.

    carry : see `fold_segment`
    """
    local = private.local
    for c in range(local.shape[1]):
        z = local[layout.L_ETA, c] * rows * curvature
        change = local[layout.L_INTERCEPT, c] - local[layout.L_INTERCEPT_BASE, c]
        folded = exchange_weight(z, n_workers) * change
        after = shared_intercept[c] + folded
        shared_intercept[c] = after
        local[layout.L_INTERCEPT, c] = after + carry * (change - folded)
        local[layout.L_INTERCEPT_BASE, c] = after
        after = dual_mean[c] + local[layout.L_DUAL_MEAN, c] - local[layout.L_DUAL_MEAN_BASE, c]
        dual_mean[c] = after
        local[layout.L_DUAL_MEAN, c] = after
        local[layout.L_DUAL_MEAN_BASE, c] = after


@inlined
def fold_average(shared, private, first, last):
    """Exchange SAGA's average of features ``first:last``; its changes are added without weights."""
    n_columns = private.local.shape[1]
    average = private.average
    base = private.average_base
    begin, end = np.uint64(first * n_columns), np.uint64(last * n_columns)
    while begin < end:
        stop = fetch_next(shared, begin, end)
        for j in range(begin, stop):
            after = shared[j] + (average[j] - base[j])
            shared[j] = after
            average[j] = after
            base[j] = after
        begin = stop


@inlined
def proposals(schedule, me):
    """Count the proposals that start from about the same point as this push, including this push.

    Usually this is the number of live workers. If a worker was preempted for long, its change
    starts from an old point, and `behind` pushes by other workers have followed. Then the count is
    at least 1 + `behind`. If no other worker has pushed between this worker's last two pulls, the
    other workers do not run, and the count is 1.
    """
    table = schedule.table
    behind = load(schedule.control, layout.VERSION) - table[me, layout.T_VERSION]
    if behind == 0 and table[me, layout.T_STALENESS] == 0:
        return 1
    return max(1 + behind, load(schedule.control, layout.LIVE))


@helper
def leave_segment(private, first, last, ratio):
    """Leave the changes of features ``first:last`` in the copy for the next exchange.

    The scale is multiplied into the copy's values.

    ratio : the next stretch divided by the present stretch
    """
    n_columns = private.local.shape[1]
    kind = private.w.dtype.type
    for c in range(n_columns):
        scale = kind(private.local[layout.L_SCALE, c])
        for f in range(first, last):
            private.w[f * n_columns + c] *= scale
    if ratio != 1.0:
        for j in range(first * n_columns, last * n_columns):
            private.w[j] = private.base[j] + kind(ratio) * (private.w[j] - private.base[j])


@inlined
def stretch_of(live, n_workers, limit):
    """Return the stretch of steps: the number of live workers, at most `limit`, at least 1."""
    return max(1.0, min(limit, min(np.float64(n_workers), np.float64(live))))


@helper
def fold_copy(schedule, vector, memory, private, me, decay, carry, limit, how, proposals_now, live):
    """Fold the worker's copy into the shared vector and the shared vector into the copy.

    carry : see `fold_segment`; the dual rule's last flush folds the carried part whole
    limit : the largest stretch of steps until the next exchange
    how : what to do if another worker has taken a segment. TRY: leave the segment for the next
        exchange. WAIT: wait for the segment. ALL, for a worker's last flush: wait for the segment,
        and leave no part of a sum in the copy.
    proposals_now : number of proposals from the same point, including this push
    live : number of workers in the run
    """
    local = private.local
    n_columns = local.shape[1]
    n_features = vector.curvature.shape[0]
    n_segments = vector.segments.shape[0] // layout.WORD
    stretch = local[layout.L_STRETCH, 0]
    n_workers = np.float64(proposals_now)
    after_stretch = stretch_of(live, n_workers, limit)
    if how == ALL and carry > 0.0 and private.average.shape[0] == 0:
        n_workers = 1.0  # the dual rule: its vector is a sum, so the last flush withholds nothing
    unstretched = max(1.0, n_workers / stretch)
    if private.lag.shape[0] > 0:
        fold_scale(private, 0, n_columns)
    size = (n_features + n_segments - 1) // n_segments
    offset = (me * n_segments) // max(1, schedule.table.shape[0])
    # each worker begins at another segment, so workers seldom want the same word
    for s in range(n_segments):
        segment = (offset + s) % n_segments
        first = segment * size
        last = min(n_features, first + size)
        word = segment * layout.WORD
        private.pending[segment] += schedule.table[me, layout.T_UNEXCHANGED]
        free = compare_exchange(vector.segments, word, 0, me + 1) == 0
        while how != TRY and not free:
            free = compare_exchange(vector.segments, word, 0, me + 1) == 0
        if free:
            # all rows since this segment was folded last, skipped exchanges included
            rows = np.float64(private.pending[segment])
            private.pending[segment] = 0
            fold_segment(
                vector.w,
                private,
                vector.curvature,
                first,
                last,
                unstretched,
                stretch * rows,
                decay,
                carry,
                stretch,
                after_stretch,
            )
            if private.average.shape[0] > 0:
                fold_average(memory.average, private, first, last)
            if segment == 0:
                fold_intercept(
                    vector.intercept,
                    memory.dual_mean,
                    private,
                    vector.intercept_curvature[0],
                    n_workers,
                    rows,
                    carry if private.average.shape[0] > 0 else 0.0,
                )
            store(vector.segments, word, 0)
        else:
            leave_segment(private, first, last, after_stretch / stretch)
    for c in range(n_columns):
        local[layout.L_SCALE, c] = 1.0
    local[layout.L_STRETCH, 0] = after_stretch
    schedule.table[me, layout.T_UNEXCHANGED] = 0


@inlined
def take_in(shared, private, base, first, last):
    """Add the other workers' changes since the last exchange to the copy of ``first:last``."""
    for j in range(np.uint64(first), np.uint64(last)):
        now = shared[j]
        private[j] = now + (private[j] - base[j])  # exactly `now` where nothing was carried
        base[j] = now


@helper
def pull(schedule, vector, memory, private, me):
    """Add the other workers' pushes since this worker's last exchange to its copy; push nothing.

    After a wait at a barrier this brings the awaited pushes into the copy.
    """
    # before the segments: the next pull counts the pushes that come while segments are read
    version = load(schedule.control, layout.VERSION)
    brought = load(schedule.control, layout.BROUGHT)
    state = schedule.table[me]
    if version == state[layout.T_VERSION] and brought == state[layout.T_BROUGHT]:
        return
    local = private.local
    n_columns = local.shape[1]
    n_features = vector.curvature.shape[0]
    n_segments = vector.segments.shape[0] // layout.WORD
    size = (n_features + n_segments - 1) // n_segments
    for segment in range(n_segments):
        first = segment * size * n_columns
        last = min(n_features, segment * size + size) * n_columns
        word = segment * layout.WORD
        while compare_exchange(vector.segments, word, 0, me + 1) != 0:
            pass
        take_in(vector.w, private.w, private.base, first, last)
        if private.average.shape[0] > 0:
            take_in(memory.average, private.average, private.average_base, first, last)
        if segment == 0:
            intercept, dual_mean = local[layout.L_INTERCEPT], local[layout.L_DUAL_MEAN]
            take_in(vector.intercept, intercept, local[layout.L_INTERCEPT_BASE], 0, n_columns)
            take_in(memory.dual_mean, dual_mean, local[layout.L_DUAL_MEAN_BASE], 0, n_columns)
        store(vector.segments, word, 0)
    state[layout.T_VERSION], state[layout.T_BROUGHT] = version, brought


@helper
def exchange(schedule, vector, memory, private, me, decay, carry, limit, how):
    """Call `fold_copy` with the present numbers of proposals and of live workers."""
    live, one_of = load(schedule.control, layout.LIVE), proposals(schedule, me)
    fold_copy(schedule, vector, memory, private, me, decay, carry, limit, how, one_of, live)


@inlined
def decay_of(rule):
    """Return the strength of the l2 part of the penalty, which contracts a coordinate."""
    return (1.0 - rule.l1_ratio) * rule.alpha if rule.penalty != 0 else 0.0


@helper
def push_private(rule, schedule, vector, memory, private, me, how):
    """Do one exchange, and count it."""
    exchange(schedule, vector, memory, private, me, decay_of(rule), rule.carry, rule.stretch, how)
    record_push(schedule, me)


@helper
def push_in_order(rule, schedule, vector, memory, private, me, how, n_workers):
    """Do one exchange of an ordered run, and count it.

    All workers of an ordered run start from about the same point, so the number of proposals is
    `n_workers`.
    """
    of_rule = decay_of(rule), rule.carry, rule.stretch
    fold_copy(schedule, vector, memory, private, me, *of_rule, how, n_workers, n_workers)
    record_push(schedule, me)


@helper
def record_push(schedule, me):
    """Count one push, and record its staleness: the number of other workers' pushes since its pull.

    The staleness is written into the histogram and into the worker's row of the progress table.
    """
    table = schedule.table
    version = fetch_add(schedule.control, layout.VERSION, 1)
    staleness = version - table[me, layout.T_VERSION]
    schedule.staleness[me, min(staleness, layout.HISTOGRAM - 1)] += 1
    table[me, layout.T_STALENESS] = staleness
    table[me, layout.T_PUSHES] += 1
    table[me, layout.T_VERSION] = version + 1


@helper
def adopt_shared(schedule, vector, memory, private, me, live, limit):
    """Copy the shared vector into the worker's copy at its first pull.

    Other workers may write meanwhile, so the segments of the copy may differ by a few pushes.

    live, limit : see `fold_copy`; they give the stretch of steps until the first exchange
    """
    local = private.local
    for j in range(private.w.shape[0]):
        value = vector.w[j]
        private.w[j] = value
        private.base[j] = value
    for j in range(private.average.shape[0]):
        private.average[j] = memory.average[j]
        private.average_base[j] = memory.average[j]
    for c in range(local.shape[1]):
        local[layout.L_SCALE, c] = 1.0
        local[layout.L_INTERCEPT, c] = vector.intercept[c]
        local[layout.L_INTERCEPT_BASE, c] = vector.intercept[c]
        local[layout.L_DUAL_MEAN, c] = memory.dual_mean[c]
        local[layout.L_DUAL_MEAN_BASE, c] = memory.dual_mean[c]
    local[layout.L_STRETCH, 0] = stretch_of(live, live, limit)
    schedule.table[me, layout.T_VERSION] = load(schedule.control, layout.VERSION)
    schedule.table[me, layout.T_STALENESS] = schedule.table.shape[0] - 1  # expected, until measured
    schedule.table[me, layout.T_UNEXCHANGED] = 0
