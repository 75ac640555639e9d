"""The four placements of model and state, and which barriers each allows."""

import math

import pytest

from hogshare import ASP, BSP, PBSP, PSSP, SSP, Throttled
from hogshare.barriers import Fraction, name_of
from hogshare.simulation import Overlay, Placement


def users(table, me):
    return True


NOBODY = [ASP(), PBSP(0), PSSP(0, 3), SSP(math.inf), Fraction(0.0)]
SAMPLED = [PBSP(10), PBSP(10, hold=True), PSSP(10, 4), Fraction(0.9, 2, sample=10)]
EVERYBODY = [BSP(), SSP(4), Fraction(0.9), Throttled(3), users]


@pytest.mark.parametrize("barrier", [*NOBODY, *SAMPLED, *EVERYBODY], ids=name_of)
def test_central_state_allows_everything(barrier):
    Placement().check(barrier)
    assert Placement("central", "central").messages(barrier) == (0 if barrier in NOBODY else 2)


@pytest.mark.parametrize("model", ["central", "distributed"])
def test_distributed_state_allows_samples(model):
    placement = Placement(model=model, state="distributed")
    for barrier in NOBODY:
        placement.check(barrier, 11)
        assert placement.messages(barrier, hops=7.5) == 0
    for barrier in SAMPLED:
        placement.check(barrier)
        assert placement.messages(barrier, 12) == 20
        assert placement.messages(barrier, hops=57.5) == 77.5
    for barrier in EVERYBODY:
        for refused in (placement.check, placement.messages):
            with pytest.raises(ValueError, match=r"needs everybody's clock, .* Take .* PBSP\(10\)"):
                refused(barrier)


def test_a_sample_of_everybody_is_everybody():
    placement = Placement(state="distributed")
    placement.check(PSSP(10, 4), 12)
    with pytest.raises(ValueError, match=r"PSSP\(sample=10.*samples everybody of 11 workers"):
        placement.check(PSSP(10, 4), 11)
    Placement().check(PSSP(10, 4), 11)


def test_a_distributed_model_with_central_state_is_refused():
    for barrier in (ASP(), PBSP(10), BSP()):
        with pytest.raises(ValueError, match=r"no use: .*model='central', or state='distributed'"):
            Placement("distributed", "central").check(barrier)


def test_messages_with_an_overlay_are_those_of_its_samples():
    hops = Overlay(256, seed=1).sample(0, 10).hops.sum()
    assert Placement(state="distributed").messages(PBSP(10), 256, hops=hops) == 20 + hops


def test_bad_input():
    with pytest.raises(ValueError, match="model must be 'central' or 'distributed'; got 'here'"):
        Placement(model="here")
    with pytest.raises(ValueError, match="state must be"):
        Placement(state=None)
    with pytest.raises(TypeError, match="barrier must be one of"):
        Placement().check(3)
    with pytest.raises(ValueError, match="n_workers must be a whole number"):
        Placement().check(BSP(), 0)
    with pytest.raises(ValueError, match="hops must be a finite number"):
        Placement().messages(BSP(), hops=-1.0)
