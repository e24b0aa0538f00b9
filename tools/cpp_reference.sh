#!/bin/sh
# Renders the reference of the headers that qkv/qkv.h includes, and docs/cpp.md, as pages in FOLDER/cpp. Needs doxygen
# (tools/setup.sh docs). Fails if something public has no comment.
#
#   tools/cpp_reference.sh FOLDER
set -eu

case $1 in
  /*) folder=$1 ;;
  *) folder=$PWD/$1 ;;
esac
cd "$(dirname "$0")/.."
mkdir -p "$folder"
{
  cat docs/Doxyfile
  echo "OUTPUT_DIRECTORY = \"$folder\""
  echo "INPUT = docs/cpp.md qkv/qkv.h $(sed -n 's/^#include "\(qkv.*\)"/\1/p' qkv/qkv.h | tr '\n' ' ')"
} | doxygen -
