"""Alternating least squares: the best factors of each row, with the other kind's factors fixed.

A *row* is a user, then the *others* are the items, or the reverse. A *line* contains the factors of
a user or an item. A pair of user and item that has met has target 1 and weight 1 + extra; any other
pair has target 0 and weight 1. So each row's normal equations have the matrix of all others' lines,
which is the same for all rows, changed by the few others that the row has met. Conjugate gradients
solve the equations without forming the changed matrix.

Writers: `solve_rows` writes the lines of its own rows and its own scratch; no other call reads
these meanwhile. No call writes the other arrays, which `solve_rows` reads. So any number of threads
may call it with separate rows. All stores are plain.

Source: Hu, Koren and Volinsky 2008, "Collaborative filtering for implicit feedback datasets", its
equations (4) and (5); Takacs, Pilaszy and Tikk 2011, "Applications of the conjugate gradient method
for implicit feedback collaborative filtering". Departure: a line may end with a bias, and the other
kind's line has a 1 in its place.
"""

import numpy as np

from hogshare.kernels.jit.decorators import helper, inlined, kernel

SCRATCH = 5  # number of vectors of a line's width that a row needs


@inlined
def dot(a, b, width):
    """Return the product of two lines."""
    total = a.dtype.type(0.0)
    for f in range(width):
        total += a[f] * b[f]
    return total


@helper
def applied(gram, designs, others, extras, first, end, v, out):
    """Put a row's normal matrix times `v` into `out`."""
    width = np.uint64(v.shape[0])
    for f in range(width):
        out[f] = dot(gram[f], v, width)
    for k in range(first, end):
        design = designs[others[k]]
        share = extras[k] * dot(design, v, width)
        for f in range(width):
            out[f] += share * design[f]


@kernel
def solve_rows(lines, begins, others, extras, designs, offsets, gram, base, rows, steps, scratch):
    """Solve for the lines of some rows, by conjugate gradients that start from the present lines.

    lines : float32 or float64 (n_rows, width), the rows' lines; the lines of `rows` are written
    begins : int64 (n_rows + 1,), where each row's pairs begin
    others : int32 or int64 (n_pairs,), the others that each row has met
    extras : as `lines` (n_pairs,), a pair's weight beyond the weight of pairs that have not met
    designs : (n_others, width), the others' lines; 1 at the place of a row's own bias
    offsets : (n_others,), the part of the others' predictions that is equal for all rows
    gram : (width, width), sum of the outer products of all designs, plus the penalties on its
        diagonal
    base : (width,), right-hand side of a row that has met no other
    rows : int64 (2,), the first row and the end
    steps : largest number of steps of conjugate gradients
    scratch : (SCRATCH, width), the calling thread's own
    """
    kind = lines.dtype.type
    width = np.uint64(lines.shape[1])
    zero, one = kind(0.0), kind(1.0)
    right, left, direction, image, _ = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    for row in range(rows[0], rows[1]):
        line = lines[row]
        first, end = begins[row], begins[row + 1]
        for f in range(width):
            right[f] = base[f]
        for k in range(first, end):
            design = designs[others[k]]
            target = one + extras[k] * (one - offsets[others[k]])
            for f in range(width):
                right[f] += target * design[f]
        applied(gram, designs, others, extras, first, end, line, image)
        for f in range(width):
            left[f] = right[f] - image[f]
            direction[f] = left[f]
        size = dot(left, left, width)
        # the size of rounding errors: no step can reduce the residual below it
        least = dot(right, right, width) * kind(np.finfo(kind).eps) ** 2
        for _ in range(steps):
            if not size > least:
                break
            applied(gram, designs, others, extras, first, end, direction, image)
            bend = dot(direction, image, width)
            if not bend > zero:
                break
            length = size / bend
            for f in range(width):
                line[f] += length * direction[f]
                left[f] -= length * image[f]
            before = size
            size = dot(left, left, width)
            share = size / before
            for f in range(width):
                direction[f] = left[f] + share * direction[f]


@kernel
def loss_of_met(lines, begins, others, extras, other_lines, rows, sums):
    """Add to `sums` the met pairs' losses, minus their losses with target 0 and weight 1.

    lines : float32 or float64 (n_rows, width), the rows' lines
    other_lines : float32 or float64 (n_others, width); its products with `lines` are the
        predictions
    rows : int64 (2,), the first row and the end
    sums : float64 (1,)
    """
    width = np.uint64(lines.shape[1])
    total = 0.0
    for row in range(rows[0], rows[1]):
        for k in range(begins[row], begins[row + 1]):
            z = np.float64(dot(lines[row], other_lines[others[k]], width))
            total += (1.0 + np.float64(extras[k])) * (1.0 - z) * (1.0 - z) - z * z
    sums[0] += total


@kernel
def add_products(designs, offsets, first, end, sums):
    """Add the outer products of some designs to `sums`, and designs times offsets to its last row.

    designs, offsets : see `solve_rows`; the rows from `first` to `end` are used
    sums : of the dtype of `designs`, (width + 1, width)
    """
    width = np.uint64(designs.shape[1])
    for row in range(first, end):
        design = designs[row]
        for f in range(width):
            factor = design[f]
            for g in range(width):
                sums[f, g] += factor * design[g]
        factor = offsets[row]
        for g in range(width):
            sums[width, g] += factor * design[g]
