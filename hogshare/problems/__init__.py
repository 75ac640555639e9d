"""Problems: rows, loss, penalty and number of parameters of an objective to minimise."""

from hogshare.problems.factorisation import FactorisationProblem, factorisation
from hogshare.problems.gradient import GradientError, GradientProblem
from hogshare.problems.layers import Convolution, Dense, LocalResponse, Pooling
from hogshare.problems.linear import LinearProblem, linear
from hogshare.problems.model import Model
from hogshare.problems.modules import ModuleParams, ModuleProblem, torch
from hogshare.problems.network import NetworkParams, NetworkProblem, network
from hogshare.problems.params import Params
from hogshare.problems.preferences import PreferenceProblem, preferences
from hogshare.problems.protocol import Problem
from hogshare.problems.topics import TopicParams, TopicsProblem, topics
from hogshare.problems.user import UserProblem, user

__all__ = [
    "Convolution",
    "Dense",
    "FactorisationProblem",
    "GradientError",
    "GradientProblem",
    "LinearProblem",
    "LocalResponse",
    "Model",
    "ModuleParams",
    "ModuleProblem",
    "NetworkParams",
    "NetworkProblem",
    "Params",
    "Pooling",
    "PreferenceProblem",
    "Problem",
    "TopicParams",
    "TopicsProblem",
    "UserProblem",
    "factorisation",
    "linear",
    "network",
    "preferences",
    "topics",
    "torch",
    "user",
]
