"""implicit, which is told why it does not race."""

from __future__ import annotations

from hogshare.lab.rivals.ratings.discipline import RatingsContestant


class ImplicitALS(RatingsContestant):
    """Its models are of clicks, and have no loss of ratings."""

    name = "implicit ALS"
    library = "implicit"

    def refusal(self) -> str:
        return "its models are of clicks, and have no loss of ratings"
