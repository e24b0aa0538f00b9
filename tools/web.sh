#!/bin/sh
# The explorer without a server, as a folder of static files at build/web: what `make web` runs (docs/web.md).
#
#   tools/web.sh [--threads]          --threads: also the engine with threads, for pages that are isolated
#
# Needs Node.js with npm for the page, as new as web/app/package.json says; QKV_PAGE names a page that is built already.
set -eu

threads=
case ${1:-} in
  '') ;;
  --threads) threads=build/wasm-threads ;;
  *) echo "usage: tools/web.sh [--threads]" >&2; exit 2 ;;
esac
cd "$(dirname "$0")/.."
tools/setup.sh build web

page=${QKV_PAGE:-}
if [ -z "$page" ]; then
  least=$(sed -n 's/.*"node": ">=\([0-9.]*\)".*/\1/p' web/app/package.json)
  found=$(node --version 2> /dev/null | tr -d v) || found=
  if [ "$(printf '%s\n%s\n' "$least" "${found:-0}" | sort -V | head -n 1)" != "$least" ] || ! command -v npm > /dev/null; then
    echo "web: the page needs Node.js $least or later with npm, found ${found:-none}; or name a page that is built already in QKV_PAGE" >&2
    exit 1
  fi
  tools/web_page.sh "$PWD/build/web-page"
  page=build/web-page/index.html
  if cmp -s "$page" web/no_page.html; then
    echo "web: no page, see above; QKV_PAGE may name one that is built already" >&2
    exit 1
  fi
fi

# build PRESET
build() {
  cmake --preset "$1" --log-level=WARNING > /dev/null
  cmake --build --preset "$1" --target qkv_web
}
build wasm
[ -z "$threads" ] || build wasm-threads

python3 tools/web_folder.py "$page" build/wasm "$threads" build/web
