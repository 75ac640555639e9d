#!/usr/bin/env bash
# Numba 0.68.1, typeof of an array that does not begin where its numbers are aligned.
# One would guess: the type says so, as numba.types.Array has the parameter `aligned`, or the array is
# refused.
# Seen: the type is that of an aligned array, also for a compiled function that is called with it, so
# that machine code may take for granted what is not so.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check numba==0.68.1 numpy==2.4.6

cat > finding.py <<'PYTHON'
import numba
import numpy as np

memory = np.zeros(64, np.uint8)
first = (1 - memory.ctypes.data) % 8
array = memory[first : first + 40].view(np.float64)
array[:] = np.arange(5.0)
print("NumPy: aligned", array.flags.aligned)
print("Numba: aligned", numba.typeof(array).aligned)


@numba.njit
def total(values):
    result = 0.0
    for value in values:
        result += value
    return result


print("sum", total(array), "compiled for", total.signatures)
assert not array.flags.aligned
assert numba.typeof(array).aligned
assert total(array) == 10.0
assert total.signatures[0][0].aligned
assert numba.types.Array(numba.float64, 1, "C", aligned=False) != numba.typeof(array)
PYTHON
timeout 120 venv/bin/python finding.py
