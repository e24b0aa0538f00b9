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

PACKAGES="tritonclient[http]==2.73.0 openai==3.57.0 prometheus_client==0.26.0 schemathesis==4.32.5 numpy==2.4.6"

# Packages are words, to be split.
# shellcheck disable=SC2086
exec "$(dirname "$0")/venv.sh" "$venv" server $PACKAGES
