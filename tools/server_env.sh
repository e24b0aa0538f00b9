#!/bin/sh
# Builds the Python environment of the tests over the wire (tests/server/*.py): the clients of others, unmodified.
# Without it these tests are skipped.
#
#   tools/server_env.sh [PATH]     default: ${QKV_SERVER_VENV:-$HOME/.cache/qkv/server-venv}
#
# A second run finds the stamp of the same package list and returns at once. On success the last line on stdout is the
# environment's Python.
set -eu

venv=${1:-${QKV_SERVER_VENV:-$HOME/.cache/qkv/server-venv}}
python=${PYTHON:-python3}

# Packages are words, to be split.
# shellcheck disable=SC2086
PACKAGES="tritonclient[http]==2.73.0 openai==3.57.0 prometheus_client==0.26.0 schemathesis==4.32.5 numpy==2.4.6"

stamp="$venv/.qkv-server"
if [ ! -x "$venv/bin/python" ]; then
  mkdir -p "$(dirname "$venv")"
  "$python" -m venv "$venv"
fi
if [ "$(cat "$stamp" 2>/dev/null || true)" != "$PACKAGES" ]; then
  # shellcheck disable=SC2086
  "$venv/bin/python" -m pip --disable-pip-version-check --quiet install $PACKAGES >&2
  printf '%s\n' "$PACKAGES" > "$stamp"
fi
echo "$venv/bin/python"
