"""Slow, plain NumPy twins of the kernels: what each computes, without how it is made fast.

Everything is float64 and dense. Where the kernels carry a scale factor, a lag or a running penalty,
the twins keep the model itself, so that an error in such a trick shows.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_softmax

from hogshare.kernels import layout
from hogshare.kernels.rules import coordinate_steps, losses, penalties, step_schedules

LOSS_NAMES = {code: name for name, code in losses.CODES.items()}
KINKED = ("hinge", "perceptron", "epsilon_insensitive")
SCHEDULE_NAMES = {code: name for name, code in step_schedules.CODES.items()}


def loss_value(loss, epsilon, y, p):
    r = p - y
    return {
        "log_loss": lambda: np.logaddexp(0.0, p) - y * p,
        "multinomial": lambda: -y * p,
        "hinge": lambda: max(0.0, 1.0 - p * y),
        "perceptron": lambda: max(0.0, -p * y),
        "squared_hinge": lambda: max(0.0, 1.0 - p * y) ** 2,
        "modified_huber": lambda: -4.0 * p * y if p * y < -1.0 else max(0.0, 1.0 - p * y) ** 2,
        "squared_error": lambda: 0.5 * r * r,
        "huber": lambda: 0.5 * r * r if abs(r) <= epsilon else epsilon * (abs(r) - 0.5 * epsilon),
        "epsilon_insensitive": lambda: max(0.0, abs(r) - epsilon),
        "squared_epsilon_insensitive": lambda: max(0.0, abs(r) - epsilon) ** 2,
    }[loss]()


def loss_derivative(loss, epsilon, y, p):
    """In the prediction; at a kink the side that scikit-learn takes."""
    r, z = p - y, p * y
    excess = np.sign(r) * max(0.0, abs(r) - epsilon)
    return {
        "log_loss": lambda: (1.0 - y) * expit(p) - y * expit(-p),
        "multinomial": lambda: np.exp(p) - y,
        "hinge": lambda: -y if z <= 1.0 else 0.0,
        "perceptron": lambda: -y if z <= 0.0 else 0.0,
        "squared_hinge": lambda: -2.0 * y * max(0.0, 1.0 - z),
        "modified_huber": lambda: -4.0 * y if z < -1.0 else -2.0 * y * max(0.0, 1.0 - z),
        "squared_error": lambda: r,
        "huber": lambda: np.clip(r, -epsilon, epsilon),
        "epsilon_insensitive": lambda: np.sign(excess),
        "squared_epsilon_insensitive": lambda: 2.0 * excess,
    }[loss]()


def predictions(loss, margins):
    """What value and derivative are functions of; the last axis is the columns."""
    return log_softmax(margins, axis=-1) if loss == "multinomial" else margins


def step_size(kind, eta0, power_t, alpha, optimal_init, t):
    if kind == "optimal":
        return 1.0 / (alpha * (optimal_init + t - 1.0))
    if kind == "invscaling":
        return eta0 / t**power_t
    return eta0


def passive_step(kind, loss, epsilon, y, p, eta0, squares):
    """Multiple of the row in a passive-aggressive step (Crammer et al. 2006, their C is eta0)."""
    size = loss_value(loss, epsilon, y, p)
    if kind == "pa1":
        size = min(eta0, size / squares) if squares > 0.0 else 0.0
    else:
        size = size / (squares + 0.5 / eta0)
    return size * y if loss == "hinge" else size * (-1.0 if y < p else 1.0)


def clip_l1(v, received, due):
    """Tsuruoka's cumulative penalty on one weight; the weight and what it has received now."""
    if v > 0.0:
        after = max(0.0, v - (due + received))
    elif v < 0.0:
        after = min(0.0, v + (due - received))
    else:
        after = v
    return after, received + after - v


def xorshift(state):
    state ^= (state << 13) & 0xFFFFFFFF
    state ^= state >> 17
    return state ^ ((state << 5) & 0xFFFFFFFF)


def shuffle(permutation, seed):
    """Scikit-learn's shuffle, on a list, in place."""
    state, n = seed or 1, len(permutation)
    for i in range(n - 1):
        state = xorshift(state)
        j = i + (state % 2**31) % (n - i)
        permutation[i], permutation[j] = permutation[j], permutation[i]
    return permutation


