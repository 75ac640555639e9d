"""Inputs of a network: columns that are mostly zero are stored as places and values."""

from hogshare.kernels.jit.decorators import kernel


@kernel
def count_nonzeros(data, n_columns, counts):
    """Count the nonzero values of each column of dense rows.

    data : float (n_rows * n_columns,)
    counts : int64 (n_columns,), the caller's array, to which the counts are added
    """
    for first in range(0, data.shape[0], n_columns):
        row = data[first : first + n_columns]
        for j in range(n_columns):
            counts[j] += row[j] != 0.0


@kernel
def part_dense_rows(data, order, n_dense, dense, values, places, pointers):
    """Split dense rows: write some columns densely, and the other columns as places and values.

    data : float (n_rows * len(order),)
    order : int64, the columns; columns that stay dense come first
    n_dense : number of columns that stay dense
    dense : float (n_rows * n_dense,), written
    values, places, pointers : CSR rows of the other columns, which are numbered from 0; written
    """
    n_columns, filled = order.shape[0], 0
    for r in range(pointers.shape[0] - 1):
        row = data[r * n_columns : (r + 1) * n_columns]
        into = dense[r * n_dense : (r + 1) * n_dense]
        pointers[r] = filled
        for k in range(n_dense):
            into[k] = row[order[k]]
        for k in range(n_dense, n_columns):
            value = row[order[k]]
            if value != 0.0:
                values[filled], places[filled] = value, k - n_dense
                filled += 1
    pointers[pointers.shape[0] - 1] = filled


@kernel
def part_sparse_rows(data, indices, indptr, rank, n_dense, dense, values, places, pointers):
    """Split CSR rows; see `part_dense_rows`.

    rank : int64, each column's place in the order of `part_dense_rows`
    dense : float (n_rows * n_dense,), zeros before the call; nonzero values are written
    """
    filled = 0
    for r in range(pointers.shape[0] - 1):
        pointers[r] = filled
        for place in range(indptr[r], indptr[r + 1]):
            k = rank[indices[place]]
            if k < n_dense:
                dense[r * n_dense + k] = data[place]
            else:
                values[filled], places[filled] = data[place], k - n_dense
                filled += 1
    pointers[pointers.shape[0] - 1] = filled
