#!/bin/sh
# Builds the Python environment in which the site is made (tools/docs.sh): Sphinx, and what the notebooks use beside qkv.
#
#   tools/docs_env.sh [PATH]     default: ${QKV_DOCS_VENV:-$HOME/.cache/qkv/docs-venv}
#
# A second run finds the stamp of the same package list and returns at once. On success the last line on stdout is the
# environment's Python.
set -eu

venv=${1:-${QKV_DOCS_VENV:-$HOME/.cache/qkv/docs-venv}}
python=${PYTHON:-python3}

# Packages are words, to be split.
# shellcheck disable=SC2086
PACKAGES="sphinx==9.0.4 furo==2025.12.19 myst-nb==1.4.0 myst-parser==5.2.0 ipykernel==7.4.0 nanobind-backend==1.0.0 \
numpy==2.4.6 pillow==13.0.0 matplotlib==3.11.2 scikit-learn==1.9.0"

stamp="$venv/.qkv-docs"
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
