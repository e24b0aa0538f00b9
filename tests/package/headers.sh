#!/bin/sh
# The installed headers: those that qkv/qkv.h needs and no others, and each compiles alone, in the installed tree.
. "$(dirname "$0")/support.sh"
"$CMAKE" --install "$build" --prefix "$tmp/prefix" --component development > "$tmp/log" || fail "$(cat "$tmp/log")"
include=$tmp/prefix/include
find "$include/qkv" -type f | sed "s|^$include/||" | sort > "$tmp/installed"

# What the compiler reads of them for qkv/qkv.h.
echo '#include <qkv/qkv.h>' > "$tmp/all.cc"
PKG_CONFIG_PATH=$(dirname "$(find "$tmp/prefix" -name qkv.pc)")
export PKG_CONFIG_PATH
flags="-std=c++20 ${CXXFLAGS:-} $(pkg-config --cflags qkv)"
# shellcheck disable=SC2086  # a list of flags
"$CXX" $flags -M "$tmp/all.cc" | tr ' ' '\n' | sed -n "s|.*/include/\(qkv/.*\)|\1|p" | sort -u > "$tmp/read"
difference=$(diff "$tmp/installed" "$tmp/read") || fail "installed (<) is not what qkv/qkv.h includes (>): $difference"
internal=$(grep -e '-inl\.h$' -e 'internal' "$tmp/installed") && fail "internal headers are installed: $internal"

while read -r header; do
  echo "#include <$header>" > "$tmp/$(echo "$header" | tr / _).cc"
done < "$tmp/installed"
# shellcheck disable=SC2086
find "$tmp" -maxdepth 1 -name 'qkv_*.cc' -print0 |
  xargs -0 -n 4 -P "$(nproc)" "$CXX" $flags -Wall -Wextra -Werror -fsyntax-only
echo "$(wc -l < "$tmp/installed") headers are installed, and each compiles alone"
