"""What is minimised: rows, loss, penalty, and how many parameters that makes."""

from hogshare.problems.factorisation import FactorisationProblem, factorisation
from hogshare.problems.gradient import GradientError, GradientProblem
from hogshare.problems.linear import LinearProblem, linear
from hogshare.problems.model import Model
from hogshare.problems.modules import ModuleParams, ModuleProblem, torch
from hogshare.problems.params import Params
from hogshare.problems.protocol import Problem
from hogshare.problems.topics import TopicParams, TopicsProblem, topics
from hogshare.problems.user import UserProblem, user

__all__ = [
    "FactorisationProblem",
    "GradientError",
    "GradientProblem",
    "LinearProblem",
    "Model",
    "ModuleParams",
    "ModuleProblem",
    "Params",
    "Problem",
    "TopicParams",
    "TopicsProblem",
    "UserProblem",
    "factorisation",
    "linear",
    "topics",
    "torch",
    "user",
]
