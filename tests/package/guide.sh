#!/bin/sh
# The programs and commands of README.md and docs/cpp.md, compiled against a fresh installation, print what they say.
. "$(dirname "$0")/support.sh"
command -v file > /dev/null || {
  echo "skipped: no file(1) here"
  exit 77
}
"$CMAKE" --install "$build" --prefix "$tmp/prefix" > "$tmp/log" || fail "$(cat "$tmp/log")"
PKG_CONFIG_PATH=$(dirname "$(find "$tmp/prefix" -name qkv.pc)")
PATH=$tmp/prefix/bin:$PATH
export PKG_CONFIG_PATH PATH
mkdir "$tmp/work"
for name in docs examples models; do
  ln -s "$source/$name" "$tmp/work/$name"
done
for guide in README.md docs/cpp.md; do
  python3 "$source/tools/check_guide.py" "$source/$guide" --folder "$tmp/work" --compiler "$CXX ${CXXFLAGS:-}"
done
