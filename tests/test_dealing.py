"""`hogshare.shard`: parts are all rows, each once, in order, of whatever kind they are."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from hogshare import shard

ROWS = np.arange(22.0).reshape(11, 2)


@pytest.mark.parametrize("of", [1, 2, 3, 11, 20])
@pytest.mark.parametrize("kind", [np.array, sp.csr_array, sp.coo_array, pd.DataFrame])
def test_parts_are_the_whole(kind, of):
    rows = kind(ROWS)
    parts = [shard(rows, place=k, of=of) for k in range(of)]
    sizes = [part.shape[0] for part in parts]
    assert sum(sizes) == 11 and max(sizes) - min(sizes) <= 1
    dense = [part.toarray() if sp.issparse(part) else np.asarray(part) for part in parts]
    np.testing.assert_array_equal(np.concatenate(dense), ROWS)


def test_of_a_memory_map_a_view(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    part, labels = shard(rows, list(range(11)), place=1, of=3)
    assert isinstance(part, np.memmap) and labels == [3, 4, 5, 6]


@pytest.mark.parametrize(
    ("arrays", "settings", "sentence"),
    [
        ((ROWS, [1, 2]), {"place": 0, "of": 2}, "same number of rows; they have 11, 2"),
        ((ROWS,), {"place": 2, "of": 2}, "from 0 to 1; got 2"),
        ((ROWS,), {"place": -1, "of": 2}, "at least 0"),
        ((ROWS,), {"place": 1}, "must be given together"),
    ],
)
def test_what_is_no_part(arrays, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        shard(*arrays, **settings)
