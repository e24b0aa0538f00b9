#!/bin/sh
# Makes a Python environment with these packages, once for a list of them: its stamp, .qkv-NAME, has the list.
#
#   tools/venv.sh PATH NAME PACKAGE...
#
# On success the last line on stdout is the environment's Python. PYTHON names the interpreter that makes it. With
# QKV_VENV_INSTALL, a command that gets that Python as its argument, the command installs them.
set -eu

venv=$1 name=$2
shift 2
if [ ! -x "$venv/bin/python" ]; then
  mkdir -p "$(dirname "$venv")"
  "${PYTHON:-python3}" -m venv "$venv"
fi
if [ "$(cat "$venv/.qkv-$name" 2> /dev/null || true)" != "$*" ]; then
  if [ -n "${QKV_VENV_INSTALL:-}" ]; then
    $QKV_VENV_INSTALL "$venv/bin/python" >&2
  else
    "$venv/bin/python" -m pip --disable-pip-version-check --quiet install "$@" >&2
  fi
  echo "$*" > "$venv/.qkv-$name"
fi
echo "$venv/bin/python"
