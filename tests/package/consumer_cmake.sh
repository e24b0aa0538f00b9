#!/bin/sh
# examples/consumer builds and runs by find_package(qkv) against a fresh installation.
. "$(dirname "$0")/support.sh"
"$CMAKE" --install "$build" --prefix "$tmp/prefix" > "$tmp/log"
"$CMAKE" -S "$source/examples/consumer" -B "$tmp/consumer" -DCMAKE_PREFIX_PATH="$tmp/prefix" >> "$tmp/log" ||
  fail "$(cat "$tmp/log")"
"$CMAKE" --build "$tmp/consumer" >> "$tmp/log" 2>&1 || fail "$(cat "$tmp/log")"
check_consumer "$tmp/consumer/consumer"
