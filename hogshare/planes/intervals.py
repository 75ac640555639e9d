"""Rows between two exchanges of workers with homes, as whole blocks: `every` of the planes."""

from __future__ import annotations


def check(every: str | int, block_rows: int, own_rows: int) -> None:
    """Refuse an interval that is no number of whole blocks.

    every : rows between two exchanges of a worker
    block_rows : rows of a block
    own_rows : rows that a worker visits in an epoch: an interval is no longer than those
    """
    if isinstance(every, str) or every >= own_rows or every % block_rows == 0:
        return
    raise ValueError(
        f"every={every} rows is no multiple of the {block_rows} rows of a block, at whose end "
        f"workers exchange: take every={max(1, round(every / block_rows)) * block_rows}, or a "
        "batch= or block= that divides it."
    )


def blocks_of(every: str | int, block_rows: int, in_epoch: int) -> int:
    """Blocks of a worker between two exchanges.

    in_epoch : blocks that a worker has in an epoch; 0: nobody knows, blocks are claimed
    """
    found = 1 if isinstance(every, str) else max(1, round(every / block_rows))
    return min(found, in_epoch) if in_epoch else found
