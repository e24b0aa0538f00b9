#!/bin/sh
# The explorer without a server, as a folder of static files at build/web: what `make web` runs (docs/web.md).
#
#   tools/web.sh [--threads]          --threads: also the engine with threads, for pages that are isolated
#
# Needs Node 20.19 or later with npm for the page; QKV_PAGE names a page that is built already.
set -eu

threads=
case ${1:-} in
  '') ;;
  --threads) threads=build/wasm-threads ;;
  *) echo "usage: tools/web.sh [--threads]" >&2; exit 2 ;;
esac
cd "$(dirname "$0")/.."
tools/setup.sh build web

# The oldest Node that Vite takes.
least=20.19
page=${QKV_PAGE:-}
if [ -z "$page" ]; then
  found=$(node --version 2> /dev/null | tr -d v) || found=
  if [ -z "$found" ]; then
    echo "web: no Node.js here; the page needs $least or later, with npm (nodejs.org), or a page that is built already in QKV_PAGE" >&2
    exit 1
  fi
  if [ "$(printf '%s\n%s\n' "$least" "$found" | sort -V | head -n 1)" != "$least" ]; then
    echo "web: Node.js $found is too old: the page needs $least or later (nodejs.org), or a page that is built already in QKV_PAGE" >&2
    exit 1
  fi
  if ! command -v npm > /dev/null; then
    echo "web: Node.js $found has no npm beside it; install it, or name a page that is built already in QKV_PAGE" >&2
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

if [ -z "$page" ]; then
  (cd web/app && npm ci --silent --no-audit --no-fund && npm run --silent build)
  page=web/app/dist/index.html
fi
python3 tools/web_folder.py "$page" build/wasm "$threads" build/web
