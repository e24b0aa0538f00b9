#!/bin/sh
# Tests Python's wheel in a clean environment, without a compiler and without this folder's package: what
# `make test-python` runs. Builds the wheel if a source is newer.
#
#   tools/python_tests.sh [PYTEST'S ARGUMENTS]
#
# PYTHON names another CPython from 3.11 on.
set -eu
cd "$(dirname "$0")/.."

wheel=$PWD/$(tools/wheel.sh --if-changed | tail -n 1)
python=${PYTHON:-python3}
venv=build/python-tests
rm -rf "$venv"
"$python" -m venv "$venv"
"$venv/bin/python" -m pip --disable-pip-version-check --quiet install "$wheel" pytest==9.2.0 hypothesis==6.170.17 pillow==13.0.0 tqdm >&2
"$venv/bin/python" -c 'import sys; print("Python", sys.version.split()[0])'
exec "$venv/bin/python" -m pytest -q -p no:cacheprovider tests/python "$@"
