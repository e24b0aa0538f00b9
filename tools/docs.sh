#!/bin/sh
# Renders the reference of the headers that qkv/qkv.h includes, and docs/cpp.md, as pages in FOLDER/html. Needs doxygen
# (tools/setup.sh docs). Fails if something public has no comment.
#
#   tools/docs.sh [FOLDER]            default: build/docs
set -eu

case ${1:-} in
  /* | "") folder=${1:-build/docs} ;;
  *) folder=$PWD/$1 ;;
esac
cd "$(dirname "$0")/.."
mkdir -p "$folder"
{
  cat docs/Doxyfile
  echo "OUTPUT_DIRECTORY = \"$folder\""
  echo "INPUT = docs/cpp.md qkv/qkv.h $(sed -n 's/^#include "\(qkv.*\)"/\1/p' qkv/qkv.h | tr '\n' ' ')"
} | doxygen -
