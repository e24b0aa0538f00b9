#!/usr/bin/env bash
# Builds the pages of web/app into a folder: index.html, the explorer, and attend.html, the page of `qkv attend`. Without a
# way to npm's registry, a page that says so stands in for each: the program is whole without them.
set -euo pipefail
out=$1
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root/web/app"
mkdir -p "$out"

# What is installed for the tests only is not needed here, but one folder serves both.
if ! cmp -s package-lock.json node_modules/.installed; then
  if ! npm ci --ignore-scripts --no-audit --no-fund --loglevel=error --fetch-retries=1 --fetch-timeout=60000 > /dev/null; then
    echo "qkv: npm ci failed in web/app, see above: this build has neither the explorer's page nor that of qkv attend." >&2
    echo "qkv: to build them later: rm -r $out, and build again" >&2
    cp "$root/web/no_page.html" "$out/index.html"
    cp "$root/web/no_page.html" "$out/attend.html"
    exit
  fi
  cp package-lock.json node_modules/.installed
fi
npx vite build --outDir "$out" --emptyOutDir --logLevel warn
npx vite build --outDir "$out" --mode attend --logLevel warn