def shuffle_windows(n, held_out, window, abreast, interleaved, seed, epoch):
    """Rows in random windows of neighbours: at random within each, or several in turn, of which
    each may begin a row later than the one before.
    """
    state = (seed + epoch * 2654435769) % 2**32 or 1
    for _ in range(16):
        state = xorshift(state)
    offset = int(state / 2**32 * n)

    def part(numbers):
        nonlocal state
        for i in range(len(numbers) - 1):
            state = xorshift(state)
            j = i + (state % 2**31) % (len(numbers) - i)
            numbers[i], numbers[j] = numbers[j], numbers[i]
        return numbers

    windows, order = part(list(range(-(-n // window)))), []
    for i in range(0, len(windows), abreast):
        sides = [
            [w * window + (place + (i + k) * interleaved) % window for place in range(window)]
            for k, w in enumerate(windows[i : i + abreast])
        ]
        turns = [r for turn in zip(*sides, strict=True) for r in turn if r < n]
        rows = [(r + offset) % n for r in turns]
        rows = [r for r in rows if not (len(held_out) and held_out[r])]
        order += part(rows) if abreast == 1 else rows
    return order


def draw_rows(chances, n, replace, seed, epoch):
    """Throw `n` points on a line where every row is as long as its chance; then shuffle."""
    state = (seed + epoch * 2654435769) % 2**32 or 1
    for _ in range(16):
        state = xorshift(state)
    if replace:
        gaps, first = [], state
        for _ in range(n + 1):
            state = xorshift(state)
            gaps.append(-np.log(state / 2**32))
        points, state = np.cumsum(gaps[:n]) / np.sum(gaps) * n, first
        for _ in range(n):  # the last gap's draw is used again
            state = xorshift(state)
    else:
        points = np.arange(n) + state / 2**32
    rows = np.searchsorted(np.cumsum(chances), points, side="right").tolist()
    for i in range(n - 1):
        state = xorshift(state)
        j = i + (state % 2**31) % (n - i)
        rows[i], rows[j] = rows[j], rows[i]
    return rows


def training_rows(permutation, held_out):
    return [r for r in permutation if not (len(held_out) and held_out[r])]


def targets(y, loss, n_columns):
    """One column of targets per class; `y` itself where there is one column."""
    if n_columns == 1:
        return np.asarray(y, float)[:, None]
    other = 0.0 if loss in ("log_loss", "multinomial") else -1.0
    return np.where(np.asarray(y)[:, None] == np.arange(n_columns), 1.0, other)


@dataclass
class State:
    """A model and what its optimiser remembers; arrays have one entry per column (last axis)."""

    coef: np.ndarray
    intercept: np.ndarray
    received: np.ndarray
    due: np.ndarray
    squares: np.ndarray
    absolutes: np.ndarray
    total: np.ndarray
    total_intercept: np.ndarray
    count: np.ndarray
    reach: np.ndarray
    losses: np.ndarray
    criteria: np.ndarray
    eta: np.ndarray

    @classmethod
    def zeros(cls, n_features, n_columns):
        matrix, line = np.zeros((n_features, n_columns)), np.zeros(n_columns)
        long = ("coef", "received", "total")
        return cls(**{f: (matrix if f in long else line).copy() for f in cls.__annotations__})

    def clear_sums(self):
        self.losses[:] = self.criteria[:] = 0.0


@dataclass
class Columns:
    """What the stop criterion keeps per column."""

    active: np.ndarray
    eta: np.ndarray
    best: np.ndarray
    bad: np.ndarray
    epochs: np.ndarray
    positive: np.ndarray
    negative: np.ndarray

    @classmethod
    def start(cls, n_columns, eta0, positive=1.0, negative=1.0):
        values = (1.0, eta0, np.inf, 0.0, 0.0, positive, negative)
        return cls(*(np.full(n_columns, v, float) for v in values))


def update_size(rule, columns, c, eta, y, p, squares):
    """Multiple of the row by which column `c` moves, before the row's weight."""
    loss, kind = LOSS_NAMES[rule.loss], SCHEDULE_NAMES[rule.schedule]
    if kind in ("pa1", "pa2"):
        size = passive_step(kind, loss, rule.epsilon, y, p, rule.eta0, squares)
    else:
        size = -eta * np.clip(loss_derivative(loss, rule.epsilon, y, p), -1e12, 1e12)
    return size * (columns.positive[c] if y > 0.0 else columns.negative[c])


def eta_of(rule, columns, c, t):
    kind = SCHEDULE_NAMES[rule.schedule]
    if kind == "adaptive":
        return columns.eta[c]
    return step_size(kind, rule.eta0, rule.power_t, rule.alpha, rule.optimal_init, t)


def stored(x, dense):
    """Features that a row stores: all of them where rows are dense."""
    return np.arange(len(x)) if dense else np.flatnonzero(x)


def sgd_rows(X, Y, weight, rule, order, t, state, columns, dense=False):
    """Scikit-learn's SGD, row by row and column by column; adds to the state's sums of losses."""
    l1 = rule.penalty in (penalties.L1, penalties.ELASTICNET)
    passive = rule.schedule in (step_schedules.PA1, step_schedules.PA2)
    loss = LOSS_NAMES[rule.loss]
    for r in order:
        x, squares = X[r], float(X[r] @ X[r])
        support = stored(x, dense)
        row = predictions(loss, x @ state.coef + state.intercept)
        for c in np.flatnonzero(columns.active):
            v = state.coef[:, c]
            eta = state.eta[c] = eta_of(rule, columns, c, t)
            y, p = Y[r, c], row[c]
            value = loss_value(loss, rule.epsilon, y, p)
            state.losses[c] += value
            penalty = (1.0 - rule.l1_ratio) * 0.5 * state.squares[c]
            penalty += rule.l1_ratio * state.absolutes[c]
            penalised = rule.penalty != penalties.NONE and not passive
            state.criteria[c] += value + (rule.alpha * penalty if penalised else 0.0)
            if rule.schedule == step_schedules.PA1 and squares == 0.0:
                continue
            size = update_size(rule, columns, c, eta, y, p, squares) * weight[r]
            if rule.penalty >= penalties.L2:
                shrink = max(0.0, 1.0 - (1.0 - rule.l1_ratio) * eta * rule.alpha)
                v *= shrink
                state.reach[c] = state.reach[c] / shrink if shrink > 0.0 else 0.0
                state.squares[c] *= shrink**2
                state.absolutes[c] *= shrink
            v += size * x
            if size != 0.0:
                # scikit-learn's estimate of the norms looks at this row's features only
                state.squares[c] = np.square(v[support]).sum()
                state.absolutes[c] = np.abs(v[support]).sum()
            if rule.fit_intercept:
                state.intercept[c] += size * rule.intercept_decay
            if 0 < rule.average <= t:
                state.total[:, c] += v
                state.total_intercept[c] += state.intercept[c]
                state.count[c] += 1.0
                state.reach[c] += 1.0
            if l1:
                state.due[c] += rule.l1_ratio * eta * rule.alpha
                for j in support:
                    before = v[j]
                    v[j], state.received[j, c] = clip_l1(v[j], state.received[j, c], state.due[c])
                    # as in scikit-learn, the sum of iterates moves along with a clipped weight
                    state.total[j, c] += state.reach[c] * (v[j] - before)
        t += 1.0


def batch_sizes(X, Y, weight, rule, batch, t, state, columns):
    """Multiples of the rows by which the columns move, from one read; and the last step sizes."""
    sizes = np.zeros((len(batch), Y.shape[1]))
    etas = np.zeros(Y.shape[1])
    for b, r in enumerate(batch):
        row = predictions(LOSS_NAMES[rule.loss], X[r] @ state.coef + state.intercept)
        for c in range(Y.shape[1]):
            etas[c] = eta_of(rule, columns, c, t + b)
            y, p = Y[r, c], row[c]
            value = loss_value(LOSS_NAMES[rule.loss], rule.epsilon, y, p)
            state.losses[c] += value
            state.criteria[c] += value
            size = update_size(rule, columns, c, etas[c], y, p, float(X[r] @ X[r]))
            sizes[b, c] = size * weight[r] * columns.active[c]
    return sizes, etas


def hogwild_rows(X, Y, weight, rule, order, t, state, columns, rarity, dense=False):
    """Read, compute `batch` steps, then write them; penalties on a row's support, by rarity."""
    order = list(order)
    l2 = 1.0 - rule.l1_ratio if rule.penalty >= penalties.L2 else 0.0
    for first in range(0, len(order), rule.batch):
        batch = order[first : first + rule.batch]
        sizes, etas = batch_sizes(X, Y, weight, rule, batch, t, state, columns)
        for b, r in enumerate(batch):
            for c in np.flatnonzero(columns.active):
                for j in stored(X[r], dense):
                    strength = etas[c] * rule.alpha * rarity[j]
                    v = state.coef[j, c]
                    v = v - min(1.0, l2 * strength) * v + X[r, j] * sizes[b, c]
                    if rule.penalty in (penalties.L1, penalties.ELASTICNET):
                        v = np.sign(v) * max(0.0, abs(v) - rule.l1_ratio * strength)
                    state.coef[j, c] = v
                if rule.fit_intercept:
                    state.intercept[c] += sizes[b, c] * rule.intercept_decay
                if 0 < rule.average <= t:
                    state.total[:, c] += state.coef[:, c]
                    state.total_intercept[c] += state.intercept[c]
                    state.count[c] += 1.0
            t += 1.0


def block_stream(seed, epoch, block):
    """Where a block's stream begins."""
    state = (seed + epoch * 2654435769) % 2**32 or 1
    state ^= block * 668265263 % 2**32
    for _ in range(2):
        state = (state ^ (state >> 16)) * 73244475 % 2**32
    return (state ^ (state >> 16)) or 1


def coordinate_places(X, rule, batch, n_columns, dense=False):
    """What is drawn from: (feature, column) in the kernel's order; the intercept is feature -1."""
    features = list(range(X.shape[1]))
    if rule.coordinate != coordinate_steps.UNIFORM and not dense:
        features = list(dict.fromkeys(j for r in batch for j in np.flatnonzero(X[r])))
    if rule.fit_intercept:
        features.append(-1)
    return [(j, c) for j in features for c in range(n_columns)]


def coordinate_change(X, rule, batch, sizes, eta, place, n_places, coef, rarity, dense=False):
    """By how much the coefficient or intercept at a place moves, where it is what is drawn."""
    j, c = place
    times = n_places if rule.coordinate == coordinate_steps.UNBIASED else 1
    if j < 0:
        return times * sizes[:, c].sum() * rule.intercept_decay
    change = times * float(X[batch, j] @ sizes[:, c])
    if rule.penalty == penalties.NONE:
        return change
    bearing = len(batch)
    if rule.coordinate != coordinate_steps.UNIFORM:
        bearing = rarity[j] * sum(j in stored(X[r], dense) for r in batch)
    strength = times * eta * rule.alpha * bearing
    v = coef[j, c]
    after = v + change
    if rule.penalty >= penalties.L2:
        after -= min(1.0, (1.0 - rule.l1_ratio) * strength) * v
    if rule.penalty in (penalties.L1, penalties.ELASTICNET):
        after = np.sign(after) * max(0.0, abs(after) - rule.l1_ratio * strength)
    return after - v


def coordinate_rows(X, Y, weight, rule, order, t, state, columns, rarity, seed, epoch, dense=False):
    """Read, compute `batch` steps, then write one coordinate; a batch is a block."""
    order = list(order)
    for block, first in enumerate(range(0, len(order), rule.batch)):
        batch = order[first : first + rule.batch]
        sizes, etas = batch_sizes(X, Y, weight, rule, batch, t, state, columns)
        places = coordinate_places(X, rule, batch, Y.shape[1], dense)
        draw = xorshift(block_stream(seed, epoch, block)) / 2**32
        if places:
            j, c = place = places[int(draw * len(places))]
            if columns.active[c]:
                change = coordinate_change(
                    X, rule, batch, sizes, etas[c], place, len(places), state.coef, rarity, dense
                )
                if j < 0:
                    state.intercept[c] += change
                else:
                    state.coef[j, c] += change
        for _ in batch:
            for c in np.flatnonzero(columns.active):
                if 0 < rule.average <= t:
                    state.total[:, c] += state.coef[:, c]
                    state.total_intercept[c] += state.intercept[c]
                    state.count[c] += 1.0
            t += 1.0


def exchange_weight(z, n_workers):
    return 1.0 / n_workers + (1.0 - 1.0 / n_workers) / (1.0 + 0.5 * n_workers * z)


def proposals(behind, last_staleness, live):
    """How many proposals a push is one of: alone if nobody else has pushed for two pulls."""
    return 1 if behind == last_staleness == 0 else max(1 + behind, live)


def fold(shared, mine, base, curvature, eta, rows, n_workers):
    """What the shared vector, the copy and its base all are after an exchange."""
    after = shared + exchange_weight(eta * rows * curvature, n_workers) * (mine - base)
    return np.where((mine == 0.0) & (np.abs(shared) <= np.abs(base)), 0.0, after)


def fold_intercept(shared, mine, base, curvature, eta, rows, n_workers):
    return shared + exchange_weight(eta * rows * curvature, n_workers) * (mine - base)


def apply_criterion(columns, values, epoch, *, tol, patience, adaptive):
    """Scikit-learn's rule for one epoch's values (smaller is better); whether none learns on."""
    for c in np.flatnonzero(columns.active):
        columns.epochs[c] = epoch + 1
        worse = np.isfinite(tol) and values[c] > columns.best[c] - tol
        columns.bad[c] = columns.bad[c] + 1 if worse else 0
        columns.best[c] = min(columns.best[c], values[c])
        if columns.bad[c] >= patience:
            if adaptive and columns.eta[c] > 1e-6:
                columns.eta[c] /= 5.0
                columns.bad[c] = 0
            else:
                columns.active[c] = 0
    return not columns.active.any()


def accuracy(P, Y, weight):
    return np.average((P > 0.0) == (Y > 0.0), axis=0, weights=weight)


def accuracy_of_largest(P, Y, weight):
    hits = P.argmax(axis=1) == Y.argmax(axis=1)
    return np.full(Y.shape[1], np.average(hits, weights=weight))


def r_squared(P, Y, weight):
    """As sklearn.metrics.r2_score, without its case of a constant target."""
    if len(P) < 2:
        return np.full(Y.shape[1], np.nan)
    mean = np.average(Y, axis=0, weights=weight)
    return 1.0 - weight @ (Y - P) ** 2 / (weight @ (Y - mean) ** 2)


def fit(X, Y, weight, rule, plan, state, columns, held_out=(), rarity=None, dense=False):
    """A whole run of one worker; returns the mean loss of each epoch."""
    permutation, history = list(range(len(X))), []
    held_out = np.asarray(held_out, bool)
    for epoch in range(plan.max_epochs):
        if plan.shuffle:
            shuffle(permutation, plan.seed)
        order = training_rows(permutation, held_out)
        state.clear_sums()
        t = rule.first_t + epoch * len(order)
        if rarity is None:
            sgd_rows(X, Y, weight, rule, order, t, state, columns, dense)
        elif rule.coordinate != coordinate_steps.ALL:
            stream = plan.seed, epoch
            coordinate_rows(X, Y, weight, rule, order, t, state, columns, rarity, *stream, dense)
        else:
            hogwild_rows(X, Y, weight, rule, order, t, state, columns, rarity, dense)
        coupled = LOSS_NAMES[rule.loss] == "multinomial"
        history.append(state.losses.sum() / (len(order) * (1 if coupled else Y.shape[1])))
        values = state.criteria / len(order)
        if coupled:
            values = np.full(len(values), values.sum())
        if plan.early_stopping:
            score = r_squared if plan.regression else accuracy
            score = accuracy_of_largest if coupled else score
            P = X[held_out] @ state.coef + state.intercept
            values = -score(P, Y[held_out], weight[held_out])
        adaptive = rule.schedule == step_schedules.ADAPTIVE
        if apply_criterion(
            columns, values, epoch, tol=plan.tol, patience=plan.patience, adaptive=adaptive
        ):
            break
    return np.array(history)


def sum_of_losses(X, Y, weight, loss, epsilon, coef, intercept, positive, negative):
    """Per column, weighted by row and class."""
    total = np.zeros(Y.shape[1])
    P = predictions(loss, X @ coef + intercept)
    for (r, c), y in np.ndenumerate(Y):
        size = positive[c] if y > 0.0 else negative[c]
        total[c] += weight[r] * size * loss_value(loss, epsilon, y, P[r, c])
    return total


def objective(X, Y, weight, loss, epsilon, coef, intercept, positive, negative, alpha, ratio):
    value = sum_of_losses(X, Y, weight, loss, epsilon, coef, intercept, positive, negative).sum()
    penalty = (1.0 - ratio) * 0.5 * np.square(coef).sum() + ratio * np.abs(coef).sum()
    return value / len(X) + alpha * penalty


def interactions(X):
    return np.abs(X).T @ np.abs(X).sum(axis=1)


def staleness_bin(staleness):
    return min(staleness, layout.HISTOGRAM - 1)


# -- dual coordinate ascent ---------------------------------------------------------------------


def proximal_point(loss, epsilon, y, z, size):
    """Where ``size * loss + (u - z)^2 / 2`` is smallest: the zero of a slope that only rises."""

    def slope(u):
        return u - z + size * loss_derivative(loss, epsilon, y, u)

    low, high = z - 1.0, z + 1.0
    while slope(low) > 0.0:
        low -= 2.0 * (high - low)
    while slope(high) < 0.0:
        high += 2.0 * (high - low)
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if slope(middle) > 0.0 else (middle, high)
    return 0.5 * (low + high)


def soft(v, threshold):
    return np.sign(v) * np.maximum(np.abs(v) - threshold, 0.0)


@dataclass
class DualState:
    """A worker's vector, intercept and mean of the dual variables, one entry per column."""

    v: np.ndarray
    intercept: np.ndarray
    mean: np.ndarray
    eta: np.ndarray
    losses: np.ndarray
    stretch: float = 1.0

    @classmethod
    def zeros(cls, n_features, n_columns):
        return cls(np.zeros((n_features, n_columns)), *(np.zeros(n_columns) for _ in range(4)))


def dual_rows(X, Y, weight, rule, order, dual, state, columns, first=False, before=0):
    """One step of dual coordinate ascent per row and column; `dual` is (n_rows, n_columns).

    first : whether it is a run's first epoch
    before : rows of the epoch that came before these
    """
    loss = LOSS_NAMES[rule.loss]
    for i, r in enumerate(order, before):
        x = X[r]
        counted = max(rule.fewest, (i + 1) / rule.dual_rows) if first else 1.0
        margins = x @ soft(state.v / counted, rule.threshold)
        scale = rule.dual_scale * counted  # of a penalty of fewer rows
        reach = x @ x / scale + rule.intercept_step
        for c in range(Y.shape[1]):
            y, p = Y[r, c], margins[c] + state.intercept[c]
            state.losses[c] += loss_value(loss, rule.epsilon, y, p)
            if reach == 0.0:
                continue
            size = weight[r] * (columns.positive[c] if y > 0.0 else columns.negative[c])
            state.eta[c] = size / (rule.dual_scale * (1.0 + rule.curvature * reach * size))
            if loss == "log_loss" and reach * size <= 2.0:
                slope = size * loss_derivative(loss, rule.epsilon, y, p)
                change = -(dual[r, c] + slope) / (1.0 + 0.25 * reach * size)
            else:
                z = p - reach * dual[r, c]
                change = (proximal_point(loss, rule.epsilon, y, z, reach * size) - p) / reach
            dual[r, c] += change
            state.v[:, c] += state.stretch * change * x / rule.dual_scale
            if rule.fit_intercept:
                state.intercept[c] += rule.intercept_step * (change + state.mean[c])
                state.mean[c] += change / rule.dual_rows


def stretch_now(limit, n_workers, live):
    """By how much a worker's own steps are longer in its copy."""
    return max(1.0, min(limit, n_workers, live))


def fold_and_keep(shared, mine, base, curvature, eta, rows, n_workers, stretch=1.0, after=1.0):
    """The shared vector and the copy after an exchange that keeps what it does not fold.

    stretch, after : of the change that is in the copy, and of what stays there
    """
    change = (mine - base) / stretch
    z = eta * rows * stretch * curvature
    folded = exchange_weight(z, max(1.0, n_workers / stretch)) * change
    return shared + folded, shared + folded + after * (change - folded)


def hand_over(word, first, stride, rounds):
    """The word after that many hand-overs in which nobody else had to have a turn."""
    for i in range(rounds):
        assert word == first + i * stride
        word += 1
    return word


def dense_rows(w, data, step):
    margin = 0.0
    for x in data:
        margin = w @ x
        w = w + step * margin * x
    return w, margin


def sparse_rows(w, columns, values, width, step):
    dense = np.zeros((len(columns) // width, len(w)))
    for k, (j, value) in enumerate(zip(columns, values, strict=True)):
        dense[k // width, j] += value  # a column that comes twice in a row counts twice
    return dense_rows(w, dense, step)


def chase(chain, position, steps):
    visited = [position]
    while len(visited) <= steps:
        visited.append(chain[visited[-1]])
    return visited[steps]


# -- SAGA ---------------------------------------------------------------------------------------


@dataclass
class SagaState:
    """A worker's vector, intercept and averages, one entry per column."""

    w: np.ndarray
    intercept: np.ndarray
    average: np.ndarray
    mean: np.ndarray
    losses: np.ndarray

    @classmethod
    def zeros(cls, n_features, n_columns):
        shape = n_features, n_columns
        return cls(np.zeros(shape), np.zeros(n_columns), np.zeros(shape), *np.zeros((2, n_columns)))


def saga_rows(
    X,
    Y,
    weight,
    rule,
    order,
    table,
    state,
    columns,
    rarity,
    dense=False,
    chances=None,
    first=False,
    divisors=None,
):
    """One SAGA step per row; `table` is (n_rows, n_columns), `rarity` the diagonal D.

    chances : how often an epoch visits each row on average, if not once
    divisors : by what features have been divided, if they have: the penalty is on what they were
    first : whether it is a run's first epoch
    """
    loss = LOSS_NAMES[rule.loss]
    alpha = rule.alpha if rule.penalty else 0.0
    divisors = np.ones(X.shape[1]) if divisors is None else divisors
    l2, l1 = alpha * (1.0 - rule.l1_ratio) / divisors**2, alpha * rule.l1_ratio / divisors
    for i, r in enumerate(order):
        left = 1.0 - (i + 0.5) / len(order)
        bend = 2.0 / (1.0 + rule.level)
        if left < 1.0 - rule.level:
            bend *= left / (1.0 - rule.level)
        if first and rule.steep:
            bend = 2.5 * left**1.5
        step = bend * rule.saga_step
        x, support = X[r], stored(X[r], dense)
        row = predictions(loss, x @ state.w + state.intercept)
        for c in range(Y.shape[1]):
            y, p = Y[r, c], row[c]
            state.losses[c] += loss_value(loss, rule.epsilon, y, p)
            size = weight[r] * (columns.positive[c] if y > 0.0 else columns.negative[c])
            gain = 1.0 if chances is None else 1.0 / chances[r]
            reach = step * gain * (x @ x + rule.intercept_step)
            if loss in KINKED and reach > 0.0:
                z = p + reach * table[r, c]
                after = (z - proximal_point(loss, rule.epsilon, y, z, reach * size)) / reach
            else:
                after = size * loss_derivative(loss, rule.epsilon, y, p)
            change = after - table[r, c]
            table[r, c] += change
            pull = gain * change
            if rule.fit_intercept:
                state.intercept[c] -= step * rule.intercept_step * (pull + state.mean[c])
                state.mean[c] += change / rule.dual_rows
            for j in support:
                rare = step * rarity[j]
                v = state.w[j, c]
                v -= step * pull * x[j] + rare * state.average[j, c]
                state.w[j, c] = soft(v, rare * l1[j]) / (1.0 + rare * l2[j])
                state.average[j, c] += change * x[j] / rule.dual_rows


# -- looks at a model ----------------------------------------------------------------------------


def average_table(X, table, share):
    """SAGA's average and that of the intercept's feature."""
    n_columns = table.shape[1]
    average, mean = np.zeros((X.shape[1], n_columns)), np.zeros(n_columns)
    for x, entries in zip(X, table, strict=True):
        average += np.outer(x * share, entries)
        mean += entries * share
    return average, mean


def loss_conjugate(loss, epsilon, y, a, reach=60.0):
    """``max_p (a p - loss(p))`` by search: the function is concave in p."""
    low, high = -reach, reach
    for _ in range(300):
        left, right = low + (high - low) / 3.0, high - (high - low) / 3.0
        worse = a * left - loss_value(loss, epsilon, y, left) < a * right - loss_value(
            loss, epsilon, y, right
        )
        low, high = (left, high) if worse else (low, right)
    return a * low - loss_value(loss, epsilon, y, low)


def units(X, weight, curvature, l2, fit_intercept):
    """Origins and sizes of the features in which components of a gradient are compared."""
    origin, square, share = np.zeros((3, X.shape[1]))
    for j, column in enumerate(np.asarray(X, float).T):
        there = (column != 0.0) & (weight > 0.0)
        share[j] = weight[there].sum() / weight.sum()
        if not there.any():
            continue
        if fit_intercept and there[weight > 0.0].all():
            origin[j] = np.average(column, weights=weight)
        square[j] = np.average((column[there] - origin[j]) ** 2, weights=weight[there])
    told = square > 0.0
    typical = np.exp(np.average(np.log(square[told]) / 2.0, weights=share[told]))
    at_least_one_row = np.maximum(share, 1.0 / len(X))
    square = square + l2 / (curvature * weight.mean() * at_least_one_row)
    return origin, np.sqrt(square) / np.clip(typical, 0.05, 1.0)


def slopes(X, Y, weight, loss, epsilon, coef, intercept, positive, negative):
    """Weighted derivatives of the losses in the predictions, row by row and column by column."""
    P = predictions(loss, X @ coef + intercept)
    out = np.zeros_like(P)
    for (r, c), y in np.ndenumerate(Y):
        size = positive[c] if y > 0.0 else negative[c]
        out[r, c] = weight[r] * size * loss_derivative(loss, epsilon, y, P[r, c])
    return out


def lag_allows(clocks, states, me, staleness):
    """SSP's test of one worker over those that are in the run."""
    states = [1] * len(clocks) if states is None else states
    others = [
        c for k, (c, s) in enumerate(zip(clocks, states, strict=True)) if k != me and s in (1, 2)
    ]
    return not others or clocks[me] - min(others) <= staleness


def sum_by_place(words, first):
    """Words as whole numbers of Python's, through SplitMix64's finalizer."""
    total = 0
    for k, word in enumerate(words.tolist(), start=first + 1):
        word += k * 0x9E3779B97F4A7C15
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
            word %= 1 << 64
            word = (word ^ (word >> shift)) * factor
        total += word
    return total % (1 << 64)


def factor_lines(w, ratings, u, i):
    """Where a user's and an item's numbers are."""
    width = ratings.n_factors + ratings.biases
    return np.arange(width) + u * width, np.arange(width) + (len(ratings.of_users) + i) * width


def factor_prediction(w, ratings, u, i):
    p, q = (w[line].astype(float) for line in factor_lines(w, ratings, int(u), int(i)))
    k = ratings.n_factors
    return ratings.mean + p[:k] @ q[:k] + p[k:].sum() + q[k:].sum()


def factor_losses(w, ratings, rows):
    name = LOSS_NAMES[ratings.loss]
    for r in rows:
        z = factor_prediction(w, ratings, ratings.users[r], ratings.items[r])
        yield loss_value(name, 0.0, float(ratings.values[r]), z)


def factor_penalties(ratings):
    """Strength of the penalty on each number of a line."""
    return np.array([ratings.alpha] * ratings.n_factors + [ratings.bias_alpha] * ratings.biases)


def factor_objective(w, ratings, rows):
    """Of some ratings, each with its share of its lines' penalties."""
    total = sum(factor_losses(w, ratings, rows))
    for r in rows:
        p, q = factor_lines(w, ratings, int(ratings.users[r]), int(ratings.items[r]))
        alphas = factor_penalties(ratings)
        total += 0.5 * ratings.of_users[ratings.users[r]] * alphas @ np.square(w[p])
        total += 0.5 * ratings.of_items[ratings.items[r]] * alphas @ np.square(w[q])
    return total


def factor_steps(w, ratings, rows, eta):
    """Vector after a step for each rating, and the sum of the losses before them."""
    w, k, losses = w.copy(), ratings.n_factors, 0.0
    alphas = factor_penalties(ratings)
    paces = np.append(np.ones(k), [ratings.bias_pace] * ratings.biases)
    for r in rows:
        u, i = int(ratings.users[r]), int(ratings.items[r])
        y, z = float(ratings.values[r]), factor_prediction(w, ratings, u, i)
        losses += loss_value(LOSS_NAMES[ratings.loss], 0.0, y, z)
        slope = loss_derivative(LOSS_NAMES[ratings.loss], 0.0, y, z)
        lines = factor_lines(w, ratings, u, i)
        p, q = (w[line] for line in lines)
        steps = [
            slope * np.append(other[:k], np.ones(ratings.biases)) + share * alphas * mine
            for mine, other, share in ((p, q, ratings.of_users[u]), (q, p, ratings.of_items[i]))
        ]
        for line, step in zip(lines, steps, strict=True):
            w[line] -= eta * paces * step
            if ratings.nonnegative:
                w[line[:k]] = np.maximum(0.0, w[line[:k]])
    return w, losses
