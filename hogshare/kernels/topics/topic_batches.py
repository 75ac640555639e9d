"""Latent Dirichlet allocation: the statistics of topics in a batch of documents.

Source: Hoffman, Blei and Bach 2010, "Online learning for latent Dirichlet allocation", Algorithm 2.
The model is ``lambda``, one parameter for each word and topic. The parameters are stored word by
word, so a document reads adjacent parameters for each word. Functions get the model as ``offset +
scale u``, with the sums of ``u`` over all words. So a batch reads and writes only the parameters of
its own words (`hogshare.problems.topics`).

Writers: `expect` and `spread` write the caller's own arrays. `add_step` writes the one vector by
atomic adds, as all workers without locks do. `expect` reads the vector at the same time, so it may
read parameters of different versions. The run's owner frees the vector. Each worker has its own
`Desk`.
"""

import math
from typing import NamedTuple

import numpy as np

from hogshare.kernels.jit.atomics import add_float
from hogshare.kernels.jit.decorators import helper, inlined, kernel

EULER = 0.5772156649015329
SMALL = 1e-6  # up to this x, psi(x) is computed as -EULER - 1/x
LARGE = 6.0  # from this x on, the series is used


class Documents(NamedTuple):
    """Documents as compressed rows.

    counts : float32 or float64 [n_values], number of times that a word occurs in its document
    words : int32 or int64 [n_values], the words' numbers
    begins : int32 or int64 [n_documents + 1], start of each document in the two other arrays
    """

    counts: np.ndarray
    words: np.ndarray
    begins: np.ndarray


class Desk(NamedTuple):
    """The scratch of one worker.

    slots : int64 [n_words], slot of each word among the batch's words; -1 between two calls
    ids : int64 [largest number of words of a batch], the batch's words, by slot
    beta : float64 [rows of `ids`, n_topics], exp(E[log beta]) of the batch's words
    seen : float64, of the shape of `beta`, the expected counts of each word in each topic
    share : float64 [n_topics], exp(E[log theta]) of a document
    fresh : float64 [n_topics], the next parameters of a document's shares
    places : int64 [largest number of values of a document], slots of a document's words
    """

    slots: np.ndarray
    ids: np.ndarray
    beta: np.ndarray
    seen: np.ndarray
    share: np.ndarray
    fresh: np.ndarray
    places: np.ndarray


@inlined
def digamma(x):
    """Return the digamma function of a positive number, to 1e-8 (Bernardo 1976, AS 103).

    scikit-learn takes the same number of terms of the series, so both functions round in the same
    way. The sum of 1/x, 1/(x + 1), ... is computed with one division.
    """
    if x <= SMALL:
        return -EULER - 1.0 / x
    over, under = 0.0, 1.0
    while x < LARGE:
        over = over * x + under
        under *= x
        x += 1.0
    r = 1.0 / x
    square = r * r
    series = square * (1.0 / 12.0 - square * (1.0 / 120.0 - square * (1.0 / 252.0)))
    return math.log(x) - 0.5 * r - series - over / under


@helper
def gather_words(documents, rows, desk):
    """Give each word of the batch a slot; return the number of slots."""
    n = 0
    for i in range(rows.shape[0]):
        for k in range(documents.begins[rows[i]], documents.begins[rows[i] + 1]):
            word = documents.words[k]
            if desk.slots[word] < 0:
                desk.slots[word] = n
                desk.ids[n] = word
                n += 1
    return n


@helper
def weigh_words(desk, n_ids, u, totals, offset, scale):
    """Write exp(E[log beta]) of the batch's words into `desk.beta`, and zeros into `desk.seen`."""
    n_topics = totals.shape[0]
    for k in range(n_topics):
        desk.fresh[k] = digamma(desk.slots.shape[0] * offset + scale * totals[k])
    for i in range(n_ids):
        first = desk.ids[i] * n_topics
        for k in range(n_topics):
            value = offset + scale * u[first + k]
            desk.beta[i, k] = math.exp(digamma(value) - desk.fresh[k])
            desk.seen[i, k] = 0.0


@helper
def expect_shares(gamma, share):
    """Write exp(E[log theta]) of a document with the parameters `gamma` into `share`."""
    total = 0.0
    for k in range(gamma.shape[0]):
        total += gamma[k]
    level = digamma(total)
    for k in range(gamma.shape[0]):
        share[k] = math.exp(digamma(gamma[k]) - level)


@helper
def place_values(documents, row, desk):
    """Write the slots of a document's words into `desk.places`.

    Return the place of the document's first value, and its number of values.
    """
    begin, end = documents.begins[row], documents.begins[row + 1]
    for k in range(begin, end):
        desk.places[k - begin] = desk.slots[documents.words[k]]
    return begin, end - begin


@inlined
def weight_of(share, beta, count, eps):
    """Return a word's count divided by the word's likelihood, given the document's shares."""
    likelihood = 0.0
    for t in range(share.shape[0]):
        likelihood += share[t] * beta[t]
    return count / (likelihood + eps)


