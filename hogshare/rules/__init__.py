"""Rules, which make a step from a block of rows."""

from hogshare.rules.adam import Adam
from hogshare.rules.protocol import Rule
from hogshare.rules.saga import SAGA
from hogshare.rules.sdca import SDCA
from hogshare.rules.sgd import SGD

__all__ = ["SAGA", "SDCA", "SGD", "Adam", "Rule"]
