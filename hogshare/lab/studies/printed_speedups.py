"""Speedups printed in papers, by problem and algorithm.

Each table has ``what`` (the problem), ``workers``, and for each number of workers the speedups in
``iteration`` (None if not printed) and ``time``.

Sources: Lian, Huang, Li and Liu 2015, tables 1, 2 and 4. Recht, Ré, Wright and Niu 2011
(Hogwild!), the time speedups of matrix completion with ten threads, as cited.
"""

from __future__ import annotations

from typing import Any

Table = dict[str, Any]

TABLES: dict[tuple[str, str], list[Table]] = {
    ("lenet", "con"): [
        {
            "what": "LENET, table 1",
            "workers": [1, 2, 3, 4, 5, 6, 7, 8],
            "iteration": [1.07, 2.02, 2.77, 3.73, 4.20, 5.82, 6.86, 6.97],
            "time": [0.98, 1.69, 2.24, 2.96, 3.30, 4.51, 5.29, 2.88],
        }
    ],
    ("cifar10-full", "con"): [
        {
            "what": "CIFAR10-FULL, table 2",
            "workers": [1, 2, 3, 4, 5, 6, 7, 8],
            "iteration": [1.01, 1.93, 2.65, 3.42, 4.27, 4.92, 5.36, 5.96],
            "time": [1.00, 1.73, 2.28, 2.88, 3.56, 4.07, 4.41, 5.00],
        }
    ],
    ("network:400-100-50-20-10", "incon"): [
        {
            "what": "5-layer network, table 4",
            "workers": [1, 4, 8, 12, 16, 20, 24, 28, 32],
            "iteration": [1, 3.9, 7.8, 11.6, 15.4, 19.9, 24.1, 28.7, 31.6],
            "time": [1, 4.0, 8.1, 11.9, 16.3, 19.2, 22.7, 26.1, 29.2],
        }
    ],
    ("factorisation", "incon"): [
        {"what": f"Hogwild!, {data}", "workers": [10], "iteration": None, "time": [speedup]}
        for data, speedup in (("Netflix", 5.3), ("KDD Cup 2011", 5.2), ("Jumbo", 6.8))
    ],
}


def tables_of(algorithm: str, problem: str | None = None) -> list[Table]:
    """Return the tables of an algorithm, for one problem or for all networks."""
    return [
        table
        for (one, its), tables in TABLES.items()
        if its == algorithm and (one == problem if problem else one != "factorisation")
        for table in tables
    ]
