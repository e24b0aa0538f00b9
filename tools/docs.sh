#!/bin/sh
# Makes the site, at build/docs/html/index.html: what `make docs` runs. The guides, the references of the Python package and
# of the C++ headers, and the notebooks of docs/notebooks, which are executed with the package of the wheel (those that have
# not changed since are taken from a cache). Warnings, errors of a notebook and links that lead nowhere are errors.
#
#   tools/docs.sh [--package FOLDER]     FOLDER holds the package qkv, in place of the wheel's
#
# Needs doxygen (tools/setup.sh docs) and the environment of tools/docs_env.sh.
set -eu
cd "$(dirname "$0")/.."

html=build/docs/html
python=$(tools/docs_env.sh | tail -n 1)
if [ "${1:-}" = --package ]; then
  package=$2
else
  wheel=$(tools/wheel.sh --if-changed | tail -n 1)
  package=build/docs/package
  if [ -z "$(find "$package" -maxdepth 0 -newer "$wheel" 2> /dev/null)" ]; then
    rm -rf "$package"
    mkdir -p build/docs
    unzip -q "$wheel" -d "$package"
  fi
fi
if [ -n "$(find -L "$package" -newer build/docs/executed 2> /dev/null | head -n 1)" ]; then
  rm -rf build/docs/executed
fi
PYTHONPATH=$(realpath "$package")
export PYTHONPATH

rm -rf "$html"
tools/cpp_reference.sh "$html"
"$python" -m sphinx --fail-on-warning --keep-going --quiet --fresh-env -b html -d build/docs/doctrees -c docs . "$html"
cp build/docs/jupyter_execute/docs/notebooks/*.ipynb "$html/docs/notebooks"
"$python" tools/check_site.py "$html"
