#!/usr/bin/env bash
# Builds the pages of web/app into a folder: index.html, the explorer, attend.html, the page of `qkv attend`, and slide.html,
# that of `qkv slide heatmap`. Without a way to npm's registry, a page that says so stands in for each: the program is whole
# without them.
set -euo pipefail
out=$1
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root/web/app"
mkdir -p "$out"

# What is installed for the tests only is not needed here, but one folder serves both.
if ! cmp -s package-lock.json node_modules/.installed; then
  if ! npm ci --ignore-scripts --no-audit --no-fund --loglevel=error --fetch-retries=1 --fetch-timeout=60000 > /dev/null; then
    echo "qkv: npm ci failed in web/app, see above: this build has no page of the explorer, of qkv attend and of qkv slide." >&2
    echo "qkv: to build them later: rm -r $out, and build again" >&2
    for page in index attend slide; do cp "$root/web/no_page.html" "$out/$page.html"; done
    exit
  fi
  cp package-lock.json node_modules/.installed
fi
npx vite build --outDir "$out" --emptyOutDir --logLevel warn
npx vite build --outDir "$out" --mode attend --logLevel warn
npx vite build --outDir "$out" --mode slide --logLevel warn
