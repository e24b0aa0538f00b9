#!/usr/bin/env bash
# Tests the explorer's page in Chromium, on the engine of this build: what `make test-page` runs.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh browser

tmp=$(mktemp -d)
server=
finish() {
  [ -z "$server" ] || kill "$server" 2> /dev/null || true
  rm -rf "$tmp"
}
trap finish EXIT

# Both pages, as they are in the program. What only tests drive them with is installed beside.
tools/web_page.sh "$PWD/web/app/dist"
if cmp -s web/app/dist/index.html web/no_page.html; then
  echo "page tests: there is no page, see above" >&2
  exit 1
fi
build/release/qkv explore --no-browser --port 0 > "$tmp/url" 2> "$tmp/log" &
server=$!
for _ in $(seq 100); do
  [ -s "$tmp/url" ] && break
  sleep 0.1
done
cd web/app
npm run --silent check
npx vitest run --reporter=dot
QKV_URL=$(head -n 1 "$tmp/url")/ node tests/run.mjs
