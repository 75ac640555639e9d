"""Names of compiled functions: cached kernels of two processes must not share one for two codes."""

import importlib
import pkgutil

import pytest

import hogshare.kernels
from hogshare.kernels.jit.decorators import JIT_DISABLED


@pytest.mark.skipif(JIT_DISABLED, reason="nothing is compiled")
def test_every_compiled_function_has_a_name_of_its_own():
    """Numba tells functions of one name apart by a number that is of their process only."""
    found = {}
    for module in pkgutil.walk_packages(hogshare.kernels.__path__, "hogshare.kernels."):
        for thing in vars(importlib.import_module(module.name)).values():
            if (code := getattr(thing, "py_func", None)) is not None:  # not an intrinsic
                found.setdefault((code.__module__, code.__qualname__), set()).add(id(code))
    assert len(found) > 500
    assert not [name for name, codes in found.items() if len(codes) > 1]
