#!/usr/bin/env bash
# Builds the explorer's page, web/app, into the file that is given. Without a way to npm's registry, a page that says so
# stands in for it: the program is whole without it.
set -euo pipefail
out=$1
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root/web/app"
mkdir -p "$(dirname "$out")"

if ! cmp -s package-lock.json node_modules/.installed; then
  if ! npm ci --no-audit --no-fund --loglevel=error > /dev/null; then
    echo "qkv: npm ci failed in web/app, so the explorer's page is left out of this build" >&2
    cp "$root/web/no_page.html" "$out"
    exit 0
  fi
  cp package-lock.json node_modules/.installed
fi
npx tsc --noEmit
npx vite build --outDir "$(dirname "$out")" --emptyOutDir --logLevel warn
