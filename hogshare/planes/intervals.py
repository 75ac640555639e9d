"""The parameter `every` of planes with homes: rows between two exchanges, in whole blocks."""

from __future__ import annotations


def check(every: str | int, block_rows: int, own_rows: int) -> None:
    """Refuse an interval that is not a whole number of blocks.

    every : number of rows between two exchanges of a worker
    block_rows : number of rows of a block
    own_rows : number of rows that a worker visits in an epoch: the longest interval
    """
    if isinstance(every, str) or every >= own_rows or every % block_rows == 0:
        return
    raise ValueError(
        f"every={every} rows is not a multiple of the {block_rows} rows of a block, and workers "
        f"exchange at a block's end: set every={max(1, round(every / block_rows)) * block_rows}, "
        "or a batch= or block= that divides it."
    )


def blocks_of(every: str | int, block_rows: int, in_epoch: int) -> int:
    """Return the number of blocks of a worker between two exchanges.

    in_epoch : number of blocks of a worker in an epoch; 0 if unknown, because blocks are claimed
    """
    found = 1 if isinstance(every, str) else max(1, round(every / block_rows))
    return min(found, in_epoch) if in_epoch else found