@helper
def fit_document(documents, begin, n_values, desk, gamma, prior, most, tol, eps):
    """Iterate a document's parameters `gamma`, in place, until their mean change is below `tol`.

    There are at most `most` passes. `desk.share` must contain the shares for the first `gamma`.
    """
    n_topics = gamma.shape[0]
    share, fresh = desk.share, desk.fresh
    for _ in range(most):
        for t in range(n_topics):
            fresh[t] = 0.0
        for k in range(n_values):
            beta = desk.beta[desk.places[k]]
            weight = weight_of(share, beta, np.float64(documents.counts[begin + k]), eps)
            for t in range(n_topics):
                fresh[t] += weight * beta[t]
        change = 0.0
        for t in range(n_topics):
            value = fresh[t] * share[t] + prior
            change += abs(value - gamma[t])
            gamma[t] = value
        expect_shares(gamma, share)
        if change / n_topics < tol:
            break


@helper
def see_document(documents, begin, n_values, desk, gamma, prior, eps):
    """Add a document's counts to `desk.seen`; return its part of the lower bound of the evidence.

    The bound is equation 4 of Hoffman et al. 2010, without the topics' terms.
    """
    share, bound, total = desk.share, 0.0, 0.0
    for k in range(n_values):
        beta, seen = desk.beta[desk.places[k]], desk.seen[desk.places[k]]
        count = np.float64(documents.counts[begin + k])
        weight = weight_of(share, beta, count, eps)
        for t in range(gamma.shape[0]):
            seen[t] += weight * share[t]
        if count != 0.0:
            bound += count * math.log(count / weight - eps)
    for t in range(gamma.shape[0]):
        total += gamma[t]
    level = digamma(total)
    for t in range(gamma.shape[0]):
        # not the logarithm of the share: the share underflows for parameters of 1 / 745 and less
        bound += (prior - gamma[t]) * (digamma(gamma[t]) - level)
        bound += math.lgamma(gamma[t]) - math.lgamma(prior)
    return bound + math.lgamma(prior * gamma.shape[0]) - math.lgamma(total)


@kernel
def expect(documents, rows, u, totals, offset, scale, desk, gammas, prior, most, tol, eps):
    """Fit the documents' shares of topics, given the topics (the E-step of Algorithm 2).

    Return the number of the batch's words and the sum of the documents' bounds. After the call
    `desk.ids` lists these words, and `desk.seen` contains their expected counts in each topic.

    rows : numbers of the batch's documents
    u, totals : the model's vector, and its sum over all words for each topic
    offset, scale : constants of the model, ``lambda = offset + scale u``
    gammas : float64 [number of documents, n_topics], each document's start values, overwritten by
        its fitted parameters
    most : largest number of passes over a document
    tol : mean change below which the passes end
    eps : constant added to each likelihood, which prevents a division by zero
    """
    n_ids = gather_words(documents, rows, desk)
    weigh_words(desk, n_ids, u, totals, offset, scale)
    bound = 0.0
    for i in range(rows.shape[0]):
        gamma = gammas[i]
        begin, n_values = place_values(documents, rows[i], desk)
        expect_shares(gamma, desk.share)
        fit_document(documents, begin, n_values, desk, gamma, prior, most, tol, eps)
        bound += see_document(documents, begin, n_values, desk, gamma, prior, eps)
    for i in range(n_ids):
        desk.slots[desk.ids[i]] = -1
        for t in range(totals.shape[0]):
            desk.seen[i, t] *= desk.beta[i, t]
    return n_ids, bound


@kernel
def spread(desk, n_ids, factor, out):
    """Add a batch's expected counts, times a factor, to a vector of counts and their sums.

    desk, n_ids : as `expect` has left and returned them
    out : float64, counts of each word and topic, then their sum over the words for each topic
    """
    n_topics = desk.share.shape[0]
    last = desk.slots.shape[0] * n_topics
    for i in range(n_ids):
        first = desk.ids[i] * n_topics
        for t in range(n_topics):
            value = factor * desk.seen[i, t]
            out[first + t] += value
            out[last + t] += value


@kernel
def add_step(desk, n_ids, factor, vector):
    """Add a batch's step to a vector that other workers may write; the atomic adds lose nothing.

    vector : float64, laid out like `out` of `spread`, and then the number of steps so far
    """
    n_topics = desk.share.shape[0]
    last = desk.slots.shape[0] * n_topics
    for t in range(n_topics):
        desk.fresh[t] = 0.0
    for i in range(n_ids):
        first = desk.ids[i] * n_topics
        for t in range(n_topics):
            value = factor * desk.seen[i, t]
            add_float(vector, first + t, value)
            desk.fresh[t] += value
    for t in range(n_topics):
        add_float(vector, last + t, desk.fresh[t])
    add_float(vector, last + n_topics, 1.0)


@kernel
def topics_bound(u, totals, offset, scale, prior):
    """Return the topics' terms in the bound of the evidence.

    They are minus the divergence of the topics from the prior.
    """
    n_topics = totals.shape[0]
    n_words = u.shape[0] // n_topics
    bound = 0.0
    for t in range(n_topics):
        total = n_words * offset + scale * totals[t]
        level = digamma(total)
        for i in range(n_words):
            value = offset + scale * u[i * n_topics + t]
            bound += (prior - value) * (digamma(value) - level)
            bound += math.lgamma(value) - math.lgamma(prior)
        bound += math.lgamma(prior * n_words) - math.lgamma(total)
    return bound
