#!/bin/sh
# Small honest files for a fuzzer to start from: fuzz/seeds.sh NAME FOLDER
set -eu
cd "$(dirname "$0")/.."
case $1 in
  safetensors) files=$(find tests models -name '*.safetensors' -size -64k) ;;
  config) files=$(find tests models \( -name '*config.json' -o -name model.safetensors \) -size -64k) ;;
  image) files=$(find examples tests -size -64k \( -name '*.png' -o -name '*.jpg' -o -name '*.jpeg' -o -name '*.webp' \
    -o -name '*.gif' -o -name '*.bmp' -o -name '*.tif' -o -name '*.tiff' -o -name '*.p[bgnp]m' \)) ;;
  *)
    echo "seeds: no fuzzer is called $1" >&2
    exit 2
    ;;
esac
number=0
for file in $files; do
  number=$((number + 1))
  cp "$file" "$2/seed-$number"
done
