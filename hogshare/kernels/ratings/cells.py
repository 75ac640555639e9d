"""Sorting of ratings: into the cells of the grid, and by user and item.

A pass is divided into parts, which threads may take. No result depends on the number of parts,
because counts are added up, and every place is written by one part.

Writers: a part writes its own row of `counts` or of `places`. It writes the output only at the
places in its row of `places`, or in its own cells. Reader: the caller, when all parts are done.
"""

import numpy as np

from hogshare.kernels.jit.decorators import inlined, kernel
from hogshare.kernels.schedule.streams import block_state, next_random


@inlined
def cell_of(of_users, of_items, n_groups):
    """Return the cell of two groups; cells are numbered along diagonals, see `grid_quanta`."""
    away = of_items - of_users
    if away < 0:
        away += n_groups
    return away * n_groups + of_users


@kernel
def count_cells(users, items, user_groups, item_groups, n_groups, first, end, counts):
    """Count the ratings from `first` to `end` by cell.

    users, items : int64 (n_ratings,)
    user_groups, item_groups : int64, group of each user and of each item
    counts : int64 (n_groups * n_groups,), to which the part's counts are added
    """
    for r in range(first, end):
        counts[cell_of(user_groups[users[r]], item_groups[items[r]], n_groups)] += 1


@kernel
def put_into_cells(ratings, user_groups, item_groups, n_groups, first, end, places, out):
    """Write the ratings from `first` to `end` to the next places of their cells.

    ratings : the arrays of users, items and values, in any order
    places : int64 (n_groups * n_groups,), place of the next rating of each cell; updated
    out : the arrays of users, items and values, ordered by cell; written
    """
    users, items, values = ratings
    of_users, of_items, of_values = out
    for r in range(first, end):
        u, i = users[r], items[r]
        cell = cell_of(user_groups[u], item_groups[i], n_groups)
        k = places[cell]
        places[cell] = k + 1
        of_users[k], of_items[k], of_values[k] = u, i, values[r]


@kernel
def shuffle_cells(ends, first, last, seed, out):
    """Shuffle the ratings within each cell from `first` to `last`, in place.

    ends : int64 (n_cells,), end of each cell's ratings
    out : see `put_into_cells`
    """
    users, items, values = out
    for cell in range(first, last):
        state = block_state(seed, 0, cell)
        begin = 0 if cell == 0 else ends[cell - 1]
        for k in range(ends[cell] - 1, begin, -1):
            state = next_random(state)
            # a random place by a product: a division would take longer than everything else
            drawn = (np.uint64(state) * np.uint64(k - begin + 1)) >> np.uint64(32)
            j = begin + np.int64(drawn)
            u, i, y = users[j], items[j], values[j]
            users[j], items[j], values[j] = users[k], items[k], values[k]
            users[k], items[k], values[k] = u, i, y


@kernel
def sort_pairs(users, items, item_places, user_places, by_item, columns):
    """Write each user's items in ascending order into `columns`.

    users, items : int64 (n_pairs,)
    item_places : int64, start of each item's pairs; after the call, their end
    user_places : int64, start of each user's pairs; after the call, their end
    by_item : int32 (n_pairs,), scratch for the users of each item
    columns : int32 (n_pairs,), written
    """
    for r in range(users.shape[0]):
        k = item_places[items[r]]
        item_places[items[r]] = k + 1
        by_item[k] = users[r]
    begin = 0
    for i in range(item_places.shape[0]):
        for k in range(begin, item_places[i]):
            u = by_item[k]
            columns[user_places[u]] = i
            user_places[u] += 1
        begin = item_places[i]


@kernel
def drop_repeats(ends, columns, begins):
    """Drop repeated pairs, in place; return the number of remaining pairs.

    ends : int64 (n_users,), end of each user's items in `columns` before the call
    columns : int32 (n_pairs,), each user's items in ascending order; updated
    begins : int32 (n_users + 1,), start of each user's remaining items; written
    """
    count, begin = 0, 0
    begins[0] = 0
    for u in range(ends.shape[0]):
        last = -1
        for k in range(begin, ends[u]):
            if columns[k] != last:
                last = columns[k]
                columns[count] = last
                count += 1
        begin = ends[u]
        begins[u + 1] = count
    return count
