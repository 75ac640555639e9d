"""One thread of linear algebra for each of several workers.

For every larger product, NumPy's library starts one thread for each core. If each worker did so,
there would be many more threads than cores. Such a run is several times slower than a run with one
thread for each worker. It also adds terms in another order, and so gets other bits.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from hogshare.engine.session import Session


@contextlib.contextmanager
def one_thread_each(session: Session) -> Iterator[None]:
    """Limit linear algebra to one thread if several workers take steps outside of kernels."""
    plan = session.plan
    is_compiled = session.outside is None or plan.grid > 0 or plan.step_rows > 0
    if is_compiled or len(session.local_workers) == 1:
        yield
        return
    # imported late: it scans all loaded libraries, for a millisecond or two
    from threadpoolctl import threadpool_limits

    torch = sys.modules.get("torch")  # torch has its own count of threads
    before = None if torch is None else torch.get_num_threads()
    with threadpool_limits(limits=1):
        try:
            if torch is not None:
                torch.set_num_threads(1)
            yield
        finally:
            if torch is not None:
                torch.set_num_threads(before)
