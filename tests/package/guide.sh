#!/bin/sh
# The programs of docs/cpp.md, compiled against a fresh installation, print what the page says.
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
python3 "$source/tools/check_guide.py" "$source/docs/cpp.md" --folder "$tmp/work" --compiler "$CXX ${CXXFLAGS:-}"
