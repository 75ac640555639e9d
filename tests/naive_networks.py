"""Slow, plain NumPy twins of a network's layers and losses; see `naive`.

All in float64, a window and a place at a time, with matrices in place of offsets.
"""

import numpy as np
from scipy.special import expit, logsumexp, xlogy

from hogshare import problems
from hogshare.problems import Convolution, LocalResponse, Pooling

FORWARD = {
    "identity": lambda z: z,
    "relu": lambda z: np.maximum(z, 0.0),
    "tanh": np.tanh,
    "logistic": expit,
}
SLOPE = {
    "identity": lambda a: np.ones_like(a),
    "relu": lambda a: (a > 0.0).astype(float),
    "tanh": lambda a: 1.0 - a * a,
    "logistic": lambda a: a * (1.0 - a),
}


def end(loss, z, y):
    """Losses of rows, and their derivatives in the last sums; `y` has a column for each."""
    if loss == "softmax":
        p = np.exp(z - logsumexp(z, axis=1, keepdims=True))
        return logsumexp(z, axis=1) - (y * z).sum(axis=1), p - y
    if loss == "binary":
        return (np.logaddexp(0.0, z) - y * z).sum(axis=1), expit(z) - y
    if loss == "poisson":
        p = np.exp(z)
        return (xlogy(y, y) - y * z - y + p).sum(axis=1), p - y
    return 0.5 * np.square(z - y).sum(axis=1), z - y


def network(x, y, weight, coefs, intercepts, activation, loss, alpha):
    """Sum of the rows' losses and the penalty; its gradient by layers."""
    outputs = [x]
    for k, (W, b) in enumerate(zip(coefs, intercepts, strict=True)):
        z = outputs[-1] @ W + b
        outputs.append(z if k == len(coefs) - 1 else FORWARD[activation](z))
    losses, delta = end(loss, outputs[-1], y)
    delta = delta * weight[:, None]
    slopes = []
    for k in range(len(coefs) - 1, -1, -1):
        slopes.append((outputs[k].T @ delta + alpha * coefs[k], delta.sum(axis=0)))
        if k:
            delta = (delta @ coefs[k].T) * SLOPE[activation](outputs[k])
    penalty = 0.5 * alpha * sum(np.square(W).sum() for W in coefs)
    return weight @ losses + penalty, slopes[::-1]


def windows(side, size, stride, padding, count):
    for o in range(count):
        first = o * stride - padding
        yield max(first, 0), min(first + size, side), max(first, 0) - first


def convolve(image, W, b, stride, padding):
    """An image of height, width, channels; filters of size, size, channels, filters."""
    height, width, _ = image.shape
    size, filters = W.shape[0], W.shape[3]
    down, across = ((s + 2 * padding - size) // stride + 1 for s in (height, width))
    out = np.empty((down, across, filters))
    for y, (top, bottom, above) in enumerate(windows(height, size, stride, padding, down)):
        for x, (left, right, before) in enumerate(windows(width, size, stride, padding, across)):
            seen = W[above : above + bottom - top, before : before + right - left]
            out[y, x] = np.tensordot(image[top:bottom, left:right], seen, 3) + b
    return out


def pool(image, size, stride, kind):
    """Windows begin as long as the one before does not reach the border, and are cut there."""
    height, width, channels = image.shape
    down, across = (-(-(s - size) // stride) + 1 for s in (height, width))
    out = np.empty((down, across, channels))
    for y in range(down):
        for x in range(across):
            seen = image[y * stride : y * stride + size, x * stride : x * stride + size]
            out[y, x] = seen.max(axis=(0, 1)) if kind == "max" else seen.mean(axis=(0, 1))
    return out


def respond(image, size, alpha, beta, k):
    half, out = size // 2, np.empty_like(image)
    for y in range(image.shape[0]):
        for x in range(image.shape[1]):
            rows = slice(max(0, y - half), y + half + 1)
            seen = image[rows, max(0, x - half) : x + half + 1]
            around = np.square(seen).sum(axis=(0, 1))
            out[y, x] = image[y, x] * (k + alpha / size**2 * around) ** -beta
    return out


def outputs(problem, vector, layers, image, activation):
    """The sums of a network's last layer, of one image."""
    known = problems.NetworkParams(vector, shapes=problem.shapes)
    weights = iter(zip(known.coefs, known.intercepts, strict=True))
    for layer in layers:
        if isinstance(layer, Pooling):
            image = pool(image, layer.size, layer.stride or layer.size, layer.kind)
        elif isinstance(layer, LocalResponse):
            image = respond(image, layer.size, layer.alpha, layer.beta, layer.k)
        else:
            W, b = next(weights)
            if isinstance(layer, Convolution):
                z = convolve(image, W, b, layer.stride, layer.padding)
            else:
                z = image.reshape(-1) @ W + b
            image = FORWARD[layer.activation or activation](z)
    W, b = next(weights)
    return image.reshape(-1) @ W + b


def plain(g, kept, eta, t):
    return eta * g


def heavy(g, kept, eta, t):
    kept["v"] = 0.9 * kept.get("v", 0.0 * g) + eta * g
    return kept["v"]


def ahead(g, kept, eta, t):
    return 0.9 * heavy(g, kept, eta, t) + eta * g


def adam(g, kept, eta, t):
    kept["m"] = 0.9 * kept.get("m", 0.0 * g) + (1.0 - 0.9) * g
    kept["v"] = 0.999 * kept.get("v", 0.0 * g) + (1.0 - 0.999) * (g * g)
    correction = np.sqrt(1.0 - 0.999**t)
    size, epsilon = eta * correction / (1.0 - 0.9**t), 1e-8 * correction
    return size * kept["m"] / (np.sqrt(kept["v"]) + epsilon)
