"""Alternating least squares: the best factors of each row, with the other kind's factors fixed.

In one sweep a *row* is a user and the *others* are the items; in the next sweep a row is an item
and the others are the users. A *line* contains the factors of a user or an item. A user and an item
*have met* if the data contain their pair. Such a pair has target 1 and weight 1 + extra; any other
pair has target 0 and weight 1. The matrix of a row's normal equations is a sum of two: the matrix
of all others' lines, which is the same for all rows, and a term for each of the few others that the
row has met. Conjugate gradients solve the equations without forming this sum.

Writers: `solve_rows` writes the lines of its own rows and its own scratch; no other call reads
these meanwhile. No call writes the other arrays that `solve_rows` reads. So any number of threads
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
    """Return the inner product of two lines, in their dtype."""
    total = a.dtype.type(0.0)
    for f in range(width):
        total += a[f] * b[f]
    return total


@helper
def applied(gram, designs, others, extras, first, end, v, out):
    """Write the product of a row's normal matrix and `v` into `out`."""
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
    begins : int64 (n_rows + 1,), start of each row's pairs in `others` and `extras`
    others : int32 or int64 (n_pairs,), the others that each row has met
    extras : as `lines` (n_pairs,), a pair's weight minus 1, the weight of pairs that have not met
    designs : (n_others, width), the others' lines; 1 at the place of a row's own bias
    offsets : (n_others,), the part of the others' predictions that is equal for all rows
    gram : (width, width), sum of the outer products of all designs, plus the penalties on its
        diagonal
    base : (width,), right-hand side of a row that has met no other
    rows : int64 (2,), the first row and the end of the rows to solve
    steps : largest number of steps of conjugate gradients
    scratch : (SCRATCH, width), the calling thread's own scratch
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
    """Add the losses of the pairs that have met, minus their losses with target 0 and weight 1.

    lines : float32 or float64 (n_rows, width), the rows' lines
    other_lines : float32 or float64 (n_others, width); its products with `lines` are the
        predictions
    rows : int64 (2,), the first row and the end of the rows to use
    sums : float64 (1,), to which the difference is added
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
    """Add the outer products of designs to `sums`, and designs times offsets to its last row.

    designs, offsets : see `solve_rows`; the rows from `first` to `end` are used
    sums : of the dtype of `designs`, (width + 1, width), updated in place
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
