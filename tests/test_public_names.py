"""Every public name of release 0.1 can still be imported, and takes its old keywords.

`public_names.json` has them as they were: each name of the reference, and of its public methods and
attributes; the parameters of what can be called, null for attributes. It is written once for a
release, and names leave it by the policy of docs/support.md only.
"""

import dataclasses
import importlib
import inspect
import json
import warnings
from pathlib import Path

import pytest

from hogshare import Plane, Rule, Simulator, Stop
from hogshare.planes import Replicas
from hogshare.system.deprecations import renamed

NAMES = json.loads((Path(__file__).parent / "public_names.json").read_text(encoding="utf-8"))
# the engine alone calls it, and by position
CALLED_BY_ENGINE = {("hogshare.MPI", "allocate")}


def named(name):
    """The object that a dotted name stands for; AttributeError if there is none."""
    parts = name.split(".")
    for k in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:k]))
        except ImportError:
            continue
        for part in parts[k:]:
            found = getattr(found, part)
        return found
    raise ImportError(name)


def missing(names):
    """What has gone: names, members, and keywords that can no longer be given."""
    found = []
    for name, members in names.items():
        try:
            thing = named(name)
        except (ImportError, AttributeError):
            found.append(name)
            continue
        for member, parameters in members.items():
            try:
                used = getattr(thing, member) if member else thing
            except AttributeError:
                is_field = member in getattr(thing, "__dataclass_fields__", {})
                if not is_field and member not in getattr(thing, "__annotations__", {}):
                    found.append(f"{name}.{member}")
                continue
            if parameters is None or (name, member) in CALLED_BY_ENGINE:
                continue
            try:
                inspect.signature(used).bind_partial(**dict.fromkeys(parameters))
            except ValueError:  # of a type without a signature
                continue
            except TypeError as error:
                found.append(f"{name}.{member}: {error}")
    return found


def test_every_public_name_is_there_with_its_keywords():
    assert len(NAMES) > 200
    assert not missing(NAMES)


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        ({"hogshare.solve_all": {"": []}}, "hogshare.solve_all"),
        ({"hogshare.Stop": {"patience_left": None}}, "hogshare.Stop.patience_left"),
        ({"hogshare.solve": {"": ["problem", "n_threads"]}}, "n_threads"),
    ],
)
def test_a_name_that_has_gone_is_missed(gone, said):
    (found,) = missing(gone)
    assert said in found


# -- attributes with new names ---------------------------------------------------------------------


def test_the_old_name_of_an_attribute_warns_and_is_the_new_one():
    with pytest.warns(FutureWarning, match=r"Stop\.looks is deprecated .* 0\.3: use .*has_checks"):
        assert Stop(gradient=0.1).looks is True
    with pytest.warns(FutureWarning, match="cost_of_poll"):
        assert Simulator().cost_of_look("ASP", 2) == Simulator().cost_of_poll("ASP", 2)


def test_a_plane_that_defines_the_old_name_is_taken_to_mean_the_new_one():
    with pytest.warns(FutureWarning, match=r"Old\.kept is deprecated .* use Old\.checkpointed"):

        class Old(Plane):
            kept = ("mirror",)

    assert Old.checkpointed == ("mirror",) and "kept" not in vars(Old)
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        class New(Plane):
            checkpointed = ("mirror",)

    assert New.checkpointed == New.kept == ("mirror",)


def test_a_method_with_an_old_name_is_called_by_the_new_one():
    with pytest.warns(FutureWarning, match="checkpointed_owners"):

        class Old(Plane):
            def kept_owners(self, n_workers):
                return {"rows": n_workers}

    assert Old().checkpointed_owners(3) == {"rows": 3}


def test_a_rule_that_defines_the_old_name():
    with pytest.warns(FutureWarning, match="interleaves_windows"):

        class Old(Rule):
            turns_windows = True

    assert Old.interleaves_windows is True


def test_an_attribute_that_is_set_by_its_old_name():
    @renamed(colour="color")
    class Pen:
        color = "black"

    pen = Pen()
    with pytest.warns(FutureWarning):
        pen.colour = "red"
    assert pen.color == "red" and Pen.color == "black"


def test_super_has_the_old_name_in_a_definition_under_the_old_name():
    """As it had in 0.1; and a definition that calls it is not called twice."""
    with pytest.warns(FutureWarning):

        class Old(Replicas):
            @property
            def kept(self):
                return (*super().kept, "mine")

            def kept_owners(self, n_workers):
                return {**super().kept_owners(n_workers), "mine": 0}

    class Below(Old):
        pass

    for plane in (Old(), Below()):
        with pytest.warns(FutureWarning):
            assert plane.checkpointed == (*Replicas().checkpointed, "mine")
            owners = plane.checkpointed_owners(2)
            assert owners == {**Replicas().checkpointed_owners(2), "mine": 0}
            assert plane.kept == plane.checkpointed


def test_an_old_name_that_comes_from_a_mixin():
    class Mixin:
        kept = ("mirror",)

    with pytest.warns(FutureWarning, match=r"Old\.kept is deprecated"):

        class Old(Mixin, Plane):
            pass

    assert Old.checkpointed == ("mirror",)

    class Behind(Plane, Mixin):
        pass

    assert Behind.checkpointed == Plane.checkpointed


def test_a_frozen_dataclass_with_a_field_of_the_old_name():
    with pytest.warns(FutureWarning):

        @dataclasses.dataclass(frozen=True)
        class Old(Rule):
            turns_windows: bool = True

        assert Old().interleaves_windows is True and Old(False).interleaves_windows is False
