"""Synthetic rows, images and documents for benches without data; equal seeds give equal data."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import ndimage, sparse

CENTRES = 4  # centres of a class; half of them are opposite to the others
DISTANCE = 5.0  # of a centre from the origin, in units of the rows' spread
SMOOTH = 2.0  # pixels over which a class's images are smoothed
NOISE = 1.0  # noise of a pixel, in units of the spread of the images without it
MOST_SHIFT = 2  # largest shift of an image, in pixels
TOPIC_PRIOR, SHARE_PRIOR = 0.05, 0.1  # of the topics' words and the documents' topics
DOCUMENTS_AT_ONCE = 500


def mixture(
    n_rows: int, n_inputs: int, n_classes: int, dtype: Any, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw normal rows around several centres per class, so that no hyperplane separates classes.

    The point opposite to a centre is a centre of the same class. Return X, of shape (n_rows,
    n_inputs), and int64 classes from 0, of shape (n_rows,). Every class occurs.
    """
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((CENTRES // 2 * n_classes, n_inputs))
    centres = np.concatenate([centres, -centres])
    centres *= DISTANCE / np.linalg.norm(centres, axis=1, keepdims=True)
    which = _drawn(rng, n_rows, n_classes)
    X = rng.standard_normal((n_rows, n_inputs), dtype=dtype)
    X += centres.astype(dtype)[which]
    return X, which % n_classes


def noisy_classes(n_rows: int, n_inputs: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw normal rows (n_rows, n_inputs) and labels 1 or -1.

    A label is the sign of a linear function of the row plus standard normal noise.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_inputs))
    signal = X @ rng.standard_normal(n_inputs) + rng.standard_normal(n_rows)
    return X, np.where(signal > 0.0, 1, -1)


def images(
    n_rows: int, shape: tuple[int, int, int], n_classes: int, dtype: Any, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw smooth, shifted images with noise for each class; return images and int64 classes.

    shape : height, width and channels; images are flat, (n_rows, height * width * channels)
    """
    rng = np.random.default_rng(seed)
    pictures = rng.standard_normal((CENTRES * n_classes, *shape))
    pictures = ndimage.gaussian_filter(pictures, (0.0, SMOOTH, SMOOTH, 0.0), mode="wrap")
    pictures /= pictures.std()
    which = _drawn(rng, n_rows, n_classes)
    X = NOISE * rng.standard_normal((n_rows, *shape), dtype=dtype)
    shifts = rng.integers(-MOST_SHIFT, MOST_SHIFT + 1, (n_rows, 2))
    for image, picture, (down, across) in zip(X, which, shifts.tolist(), strict=True):
        image += np.roll(pictures[picture], (down, across), axis=(0, 1))
    return X.reshape(n_rows, -1), which % n_classes


def _drawn(rng: np.random.Generator, n_rows: int, n_classes: int) -> np.ndarray:
    """Draw the class of each row; the first rows have all classes."""
    which = rng.integers(CENTRES * n_classes, size=n_rows)
    which[:n_classes] = np.arange(n_classes)[:n_rows]
    return which


def documents(
    n_documents: int, n_words: int = 2000, n_topics: int = 20, length: float = 100.0, seed: int = 0
) -> sparse.csr_array:
    """Draw word counts of documents from the topic model; no document is empty."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, TOPIC_PRIOR), n_topics)
    parts = []
    for first in range(0, n_documents, DOCUMENTS_AT_ONCE):
        n = min(DOCUMENTS_AT_ONCE, n_documents - first)
        likely = rng.dirichlet(np.full(n_topics, SHARE_PRIOR), n) @ topics
        likely /= likely.sum(axis=1, keepdims=True)
        lengths = np.maximum(1, rng.poisson(length, n))
        parts.append(sparse.csr_array(rng.multinomial(lengths, likely).astype(float)))
    return sparse.csr_array(sparse.vstack(parts))
