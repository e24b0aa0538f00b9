#!/bin/sh
# examples/consumer/main.cc builds and runs with the flags that pkg-config gives, without CMake.
. "$(dirname "$0")/support.sh"
"$CMAKE" --install "$build" --prefix "$tmp/prefix" > /dev/null
PKG_CONFIG_PATH=$(dirname "$(find "$tmp/prefix" -name qkv.pc)")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046,SC2086  # lists of flags
"$CXX" -std=c++20 ${CXXFLAGS:-} "$source/examples/consumer/main.cc" -o "$tmp/consumer" $(pkg-config --cflags --libs qkv)
check_consumer "$tmp/consumer"
