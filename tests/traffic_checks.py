"""What every `Report.traffic` is like, and a plane of one's own that counts what it posts."""

import numpy as np

from hogshare import Plane
from hogshare.links.traffic import bytes_of, total


class Ring(Plane):
    """Each tells the next what it has, as long as there is room."""

    is_by_mail = True

    def arrays(self, n_params, n_workers):
        return {"sent": ((n_workers, 2), "int64")}

    def edges(self, n_workers):
        return [(k, (k + 1) % n_workers) for k in range(n_workers)] if n_workers > 1 else []

    def after_block(self, home):
        if home.n_workers == 1:
            return
        vector, half = home.read(), home.blocks % 2
        places = np.arange(3) if half else None
        went = home.post((home.me + 1) % home.n_workers, vector[places] if half else vector, places)
        home.arrays["sent"][home.me, half] += went
        before = (home.me - 1) % home.n_workers
        if home.mail(before) is not None:
            home.take(before)

    def finish(self, arrays):
        self.sent = arrays["sent"].copy()


def sums_agree(traffic):
    """What every traffic is like, whoever has counted it."""
    for kind, counted in traffic.items():
        assert set(counted) == {"messages", "bytes", "edges"}, kind
        for what in ("messages", "bytes"):
            assert counted[what] == sum(one[what] for one in counted["edges"].values()), kind
        assert counted["bytes"] >= 16 * counted["messages"], kind  # each has a header
        assert all(len(edge.split(" to ")) == 2 for edge in counted["edges"])
    assert total([traffic]) == traffic and bytes_of(traffic) >= 0


def messages(traffic, *kinds):
    return sum(traffic[kind]["messages"] for kind in kinds)
