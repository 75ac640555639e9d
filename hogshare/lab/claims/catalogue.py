"""All claims by name, and their selection by names and prefixes."""

from __future__ import annotations

from collections.abc import Sequence

from hogshare.cli.options import WrongCommandLine
from hogshare.lab.claims import asap, async_engine, asysg, gaia, lockfree, psp
from hogshare.lab.claims.claim import Claim
from hogshare.system.messages import nearest

ALL = "all"
CLAIMS: dict[str, Claim] = {
    claim.name: claim
    for paper in (async_engine, psp, asap, asysg, lockfree, gaia)
    for claim in paper.CLAIMS
}


def select(names: Sequence[str]) -> list[Claim]:
    """Return the claims with some names, in the catalogue's order.

    Raises WrongCommandLine if a name matches no claim.

    names : names of claims, prefixes of names ("psp"), or "all"
    """
    chosen: set[str] = set()
    for name in names:
        found = {name} & set(CLAIMS) or {
            one for one in CLAIMS if name == ALL or one.startswith(f"{name}-")
        }
        if not found:
            known = [ALL, *CLAIMS, *sorted({one.split("-")[0] for one in CLAIMS})]
            raise WrongCommandLine(
                f"there is no claim {name!r}.{nearest(name, known)} --list shows all names"
            )
        chosen |= found
    return [claim for name, claim in CLAIMS.items() if name in chosen]
