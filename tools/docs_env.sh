#!/bin/sh
# Builds the Python environment in which the site is made (tools/docs.sh): Sphinx, and what the notebooks use beside qkv.
#
#   tools/docs_env.sh [PATH]     default: ${QKV_DOCS_VENV:-$HOME/.cache/qkv/docs-venv}
#
# A second run finds the stamp of the same package list and returns at once. On success the last line on stdout is the
# environment's Python.
set -eu

venv=${1:-${QKV_DOCS_VENV:-$HOME/.cache/qkv/docs-venv}}

PACKAGES="sphinx==9.0.4 furo==2025.12.19 myst-nb==1.4.0 myst-parser==5.2.0 ipykernel==7.4.0 nanobind-backend==1.0.0 \
numpy==2.4.6 pillow==13.0.0 matplotlib==3.11.2 scikit-learn==1.9.1"

# Packages are words, to be split.
# shellcheck disable=SC2086
exec "$(dirname "$0")/venv.sh" "$venv" docs $PACKAGES
