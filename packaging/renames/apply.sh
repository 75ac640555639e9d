#!/usr/bin/env bash
# The table of renames, applied to a clean checkout: packaging/renames/apply.sh
# PYTHON has hogshare's developer requirements, and LibCST besides.
set -euo pipefail
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-python3}
export PYTHONPATH=$PWD
"$PYTHON" packaging/renames/renames.py packaging/renames/renames.csv
bash packaging/renames/after.sh
"$PYTHON" packaging/renames/siblings.py
"$PYTHON" -m ruff check --fix -q --exit-zero . > /dev/null # sorts imports
"$PYTHON" -m ruff format -q .
"$PYTHON" packaging/renames/rewrap.py
"$PYTHON" -m ruff format -q .
"$PYTHON" -m ruff check .
"$PYTHON" -m ruff format --check -q .
"$PYTHON" -m mypy hogshare
